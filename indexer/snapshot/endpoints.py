"""Writing the files of `service.snapshot.endpoints`, but for the postings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from indexer.resources.x402 import read_resource
from indexer.search.filters import FacetValues, write_conditions
from indexer.search.offers import OfferWriter
from indexer.search.popularity import Payers, Popularity
from indexer.snapshot.resources import ListedResources
from indexer.untrusted import string_of
from service.conditions import ENDPOINT_KEYS, EndpointConditions
from service.filtering.offers import NONE
from service.schema.profiles import EndpointFacts
from service.storage.container import Arrays, open_arrays, write_arrays, writing_arrays
from service.storage.texts import Records, Texts, write_texts


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
) -> IndexedEndpoints:
    """Write the facts and the filters of the endpoints of the stored services, and the offers.

    payers: of each service, the payers of the endpoints that have payments
    alive: the verdicts of probers on the endpoints
    encoder: the folder of the `Encoder` of their texts, if there is one
    """
    folder = built / "endpoints"
    folder.mkdir()
    join = _Join(built, columns, listed)
    counts = columns.services["endpoints"].astype(np.int32)
    others = np.flatnonzero(join.documents == NONE)
    services = listed.services[others]
    other_counts = np.bincount(services, minlength=len(counts)).astype(np.int32)
    documents = place_documents(counts, other_counts)
    ranks = np.arange(len(others)) - np.searchsorted(services, services)
    other_documents = (documents.others[services] + ranks).astype(np.int32)
    join.documents[others] = other_documents
    _write_places(folder, built, columns, documents, join)
    of_entries = np.repeat(join.owners, np.diff(listed.offers))
    of_prices = offers.add_prices(columns, join.is_unlisted).astype(np.int32)
    owners = np.concatenate((of_entries, of_prices))
    of_offers = offers.write(built / "offers", len(of_entries), owners, int(counts.sum()))
    popularity = _popularity(columns, payers, alive)
    registration = np.isin(np.arange(len(columns.endpoints)), join.owners[listed.registration])
    _write_filters(folder, columns, of_offers, popularity, registration)
    texts = _analyse(join, others.tolist(), other_documents, encoder)
    enriched, deprecated = (
        np.repeat(columns.services[name], columns.services["endpoints"])
        for name in ("enriched", "deprecated")
    )
    prior = popularity.prior(enriched, deprecated)
    other_prior = np.where(listed.alive[others] < 0, -1.0, 0.0)
    return IndexedEndpoints(documents, texts, prior, other_prior)


def _facts(columns: RecordColumns) -> Iterator[bytes]:
    """Return the facts of each service that stand beside its endpoints."""
    runs = columns.service_runs
    used, numbers = np.unique(runs["category"].items, return_inverse=True)
    categories = columns.strings.take(used).strings()
    facts = zip(
        runs["id"].strings(),
        runs["name"].strings(),
        map(categories.__getitem__, numbers.tolist()),
        columns.services["enriched"].tolist(),
        strict=True,
    )
    return (
        msgspec.json.encode({"id": id_, "name": name, "category": category, "enriched": enriched})
        for id_, name, category, enriched in facts
    )


def _write_places(
    folder: Path,
    built: Path,
    columns: RecordColumns,
    documents: Documents,
    join: _Join,
) -> None:
    """Write the documents of the endpoints, and where each endpoint stands in the store."""
    endpoints, counts = columns.endpoints, columns.services["endpoints"]
    service_of = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    run, is_rewritten = columns.service_runs["rewritten"], endpoints["is_rewritten"]
    records = open_arrays(built / "records.arrays")["offsets"]
    starts = np.where(is_rewritten, run.bounds[service_of], records[service_of])
    bounds = np.stack((starts + endpoints["start"], starts + endpoints["stop"]), axis=1)
    content, rewritten = run.items.tobytes(), bounds[is_rewritten]
    texts = (content[start:stop] for start, stop in rewritten.tolist())
    with writing_arrays(folder / "rewritten.arrays") as writer:
        write_texts(writer, "rewritten", texts)
    bounds[is_rewritten] = np.stack((NONE - np.arange(len(rewritten)), 0 * rewritten[:, 0]), axis=1)
    services = documents.services
    joined = np.flatnonzero(join.documents != NONE)
    resources = np.full(len(services), NONE, np.int32)
    resources[join.documents[joined]] = joined
    arrays: Arrays = {
        "first": columns.first_endpoints,
        "services": services,
        "resources": resources,
        "documents": join.documents,
        "bounds": bounds,
    }
    write_arrays(folder / "endpoints.arrays", arrays)
    with writing_arrays(folder / "facts.arrays") as writer:
        write_texts(writer, "facts", _facts(columns))
    order = np.argsort(endpoints["url"], kind="stable").astype(np.int32)
    write_arrays(folder / "urls.arrays", {"hashes": endpoints["url"][order], "endpoints": order})


def _write_filters(
    folder: Path,
    columns: RecordColumns,
    of_offers: dict[str, FacetValues],
    popularity: Popularity,
    registration: npt.NDArray[np.bool_],
) -> None:
    """Write the values that endpoints are filtered and ordered by."""
    endpoints, counts = columns.endpoints, columns.services["endpoints"]
    runs, strings = columns.endpoint_runs, columns.strings
    facets = of_offers | {name: FacetValues(runs[name], strings) for name in ENDPOINT_KEYS}
    values: Arrays = {
        "prices": endpoints["price"],
        "enriched": np.repeat(columns.services["enriched"], counts),
        "registration": registration,
        "payers": popularity.stored_payers,
        "alive": popularity.alive,
    }
    with writing_arrays(folder / "filters.arrays") as writer:
        write_conditions(writer, EndpointConditions, facets, values)
        writer.write("by_popularity", popularity.order)
        writer.write("by_price", np.argsort(endpoints["price"], kind="stable").astype(np.uint32))


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
        self._texts = Texts(open_arrays(built / "resources" / "texts.arrays"), "resources")
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
