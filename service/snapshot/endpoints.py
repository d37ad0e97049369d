"""Endpoints of all services, listed as they are stored.

facts: a `Texts` of the facts of each service that stand beside its endpoints
rewritten: a `Texts` of the endpoints whose records have members of the names of added ones,
    without these members
urls: the sorted hashes of the URLs of endpoints, as their records spell them, and the endpoints
"""

from __future__ import annotations

from math import isnan, nan
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct

from service.filtering.endpoint_filters import EndpointFilterIndex
from service.filtering.facets import ServiceFacet
from service.filtering.offers import NONE, Offers
from service.schema.probes import NO_PROBE_FACTS, ProbeFacts
from service.search.groups import Groups
from service.search.postings import Integers, Mask
from service.snapshot.profiles import Profiles
from service.snapshot.resources import ListedCall
from service.storage.container import items_of, open_arrays
from service.storage.texts import IdTable, Texts, equal_hashes, text_hash

ADDED_MEMBERS = ("service", "match", "ratecard")
"""Members that responses add to an endpoint: its own ones of these names are left out."""


class _EndpointUrl(Struct):
    """The URL of an endpoint."""

    url: str


_url = msgspec.json.Decoder(_EndpointUrl)
_listed_call = msgspec.json.Decoder(ListedCall)
_probe_facts = msgspec.json.Decoder(ProbeFacts)


class Endpoints:
    """The endpoints of a snapshot in listing order, and the documents of the index.

    Documents are the endpoints, then listed resources that are no endpoint of their service, and
    services without either.

    first: the first endpoint of each service, and the end
    services, resources: the service of each document, and its listed resource or -1
    documents: the document of each listed resource, or -1
    bounds: where each endpoint starts and stops in `records.json`, or (-1 - n, 0) for the n-th
        rewritten text
    """

    def __init__(
        self,
        folder: Path,
        offers: Offers,
        ids: IdTable,
        services: Texts,
        listed: Texts,
        penalties: Integers,
        profiles: Profiles,
    ) -> None:
        arrays = open_arrays(folder / "endpoints.arrays")
        self._first, self._bounds = arrays["first"], arrays["bounds"]
        self._resources, self._documents = arrays["resources"], arrays["documents"]
        self._offers, self._profiles = offers, profiles
        self._texts, self._listed = services, listed
        self._rewritten = Texts(open_arrays(folder / "rewritten.arrays"), "rewritten")
        self._facts = Texts(open_arrays(folder / "facts.arrays"), "facts")
        self._probes = Texts(open_arrays(folder.parent / "probes.arrays"), "probes")
        urls = open_arrays(folder / "urls.arrays")
        self._urls, self._of_urls = items_of(urls["hashes"]), items_of(urls["endpoints"])
        self.groups = Groups(self._first, arrays["services"], penalties)
        owners = ServiceFacet(ids, arrays["services"][: len(self)])
        self.filters = EndpointFilterIndex(folder / "filters.arrays", offers, owners, self.groups)

    def __len__(self) -> int:
        return len(self._bounds)

    def candidates(self, url: str) -> list[int]:
        """Return the ordinals of the endpoints whose URL has the hash of a URL, in listing order.

        Callers compare the URLs.
        """
        return [self._of_urls[place] for place in equal_hashes(self._urls, text_hash(url))]

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

    def probe_facts(self, ordinal: int) -> ProbeFacts:
        """Return what probers saw of an endpoint."""
        text = self._probes.view(ordinal)
        return _probe_facts.decode(text) if text else NO_PROBE_FACTS

    def price_of(self, ordinal: int, offer: int) -> tuple[float, str] | None:
        """Return the price and the currency of an offer; None if unknown or as in the record."""
        price, currency = self._offers.price(offer) if offer >= 0 else (nan, "")
        return None if isnan(price) or price == self.filters.prices[ordinal] else (price, currency)

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
        start, stop = self._bounds[ordinal].tolist()
        if start < 0:
            text = self._rewritten.view(NONE - start)[:-1]
        else:
            text = self._texts.texts[start : stop - 1]
        owner = int(self.groups.of_document[ordinal])
        pieces: list[bytes | memoryview] = [text, b',"service":', self._facts.view(owner)]
        if offer >= 0 and (entry := self._offers.span(offer)):
            pieces += (b',"match":', self._listed.texts[slice(*entry)])
        if annotated:
            pieces += self._facts_of(ordinal, owner)
        pieces.append(b"}")
        return pieces

    def text(self, ordinal: int, offer: int = NONE) -> bytes:
        """Return the JSON of a listed endpoint, without the words of the operator."""
        return b"".join(self.item(ordinal, offer, annotated=False))

    def _facts_of(self, ordinal: int, owner: int) -> list[bytes | memoryview]:
        """Return the member `ratecard` in pieces, after a comma; none without facts."""
        pieces: list[bytes | memoryview] = []
        observed = self._probes.view(ordinal)[1:-1]
        own = self._profiles.endpoints.find(ordinal)
        of_service = self._profiles.services.find(owner)
        members = ((b"", observed), (b'"profile":', own), (b'"serviceProfile":', of_service))
        for name, text in members:
            if text:
                pieces += (b"," if pieces else b',"ratecard":{', name, text)
        return [*pieces, b"}"] if pieces else []

    def url_of(self, ordinal: int) -> str:
        """Return the URL of an endpoint."""
        return _url.decode(self.text(ordinal)).url
