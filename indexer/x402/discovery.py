"""Discovered resources of all sources: the newest of each, grouped by host into services."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import compress, product
from operator import not_
from typing import BinaryIO

import msgspec
from msgspec import Struct

from indexer.urls import parse_url
from indexer.x402.grouping import group_resources
from indexer.x402.listing import Listing
from indexer.x402.resource import Resource

METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD")


class Place(Struct, gc=False):
    """Where a resource is in its source and in the spool.

    start, stop: of the resource in the spool
    stop, end: of its listing, empty if it has none
    """

    updated: int
    source: int
    position: str
    start: int
    stop: int
    end: int

    @property
    def rank(self) -> tuple[bool, int, int]:
        """The key that orders resources of one URL, method and tool, the worst first."""
        return self.end > self.stop, self.updated, self.source


class Grouped(Struct):
    """The catalogue record of a discovered service, and the place of its newest resource.

    `group` is the number by which `Discovery` finds the resources of the service.
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


_separator = re.compile(r"[,/|]")
_encode = msgspec.msgpack.Encoder().encode  # copies the JSON within, and decodes it faster
_resource = msgspec.msgpack.Decoder(Resource)
_listing = msgspec.msgpack.Decoder(Listing)
_endpoints = msgspec.json.Decoder(NamedEndpoints)


class Discovery:
    """Resources of all sources, in a spool file; in memory are only their places."""

    def __init__(self, spool: BinaryIO) -> None:
        self._spool = spool
        self._end = 0  # of the spool
        self._hosts: dict[str, dict[bytes, Place]] = defaultdict(dict)
        self._groups: list[list[Place]] = []

    def add(
        self, source: int, position: str, resource: Resource, listing: Listing | None = None
    ) -> tuple[int, str] | None:
        """Spool a resource unless a better one has the same URL, method and tool.

        One with a listing is better than one without, then the newer one, then that of the later
        source, then the one with the greater bytes, so that the order of pages does not matter.
        Returns the source and the position of the worse one, which is dropped: the known resource
        or this one; None if the resource is the first of its key.
        """
        text = _encode(resource)
        listed = b"" if listing is None else _encode(listing)
        spooled = text + listed
        stop, end = self._end + len(text), self._end + len(spooled)
        place = Place(resource.updated, source, position, self._end, stop, end)
        places = self._hosts[resource.domain]
        key = _digest("\n".join((resource.method, resource.tool, resource.identity)).encode())
        known = places.get(key)
        if known is not None:
            self._spool.flush()
            known_spooled = self._read(known.start, known.end)
            if (place.rank, spooled) <= (known.rank, known_spooled):
                return source, position
        self._end += self._spool.write(spooled)
        places[key] = place
        return None if known is None else (known.source, known.position)

    def services(self) -> Iterator[Grouped]:
        """Yield the services by domain; they do not depend on the order of their resources."""
        self._spool.flush()
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
        is_kept = [
            bool(_pairs((each.given, each.identity), each.method) & endpoints)
            for _, each in resources
        ]
        self._groups[group] = [*compress(self._groups[group], is_kept)]
        return compress(resources, map(not_, is_kept))

    def resources_except(self, groups: Iterable[int]) -> Iterator[tuple[Place, Resource]]:
        """Yield the resources of all groups but these."""
        for group in sorted(set(range(len(self._groups))).difference(groups)):
            yield from self.resources(group)

    def _resource(self, place: Place) -> Resource:
        return _resource.decode(self._read(place.start, place.stop))

    def _read(self, start: int, stop: int) -> bytes:
        """Return bytes of the spool, which has been flushed."""
        return os.pread(self._spool.fileno(), stop - start, start)


def read_endpoints(text: bytes) -> set[tuple[str, str]]:
    """Return the endpoints of a catalogue record as pairs of a normalised URL and a method."""
    endpoints = _endpoints.decode(text).endpoints
    return set().union(*(identify_endpoint(each.url, each.method) for each in endpoints))


def identify_endpoint(url: str, methods: str) -> set[tuple[str, str]]:
    """Pair the normalised URL with each method; none if it is not a URL."""
    try:
        return _pairs([parse_url(url).identity], methods)
    except ValueError:
        return set()


def _pairs(urls: Iterable[str], methods: str) -> set[tuple[str, str]]:
    """Pair URLs with each of several methods, as in `GET, POST`; an undeclared one is any."""
    names = {name.strip().upper() for name in _separator.split(methods)} - {""}
    return set(product(urls, names or METHODS))


def _digest(text: bytes) -> bytes:
    return blake2b(text, digest_size=16).digest()
