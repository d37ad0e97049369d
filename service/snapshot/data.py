"""The data of an open snapshot: its stored texts, filters, lexicon and vectors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import numpy as np
from msgspec import Struct

from service.conditions import NO_FILTERS, Filters, ServiceConditions
from service.filtering.facets import FacetCounts
from service.filtering.filters import FilterIndex
from service.filtering.offers import Offers
from service.schema.responses import Explanation
from service.schema.values import Json
from service.search.postings import Mask, read_header
from service.search.query import QueryParser
from service.search.semantic.encoders import open_encoder
from service.search.semantic.vector_index import VectorIndex
from service.snapshot.endpoints import Endpoints
from service.snapshot.listings import Listings
from service.snapshot.manifest import Manifest
from service.snapshot.payments import DemandTable, Ecosystem
from service.snapshot.profiles import Profiles
from service.snapshot.resources import Resources
from service.storage.container import open_arrays
from service.storage.layouts import GROUPS, SERVICE_FILTERS
from service.storage.record_store import IdTable, Records, RecordStore


class Hits(Struct, frozen=True):
    """One page of services in order, and the exact count of all matches.

    data: of the snapshot, whose files stay mapped as long as the page is in use
    facets: the counts of the facets that were asked for
    explanations: of the services of the page, on request
    best_endpoints: of each service the endpoint that matches best, None where its own text does;
        on request
    """

    total: int
    ordinals: Sequence[int]
    data: SnapshotData
    facets: FacetCounts | None
    explanations: list[Explanation] | None = None
    best_endpoints: Sequence[int | None] = ()

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


class SnapshotData:
    """The files of a snapshot: immutable, and safe to read from several threads.

    services, summaries: the stored JSON of the services, with and without endpoints
    offers: the ways to pay for endpoints
    profiles: the words of the operator
    filters: selects and orders the services
    header: the counts and the search parameters of the index
    parser: has the lexicon of the index
    groups: the documents of each service, None where each service is one document
    is_endpoint: flags the documents that are endpoints, None where all are
    """

    def __init__(self, folder: Path, manifest: Manifest, checked_at: datetime) -> None:
        self.folder = folder
        self.manifest = manifest
        self.id = manifest.id
        self.encoded_id = manifest.id.encode()
        self.checked_at = checked_at
        self.services = Records(folder)
        self.summaries = RecordStore(folder, "summaries")
        self.id_table = IdTable(folder)
        self.offers = Offers(folder / "offers")
        self.resources = Resources(folder / "resources", self.offers)
        self.profiles = Profiles(folder)
        self.endpoints = Endpoints(
            folder / "endpoints",
            self.offers,
            self.id_table,
            self.services,
            self.resources.texts,
            open_arrays(folder / "postings" / "groups", GROUPS)["penalties"],
            self.profiles,
        )
        arrays = open_arrays(folder / "filters", SERVICE_FILTERS)
        self.filters = FilterIndex(arrays, ServiceConditions)
        self.ecosystem = Ecosystem(folder)
        self.demand = DemandTable(folder)
        self.listings = Listings(folder / "listings", self.id_table, self.endpoints)
        self.header = header = read_header(folder / "postings")
        is_one_each = header.groups == header.documents and header.endpoints in (0, header.groups)
        self.groups = None if is_one_each else self.endpoints.groups
        self.is_endpoint: Mask | None = None
        if header.endpoints < header.documents:
            self.is_endpoint = np.arange(header.documents) < header.endpoints
        encoder = vectors = None
        if manifest.encoder:
            encoder = open_encoder(folder / "encoder", manifest.encoder)
            size = header.documents, encoder.dimensions
            vectors = VectorIndex(folder / "vectors", *size, self.groups)
        self.parser = QueryParser(folder / "postings", header, encoder, vectors)

    def find(self, service_id: str) -> bytes | None:
        """Return the stored JSON of a service, or None."""
        ordinal = self.id_table.find(service_id)
        return None if ordinal is None else self.services.text(ordinal)

    def get(self, service_id: str) -> Json | None:
        """Return a service, or None."""
        text = self.find(service_id)
        return None if text is None else json.loads(text)

    def list_services(
        self,
        limit: int = 24,
        offset: int = 0,
        filters: Filters = NO_FILTERS,
        matches: Mask | None = None,
    ) -> Hits:
        """Return one page of the services that satisfy the filters, in their order.

        `matches` has these services, if they are known.
        """
        if matches is None:
            matches = self.filters.mask(filters.given())
        total = len(self.services) if matches is None else int(np.count_nonzero(matches))
        facets = self.filters.count(filters.facets, matches) if filters.facets else None
        ordinals = self.filters.page(matches, filters.sort, limit, offset)
        return Hits(total, ordinals.tolist(), self, facets)
