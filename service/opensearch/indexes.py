"""The indexes of a snapshot in a cluster: their names, fields and settings.

There is one document for each document of the compiled postings, without a `_source`. `terms` has a
token for each term: its number in the snapshot, and as its frequency the compiled BM25F impact. The
similarity of the field returns the impact times the boost of the clause, so that a score is the sum
of integers that the embedded engine ranks by: Lucene adds floats in double precision, which are
exact up to 2^24.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from service.filtering.facets import ENDPOINT_KEYS, OFFER_FACETS
from service.snapshot.manifest import ClusterIndexes

ORDINAL = "ordinal"
"""The number of a document in the snapshot."""
TERMS = "terms"
SERVICE = "service"
"""The ordinal of the service of an endpoint, which is also its routing: the endpoints of a service
are in one shard."""
SIBLINGS = "siblings"
"""The number of endpoints of the service of an endpoint."""
DOCUMENT_FACETS = (*OFFER_FACETS, *ENDPOINT_KEYS)
"""The facets of endpoints whose values are counted in the cluster, besides their services."""

DELIMITER = "|"
"""Between the number of a term and its impact."""
META = "ratecard"
"""Key of `_meta` of a mapping: what the indexer knows about an index."""
SIMILARITY = "impact"
IMPACT = "return Math.max(1.0, Math.floor(doc.freq * query.boost));"
"""An impact of 0 would be no match, as in `service.search.postings`."""


def index_names(prefix: str, snapshot_id: str) -> ClusterIndexes:
    """Return the names of the indexes of a snapshot."""
    return ClusterIndexes(f"{prefix}-services-{snapshot_id}", f"{prefix}-endpoints-{snapshot_id}")


def facet_field(name: str) -> str:
    """Return the field of the numbers of a facet's values."""
    return f"facet_{name}"


def token(term: int, impact: int) -> str:
    """Return the token of a term of a document."""
    return f"{term}{DELIMITER}{impact}"


def mapping(facets: Iterable[str], *, has_services: bool) -> dict[str, Any]:
    """Return the fields of an index, as `properties` of a mapping."""
    number = {"type": "integer"}
    counted = {"type": "integer", "index": False}
    fields: dict[str, Any] = {
        ORDINAL: number,
        TERMS: {
            "type": "text",
            "analyzer": "impacts",
            "search_analyzer": "keyword",
            "similarity": SIMILARITY,
            "index_options": "freqs",
            "norms": False,
        },
    }
    fields |= {facet_field(name): counted for name in facets}
    if has_services:
        fields |= {SERVICE: number, SIBLINGS: number}
    return fields


def settings(documents: int, shards: int) -> dict[str, Any]:
    """Return the settings of an index while it is loaded: no replicas, not refreshed nor searched.

    `max_result_window` lets searches have any offset: a page costs each shard a heap of its offset
    and its limit.
    """
    return {
        "number_of_shards": shards,
        "number_of_replicas": 0,
        "refresh_interval": "-1",
        "blocks.read": True,
        "max_result_window": max(documents, 10_000) + 1,
        "analysis": {
            "analyzer": {
                "impacts": {"type": "custom", "tokenizer": "whitespace", "filter": ["impact"]}
            },
            "filter": {"impact": {"type": "delimited_term_freq", "delimiter": DELIMITER}},
        },
        "similarity": {SIMILARITY: {"type": "scripted", "script": {"source": IMPACT}}},
    }


def different_setting(actual: Mapping[str, Any], documents: int) -> str:
    """Return the name of a setting of an index that ranks otherwise; empty if all are as built."""
    built = settings(documents, 1)
    names = ("analysis", "similarity", "max_result_window")
    return next((name for name in names if _text(actual.get(name)) != _text(built[name])), "")


def _text(value: Any) -> Any:
    """Return a setting as OpenSearch returns it: values are texts."""
    if isinstance(value, Mapping):
        return {name: _text(each) for name, each in value.items()}
    return [*map(_text, value)] if isinstance(value, list) else str(value)
