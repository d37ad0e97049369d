"""Endpoints of all services, listed as they are stored, with facts of ours.

`indexer.snapshot.endpoints` writes `places.arrays`, `indexer.snapshot.annotations` the texts that
are added:

first: integer[services + 1], the first endpoint of each service
services: int32[documents], the service of each document; the endpoints are the first documents
resources: int32[documents], the listed resource of each document, or NONE
documents: int32[resources], the document of each listed resource, or NONE
bounds: int64[endpoints, 2], where each endpoint stands in `records.json`, and stops; for one that
    has members of the names of ADDED_MEMBERS -1 - the start
urls: uint64[endpoints], the hash of each URL in normal form, or of a text that is no URL
sellers: uint64[endpoints], the hash of the registrable domain of each
"""

from __future__ import annotations

from math import isnan, nan
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Raw, Struct

from service.arrays.container import open_arrays
from service.arrays.texts import IdTable, Summaries, Texts, text_hash
from service.filtering.offers import NONE, EndpointTable, Offers
from service.schema.discovery import ListedEndpoint
from service.schema.profiles import EndpointFacts, Profile
from service.search.groups import Groups
from service.search.postings import Integers, Mask
from service.snapshot.resources import ListedCall
from service.urls import find_url

ADDED_MEMBERS = ("service", "match", "ratecard")
"""Members that responses add to an endpoint: its own ones of these names are left out."""


class _Owner(Struct):
    """The facts of a service that stand beside its endpoints."""

    id: str
    name: str
    category: str = ""
    enriched: bool = False


_url = msgspec.json.Decoder(ListedEndpoint)
_owner = msgspec.json.Decoder(_Owner)
_members = msgspec.json.Decoder(dict[str, Raw])
_listed_call = msgspec.json.Decoder(ListedCall)
_facts = msgspec.json.Decoder(EndpointFacts)
_profile = msgspec.json.Decoder(Profile)
_encode = msgspec.json.Encoder().encode


class Endpoints:
    """The endpoints of a snapshot.

    services, summaries: the texts of the services, with and without endpoints
    listed: the texts of the listed resources
    """

    def __init__(
        self,
        folder: Path,
        offers: Offers,
        ids: IdTable,
        services: Texts,
        summaries: Summaries,
        listed: Texts,
        penalties: Integers,
    ) -> None:
        arrays = open_arrays(folder / "places.arrays")
        self._first, self._bounds, self._urls = arrays["first"], arrays["bounds"], arrays["urls"]
        self._resources, self._documents = arrays["resources"], arrays["documents"]
        self.sellers = arrays["sellers"]
        self._offers, self._listed = offers, listed
        self._services, self._summaries = services, summaries
        annotations = open_arrays(folder / "annotations.arrays")
        self._facts = Texts(annotations, "endpoints")
        self._profiles = Texts(annotations, "services")
        self.groups = Groups(self._first, arrays["services"], penalties)
        columns = open_arrays(folder / "endpoints.arrays")
        self.filters = EndpointTable(columns, offers, ids, self.groups)

    def __len__(self) -> int:
        return len(self._bounds)

    def of_url(self, url: str) -> list[int]:
        """Return the ordinals of the endpoints that have a URL, in any spelling."""
        parsed = find_url(url)
        key = np.uint64(text_hash(parsed.key if parsed else url))
        ordinals: list[int] = np.flatnonzero(self._urls == key).tolist()
        return ordinals

    def methods_of(self, ordinal: int) -> list[str]:
        """Return the methods of an endpoint, none where any may do."""
        column = self.filters.columns["method"]
        return [column.values[number] for number in column.of_row(ordinal)]

    def of_service(self, service: int) -> range:
        """Return the ordinals of the endpoints of a service, in the order of its record."""
        return range(*self._first[service : service + 2].tolist())

    def service_of(self, ordinal: int) -> int:
        """Return the ordinal of the service of an endpoint."""
        return int(self.groups.of_document[ordinal])

    def place_of(self, ordinal: int) -> int:
        """Return the place of an endpoint in the record of its service, from 0."""
        return ordinal - int(self._first[self.groups.of_document[ordinal]])

    def resource_of(self, ordinal: int) -> int | None:
        """Return the listed resource of an endpoint, None where no feed lists it."""
        resource = int(self._resources[ordinal])
        return None if resource == NONE else resource

    def listing_of(self, ordinal: int) -> ListedCall:
        """Return what a feed lists of an endpoint; empty where no feed does."""
        resource = self.resource_of(ordinal)
        return (
            ListedCall() if resource is None else _listed_call.decode(self._listed.view(resource))
        )

    def facts_of(self, ordinal: int) -> EndpointFacts:
        """Return what probers saw of an endpoint, and the words of the operator on it."""
        text = self._facts.view(ordinal)
        return _facts.decode(text) if text else EndpointFacts()

    def profile_of(self, service: int) -> Profile | None:
        """Return the words of the operator on a service."""
        text = self._profiles.view(service)
        return _profile.decode(text) if text else None

    def price_of(self, ordinal: int, offer: int) -> tuple[float, str] | None:
        """Return the price and the currency of an offer; None if unknown or as in the record."""
        price, currency = self._offers.price(offer) if offer >= 0 else (nan, "")
        return (
            None
            if isnan(price) or price == self.filters.arrays["price"][ordinal]
            else (price, currency)
        )

    def documents_of(self, resources: Mask | None) -> Mask:
        """Return which documents have any of these listed resources, or of all if None."""
        documents = self._documents if resources is None else self._documents[resources]
        mask = np.zeros(len(self._resources), np.bool_)
        mask[documents[documents != NONE]] = True
        return mask

    def resources_of(self, documents: Integers) -> Integers:
        """Return the listed resources of documents that have one."""
        resources: Integers = self._resources[documents]
        return resources

    def item(self, ordinal: int, offer: int, *, annotated: bool = True) -> list[bytes | memoryview]:
        """Return the JSON of a listed endpoint in pieces, with its service and its offer.

        With `annotated` it has the words of the operator.
        """
        text = self._stored(ordinal)
        if self._bounds[ordinal, 0] < 0:
            members = _members.decode(text)
            kept = {name: members[name] for name in members if name not in ADDED_MEMBERS}
            text = memoryview(_encode(kept))
        owner = _owner.decode(self._summaries.text(self.service_of(ordinal)))
        pieces: list[bytes | memoryview] = [text[:-1], b',"service":', _encode(owner)]
        if offer >= 0 and (entry := self._offers.span(offer)):
            pieces += (b',"match":', self._listed.texts[slice(*entry)])
        if annotated and (facts := self._facts.view(ordinal)):
            pieces += (b',"ratecard":', facts)
        return [*pieces, b"}"]

    def text(self, ordinal: int, offer: int = NONE) -> bytes:
        """Return the JSON of a listed endpoint, without the words of the operator."""
        return b"".join(self.item(ordinal, offer, annotated=False))

    def url_of(self, ordinal: int) -> str:
        """Return the URL of an endpoint."""
        return _url.decode(self._stored(ordinal)).url

    def _stored(self, ordinal: int) -> memoryview:
        """Return an endpoint as its record has it."""
        start, stop = self._bounds[ordinal].tolist()
        return self._services.texts[max(start, -1 - start) : stop]
