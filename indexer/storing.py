"""Storing: the services of a build, their listed resources and the decisions, as files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from indexer.assembly import Assembled, BuildContext
from indexer.catalogue.catalogue import ListedService
from indexer.catalogue.table import decode_resource
from indexer.derive.deriving import Annotated, write_annotations
from indexer.intake.findings import NO_ADVICE, Tally
from indexer.progress import track
from indexer.record_store import Keys, write_records
from indexer.search.offers import OfferWriter
from indexer.search.popularity import Payers
from indexer.snapshot.endpoints import Verdicts
from indexer.snapshot.listings import NO_RECORD, NamedUrls, RecordPlace
from indexer.snapshot.probes import ProbedEndpoints, write_probes
from indexer.snapshot.profiles import write_profiles
from indexer.snapshot.resources import ListedResources, ServiceListing, write_resources
from service.schema.profiles import Profile
from service.schema.status import Counts
from service.snapshot.listings import position_hash
from service.storage.texts import write_ids


class StoredServices(NamedTuple):
    """The services and resources of a build, in listing order.

    payers, alive: of the services, and the verdicts of probers on them
    endpoint_payers: of each service, the payers of the endpoints that have payments
    probed: the verdicts on the endpoints
    keys: hashes of the records
    offers: of the resources; those of the endpoints are added later
    named: the URLs of the resources
    places: where each record stands in its source
    """

    counts: Counts
    payers: list[Payers]
    endpoint_payers: list[dict[int, Payers]]
    alive: Verdicts
    probed: ProbedEndpoints
    keys: Keys
    annotated: Annotated
    listed: ListedResources
    offers: OfferWriter
    named: NamedUrls
    places: list[RecordPlace]


def store_services(context: BuildContext, assembled: Assembled) -> StoredServices:
    """Write the services, their ids, their resources and the decisions."""
    built, progress, listing = context.built, context.progress, assembled.listing
    ids, catalogue = [each.id for each in listing], assembled.catalogue
    with progress.stage("write the services", len(ids)) as writing:
        keys = write_records(built, map(catalogue.text, track(listing, writing.advance)))
        write_ids(built, ids)
        texts = catalogue.annotations(listing)
        annotated = write_annotations(context.staging / "annotations.arrays", texts)
        counts = [each.endpoints for each in listing]
        profiles = write_profiles(built, annotated.path, counts)
    offers, named = OfferWriter(), NamedUrls()
    listings = _listings(assembled, profiles, named)
    with progress.stage("write the resources"):
        resources = write_resources(built / "resources", listings, len(ids), offers)
    assembled.decisions.write(built)
    return StoredServices(
        counts=Counts(len(ids), sum(counts), len(resources.keys), assembled.payments),
        payers=[each.payers for each in listing],
        endpoint_payers=[each.endpoint_payers or {} for each in listing],
        alive=np.array([each.alive for each in listing], np.int8),
        probed=write_probes(built, assembled.probed.of_endpoints(listing)),
        keys=keys,
        annotated=annotated,
        listed=resources,
        offers=offers,
        named=named,
        places=[_place(each, context.findings.tallies) for each in listing],
    )


def _listings(
    assembled: Assembled, profiles: dict[int, Profile], named: NamedUrls
) -> Iterator[ServiceListing]:
    """Yield the listings; `named` gets the URLs of all resources, merged ones without advice."""
    for ordinal, service in enumerate(assembled.listing):
        for row, resource in assembled.catalogue.table.of_service(service.number):
            listed = decode_resource(resource)
            subject = listed.to_subject()
            if row.leader is not None:
                subject = subject._replace(advice=NO_ADVICE)
            named.add(subject, row.source, ordinal)
            if row.leader is None and row.is_listed:
                yield ServiceListing(
                    ordinal,
                    service.id,
                    listed,
                    bool(row.in_record),
                    assembled.probed.of_listing(listed),
                    assembled.overlays.describe_url(listed.url),
                    profiles.get(ordinal),
                )


def _place(service: ListedService, tallies: list[Tally]) -> RecordPlace:
    if service.discovered:
        return NO_RECORD
    name = tallies[service.source].source
    return RecordPlace(service.source, position_hash(name, service.position))
