"""Queries of OpenSearch: clauses for terms, for sets of documents, and for counts."""

from __future__ import annotations

import base64
from array import array
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from pyroaring import BitMap

from service.opensearch.indexes import ORDINAL, SERVICE, SIBLINGS, TERMS
from service.search.postings import FULL_WEIGHT, Integers, Mask
from service.search.query import ParsedQuery
from service.search.query_expansion import Expansion

Clause: TypeAlias = dict[str, Any]

NOTHING: Clause = {"match_none": {}}
BEST_FIRST = [{"_score": "desc"}, {ORDINAL: "asc"}]
"""The order of equal scores is that of the embedded engine."""
COUNT = "state.counts.merge(String.valueOf(doc['service'].value), 1, (a, b) -> a + b)"
ADD_UP = """
def counts = [:];
for (state in states) for (each in state.entrySet())
    counts.merge(each.getKey(), each.getValue(), (a, b) -> a + b);
long excess = 0;
for (count in counts.values()) excess += Math.max(0, count - params.listed);
return excess;
"""
"""Adds up the counts of all shards, and of the parts of a shard that were searched in parallel."""


def any_of(clauses: Sequence[Clause]) -> Clause:
    """Return the clause of documents that satisfy any of these; their scores are added."""
    if not clauses:
        return NOTHING
    return {"bool": {"should": [*clauses], "minimum_should_match": 1}}


def within(clause: Clause, conditions: Sequence[Clause]) -> Clause:
    """Return a clause among the documents that satisfy conditions, which do not score."""
    return {"bool": {"must": [clause], "filter": [*conditions]}} if conditions else clause


def without(clause: Clause, excluded: Integers) -> Clause:
    """Return a clause without some documents."""
    if not len(excluded):
        return clause
    return {"bool": {"must": [clause], "must_not": [documents(excluded)]}}


def lexical(parsed: ParsedQuery, *, match_all: bool) -> Clause:
    """Return the clause of documents that have any word of a query, or all required ones."""
    if not match_all:
        return any_of(every_term(parsed))
    if not parsed.is_satisfiable:
        return NOTHING
    words = [(each.required, any_of(_terms(each))) for each in parsed.known]
    return {
        "bool": {
            "must": [clause for required, clause in words if required],
            "should": [clause for required, clause in words if not required],
        }
    }


def every_term(parsed: ParsedQuery) -> list[Clause]:
    """Return a clause for each term of a query, whose score is the weighted impact of the term."""
    return [clause for each in parsed.known for clause in _terms(each)]


def named_terms(parsed: ParsedQuery) -> dict[str, Clause]:
    """Return a clause for each term of a query, by a name with which hits tell its score."""
    clauses = {}
    for number, each in enumerate(parsed.known):
        for (term, _), clause in zip(each.terms, _terms(each), strict=True):
            name = clause_name(number, term)
            clauses[name] = {"bool": {"should": [clause], "_name": name}}
    return clauses


def clause_name(word: int, term: int) -> str:
    """Return the name of the clause of a term, by the position of its word and its number."""
    return f"{word} {term}"


def documents(ordinals: Integers) -> Clause:
    """Return the clause of documents by their ordinals, as a compressed bitmap."""
    bitmap = BitMap(array("I", ordinals.astype(np.uint32).tobytes()))  # copied, not iterated
    bitmap.run_optimize()
    text = base64.b64encode(bitmap.serialize()).decode()
    return {"terms": {ORDINAL: [text], "value_type": "bitmap"}}


def masked(mask: Mask | None) -> list[Clause]:
    """Return the conditions of documents that are in a mask."""
    return [] if mask is None else [documents(np.flatnonzero(mask))]


def count_values(field: str, size: int, per_shard: int) -> Clause:
    """Return the aggregation of the most frequent values of a field, ties by value.

    The counts are exact if `per_shard` is the number of values, or each value is in one shard.
    """
    return {"terms": {"field": field, "size": size, "shard_size": per_shard}}


def count_excess(per_service: int) -> Clause:
    """Return the aggregation of how many endpoints are beyond so many of their service."""
    script = {
        "init_script": "state.counts = [:]",
        "map_script": COUNT,
        "combine_script": "return state.counts",
        "reduce_script": ADD_UP,
        "params": {"listed": per_service},
    }
    return {
        "filter": {"range": {SIBLINGS: {"gt": per_service}}},
        "aggs": {SERVICE: {"scripted_metric": script}},
    }


def _terms(word: Expansion) -> list[Clause]:
    return [
        {"term": {TERMS: {"value": str(term), "boost": weight / FULL_WEIGHT}}}
        for term, weight in word.terms
    ]
