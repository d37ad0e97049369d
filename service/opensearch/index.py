"""The index of a snapshot in a cluster: its name, fields and settings.

There is one document for each document of the compiled postings, without a `_source`. `terms` has a
token for each term: its number in the snapshot, and as its frequency the compiled BM25F impact. The
similarity of the field returns the impact times the boost of the clause, so that a score is the sum
of integers that the embedded engine ranks by: Lucene adds floats in double precision, which are
exact up to 2^24.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

ORDINAL = "ordinal"
"""The number of a document in the snapshot."""
SERVICE = "service"
"""The number of its service: the group of the document."""
TERMS = "terms"
GROUP = "group"
"""A token of every document. Its impact is the largest penalty of all groups, less the penalty of
the document's group, plus 1: added to a sum, it subtracts the penalty up to a constant, and the
score stays positive."""

DELIMITER = "|"
"""Between a token and its impact."""
META = "ratecard"
"""Key of `_meta` of a mapping: the state of an index."""
SIMILARITY = "impact"
IMPACT = "return Math.max(1.0, Math.floor(doc.freq * query.boost));"
"""An impact of 0 would be no match, as in `service.search.postings`."""
NUMBER = {"type": "integer"}
FIELDS: dict[str, Any] = {
    ORDINAL: NUMBER,
    SERVICE: NUMBER,
    TERMS: {
        "type": "text",
        "analyzer": "impacts",
        "search_analyzer": "keyword",
        "similarity": SIMILARITY,
        "index_options": "freqs",
        "norms": False,
    },
}
"""The `properties` of the mapping."""


class ClusterIndex(NamedTuple):
    """The index of a snapshot, and its counts of documents and of their services."""

    name: str
    documents: int
    groups: int


def index_name(prefix: str, snapshot_id: str) -> str:
    """Return the name of the index of a snapshot."""
    return f"{prefix}-{snapshot_id}"


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
