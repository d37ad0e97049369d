"""Endpoints for the pages: searched in the whole catalogue, or among those of some services."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from unicodedata import normalize
from urllib.parse import unquote

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from service.api.endpoints import EndpointSelection
from service.api.services import ServiceSelection
from service.conditions import EndpointFilters
from service.schema.profiles import describe
from service.schema.records import Endpoint
from service.search.analysis import term_of, words_of
from service.snapshot import Snapshot
from service.snapshot.engine import EndpointHits
from service.snapshot.resources import CallFacts
from service.web.endpoint_rows import EndpointDetails, EndpointResult, result_of, row_of

SHOWN = 3
"""Endpoints shown below a service of the catalogue."""
MAX_ANALYSED = 1 << 15
"""Characters that are compared with words for a page of the catalogue: a millisecond each 1,000."""
MAX_DETAILED = 1 << 18
"""Bytes of the endpoints of a page that are shown with all details, in some 30 ms."""
MAX_PARTS = 16
"""Parts of a text that are searched for in URLs and descriptions."""


class _Text(Struct):
    url: str
    method: str
    description: str = ""


class _WithTexts(Struct):
    endpoints: list[_Text]


_endpoint = msgspec.json.Decoder(Endpoint)
_with_texts = msgspec.json.Decoder(_WithTexts)


async def results_of(
    snapshot: Snapshot, search: EndpointSelection, hits: EndpointHits
) -> list[EndpointResult]:
    """Return the rows of a page of endpoints.

    The last row of a service that has more matches than are listed has the number of all.
    """
    results = [
        result_of(snapshot, ordinal, offer)
        for ordinal, offer in zip(hits.ordinals, hits.offers, strict=True)
    ]
    if results and hits.listed < hits.total:
        last = {result.service_id: result for result in results}
        conditions = replace(search, service=(*last,), facets=("service",))
        # Any order but by relevance saves ranking the matches.
        counting = replace(conditions, sort="popularity", per_service=0)
        counted = await snapshot.engine.search_endpoints(search.q or None, 1, 0, counting)
        for each in (counted.facets or {})["service"]:
            if int(each["count"]) > search.per_service:
                last[str(each["value"])].matches = int(each["count"])
    return results


async def find_in_services(
    snapshot: Snapshot, listing: ServiceSelection, services: Sequence[str]
) -> Mapping[str, Sequence[EndpointResult]]:
    """Return by service the endpoints whose own texts match the words of a listing, best first.

    Words in the texts of a service match all its endpoints alike, so they tell none apart.
    """
    if not listing.q or not services:
        return {}
    filters = EndpointFilters(
        network=listing.network,
        scheme=listing.scheme,
        service=tuple(services),
        max_price=listing.max_price,
        per_service=SHOWN,
    )
    limit = SHOWN * len(services)
    hits = await snapshot.engine.search_endpoints(listing.q, limit, 0, filters)
    results: dict[str, list[EndpointResult]] = {}
    for ordinal, offer in zip(hits.ordinals, hits.offers, strict=True):
        result = result_of(snapshot, ordinal, offer)
        results.setdefault(result.service_id, []).append(result)
    words, size = snapshot.parser.terms(listing.q), MAX_ANALYSED // (2 * limit)
    return {service: _with_own_words(own, words, size) for service, own in results.items()}


async def find_in_service(
    snapshot: Snapshot, service: int, words: str, limit: int, offset: int
) -> tuple[int, Sequence[int]]:
    """Return how many endpoints of a service match words, and a page of them, best first.

    These are the endpoints with all words in the index; without any such, those with all words as
    parts of their texts; or else those with any word. Without words these are all in order.
    """
    own = snapshot.endpoints.of_service(service)
    if not words.strip():
        return len(own), own[offset : offset + limit]
    search = snapshot.engine.search_endpoints
    conditions = EndpointFilters(service=(snapshot.id_table[service],), per_service=0, match="all")
    hits = await search(words, limit, offset, conditions)
    if hits.total:
        return hits.total, hits.ordinals
    if parts := _find_parts(snapshot, service, words):
        return len(parts), parts[offset : offset + limit]
    hits = await search(words, limit, offset, replace(conditions, match="any", explain=True))
    # Few matches are filled up with similar endpoints, which have none of the words.
    explained = zip(hits.ordinals, hits.explanations or (), strict=True)
    matches = [ordinal for ordinal, explanation in explained if explanation.words]
    return hits.total - len(hits.ordinals) + len(matches), matches


def _find_parts(snapshot: Snapshot, service: int, words: str) -> list[int]:
    """Return the endpoints of a service that have all words as parts of their texts."""
    texts = _with_texts.decode(snapshot.services.view(service)).endpoints
    parts = words.casefold().split()[:MAX_PARTS]
    return [
        ordinal
        for ordinal, each in zip(snapshot.endpoints.of_service(service), texts, strict=True)
        if all(map(f"{each.method} {each.url} {each.description}".casefold().__contains__, parts))
    ]


def _with_own_words(
    endpoints: Sequence[EndpointResult], words: Sequence[frozenset[str]], size: int
) -> list[EndpointResult]:
    """Return the endpoints whose own texts have all words, or where none has, any of them.

    words: the terms that each word stands for
    size: characters of a text that are compared
    """
    counts = []
    for endpoint in endpoints:
        path = unquote(endpoint.path).replace("/", " ")
        # A character may stand for 18 in NFKC.
        texts = (normalize("NFKC", text[:size])[:size] for text in (path, endpoint.description))
        terms = {term_of(word.text) for text in texts for word in words_of(text)}
        counts.append(sum(not terms.isdisjoint(word) for word in words))
    fewest = len(words) if len(words) in counts else 1
    return [each for each, count in zip(endpoints, counts, strict=True) if count >= fewest > 0]


def rows_of(snapshot: Snapshot, service: int, ordinals: Sequence[int]) -> list[EndpointDetails]:
    """Return the rows of endpoints on the page of their service.

    All are brief after the first MAX_DETAILED bytes.
    """
    start, room = snapshot.endpoints.of_service(service).start, MAX_DETAILED
    rows = []
    for ordinal in ordinals:
        text = snapshot.endpoints.text(ordinal)
        room -= len(text)
        observed = snapshot.endpoints.probe_facts(ordinal)
        facts = CallFacts() if room < 0 else snapshot.endpoints.listing_of(ordinal).ratecard
        endpoint = _endpoint.decode(text)
        rows.append(row_of(endpoint, ordinal - start, observed, facts, is_brief=room < 0))
        rows[-1].profile = describe(snapshot.profiles.endpoints.read(ordinal))
    return rows
