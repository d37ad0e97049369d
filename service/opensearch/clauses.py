"""The index of a snapshot in OpenSearch, and the parts of a request as clauses of its queries.

A service is a document of the index. Its nested `documents` are those that the embedded engine
ranks it by: its endpoints, its other listed resources, or its own text if it has neither. Texts are
stored as terms, in a field for each weight, and values of facets by their numbers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from service.conditions import (
    MAX_COUNTED,
    OFFER_NETWORK,
    PRICE,
    EndpointFilters,
    Given,
    has_verdict,
)
from service.filtering.offers import Offers
from service.filtering.table import FacetCounts, Table, TextColumn
from service.schema.values import Json
from service.search.config import SearchConfig
from service.search.postings import FULL_WEIGHT, WeightedTerm
from service.search.query import ParsedQuery

ORDINAL = "ordinal"
"""The number of a service or of a document in the snapshot."""
DOCUMENTS = "documents"
NUMBER = f"{DOCUMENTS}.{ORDINAL}"
OFFERS = f"{DOCUMENTS}.offers"
LONGEST_TERM = 255  # characters; the whitespace tokenizer cuts longer ones
NOTHING: Json = {"match_none": {}}
BOUNDS: Mapping[Callable[[Any, Any], Any], Callable[[Any], Json]] = {
    operator.le: lambda value: {"lte": value},
    operator.ge: lambda value: {"gte": value},
    operator.eq: lambda value: {"gte": int(value), "lte": int(value)},
    has_verdict: lambda value: {"gt": 0} if value else {"lt": 0},
}


def index_name(prefix: str, snapshot_id: str) -> str:
    """Return the name of the index of a snapshot."""
    return f"{prefix}-{snapshot_id}"


def text_fields(config: SearchConfig) -> dict[float, tuple[str, float]]:
    """Return the field of each weight with its boost, of which OpenSearch allows none below 1."""
    least = min(config.field_weights.values())
    return {
        each: (f"weight_{100 * each:.0f}", each / least) for each in config.field_weights.values()
    }


def of_words(
    query: ParsedQuery, text_of: Callable[[int], str], config: SearchConfig, *, match_all: bool
) -> Json:
    """Return the clause of the documents that have any word, or all that are required."""
    fields = [f"{DOCUMENTS}.{name}^{boost:g}" for name, boost in text_fields(config).values()]

    def clause_of(term: WeightedTerm) -> Json:
        text, boost = text_of(term[0])[:LONGEST_TERM], term[1] / FULL_WEIGHT
        return {"combined_fields": {"query": text, "fields": fields, "boost": boost}}

    words = [
        (match_all and each.required, any_of([*map(clause_of, each.terms)]))
        for each in query.expansions
        if each.terms
    ]
    if not words or (match_all and not query.is_satisfiable):
        return NOTHING
    must = [clause for is_required, clause in words if is_required]
    should = [clause for is_required, clause in words if not is_required]
    return {"bool": {"must": must, "should": should, "minimum_should_match": 0 if must else 1}}


def any_of(clauses: Sequence[Json], conditions: Sequence[Json] = ()) -> Json:
    """Return the clause of what satisfies any of these, and all conditions."""
    return {"bool": {"should": clauses, "minimum_should_match": 1, "filter": conditions}}


def nested(path: str, clause: Json, **more: Any) -> Json:
    """Return the clause of what has a nested document that satisfies a clause."""
    return {"nested": {"path": path, "query": clause, **more}}


def any_value(field: str, numbers: Iterable[int | None]) -> Json:
    """Return the clause of what has any of these numbers; a value without one is unknown."""
    return {"terms": {field: [each for each in numbers if each is not None]}}


def conditions(given: Iterable[Given], index: Table, path: str = "") -> list[Json]:
    """Return the clauses of conditions."""
    return [
        any_value(path + column.name, map(index.columns[column.name].values.find, value))
        if column.holds is None
        else {"range": {path + column.name: BOUNDS[column.holds](value)}}
        for (_, _, column), value in given
    ]


def endpoint_conditions(
    filters: EndpointFilters, index: Table, offers: Offers
) -> tuple[list[Json], list[Json]]:
    """Return the clauses of endpoints, and those that one of their offers must satisfy together."""
    given = filters.given()
    wanted = [pair for pair in given if pair[0].column.of_offer]
    if not wanted:
        return conditions(given, index, f"{DOCUMENTS}."), []
    wanted += [pair for pair in given if pair[0].column is PRICE]
    of_offer = conditions(wanted, offers, f"{OFFERS}.")
    if all(each.column is not OFFER_NETWORK for each, _ in wanted):
        of_offer.append({"term": {f"{OFFERS}.shadowed": 0}})
    own = conditions((pair for pair in given if pair not in wanted), index, f"{DOCUMENTS}.")
    return [*own, nested(OFFERS, {"bool": {"filter": of_offer}})], of_offer


def facet_aggregations(
    facets: Mapping[str, TextColumn], names: Iterable[str], path: str = ""
) -> Json:
    """Return the aggregations of facets: every shard counts all values, so that sums are exact."""
    order = [{"_count": "desc"}, {"_key": "asc"}]
    size = {
        name: {"size": MAX_COUNTED, "shard_size": MAX_COUNTED + len(facets[name].values)}
        for name in names
    }
    return {name: {"terms": {"field": path + name, "order": order} | size[name]} for name in names}


def facet_counts(
    facets: Mapping[str, TextColumn], names: Iterable[str], counted: Json
) -> FacetCounts:
    """Return the counts of facets in the response to their aggregations."""
    return {
        name: [
            {"value": facets[name].values[each["key"]], "count": each["doc_count"]}
            for each in counted[name]["buckets"]
        ]
        for name in names
    }
