"""Searches of an index as requests: clauses for terms and for sets of documents or services."""

from __future__ import annotations

import base64
from array import array
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from pyroaring import BitMap

from service.opensearch.index import GROUP, ORDINAL, SERVICE, TERMS, ClusterIndex
from service.search.postings import FULL_WEIGHT, Integers, Mask, WeightedTerm

Clause: TypeAlias = dict[str, Any]

BEST_FIRST = [{"_score": "desc"}, {ORDINAL: "asc"}]
"""The order of equal scores is that of the embedded engine."""
BITS = "bits"
"""The aggregation of the matching units."""
MAX_RUNS = 64
"""Runs of a mask below which its bitmap is made of them, which takes a hundredth of the time."""


class SearchRequest(NamedTuple):
    """A search.

    start, size: the page of the hits
    by_group: whether hits and bits are services, each with its best document
    has_bits: whether the bits of all matches are returned
    named: the number of named clauses, whose scores are returned
    """

    query: Clause
    start: int = 0
    size: int = 0
    by_group: bool = False
    has_bits: bool = False
    named: int = 0

    def body(self, index: ClusterIndex) -> Clause:
        """Return the body of the request."""
        body: Clause = {
            "_source": False,
            "stored_fields": "_none_",
            "track_total_hits": True,
            "query": self.query,
            "size": self.size,
        }
        if self.size:
            body |= {"from": self.start, "sort": BEST_FIRST}
            if self.by_group:
                body["collapse"] = {"field": SERVICE}
        if self.has_bits:
            body["aggs"] = {BITS: _bits(self.units(index), SERVICE if self.by_group else ORDINAL)}
        return body

    def units(self, index: ClusterIndex) -> int:
        """Return the number of units of which bits are returned."""
        return index.groups if self.by_group else index.documents


def sum_of(terms: Iterable[WeightedTerm]) -> list[Clause]:
    """Return clauses whose scores are the weighted impacts of all terms.

    Lucene adds up the boosts of equal clauses of a disjunction, and their product with an impact
    is rounded once: a repeated term is nested.
    """
    clauses: dict[int, Clause] = {}
    for term, weight in terms:
        clause = _term(term, weight)
        if term in clauses:
            clause = {"bool": {"must": [clause], "should": [clauses[term]]}}
        clauses[term] = clause
    return [*clauses.values()]


def any_of(clauses: Sequence[Clause], conditions: Sequence[Clause] = ()) -> Clause:
    """Return the clause of documents that satisfy any of these, and all conditions."""
    return {"bool": {"should": clauses, "minimum_should_match": 1, "filter": conditions}}


def less_penalty(clause: Clause) -> Clause:
    """Return a clause whose scores are less by the penalties of the services, and shifted."""
    return {"bool": {"must": [clause, _term(GROUP, FULL_WEIGHT)]}}


def named(terms: Iterable[WeightedTerm]) -> list[Clause]:
    """Return a clause for each term, which hits return the score of by its position."""
    return [
        {"bool": {"should": [_term(*term)], "_name": str(position)}}
        for position, term in enumerate(terms)
    ]


def in_documents(ordinals: Integers) -> Clause:
    """Return the clause of some documents."""
    return {"terms": {ORDINAL: ordinals.tolist()}}


def in_mask(mask: Mask, *, by_group: bool) -> Clause:
    """Return the clause of the documents, or services, of a mask, as a compressed bitmap."""
    bounds = np.flatnonzero(mask[1:] != mask[:-1]) + 1
    if len(bounds) < MAX_RUNS:
        bitmap = BitMap()
        for start, stop in pairwise((0, *bounds.tolist(), len(mask))):
            if mask[start]:
                bitmap.add_range(start, stop)
    else:
        ordinals = np.flatnonzero(mask).astype(np.uint32)
        bitmap = BitMap(array("I", ordinals.tobytes()))  # copied, not iterated
    bitmap.run_optimize()
    text = base64.b64encode(bitmap.serialize()).decode()
    return {"terms": {SERVICE if by_group else ORDINAL: [text], "value_type": "bitmap"}}


def _term(token: int | str, weight: int) -> Clause:
    return {"term": {TERMS: {"value": str(token), "boost": weight / FULL_WEIGHT}}}


def _bits(units: int, field: str) -> Clause:
    """Return the aggregation of the numbers in a field, as the base64 text of their bits.

    The cluster keeps one state for each shard, and for each slice searched in parallel.
    """
    return {
        "scripted_metric": {
            "init_script": "state.bits = new BitSet(params.units)",
            "map_script": "state.bits.set((int) doc[params.field].value)",
            "combine_script": "return state.bits.toLongArray()",
            "reduce_script": (
                "def all = new BitSet(); for (bits in states) all.or(BitSet.valueOf(bits));"
                " return Base64.getEncoder().encodeToString(all.toByteArray())"
            ),
            "params": {"units": units, "field": field},
        }
    }
