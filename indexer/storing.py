"""Storing: the services of a build, their listed resources and the decisions, as files."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexer.assembly import Assembled, BuildContext
from indexer.catalogue.catalogue import ListedService
from indexer.intake.findings import Tally
from indexer.intake.subjects import NO_ADVICE
from indexer.progress import track
from indexer.record_store import Keys, write_ids, write_records
from indexer.search.offers import OfferWriter
from indexer.search.popularity import Payers
from indexer.segments.indexing import Annotated, write_annotations
from indexer.snapshot.endpoints import Verdicts
from indexer.snapshot.listings import NO_RECORD, NamedUrls, RecordPlace
from indexer.snapshot.probes import ProbedEndpoints, write_probes
from indexer.snapshot.profiles import write_profiles
from indexer.snapshot.resources import ListedResources, ServiceListing, write_resources
from service.schema.status import Counts
from service.snapshot.listings import position_hash


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
    ids = [each.id for each in listing]
    with progress.stage("write the services", len(ids)) as writing:
        keys = write_records(built, assembled.catalogue.runs(track(ids, writing.advance)))
        write_ids(built, ids)
        texts = assembled.catalogue.annotations(ids)
        annotated = write_annotations(context.staging / "annotations", texts)
        counts = [each.entry.endpoints for each in listing]
        profiles = write_profiles(built, annotated.path, counts)
    offers = OfferWriter()
    listings = (
        ServiceListing(
            ordinal,
            each.id,
            listed,
            place.in_record,
            assembled.probed.of_listing(listed),
            assembled.overlays.describe_url(listed.url),
            profiles.get(ordinal),
        )
        for ordinal, each in enumerate(listing)
        for place, listed in assembled.discovery.listings(each.entry.group)
    )
    with progress.stage("write the resources"):
        resources = write_resources(built / "resources", listings, len(ids), offers)
    assembled.decisions.write(built)
    return StoredServices(
        counts=Counts(len(ids), sum(counts), len(resources.keys), assembled.payments),
        payers=[each.entry.payers for each in listing],
        endpoint_payers=[each.entry.endpoint_payers or {} for each in listing],
        alive=np.array([each.entry.alive for each in listing], np.int8),
        probed=write_probes(built, assembled.probed.of_endpoints(listing)),
        keys=keys,
        annotated=annotated,
        listed=resources,
        offers=offers,
        named=_named_urls(assembled),
        places=[_place(each, context.findings.tallies) for each in listing],
    )


def _named_urls(assembled: Assembled) -> NamedUrls:
    """Return the URLs of listed resources; advice is for the resource that is served alone."""
    named, discovery = NamedUrls(), assembled.discovery
    for service, each in enumerate(assembled.listing):
        for place in discovery.groups[each.entry.group]:
            named.add(discovery.outline(place).to_subject(), place.source, service)
            for other in place.others:
                subject = discovery.outline(other).to_subject()._replace(advice=NO_ADVICE)
                named.add(subject, other.source, service)
    return named


def _place(service: ListedService, tallies: list[Tally]) -> RecordPlace:
    entry = service.entry
    if entry.discovered:
        return NO_RECORD
    return RecordPlace(entry.source, position_hash(tallies[entry.source].source, entry.position))
