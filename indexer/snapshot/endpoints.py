"""Writing the files of `service.snapshot.endpoints`, but for the postings."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from math import nan
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Raw, Struct

from indexer.encoder.quantising import EncodedTexts, concatenate
from indexer.options import Policy
from indexer.record_store import read_record_store, write_record_store
from indexer.search.endpoint_texts import EndpointAnalyser, EndpointText, expand_to_endpoints
from indexer.search.filters import FacetWriter, Price
from indexer.search.offers import Offer, OfferWriter
from indexer.search.postings import compile_postings, popularity
from indexer.search.spans import Span
from indexer.search.vectors import write_endpoint_vectors
from indexer.search.whoosh_index import Part
from indexer.snapshot.resources import ListedResources, endpoint_key
from indexer.sources.records import SourceRecord
from indexer.x402.discovery import identify_endpoint
from indexer.x402.resource import read_resource
from indexer.x402.stablecoins import is_usd
from indexer.x402.testnets import is_test_network
from indexer.x402.untrusted import NULL, string_of
from service.filtering.offers import NONE
from service.search.config import SearchConfig
from service.snapshot.endpoints import ADDED_MEMBERS, FACET_KEYS
from service.storage.record_store import RecordStore

MAX_CALLS = 2**63 - 1
MARKS = (*(b'"%b"' % name.encode() for name in ADDED_MEMBERS), b"\\u")
"""Bytes without which no endpoint has a member of these names: names may be escaped."""


class Quality(Struct, rename="camel"):
    """The part of the use of an endpoint that orders endpoints."""

    l30_days_total_calls: str = "0"


class Endpoint(Struct, rename="camel"):
    """The part of an endpoint that filters use."""

    url: str
    method: str
    pricing: Price
    quality: Quality | None = None
    tags: list[str] = []
    tool: Raw = NULL
    pay_to: Raw = NULL


class Service(Struct, rename="camel"):
    """The part of a service that filters of endpoints use."""

    id: str
    name: str
    endpoints: list[Endpoint]
    category: str = ""
    enriched: bool = False
    tags: list[str] = []


class Facts(Struct):
    """The facts of a service that stand beside each of its endpoints."""

    id: str
    name: str
    category: str
    enriched: bool


class Documents(NamedTuple):
    """The documents that searches for endpoints and for resources rank.

    First come the endpoints in listing order, then the listed resources that are no endpoint of
    their service, because a catalogue record or an overlay names others.

    first_endpoints, first_others: int64[services + 1], the ordinals of the first of each service
    services: int32[documents], the service of each
    others: the postings of those resources, of their own texts
    prior: float64[documents], as `compile_postings` takes it
    """

    first_endpoints: npt.NDArray[np.int64]
    first_others: npt.NDArray[np.int64]
    services: npt.NDArray[np.int32]
    others: Part
    prior: npt.NDArray[np.float64]


class _RawEndpoints(Struct):
    endpoints: Raw


class _Listed(Struct, rename="camel"):
    """The part of the endpoint of a listed resource that is searched and identifies it."""

    url: str
    method: str
    tool: str = ""


_service = msgspec.json.Decoder(Service)
_raw_endpoints = msgspec.json.Decoder(_RawEndpoints)
_raws = msgspec.json.Decoder(list[Raw])
_members = msgspec.json.Decoder(dict[str, Raw])
_listed = msgspec.json.Decoder(_Listed)
_text = msgspec.json.Decoder(EndpointText)
_separator = re.compile(r"[,/|]")
_any_policy = Policy(allow_http=True, allow_private=True, max_price=Decimal("Infinity"))


def write_endpoints(
    built: Path,
    endpoint_counts: Sequence[int],
    listed: ListedResources,
    offers: OfferWriter,
    encoder: Path | None = None,
) -> Documents:
    """Write the facts and the filters of the endpoints of the stored services, and the offers.

    `encoder` is the folder of the `Encoder` of their texts, if there is one.
    """
    folder = built / "endpoints"
    folder.mkdir()
    first = np.concatenate(([0], np.cumsum(endpoint_counts, dtype=np.int64)))
    count = int(first[-1])
    columns = _Columns(count)
    join = _Join(built, first, listed)

    def facts() -> Iterator[bytes]:
        for ordinal, stored in enumerate(read_record_store(built, "records")):
            service = _service.decode(stored)
            columns.add(service, stored)
            for number in join.match(ordinal, service.endpoints):
                columns.add_offer(offers, int(first[ordinal]) + number, service.endpoints[number])
            yield msgspec.json.encode(
                Facts(service.id, service.name, service.category, service.enriched)
            )

    write_record_store(folder, "facts", facts())
    columns.write(folder)
    others = np.flatnonzero(join.documents == NONE)
    join.documents[others] = count + np.arange(len(others))
    resources = np.full(count + len(others), NONE, np.int32)
    resources[join.documents] = np.arange(len(join.documents))
    other_services = listed.services[others]
    services = np.repeat(np.arange(len(endpoint_counts), dtype=np.int32), endpoint_counts)
    np.save(folder / "first.npy", first)
    services = np.concatenate((services, other_services))
    np.save(folder / "services.npy", services)
    np.save(folder / "resources.npy", resources)
    np.save(folder / "documents.npy", join.documents)
    owners = np.repeat(join.owners, np.diff(listed.offers))
    all_owners = np.concatenate((owners, np.asarray(columns.offer_owners, np.int32)))
    offers.write(built / "offers", len(owners), all_owners, count)
    first_others = count + np.searchsorted(other_services, np.arange(len(first)))
    prior = np.concatenate((np.asarray(columns.prior), np.zeros(len(others))))
    part = _analyse(join, others.tolist(), count, encoder)
    return Documents(first, first_others, services, part, prior)


def compile_endpoints(
    spans: Sequence[Span],
    documents: Documents,
    service_vectors: EncodedTexts | None,
    folder: Path,
    config: SearchConfig,
) -> None:
    """Write the postings of the documents: of their own texts and those of their services.

    With `service_vectors`, write their vectors as well.
    """
    parts = []
    for span in spans:
        start = int(documents.first_endpoints[span.services.start])
        parts += [
            span.endpoints._replace(start=start),
            expand_to_endpoints(span.services, documents.first_endpoints),
            expand_to_endpoints(span.services, documents.first_others),
        ]
    parts.append(documents.others)
    compile_postings(parts, [], documents.prior, folder / "postings", config)
    if service_vectors is not None:
        vectors = concatenate(part.vectors for part in parts if part.vectors)
        write_endpoint_vectors(folder / "vectors", vectors, service_vectors, documents.services)


def declared_endpoint(resource: bytes) -> bytes:
    """Return the JSON of the endpoint that the stored text of a listed resource declares."""
    declared, _ = read_resource(SourceRecord("", resource), _any_policy)
    return declared.endpoint


class _Columns:
    """The values that endpoints are filtered and ordered by, in listing order."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._facets = {name: FacetWriter(name, key) for name, key in FACET_KEYS.items()}
        self._bounds, self._prices, self._calls = array("q"), array("d"), array("q")
        self._enriched = array("b")
        self._methods: dict[str, list[str]] = {}
        self._rewritten: list[bytes] = []
        self._position = 0
        self.prior = array("d")
        self.offer_owners = array("i")

    def add(self, service: Service, stored: bytes) -> None:
        """Add the endpoints of the next service."""
        self._add_bounds(stored)
        start = len(self._prices)
        own = range(start, start + len(service.endpoints))
        self._facets["category"].add(own, [service.category])
        for ordinal, endpoint in zip(own, service.endpoints, strict=True):
            price = endpoint.pricing.compared
            calls = int(endpoint.quality.l30_days_total_calls) if endpoint.quality else 0
            self._prices.append(float(price) if price else nan)
            self._calls.append(min(calls, MAX_CALLS))
            self._enriched.append(service.enriched)
            self.prior.append(popularity(service.enriched, calls))
            document = range(ordinal, ordinal + 1)
            methods = self._methods.get(endpoint.method)
            if methods is None:
                names = _separator.split(endpoint.method.upper())
                methods = [name.strip() for name in names if name.strip()]
                self._methods[endpoint.method] = methods
            self._facets["method"].add(document, methods)
            self._facets["tag"].add(document, endpoint.tags or service.tags)

    def add_offer(self, offers: OfferWriter, ordinal: int, endpoint: Endpoint) -> None:
        """Add the price of an endpoint that no feed lists as an offer."""
        price = endpoint.pricing
        pay_to = string_of(endpoint.pay_to)
        amount, currency = price.compared, price.currency
        if price.network or price.scheme or pay_to or amount:
            is_real_usd = is_usd(currency) and not is_test_network(price.network)
            offers.add(
                Offer(price.network, price.scheme, pay_to, "", amount, currency, is_real_usd)
            )
            self.offer_owners.append(ordinal)

    def write(self, folder: Path) -> None:
        for facet in self._facets.values():
            facet.write(folder, self._count)
        prices = np.asarray(self._prices)
        np.save(folder / "prices.npy", prices)
        np.save(folder / "enriched.npy", np.asarray(self._enriched, np.bool_))
        np.save(folder / "bounds.npy", np.asarray(self._bounds, np.int64).reshape(-1, 2))
        np.save(folder / "price.npy", np.argsort(prices, kind="stable").astype(np.uint32))
        popularity_order = np.argsort(-np.asarray(self._calls, np.int64), kind="stable")
        np.save(folder / "popularity.npy", popularity_order.astype(np.uint32))
        write_record_store(folder, "rewritten", self._rewritten)

    def _add_bounds(self, stored: bytes) -> None:
        """Add where each endpoint stands in the store; its JSON is compact."""
        endpoints = bytes(_raw_endpoints.decode(stored).endpoints)
        start = self._position + stored.index(endpoints) + 1
        may_be_rewritten = any(mark in endpoints for mark in MARKS)
        for raw in _raws.decode(endpoints):
            size = memoryview(raw).nbytes
            rewritten = _without_added_members(bytes(raw)) if may_be_rewritten else None
            if rewritten is None:
                self._bounds.extend((start, start + size))
            else:
                self._bounds.extend((NONE - len(self._rewritten), 0))
                self._rewritten.append(rewritten)
            start += size + 1
        self._position += len(stored) + 1


