"""Discovered resources of all sources: the newest of each, grouped by host into services."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import blake2b
from itertools import compress
from operator import not_
from typing import BinaryIO

import msgspec
from msgspec import Struct

from indexer.urls import parse_url
from indexer.x402.grouping import group_resources
from indexer.x402.listing import Listing
from indexer.x402.resource import Resource


class Place(Struct, gc=False):
    """Where a resource is in the spool and in its source, and what ranks it among duplicates.

    Its listing, if it has one, is at `stop` to `end`.
    """

    updated: int
    source: int
    digest: bytes
    position: str
    start: int
    stop: int
    end: int


class Grouped(Struct):
    """The catalogue record of a service, and the place of its newest resource.

    `group` is the number of the service among those discovered.
    """

    group: int
    source: int
    position: str
    text: bytes


class NamedEndpoint(Struct):
    """The part of an endpoint that identifies it."""

    url: str
    method: str


class NamedEndpoints(Struct):
    """The part of a catalogue record that says which endpoints it has."""

    endpoints: list[NamedEndpoint]


_resource = msgspec.json.Decoder(Resource)
_listing = msgspec.json.Decoder(Listing)
_endpoints = msgspec.json.Decoder(NamedEndpoints)


class Discovery:
    """Resources of all sources, in a spool file; in memory are only their places."""

    def __init__(self, spool: BinaryIO) -> None:
        self._spool = spool
        self._hosts: dict[str, dict[bytes, Place]] = defaultdict(dict)
        self._groups: list[list[Place]] = []

    def add(
        self, source: int, position: str, resource: Resource, listing: Listing | None = None
    ) -> tuple[int, str] | None:
        """Spool a resource unless a newer one has the same URL, method and tool.

        Returns the source and the position of the one of both that is replaced, if any. Of two
        that are equally new, that of the later source is kept, and within one source the one with
        the greater digest, so that the order of pages does not matter.
        """
        text = msgspec.json.encode(resource)
        listed = b"" if listing is None else msgspec.json.encode(listing)
        digest = _digest(text + listed)
        places = self._hosts[resource.domain]
        key = _digest("\n".join((resource.method, resource.tool, resource.identity)).encode())
        known = places.get(key)
        rank = (resource.updated, source, digest)
        if known is not None and rank <= (known.updated, known.source, known.digest):
            return source, position
        start = self._spool.tell()
        stop = start + self._spool.write(text)
        end = stop + self._spool.write(listed)
        places[key] = Place(resource.updated, source, digest, position, start, stop, end)
        return None if known is None else (known.source, known.position)

    def services(self) -> Iterator[Grouped]:
        """Yield the services by domain; they do not depend on the order of their resources."""
        for domain, by_key in sorted(self._hosts.items()):
            places = list(by_key.values())
            resources = [self._resource(place) for place in places]
            newest = max(places, key=lambda place: (place.updated, place.source))
            text = msgspec.json.encode(group_resources(domain, resources))
            yield Grouped(len(self._groups), newest.source, newest.position, text)
            order = sorted(range(len(places)), key=lambda number: resources[number].key)
            self._groups.append([places[number] for number in order])
        self._hosts.clear()

    def resources(self, group: int) -> Iterator[tuple[Place, Resource]]:
        """Yield the resources of a service in the order of URL, method and tool."""
        for place in self._groups[group]:
            yield place, self._resource(place)

    def listings(self, group: int) -> Iterator[Listing]:
        """Yield those resources of a service that are listed, in the same order."""
        for place in self._groups[group]:
            if text := self._read(place.stop, place.end):
                yield _listing.decode(text)

    def restrict(
        self, group: int, endpoints: set[tuple[str, str]]
    ) -> Iterator[tuple[Place, Resource]]:
        """Yield and remove the resources of a service that are none of these endpoints."""
        resources = list(self.resources(group))
        is_kept = [(each.identity, each.method) in endpoints for _, each in resources]
        self._groups[group] = [*compress(self._groups[group], is_kept)]
        return compress(resources, map(not_, is_kept))

    def other_than(self, groups: Iterable[int]) -> Iterator[tuple[Place, Resource]]:
        """Yield the resources of all services but these."""
        for group in sorted(set(range(len(self._groups))).difference(groups)):
            yield from self.resources(group)

    def _resource(self, place: Place) -> Resource:
        return _resource.decode(self._read(place.start, place.stop))

    def _read(self, start: int, stop: int) -> bytes:
        self._spool.flush()
        return os.pread(self._spool.fileno(), stop - start, start)


def read_endpoints(text: bytes) -> set[tuple[str, str]]:
    """Return the endpoints of a catalogue record, by normalised URL and method.

    Some records name several methods, as in `GET, POST`.
    """
    endpoints = set()
    for endpoint in _endpoints.decode(text).endpoints:
        with suppress(ValueError):  # not a URL, which a catalogue record may have
            identity = parse_url(endpoint.url).identity
            methods = endpoint.method.split(",")
            endpoints |= {(identity, method.strip().upper()) for method in methods}
    return endpoints


def _digest(text: bytes) -> bytes:
    return blake2b(text, digest_size=16).digest()
