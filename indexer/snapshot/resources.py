"""Writing the files of `service.snapshot.resources`."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from indexer.derive.extraction import endpoint_key
from indexer.probes.verdicts import verdict_of
from indexer.resources.listing import encode_listing
from indexer.resources.resource import Resource
from indexer.search.offers import OfferWriter, StringNumbers
from service.schema.probes import NO_PROBE_FACTS, ProbeFacts
from service.schema.profiles import Profile
from service.storage.container import Arrays, write_arrays, writing_arrays
from service.storage.texts import write_texts


class ListedResources(NamedTuple):
    """The resources that were written.

    services: int32[resources], the ordinals of their services, ascending
    keys: uint64[resources], of their endpoints, as `endpoint_key` returns them
    offers: int64[resources + 1], the offer that is the first entry of `accepts` of each
    alive: int8[resources], the verdict of probers on the endpoint of each
    registration: bool[resources], which require a registration or a sign-in
    """

    services: npt.NDArray[np.int32]
    keys: npt.NDArray[np.uint64]
    offers: npt.NDArray[np.int64]
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
    folder: Path, listings: Iterable[ServiceListing], services_count: int, offers: OfferWriter
) -> ListedResources:
    """Write the listings of all services, in order of the services.

    Their entries of `accepts` become the first offers.
    """
    folder.mkdir()
    columns = _Columns(offers)
    services, keys, alive = array("i"), array("Q"), array("b")
    beyond = np.zeros(services_count, np.int32)

    def texts() -> Iterator[bytes]:
        for listed in listings:
            listing = listed.listing
            services.append(listed.ordinal)
            beyond[listed.ordinal] += not listed.in_record
            keys.append(endpoint_key(listing.url, listing.method, listing.tool))
            text = encode_listing(
                listing,
                listed.service_id,
                listed.probed,
                in_record=listed.in_record,
                profile=listed.profile,
                service_profile=listed.service_profile,
            )
            alive.append(verdict_of(listed.probed))
            columns.add(listing, len(text))
            yield text

    with writing_arrays(folder / "texts.arrays") as writer:
        write_texts(writer, "resources", texts())
    verdicts = np.asarray(alive, np.int8)
    arrays = columns.arrays(folder / "strings.arrays") | {"alive": verdicts, "beyond": beyond}
    write_arrays(folder / "resources.arrays", arrays)
    return ListedResources(
        np.asarray(services, np.int32),
        np.asarray(keys),
        arrays["entry_offsets"],
        verdicts,
        arrays["registration"],
    )


class _Columns:
    """The values that resources are filtered by; strings are numbered as they come."""

    def __init__(self, offers: OfferWriter) -> None:
        self._offers = offers
        self._strings = StringNumbers()
        self._numbered = {
            name: array("i") for name in ("types", "networks", "schemes", "extensions", "tags")
        }
        self._offsets = {name: array("q", [0]) for name in ("entry", "extension", "tag")}
        self._registration = bytearray()
        self._urls = bytearray()
        self._url_starts = array("q")
        self._position = 0

    def add(self, listing: Resource, size: int) -> None:
        """Add the values of the next resource, whose JSON has so many bytes."""
        numbered, strings = self._numbered, self._strings
        numbered["types"].append(strings[listing.listed_type])
        for entry in listing.entries:
            numbered["networks"].append(strings[entry.network])
            numbered["schemes"].append(strings[entry.scheme])
            self._offers.add(entry, self._position)
        for key in listing.extensions:
            numbered["extensions"].append(strings[key])
        for tag in listing.listed_tags:
            numbered["tags"].append(strings[tag])
        for name, items in (("entry", "networks"), ("extension", "extensions"), ("tag", "tags")):
            self._offsets[name].append(len(numbered[items]))
        self._registration.append(bool(listing.requires))
        self._url_starts.append(len(self._urls))
        self._urls += listing.stated_url.lower().encode() + b"\n"
        self._position += size + 1

    def arrays(self, strings: Path) -> Arrays:
        """Write the strings; returns the first arrays of RESOURCES, in its order."""
        sorted_numbers = self._strings.write(strings)
        arrays = {name: sorted_numbers[given] for name, given in self._numbered.items()}
        for name, offsets in self._offsets.items():
            arrays[f"{name}_offsets"] = np.asarray(offsets, np.int64)
        arrays["registration"] = np.frombuffer(self._registration, np.bool_)
        arrays["url_starts"] = np.asarray(self._url_starts, np.int64)
        arrays["urls"] = np.frombuffer(self._urls, np.uint8)
        return arrays
