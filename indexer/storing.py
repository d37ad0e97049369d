"""Storing: the services of a build, their listed resources and the decisions, as files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from indexer.assembly import Assembled, BuildContext
from indexer.catalogue.table import decode_resource
from indexer.derive.deriving import Annotated
from indexer.derive.deriving import write_annotations as keep_annotations
from indexer.index.offers import OfferWriter
from indexer.index.popularity import Payers
from indexer.intake.fates import NO_ADVICE
from indexer.progress import track
from indexer.record_store import Keys, write_records
from indexer.snapshot.annotations import AnnotatedServices, write_annotations
from indexer.snapshot.endpoints import Verdicts
from indexer.snapshot.listings import NO_SOURCE, NamedUrls, RecordPlaces
from indexer.snapshot.resources import ListedResources, ServiceListing, write_resources
from service.arrays.container import open_arrays
from service.arrays.texts import Texts, write_ids
from service.schema.profiles import Profile
from service.schema.status import Counts
from service.snapshot.listings import position_hash


class StoredServices(NamedTuple):
    """The services and resources of a build, in listing order.

    payers, alive: of the services, and the verdicts of probers on them
    endpoint_payers: of each service, the payers of the endpoints that have payments
    keys: hashes of the records
    offers: of the resources; those of the endpoints are added later
    named: the URLs of the resources
    places: of the records in their sources
    """

    counts: Counts
    payers: list[Payers]
    endpoint_payers: list[dict[int, Payers]]
    alive: Verdicts
    probed: AnnotatedServices
    keys: Keys
    annotated: Annotated
    listed: ListedResources
    offers: OfferWriter
    named: NamedUrls
    places: RecordPlaces


def store_services(context: BuildContext, assembled: Assembled) -> StoredServices:
    """Write the services, their ids, their resources and the decisions."""
    built, progress, listing = context.built, context.progress, assembled.listing
    ids, catalogue = [each.id for each in listing], assembled.catalogue
    counts = [each.endpoints for each in listing]
    with progress.stage("write the services", len(ids)) as writing:
        keys = write_records(built, map(catalogue.text, track(listing, writing.advance)))
        write_ids(built, ids)
        texts = catalogue.annotations(listing)
        annotated = keep_annotations(context.staging / "annotations.arrays", texts)
        kept = Texts(open_arrays(annotated.path), "annotations")
        own = map(kept.text, range(len(kept)))
        probed = write_annotations(built, own, counts, assembled.probed.of_endpoints(listing))
    offers, named = OfferWriter(), NamedUrls()
    listings = _listings(assembled, probed.profiles, named)
    with progress.stage("write the resources"):
        resources = write_resources(built / "resources.arrays", listings, len(ids), offers)
    assembled.decisions.write(built, assembled.denials)
    names = [each.source for each in context.findings.tallies]
    return StoredServices(
        counts=Counts(len(ids), sum(counts), len(resources.keys), assembled.payments),
        payers=[each.payers for each in listing],
        endpoint_payers=[each.endpoint_payers or {} for each in listing],
        alive=np.array([each.alive for each in listing], np.int8),
        probed=probed,
        keys=keys,
        annotated=annotated,
        listed=resources,
        offers=offers,
        named=named,
        places=RecordPlaces(
            np.array([NO_SOURCE if each.discovered else each.source for each in listing], np.int32),
            np.array(
                [position_hash(names[each.source], each.position) for each in listing], np.uint64
            ),
        ),
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
