"""Writing the listed resources and their table, which `service.snapshot.resources` reads."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from indexer.derive.extraction import endpoint_key
from indexer.index.filters import TextRows
from indexer.index.offers import OfferWriter
from indexer.probes.verdicts import verdict_of
from indexer.resources.listing import encode_listing
from indexer.resources.resource import Resource
from service.arrays.container import Arrays, writing_arrays
from service.arrays.texts import write_texts
from service.conditions import RESOURCE_COLUMNS, URL
from service.schema.probes import NO_PROBE_FACTS, ProbeFacts
from service.schema.profiles import Profile


class ListedResources(NamedTuple):
    """The resources that were written.

    services: int32[resources], the ordinals of their services, ascending
    keys: uint64[resources], of their endpoints, as `endpoint_key` returns them
    alive: int8[resources], the verdict of probers on the endpoint of each
    registration: bool[resources], which require a registration or a sign-in
    """

    services: npt.NDArray[np.int32]
    keys: npt.NDArray[np.uint64]
    alive: npt.NDArray[np.int8]
    registration: npt.NDArray[np.bool_]


class ServiceListing(NamedTuple):
    """A listing, with the ordinal and the id of its service.

    in_record: whether the record of the service has the endpoint
    probed: the facts that probers saw of the endpoint
    profile, service_profile: of its endpoint and of its service
    """

    ordinal: int
    service_id: str
    listing: Resource
    in_record: bool
    probed: ProbeFacts = NO_PROBE_FACTS
    profile: Profile | None = None
    service_profile: Profile | None = None


def write_resources(
    path: Path, listings: Iterable[ServiceListing], services_count: int, offers: OfferWriter
) -> ListedResources:
    """Write the listings of all services, in order of the services, and their table.

    Their entries of `accepts` become the first offers.
    """
    texts = [TextRows(column) for column in RESOURCE_COLUMNS.values()]
    urls: list[bytes] = []
    services, keys, alive, registration = array("i"), array("Q"), array("b"), array("b")
    beyond = np.zeros(services_count, np.int32)

    def encoded() -> Iterator[bytes]:
        position = 0
        for listed in listings:
            listing = listed.listing
            text = encode_listing(
                listing,
                listed.service_id,
                listed.probed,
                in_record=listed.in_record,
                profile=listed.profile,
                service_profile=listed.service_profile,
            )
            for entry in listing.entries:
                offers.add(entry, len(services), position)
            for rows in texts:
                rows.add(listing)
            urls.append(URL.key(listing.stated_url).encode())
            services.append(listed.ordinal)
            beyond[listed.ordinal] += not listed.in_record
            keys.append(endpoint_key(listing.url, listing.method, listing.tool))
            alive.append(verdict_of(listed.probed))
            registration.append(bool(listing.requires))
            position += len(text) + 1
            yield text

    with writing_arrays(path) as writer:
        write_texts(writer, "resources", encoded())
        arrays: Arrays = {
            URL.name: np.frombuffer(b"\n".join(urls), np.uint8),
            f"{URL.name}.starts": np.cumsum([0, *(len(url) + 1 for url in urls)])[:-1],
        }
        for rows in texts:
            arrays |= rows.arrays()
        arrays["alive"] = verdicts = np.asarray(alive, np.int8)
        arrays["registration"] = registered = np.asarray(registration).astype(np.bool_)
        arrays["beyond"] = beyond
        for name, items in arrays.items():
            writer.write(name, items)
    return ListedResources(np.asarray(services, np.int32), np.asarray(keys), verdicts, registered)
