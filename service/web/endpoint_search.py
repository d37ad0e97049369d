"""Endpoints for the pages: searched in the whole catalogue, or among those of some services."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TypeVar
from urllib.parse import unquote

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from service.api.endpoints import EndpointRequest, EndpointSummary
from service.api.parameters import ListRequest
from service.filtering.endpoint_filters import EndpointFilters
from service.filtering.offers import NONE
from service.records import Endpoint
from service.search.analysis import term_of, words_of
from service.snapshot import Snapshot
from service.snapshot.engine import EndpointHits
from service.web.endpoint_rows import (
    EndpointResult,
    EndpointRow,
    result_of,
    row_of,
    split_url,
)

T = TypeVar("T")

SHOWN = 3
"""Endpoints shown below a service of the catalogue."""
MAX_RANKED = 1000
"""Endpoints of one service whose texts are compared with words."""
MAX_ANALYSED = 2000
"""Characters of a description that are compared with words."""


class _Text(Struct):
    url: str
    method: str
    description: str = ""


class _WithTexts(Struct):
    endpoints: list[_Text]


class _OwnTexts:
    """Tells endpoints that match words by their own texts from those that their service matches."""

    def __init__(self, words: Sequence[frozenset[str]]) -> None:
        self._words = len(words)
        self._numbers: dict[str, set[int]] = {}
        for number, terms in enumerate(words):
            for term in terms:
                self._numbers.setdefault(term, set()).add(number)

    def count_words(self, endpoint: _Text | EndpointSummary) -> int:
        """Return how many of the words the path and the description of an endpoint have."""
        # Slashes to blanks: the analysis of short pieces of text is cached.
        path = unquote(split_url(endpoint.url)[1][:MAX_ANALYSED]).replace("/", " ")
        pieces = chain(path.split(), endpoint.description[:MAX_ANALYSED].split())
        numbers: set[int] = set()
        for piece in pieces:
            for word in words_of(piece):
                if matched := self._numbers.get(term_of(word.text)):
                    numbers |= matched
        return len(numbers)

    def select(self, endpoints: Sequence[T], counts: Sequence[int]) -> list[T]:
        """Return the endpoints that have all words, or where there are none, any of the words."""
        fewest = self._words if self._words in counts else 1
        return [each for each, count in zip(endpoints, counts, strict=True) if count >= fewest > 0]


_endpoint = msgspec.json.Decoder(Endpoint)
_summary = msgspec.json.Decoder(EndpointSummary)
_with_texts = msgspec.json.Decoder(_WithTexts)


async def results_of(
    snapshot: Snapshot, search: EndpointRequest, hits: EndpointHits
) -> list[EndpointResult]:
    """Return the rows of a page of endpoints.

    The last row of a service that has more matches than are listed has the number of all.
    """
    results = [
        _result(snapshot, _summary.decode(_json(snapshot, ordinal, offer)), ordinal, offer)
        for ordinal, offer in zip(hits.ordinals, hits.offers, strict=True)
    ]
    if results and hits.listed < hits.total:
        last = {result.service.id: result for result in results}
        conditions = replace(search.filters, services=[*last], counted=("service",))
        # Any order but by relevance saves ranking the matches.
        counting = replace(conditions, sort="popularity", per_service=0)
        counted = await snapshot.engine.search_endpoints(search.query, 1, 0, counting)
        for each in (counted.facets or {})["service"]:
            if int(each["count"]) > search.filters.per_service:
                last[str(each["value"])].matches = int(each["count"])
    return results


async def find_in_services(
    snapshot: Snapshot, listing: ListRequest, services: Sequence[str]
) -> Mapping[str, Sequence[EndpointResult]]:
    """Return by service the endpoints whose own texts match the words of a listing, best first.

    Words in the texts of a service match all its endpoints alike, so they tell none apart.
    """
    if listing.query is None or not services:
        return {}
    given = listing.filters
    filters = EndpointFilters(
        offers={name: given.facets[name] for name in ("network", "scheme") if name in given.facets},
        services=[*services],
        max_price=given.max_price,
        per_service=SHOWN,
    )
    limit = SHOWN * len(services)
    hits = await snapshot.engine.search_endpoints(listing.query, limit, 0, filters)
    own = _OwnTexts(snapshot.parser.terms(listing.query))
    results: dict[str, list[EndpointResult]] = {}
    counts: dict[str, list[int]] = {}
    for ordinal, offer in zip(hits.ordinals, hits.offers, strict=True):
        summary = _summary.decode(_json(snapshot, ordinal, offer))
        result = _result(snapshot, summary, ordinal, offer)
        results.setdefault(summary.service.id, []).append(result)
        counts.setdefault(summary.service.id, []).append(own.count_words(summary))
    return {each: own.select(results[each], counts[each]) for each in results}


async def find_in_service(
    snapshot: Snapshot, service: int, service_id: str, words: str
) -> Sequence[int]:
    """Return the endpoints of a service, or those whose own texts match words, best first.

    Without such a match, these are the endpoints that contain all words as substrings.
    """
    endpoints = snapshot.endpoints
    own = endpoints.of_service(service)
    if not words.strip():
        return own
    filters = EndpointFilters(services=[service_id], per_service=0)
    hits = await snapshot.engine.search_endpoints(words, MAX_RANKED, 0, filters)
    texts = _with_texts.decode(snapshot.services.view(service)).endpoints
    own_texts = _OwnTexts(snapshot.parser.terms(words))
    counts = [own_texts.count_words(texts[ordinal - own.start]) for ordinal in hits.ordinals]
    if matches := own_texts.select(hits.ordinals, counts):
        return matches
    parts = words.casefold().split()
    return [
        ordinal
        for ordinal, text in zip(own, texts, strict=True)
        if all(map(_substrings_of(text).__contains__, parts))
    ]


def rows_of(snapshot: Snapshot, service: int, ordinals: Sequence[int]) -> list[EndpointRow]:
    """Return the rows of endpoints on the page of their service."""
    start = snapshot.endpoints.of_service(service).start
    return [
        row_of(_endpoint.decode(_json(snapshot, ordinal)), ordinal - start) for ordinal in ordinals
    ]


def _result(
    snapshot: Snapshot, summary: EndpointSummary, ordinal: int, offer: int
) -> EndpointResult:
    endpoints = snapshot.endpoints
    start = endpoints.of_service(endpoints.service_of(ordinal)).start
    return result_of(summary, ordinal - start, endpoints.price_of(ordinal, offer))


def _json(snapshot: Snapshot, ordinal: int, offer: int = NONE) -> bytes:
    return b"".join(snapshot.endpoints.item(ordinal, offer))


def _substrings_of(endpoint: _Text) -> str:
    return f"{endpoint.method} {endpoint.url} {endpoint.description}".casefold()
