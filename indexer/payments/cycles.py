"""Cycles: the strongly connected components of the graph of payers and payees.

Money that goes from an account through others back to it proves no demand. Two accounts are in one
component if payments lead from each to the other.
"""

from __future__ import annotations

from array import array
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
    """
    graph = _Graph(np.searchsorted(sources, np.arange(count + 1)), targets)
    for node in range(count):
        graph.visit(node)
    return np.array(graph.components, np.int32)


class _Graph:
    """Finds components by the algorithm of Tarjan (1972): linear in nodes and edges.

    components: the component of each node, -1 while it is unknown
    """

    def __init__(self, bounds: npt.NDArray[np.int64], targets: Nodes) -> None:
        count = len(bounds) - 1
        self._targets = array("i", targets.astype(np.int32).tobytes())
        self._edges = array("q", bounds.tobytes())[:count]  # the next one of each node to follow
        self._stops = array("q", bounds.tobytes())[1:]
        self._order = array("i", bytes(4 * count))  # in which nodes were met, from 1
        self._low = array("i", bytes(4 * count))  # the least order that each node leads to
        self._met = 0
        self._open = array("i")  # met nodes without a component
        self.components = array("i", [-1]) * count
        self._count = 0

    def visit(self, root: int) -> None:
        """Find the components of the nodes that a node leads to. Iterative: paths may be long."""
        if self._order[root]:
            return
        path = array("i", [root])
        self._meet(root)
        while path:
            node = path[-1]
            edge = self._edges[node]
            if edge < self._stops[node]:
                self._edges[node] = edge + 1
                successor = self._targets[edge]
                if not self._order[successor]:
                    self._meet(successor)
                    path.append(successor)
                elif self.components[successor] < 0:
                    self._low[node] = min(self._low[node], self._order[successor])
                continue
            path.pop()
            if path:
                self._low[path[-1]] = min(self._low[path[-1]], self._low[node])
            if self._low[node] == self._order[node]:
                self._close(node)

    def _meet(self, node: int) -> None:
        self._met += 1
        self._order[node] = self._low[node] = self._met
        self._open.append(node)

    def _close(self, root: int) -> None:
        """Make one component of the open nodes since the root, by which they were met."""
        member = -1
        while member != root:
            member = self._open.pop()
            self.components[member] = self._count
        self._count += 1
