"""Writing the files of `service.snapshot.endpoints`, but for the postings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from indexer.derive.columns import RecordColumns
from indexer.derive.extraction import NumberedStrings, TextWriter, Tokens
from indexer.derive.ragged import first_equal, positions
from indexer.derive.records import ENDPOINT_FIELDS, IndexedEndpoint, decode_service
from indexer.endpoints import identify_endpoint
from indexer.index.documents import Documents, Numbers, OtherTexts, place_documents
from indexer.index.filters import write_endpoints as write_table
from indexer.index.offers import OfferWriter
from indexer.index.popularity import Payers, Popularity
from indexer.resources.x402 import read_resource
from indexer.snapshot.resources import ListedResources
from indexer.untrusted import string_of
from service.arrays.container import Arrays, narrow, open_arrays, write_arrays
from service.arrays.texts import Records, Texts
from service.filtering.offers import NONE
from service.schema.profiles import EndpointFacts


class IndexedEndpoints(NamedTuple):
    """The documents of the index, with the texts and priors that no record has.

    prior, other_prior: float64, as `compile_postings` takes it, of endpoints and of the others
    """

    documents: Documents
    others: OtherTexts
    prior: npt.NDArray[np.float64]
    other_prior: npt.NDArray[np.float64]


Verdicts = npt.NDArray[np.int8]
"""The verdicts of probers: 1 for what is alive, -1 for what is dead, or 0."""


class _Annotated(Struct):
    """The part of a listed resource that the operator wrote."""

    ratecard: EndpointFacts


_endpoint = msgspec.json.Decoder(IndexedEndpoint)
_annotated = msgspec.json.Decoder(_Annotated)


def write_endpoints(
    built: Path,
    columns: RecordColumns,
    listed: ListedResources,
    offers: OfferWriter,
    encoder: Path | None,
    *,
    payers: Sequence[Mapping[int, Payers]],
    alive: Verdicts,
    delivered: Verdicts,
) -> IndexedEndpoints:
    """Write the facts and the filters of the endpoints of the stored services, and the offers.

    payers: of each service, the payers of the endpoints that have payments
    alive, delivered: the verdicts of probers and of observers on the endpoints
    encoder: the folder of the `Encoder` of their texts, if there is one
    """
    join = _Join(built, columns, listed)
    counts = columns.services["endpoints"].astype(np.int32)
    others = np.flatnonzero(join.documents == NONE)
    services = listed.services[others]
    other_counts = np.bincount(services, minlength=len(counts)).astype(np.int32)
    documents = place_documents(counts, other_counts)
    ranks = np.arange(len(others)) - np.searchsorted(services, services)
    other_documents = (documents.others[services] + ranks).astype(np.int32)
    join.documents[others] = other_documents
    _write_places(built, columns, documents.services, join.documents)
    offers.add_prices(columns, join.is_unlisted)
    of_listings = offers.write(built / "offers.arrays", join.owners, int(counts.sum()))
    popularity = _popularity(columns, payers, alive)
    of_listings["registration"] = registration = np.zeros(len(columns.endpoints), np.bool_)
    registration[join.owners[listed.registration & (join.owners != NONE)]] = True
    of_listings["delivered"] = delivered
    write_table(built / "endpoints.arrays", columns, popularity, of_listings)
    texts = _analyse(join, others.tolist(), other_documents, encoder)
    enriched, deprecated = (
        np.repeat(columns.services[name], columns.services["endpoints"])
        for name in ("enriched", "deprecated")
    )
    prior = popularity.prior(enriched, deprecated)
    other_prior = np.where(listed.alive[others] < 0, -1.0, 0.0)
    return IndexedEndpoints(documents, texts, prior, other_prior)


def _write_places(
    built: Path, columns: RecordColumns, services: Numbers, documents: Numbers
) -> None:
    """Write which documents the endpoints and the resources are, and where endpoints stand.

    services: int32[documents], the service of each document
    documents: int32[resources], as `_Join` has them
    """
    endpoints = columns.endpoints
    starts = open_arrays(built / "records.arrays")["offsets"][services[: len(endpoints)]]
    bounds = np.stack((starts + endpoints["start"], starts + endpoints["stop"]), axis=1)
    bounds[endpoints["is_rewritten"], 0] = -1 - bounds[endpoints["is_rewritten"], 0]
    joined = np.flatnonzero(documents != NONE)
    resources = np.full(len(services), NONE, np.int32)
    resources[documents[joined]] = joined
    arrays: Arrays = {
        "first": narrow(columns.first_endpoints),
        "services": services,
        "resources": resources,
        "documents": documents,
        "bounds": bounds,
        "urls": np.where(endpoints["address"] != 0, endpoints["address"], endpoints["url"]),
        "sellers": endpoints["seller"],
    }
    write_arrays(built / "places.arrays", arrays)


def _popularity(
    columns: RecordColumns, counted: Sequence[Mapping[int, Payers]], alive: Verdicts
) -> Popularity:
    """Return the popularity of endpoints: by payments if there are any, or as records state it."""
    payers = columns.endpoints["payers"].astype(np.int64)
    returning = np.zeros_like(payers)
    for first, own in zip(columns.first_endpoints.tolist(), counted, strict=False):
        for number, each in own.items():
            returning[first + number], payers[first + number] = each
    return Popularity(returning, payers, alive)


class _Join:
    """Finds the endpoint that stands for each listed resource.

    owners: int32[resources], the endpoint of each resource, or NONE
    documents: the same for the first resource of an endpoint, and NONE for its others
    is_unlisted: bool[endpoints], which have no resource
    """

    def __init__(self, built: Path, columns: RecordColumns, listed: ListedResources) -> None:
        self._texts = Texts(open_arrays(built / "resources.arrays"), "resources")
        self._records = Records(built)
        self._first = columns.first_endpoints
        self.is_unlisted = np.ones(len(columns.endpoints), np.bool_)
        self.owners = _match_keys(columns, listed)
        self.documents = np.full(len(self.owners), NONE, np.int32)
        matched = np.flatnonzero(self.owners != NONE)
        endpoints, first_of_each = np.unique(self.owners[matched], return_index=True)
        self.documents[matched[first_of_each]] = endpoints
        self.is_unlisted[endpoints] = False
        unmatched = np.flatnonzero(self.owners == NONE)
        pairs = zip(listed.services[unmatched].tolist(), unmatched.tolist(), strict=True)
        for service, resources in groupby(pairs, itemgetter(0)):
            if self.is_unlisted[slice(*self._first[service : service + 2])].any():
                self._match_normalised(service, [resource for _, resource in resources])

    def read(self, resource: int) -> IndexedEndpoint:
        """Return the endpoint that a listed resource declares."""
        return _read_listed(self._texts.text(resource))[0]

    def contents(self, resource: int) -> tuple[str, ...]:
        """Return the searched texts of the endpoint that a listed resource declares."""
        return listed_contents(self._texts.text(resource))

    def _match_normalised(self, service: int, resources: Sequence[int]) -> None:
        """Match resources whose URL or method a catalogue record spells otherwise.

        An endpoint without `tool` matches resources of any tool.
        """
        unlisted: dict[tuple[str, tuple[str, str]], int] = {}
        endpoints = decode_service(self._records.text(service)).endpoints
        for ordinal, endpoint in enumerate(endpoints, int(self._first[service])):
            if self.is_unlisted[ordinal]:
                for address in identify_endpoint(endpoint.url, endpoint.method):
                    unlisted.setdefault((string_of(endpoint.tool), address), ordinal)
        for resource in resources:
            declared = self.read(resource)
            addresses = identify_endpoint(declared.url, declared.method)
            for tool in (string_of(declared.tool), ""):
                keys = {(tool, address) for address in addresses} & unlisted.keys()
                if keys:
                    self._set(resource, min(unlisted[key] for key in keys))
                    break

    def _set(self, resource: int, endpoint: int) -> None:
        self.owners[resource] = endpoint
        if self.is_unlisted[endpoint]:
            self.documents[resource] = endpoint
            self.is_unlisted[endpoint] = False


def listed_contents(text: bytes) -> tuple[str, ...]:
    """Return the searched texts of the endpoint that a stored resource declares."""
    endpoint, output = _read_listed(text)
    return endpoint.contents(output, _annotated.decode(text).ratecard.profile or None)


def _read_listed(text: bytes) -> tuple[IndexedEndpoint, str]:
    declared = read_resource(text)
    return _endpoint.decode(msgspec.json.encode(declared.to_endpoint())), declared.output


def _match_keys(columns: RecordColumns, listed: ListedResources) -> Numbers:
    """Return the first endpoint of the service of each resource that has its key, or NONE."""
    counts = columns.services["endpoints"]
    services = np.unique(listed.services)
    rows = positions(columns.first_endpoints, services)
    owners = np.concatenate((np.repeat(services, counts[services]), listed.services))
    keys = np.concatenate((columns.endpoints["key"][rows], listed.keys))
    endpoints = np.full(len(keys), NONE, np.int32)
    endpoints[: len(rows)] = rows
    matched: Numbers = endpoints[first_equal(keys, owners)[len(rows) :]]
    return matched


def _analyse(
    join: _Join, resources: Sequence[int], documents: Numbers, encoder: Path | None
) -> OtherTexts:
    """Return the tokens and the vectors of resources, given the document of each."""
    strings = NumberedStrings()
    texts = TextWriter(ENDPOINT_FIELDS, Tokens(strings), encoder)
    for resource in resources:
        texts.add(join.contents(resource))
    return OtherTexts(documents, texts.tokens(), strings.table(), texts.vectors())
