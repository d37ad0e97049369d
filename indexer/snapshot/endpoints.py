"""Writing the files of `service.snapshot.endpoints`, but for the postings."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from math import nan
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Raw, Struct

from indexer.record_store import read_record_store, write_record_store
from indexer.search.endpoint_texts import EndpointAnalyser, EndpointText, expand_to_endpoints
from indexer.search.filters import FacetWriter
from indexer.search.offers import Offer, OfferWriter
from indexer.search.postings import compile_postings, popularity
from indexer.search.spans import Span
from indexer.search.whoosh_index import Part
from indexer.snapshot.resources import ListedResources, endpoint_key
from indexer.x402.discovery import identify_endpoint
from service.search.config import ENDPOINT_SEARCH_CONFIG
from service.search.offers import NONE
from service.snapshot.endpoints import ADDED_MEMBERS, FACET_KEYS


class Price(Struct, rename="camel"):
    """The part of a price that filters use."""

    amount: str
    network: str = ""
    scheme: str = ""
    min_amount: str = ""
    max_amount: str = ""

    @property
    def compared(self) -> str:
        """The amount that filters compare; empty where none is given.

        It is the fixed amount, else the lower bound, but the ceiling of the scheme `upto`.
        """
        lowest = self.amount or self.min_amount or self.max_amount
        return self.max_amount or lowest if self.scheme.casefold() == "upto" else lowest


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
    tool: object = ""
    pay_to: object = ""


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
    others: the postings of those resources, of their own texts
    prior: float64[documents], as `compile_postings` takes it
    """

    first_endpoints: npt.NDArray[np.int64]
    first_others: npt.NDArray[np.int64]
    others: Part
    prior: npt.NDArray[np.float64]


class _RawEndpoints(Struct):
    endpoints: Raw


class _Metadata(Struct, frozen=True):
    description: object = ""


class _Listed(Struct):
    """The part of a listed resource that is searched."""

    resource: str
    ratecard: _RatecardFacts
    metadata: _Metadata = _Metadata()
    description: object = ""
    tags: object = None

    @property
    def text(self) -> EndpointText:
        descriptions = (self.metadata.description, self.description)
        given = [each for each in descriptions if isinstance(each, str)]
        tags = self.tags if isinstance(self.tags, list) else []
        return EndpointText(
            url=self.ratecard.endpoint.url,
            description=given[0] if given else "",
            tags=[tag for tag in tags if isinstance(tag, str)],
        )


class _RatecardFacts(Struct):
    endpoint: _ListedEndpoint


class _ListedEndpoint(Struct):
    url: str
    method: str


_service = msgspec.json.Decoder(Service)
_raw_endpoints = msgspec.json.Decoder(_RawEndpoints)
_raws = msgspec.json.Decoder(list[Raw])
_members = msgspec.json.Decoder(dict[str, Raw])
_listed = msgspec.json.Decoder(_Listed)


def write_endpoints(
    built: Path, endpoint_counts: Sequence[int], listed: ListedResources, offers: OfferWriter
) -> Documents:
    """Write the facts and the filters of the endpoints of the stored services, and the offers."""
    folder = built / "endpoints"
    folder.mkdir()
    first = np.concatenate(([0], np.cumsum(endpoint_counts, dtype=np.int64)))
    count = int(first[-1])
    columns = _Columns(count)
    join = _Join(built, first, listed)

    def facts() -> Iterator[bytes]:
        for ordinal, text in enumerate(read_record_store(built, "records")):
            service = _service.decode(text)
            columns.add(service, text)
            for number in join.without_resource(ordinal, service.endpoints):
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
    np.save(folder / "services.npy", np.concatenate((services, other_services)))
    np.save(folder / "resources.npy", resources)
    np.save(folder / "documents.npy", join.documents)
    owners = np.repeat(join.owners, np.diff(listed.offers))
    all_owners = np.concatenate((owners, np.asarray(columns.offer_owners, np.int32)))
    offers.write(built / "offers", len(owners), all_owners, count)
    first_others = count + np.searchsorted(other_services, np.arange(len(first)))
    prior = np.concatenate((np.asarray(columns.prior), np.zeros(len(others))))
    return Documents(first, first_others, _analyse(built, others.tolist(), count), prior)


def compile_endpoints(spans: Sequence[Span], documents: Documents, folder: Path) -> None:
    """Write the postings of the documents: of their own texts and those of their services."""
    parts = []
    for span in spans:
        start = int(documents.first_endpoints[span.services.start])
        parts += [
            span.endpoints._replace(start=start),
            expand_to_endpoints(span.services, documents.first_endpoints),
            expand_to_endpoints(span.services, documents.first_others),
        ]
    parts.append(documents.others)
    compile_postings(parts, [], documents.prior, folder, ENDPOINT_SEARCH_CONFIG)


