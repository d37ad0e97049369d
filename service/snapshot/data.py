"""The data of an open snapshot: its stored texts, filters and listings, and pages of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np

from service.arrays.container import open_arrays
from service.arrays.texts import IdTable, Records, Summaries
from service.conditions import (
    NO_FILTERS,
    EndpointFilters,
    Filters,
    ResourceFilters,
    ServiceConditions,
    text_columns,
)
from service.engines.engine import Answer
from service.filtering.offers import Offers
from service.filtering.table import Table
from service.schema.values import Json
from service.search.postings import Integers, Mask
from service.snapshot.endpoints import Endpoints
from service.snapshot.listings import Listings
from service.snapshot.manifest import Manifest
from service.snapshot.payments import Ecosystem
from service.snapshot.resources import Resources


class Hits(Answer, frozen=True, kw_only=True):
    """One page of services in order.

    data: of the snapshot, whose files stay mapped as long as the page is in use
    """

    data: SnapshotData

    @property
    def ids(self) -> list[str]:
        """The ids of the page."""
        return [self.data.id_table[ordinal] for ordinal in self.ordinals]

    @property
    def texts(self) -> list[bytes]:
        """The services of the page as JSON, which are served as they are."""
        return [self.data.services.text(ordinal) for ordinal in self.ordinals]

    @property
    def services(self) -> list[Json]:
        """The services of the page, decoded."""
        return [json.loads(text) for text in self.texts]


class EndpointHits(Answer, frozen=True, kw_only=True):
    """One page of endpoints in order.

    offers: of each endpoint the cheapest that satisfies the filters, NONE without such filters
    data: of the snapshot, whose files stay mapped as long as the page is in use
    """

    offers: Sequence[int]
    data: SnapshotData

    @property
    def texts(self) -> list[bytes]:
        """The endpoints of the page as JSON, which are served as they are."""
        item = self.data.endpoints.item
        return [b"".join(item(*each)) for each in zip(self.ordinals, self.offers, strict=True)]

    @property
    def endpoints(self) -> list[Json]:
        """The endpoints of the page, decoded."""
        return [json.loads(text) for text in self.texts]


class ResourceDocuments(NamedTuple):
    """Listed resources as documents of the index."""

    resources: Resources
    endpoints: Endpoints

    def cost(self, filters: ResourceFilters) -> int:
        """Return how many numbers and bytes are scanned to satisfy filters."""
        return self.resources.cost(filters)

    def documents(self, filters: ResourceFilters) -> Mask:
        """Return which documents have resources that satisfy filters."""
        return self.endpoints.documents_of(self.resources.matches(filters))

    def of_documents(self, documents: Integers) -> Integers:
        """Return the resources of documents."""
        return self.endpoints.resources_of(documents)


class SnapshotData:
    """The files of a snapshot: immutable, and safe to read from several threads.

    services, summaries: the stored JSON of the services, with and without endpoints
    index: what words are searched in
    offers: the ways to pay for endpoints
    filters: selects and orders the services
    """

    def __init__(self, folder: Path, manifest: Manifest, checked_at: datetime) -> None:
        self.folder = folder
        self.manifest = manifest
        self.id = manifest.id
        self.encoded_id = manifest.id.encode()
        self.checked_at = checked_at
        self.services = Records(folder)
        self.summaries = Summaries(open_arrays(folder / "summaries.arrays"), self.services)
        self.id_table = IdTable(folder)
        self.index = open_arrays(folder / "index.arrays")
        self.offers = Offers(open_arrays(folder / "offers.arrays"))
        self.resources = Resources(folder / "resources.arrays", self.offers)
        self.endpoints = Endpoints(
            folder,
            self.offers,
            self.id_table,
            self.services,
            self.summaries,
            self.resources.texts,
            self.index["penalties"],
        )
        arrays = open_arrays(folder / "services.arrays")
        self.filters = Table(arrays, len(self.services), text_columns(ServiceConditions).values())
        self.ecosystem = Ecosystem(folder)
        self.listings = Listings(folder, self.id_table, self.endpoints)

    def find(self, service_id: str) -> bytes | None:
        """Return the stored JSON of a service, or None."""
        ordinal = self.id_table.find(service_id)
        return None if ordinal is None else self.services.text(ordinal)

    def get(self, service_id: str) -> Json | None:
        """Return a service, or None."""
        if not isinstance(service_id, str):
            raise TypeError(f"an id is a text, not {service_id!r}")
        text = self.find(service_id)
        return None if text is None else json.loads(text)

    def list_services(
        self, limit: int = 24, offset: int = 0, filters: Filters = NO_FILTERS
    ) -> Hits:
        """Return one page of the services that satisfy the filters, in their order."""
        matches = self.filters.mask(filters.given())
        total = len(self.services) if matches is None else int(np.count_nonzero(matches))
        facets = self.filters.count(filters.facets, matches) if filters.facets else None
        ordinals = self.filters.page(matches, filters.sort, limit, offset)
        return Hits(total, ordinals.tolist(), total, facets=facets, data=self)

    def list_endpoints(self, limit: int, offset: int, filters: EndpointFilters) -> EndpointHits:
        """Return one page of the endpoints that satisfy the filters, in their order."""
        index = self.endpoints.filters
        mask, offers = index.select(filters)
        if mask is None:
            mask = np.ones(len(self.endpoints), np.bool_)
        total, listed, page, _ = index.listing(mask, filters, limit, offset, offers)
        ordinals = page.tolist()
        facets = index.count(filters.facets, mask) if filters.facets else None
        offered = index.cheapest_offers(ordinals, filters)
        return EndpointHits(total, ordinals, listed, facets=facets, offers=offered, data=self)