class _Join:
    """Finds the endpoint that stands for each listed resource.

    documents: int32[resources], the ordinal of the endpoint that has the resource, or NONE
    owners: the same, but that several resources may have one endpoint
    """

    def __init__(self, built: Path, first: npt.NDArray[np.int64], listed: ListedResources) -> None:
        self._texts = RecordStore(built / "resources", "texts")
        self._first = first
        self._keys = listed.keys
        self._bounds = np.searchsorted(listed.services, np.arange(len(first)))
        self.documents = np.full(len(listed.keys), NONE, np.int32)
        self.owners = np.full(len(listed.keys), NONE, np.int32)

    def match(self, service: int, endpoints: Sequence[Endpoint]) -> Iterable[int]:
        """Find the endpoints of the resources of a service; returns the other endpoints."""
        start, stop = self._bounds[service : service + 2].tolist()
        unlisted = dict.fromkeys(range(len(endpoints)))
        if start == stop:
            return unlisted
        numbers: dict[int, int] = {}
        for number, endpoint in enumerate(endpoints):
            numbers.setdefault(
                endpoint_key(endpoint.url, endpoint.method, string_of(endpoint.tool)), number
            )
        unmatched = []
        for resource, key in enumerate(self._keys[start:stop].tolist(), start):
            found = numbers.get(key)
            if found is None:
                unmatched.append(resource)
            else:
                self._set(service, resource, found, unlisted)
        if unmatched and unlisted:
            self._match_normalised(service, unmatched, endpoints, unlisted)
        return unlisted

    def read(self, resource: int) -> bytes:
        """Return the JSON of the endpoint that a listed resource declares."""
        return declared_endpoint(self._texts.text(resource))

    def _match_normalised(
        self,
        service: int,
        resources: Sequence[int],
        endpoints: Sequence[Endpoint],
        unlisted: dict[int, None],
    ) -> None:
        """Match resources whose URL or method a catalogue record spells otherwise.

        An endpoint that names no tool has the resources of all tools.
        """
        numbers: dict[tuple[str, tuple[str, str]], int] = {}
        for number in unlisted:
            endpoint = endpoints[number]
            for address in identify_endpoint(endpoint.url, endpoint.method):
                numbers.setdefault((string_of(endpoint.tool), address), number)
        for resource in resources:
            declared = _listed.decode(self.read(resource))
            addresses = identify_endpoint(declared.url, declared.method)
            for tool in (declared.tool, ""):
                keys = {(tool, address) for address in addresses} & numbers.keys()
                if keys:
                    self._set(service, resource, min(numbers[key] for key in keys), unlisted)
                    break

    def _set(self, service: int, resource: int, number: int, unlisted: dict[int, None]) -> None:
        document = int(self._first[service]) + number
        self.owners[resource] = document
        if number in unlisted:
            self.documents[resource] = document
            del unlisted[number]


def _without_added_members(endpoint: bytes) -> bytes | None:
    """Return an endpoint without the members that responses add, or None if it has none of them."""
    members = _members.decode(endpoint)
    kept = {name: raw for name, raw in members.items() if name not in ADDED_MEMBERS}
    return None if len(kept) == len(members) else msgspec.json.encode(kept)


def _analyse(join: _Join, resources: Sequence[int], start: int, encoder: Path | None) -> Part:
    analyser = EndpointAnalyser(encoder)
    for resource in resources:
        analyser.add(_text.decode(join.read(resource)))
    return analyser.part(start)
