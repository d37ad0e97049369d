"""Responses of a cluster: decoded, and compared with what a snapshot may have."""

from __future__ import annotations

import base64
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta, Struct

from service.opensearch.index import ClusterIndex
from service.opensearch.requests import SearchRequest
from service.schema.values import Whole
from service.search.postings import Bits, Integers, block_count
from service.search.top_k import unpack

SEARCH_MEMBERS = (
    "timed_out,_shards.total,_shards.successful,hits.total.value,hits.hits.sort,"
    "hits.hits.matched_queries,aggregations"
)
"""The members of a response that are decoded."""

Score = Annotated[float, Meta(ge=1, le=1 << 24, multiple_of=1)]


class Shards(Struct):
    """The shards that a request asked, and those that responded."""

    total: int
    successful: int

    @property
    def is_whole(self) -> bool:
        """Whether all shards responded."""
        return 0 < self.total == self.successful


class ShardCount(Struct):
    """The count of documents."""

    count: Whole
    shards: Shards = msgspec.field(name="_shards")


class IndexSettings(Struct):
    """The settings of an index."""

    index: dict[str, Any]


class Mapping(Struct):
    """The fields of an index."""

    properties: dict[str, Any] = {}


class IndexDescription(Struct):
    """An index as it was made."""

    mappings: Mapping
    settings: IndexSettings


class IndexHealth(Struct):
    """Whether all shards of an index are on a node: green, yellow without replicas, or red."""

    status: str


class ClusterHealth(Struct):
    """The health of the indexes that a cluster has."""

    indices: dict[str, IndexHealth] = {}


class SearchResponse(NamedTuple):
    """A page of hits, best first, and the exact count of matching documents.

    impacts: int64[named, hits], the scores of the named clauses
    bits: of all matching units, on request
    """

    total: int
    scores: Integers
    ordinals: Integers
    impacts: Integers
    bits: Bits


class _Total(Struct):
    value: Whole


class _Hit(Struct):
    sort: tuple[Score, Whole]
    matched_queries: dict[str, Score] = {}


class _Hits(Struct):
    total: _Total
    hits: list[_Hit] = []


class _Search(Struct):
    timed_out: bool
    shards: Shards = msgspec.field(name="_shards")
    hits: _Hits
    aggregations: dict[str, dict[str, str]] = {}


_search = msgspec.json.Decoder(_Search)


def decode_search(text: str, index: ClusterIndex, request: SearchRequest) -> SearchResponse | None:
    """Decode the response to a search, None unless every shard responded in time.

    Raises ValueError, LookupError or MsgspecError where it cannot be one of this index.
    """
    response = _search.decode(text)
    if response.timed_out or not response.shards.is_whole:
        return None
    hits, total = response.hits.hits, response.hits.total.value
    pairs = np.array([hit.sort for hit in hits], np.float64).reshape(-1, 2).astype(np.int64)
    scores, ordinals = pairs.T
    if max(total, ordinals.max(initial=-1) + 1) > index.documents or len(hits) > request.size:
        raise ValueError("the response has documents that are not in the snapshot")
    rows = {str(row): row for row in range(request.named)}
    impacts = np.zeros((len(rows), len(hits)), np.int64)
    for place, hit in enumerate(hits if rows else ()):
        for name, score in hit.matched_queries.items():
            impacts[rows[name], place] = score
    bits = np.empty(0, np.uint64)
    if request.has_bits:
        (aggregation,) = response.aggregations.values()
        bits = _decode_bits(aggregation["value"], request.units(index))
    return SearchResponse(total, scores, ordinals, impacts, bits)


def _decode_bits(text: str, units: int) -> Bits:
    content = base64.b64decode(text, validate=True)
    size = block_count(units) * 8
    bits = np.frombuffer(content.ljust(size, b"\0"), np.uint64)
    if len(content) > size or unpack(bits)[units:].any():
        raise ValueError("the response has units that are not in the snapshot")
    return bits