class _Columns:
    """The values that endpoints are filtered and ordered by, in listing order."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._facets = {name: FacetWriter(name, key) for name, key in FACET_KEYS.items()}
        self._bounds, self._prices, self._calls = array("q"), array("d"), array("q")
        self._enriched = array("b")
        self._rewritten: list[bytes] = []
        self._position = 0
        self.prior = array("d")
        self.offer_owners = array("i")

    def add(self, service: Service, text: bytes) -> None:
        """Add the endpoints of the next service, stored as `text`."""
        self._add_bounds(text)
        for endpoint in service.endpoints:
            ordinal = len(self._prices)
            calls = int(endpoint.quality.l30_days_total_calls) if endpoint.quality else 0
            price = endpoint.pricing.compared
            self._prices.append(float(price) if price else nan)
            self._calls.append(min(calls, 2**63 - 1))
            self._enriched.append(service.enriched)
            self.prior.append(popularity(service.enriched, calls))
            self._facets["category"].add(ordinal, [service.category])
            methods = endpoint.method.replace("/", ",").replace("|", ",").split(",")
            names = [method.strip().upper() for method in methods]
            self._facets["method"].add(ordinal, [name for name in names if name])
            self._facets["tag"].add(ordinal, endpoint.tags or service.tags)

    def add_offer(self, offers: OfferWriter, ordinal: int, endpoint: Endpoint) -> None:
        """Add the price of an endpoint that no feed lists as an offer."""
        price = endpoint.pricing
        pay_to = endpoint.pay_to if isinstance(endpoint.pay_to, str) else ""
        if price.network or price.scheme or pay_to:
            offers.add(Offer(price.network, price.scheme, pay_to, amount=price.compared))
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

    def _add_bounds(self, text: bytes) -> None:
        """Add where each endpoint stands in the store; its JSON is compact."""
        array_text = bytes(_raw_endpoints.decode(text).endpoints)
        start = self._position + text.index(array_text) + 1
        for endpoint in _raws.decode(array_text):
            raw = bytes(endpoint)
            rewritten = _without_added_members(raw)
            if rewritten is None:
                self._bounds.extend((start, start + len(raw)))
            else:
                self._bounds.extend((NONE - len(self._rewritten), 0))
                self._rewritten.append(rewritten)
            start += len(raw) + 1
        self._position += len(text) + 1


class _Join:
    """Finds the endpoint that stands for each listed resource.

    documents: int32[resources], the ordinal of the endpoint that has the resource, or NONE
    owners: the same, but that several resources may have one endpoint
    """

    def __init__(self, built: Path, first: npt.NDArray[np.int64], listed: ListedResources) -> None:
        self._built = built
        self._first = first
        self._keys = listed.keys
        self._bounds = np.searchsorted(listed.services, np.arange(len(first)))
        self.documents = np.full(len(listed.keys), NONE, np.int32)
        self.owners = np.full(len(listed.keys), NONE, np.int32)

    def without_resource(self, service: int, endpoints: Sequence[Endpoint]) -> Iterable[int]:
        """Find the endpoints of the resources of a service; returns the other endpoints."""
        start, stop = self._bounds[service : service + 2].tolist()
        unlisted = dict.fromkeys(range(len(endpoints)))
        if start == stop:
            return unlisted
        numbers: dict[int, int] = {}
        for number, endpoint in enumerate(endpoints):
            tool = endpoint.tool if isinstance(endpoint.tool, str) else ""
            numbers.setdefault(endpoint_key(endpoint.url, endpoint.method, tool), number)
        unmatched = []
        for resource, key in enumerate(self._keys[start:stop].tolist(), start):
            found = numbers.get(key)
            if found is None:
                unmatched.append(resource)
            else:
                self._match(service, resource, found, unlisted)
        if unmatched and unlisted:
            self._match_normalised(service, unmatched, endpoints, unlisted)
        return unlisted

    def _match_normalised(
        self,
        service: int,
        resources: Sequence[int],
        endpoints: Sequence[Endpoint],
        unlisted: dict[int, None],
    ) -> None:
        """Match resources whose URL or method a catalogue record spells otherwise."""
        numbers: dict[tuple[str, str], int] = {}
        for number in unlisted:
            for key in identify_endpoint(endpoints[number].url, endpoints[number].method):
                numbers.setdefault(key, number)
        for resource in resources:
            named = self.read(resource).ratecard.endpoint
            found = [
                numbers[key] for key in identify_endpoint(named.url, named.method) if key in numbers
            ]
            if found:
                self._match(service, resource, min(found), unlisted)

    def read(self, resource: int) -> _Listed:
        span = range(resource, resource + 1)
        (text,) = read_record_store(self._built / "resources", "texts", span)
        return _listed.decode(text)

    def _match(self, service: int, resource: int, number: int, unlisted: dict[int, None]) -> None:
        document = int(self._first[service]) + number
        self.owners[resource] = document
        if number in unlisted:
            self.documents[resource] = document
            del unlisted[number]


def _without_added_members(text: bytes) -> bytes | None:
    """Return an endpoint without the members that responses add, or None if it has none of them."""
    if not any(b'"%b"' % name.encode() in text for name in ADDED_MEMBERS):
        return None
    members = _members.decode(text)
    kept = {name: raw for name, raw in members.items() if name not in ADDED_MEMBERS}
    return None if len(kept) == len(members) else msgspec.json.encode(kept)


def _analyse(built: Path, resources: Sequence[int], start: int) -> Part:
    analyser = EndpointAnalyser()
    for resource in resources:
        (text,) = read_record_store(built / "resources", "texts", range(resource, resource + 1))
        analyser.add(_listed.decode(text).text)
    return analyser.part(start)
