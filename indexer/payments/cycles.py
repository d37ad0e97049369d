"""Cycles: the strongly connected components of the graph of payers and payees.

Money that goes from an account through others back to it proves no demand. Two accounts are in one
component if payments lead from each to the other.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:  # a catalogue without payments is built without DuckDB
    from duckdb import DuckDBPyConnection

Nodes = npt.NDArray[np.int32]

# Accounts that only pay or are only paid are in no cycle: most are, and never leave DuckDB.
EDGES = """
CREATE OR REPLACE TEMP TABLE edges AS
WITH recent AS (SELECT sender, recipient FROM payments WHERE paid_at > $start),
paying_payees AS (SELECT DISTINCT sender AS account FROM recent SEMI JOIN (
    SELECT recipient AS payee FROM recent WHERE recipient <> sender
) ON sender = payee)
SELECT DISTINCT sender, recipient
FROM recent SEMI JOIN paying_payees AS paying ON sender = paying.account
SEMI JOIN paying_payees AS paid ON recipient = paid.account
WHERE sender <> recipient
"""
ACCOUNTS = """
CREATE OR REPLACE TEMP TABLE nodes AS
SELECT (row_number() OVER (ORDER BY account) - 1)::INTEGER AS node, account
FROM (SELECT sender AS account FROM edges UNION SELECT recipient FROM edges)
"""
NUMBERED = """
SELECT payers.node AS source, payees.node AS target
FROM edges
JOIN nodes AS payers ON payers.account = sender
JOIN nodes AS payees ON payees.account = recipient
ORDER BY source, target
"""
CYCLES = """
CREATE OR REPLACE TABLE cycles AS SELECT account, component FROM found JOIN nodes USING (node)
"""


def find_cycles(connection: DuckDBPyConnection, start: int) -> None:
    """Fill the table `cycles` with the accounts that payments after `start` lead back to.

    account: the hash of an address
    component: the number of its strongly connected component, of two accounts at least
    """
    connection.execute(EDGES, {"start": start})
    connection.execute(ACCOUNTS)
    ((count,),) = connection.execute("SELECT count(*) FROM nodes").fetchall()
    edges = connection.execute(NUMBERED).fetchnumpy()
    components = strong_components(count, edges["source"], edges["target"])
    sizes = np.bincount(components, minlength=1)
    nodes = np.flatnonzero(sizes[components] > 1) if count else np.empty(0, np.int64)
    found = {"node": nodes.astype(np.int32), "component": components[nodes]}
    connection.register("found", found)
    connection.execute(CYCLES)
    connection.unregister("found")


def strong_components(count: int, sources: Nodes, targets: Nodes) -> Nodes:
    """Return the number of the strongly connected component of each of `count` nodes.

    sources, targets: int32[edges], ascending by source

    By the algorithm of Kosaraju and Sharir (1981), linear in nodes and edges: in the reversed graph
    each search from the last node not yet met of the postorder meets one component.
    """
    trees = _search(range(count), count, sources, targets)
    postorder = array("i", chain.from_iterable(trees))
    by_target = np.argsort(targets, kind="stable")
    trees = _search(reversed(postorder), count, targets[by_target], sources[by_target])
    components = array("i", bytes(4 * count))
    for number, members in enumerate(trees):
        for node in members:
            components[node] = number
    return np.array(components, np.int32)


def _search(
    roots: Iterable[int], count: int, sources: Nodes, targets: Nodes
) -> Iterator[array[int]]:
    """Yield the nodes that a depth-first search meets first from each root, in postorder.

    Iterative: paths may be long.
    """
    bounds = np.searchsorted(sources, np.arange(count + 1))
    edges = array("q", bounds.tobytes())  # the next one of each node to follow
    stops = edges[1:]
    successors = array("i", targets.astype(np.int32).tobytes())
    is_met = bytearray(count)
    for root in roots:
        if is_met[root]:
            continue
        is_met[root] = True
        path, tree = array("i", [root]), array("i")
        while path:
            node = path[-1]
            edge = edges[node]
            if edge == stops[node]:
                tree.append(path.pop())
                continue
            edges[node] = edge + 1
            successor = successors[edge]
            if not is_met[successor]:
                is_met[successor] = True
                path.append(successor)
        yield tree
