"""Discovered resources of all sources: merged by URL, method and tool, and grouped by host."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from hashlib import blake2b
from itertools import chain, product
from operator import itemgetter
from typing import BinaryIO, NamedTuple

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from indexer.errors import InvalidRecord
from indexer.sources.decisions import Decisions
from indexer.sources.denials import fold_address
from indexer.sources.records import SourceRecord
from indexer.urls import parse_url
from indexer.x402.grouping import DiscoveredService, GroupedResource, group_resources
from indexer.x402.listing import Listing
from indexer.x402.merging import Candidate, merge
from indexer.x402.resource import Resource, Rules, read_resource
from indexer.x402.untrusted import NULL, string_of

LEAST_TRUST = -(2**62)
Endpoints = dict[tuple[str, str], set[str]]
"""Pairs of a normalised URL and a method, each with the addresses that it names in `payTo`."""
METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD")


class Place(Struct, gc=False):
    """Where a resource is in its source and in the spool.

    start, stop: of the resource in the spool
    stop, end: of its listing, empty if it has none
    end, text_end: of its text as it came
    in_record: whether the record of its service has it
    others: places of the other resources that it was merged of
    """

    updated: int
    source: int
    trust: int
    position: str
    method: str
    start: int
    stop: int
    end: int
    text_end: int
    in_record: bool = True
    others: tuple[Place, ...] = ()


class Grouped(Struct):
    """The catalogue record of a discovered service, and the place of its newest resource.

    `group` is the number by which `Discovery` finds the resources of the service.
    """

    group: int
    domain: str
    source: int
    trust: int
    position: str
    text: bytes


class Dropped(NamedTuple):
    """A resource that is not listed because of another one: its place, its URL, and why."""

    place: Place
    url: str
    rule: str
    reason: str


class NamedEndpoint(Struct, rename="camel"):
    """The part of an endpoint that identifies it, and whom it names to be paid."""

    url: str
    method: str
    pay_to: Raw = NULL


class NamedEndpoints(Struct):
    """The part of a catalogue record that says which endpoints it has."""

    endpoints: list[NamedEndpoint]


_separator = re.compile(r"[,/|]")
_encode = msgspec.msgpack.Encoder().encode  # copies the JSON within, and decodes it faster
_resource = msgspec.msgpack.Decoder(Resource)
_listing = msgspec.msgpack.Decoder(Listing)
_endpoints = msgspec.json.Decoder(NamedEndpoints)
_fields = msgspec.json.Decoder(dict[str, Raw])


class FoundResources:
    """The resources of one source, the newest of each URL, method and tool, in the spool.

    One with a listing is better than one without, then the newer one, then the one with the greater
    bytes, so that the order of pages does not matter.
    """

    def __init__(self, discovery: Discovery, source: int, name: str, trust: int) -> None:
        self.source, self.name, self.trust = source, name, trust
        self.places: dict[str, dict[bytes, dict[str, Place]]] = defaultdict(dict)
        self._discovery = discovery

    def add(self, record: SourceRecord, resource: Resource, listing: Listing | None) -> str | None:
        """Spool a resource unless a better one is known; returns the position of the worse one."""
        place = self._discovery.spool(self, record, resource, listing)
        places = self.places[resource.domain].setdefault(_digest(resource.address), {})
        known = places.get(resource.method)
        if known is not None:
            rank, other = (
                (
                    each.end > each.stop,
                    each.updated,
                    self._discovery.read(each.start, each.text_end),
                )
                for each in (place, known)
            )
            if rank <= other:
                return record.position
        places[resource.method] = place
        return None if known is None else known.position


class Discovery:
    """Resources of all sources, in a spool file; in memory are only their places.

    `names` are those of the sources by number.
    """

    def __init__(self, spool: BinaryIO, rules: Rules, decisions: Decisions) -> None:
        self._spool = spool
        self._rules, self._decisions = rules, decisions
        self._end = 0  # of the spool
        self._hosts: dict[str, dict[bytes, list[Place]]] = defaultdict(dict)
        self._names: dict[int, str] = {}
        self._merged: dict[str, list[Place]] = {}
        self._groups: list[list[Place]] = []
        self.dropped: list[Dropped] = []

    def spool(
        self,
        found: FoundResources,
        record: SourceRecord,
        resource: Resource,
        listing: Listing | None,
    ) -> Place:
        """Write a resource, its listing and its text to the spool."""
        parts = (_encode(resource), b"" if listing is None else _encode(listing), record.text)
        start = self._end
        stop = start + len(parts[0])
        end = stop + len(parts[1])
        self._end = end + len(parts[2])
        self._spool.write(b"".join(parts))
        return Place(
            updated=resource.updated,
            source=found.source,
            trust=found.trust,
            position=record.position,
            method=resource.method,
            start=start,
            stop=stop,
            end=end,
            text_end=self._end,
        )

    def accept(self, found: FoundResources) -> None:
        """Add the resources of a source."""
        self._names[found.source] = found.name
        for domain, by_address in found.places.items():
            for address, places in by_address.items():
                self._hosts[domain].setdefault(address, []).extend(places.values())

    def merge(self) -> None:
        """Merge what several sources have, once all are accepted.

        A less trusted source adds no method to a URL that a more trusted one lists, and its
        resources say nothing there but their usage. An undeclared method joins the only one that
        is declared.
        """
        for domain, by_address in self._hosts.items():
            self._drop_outranked(by_address)
            merged = chain.from_iterable(map(self._merge_address, by_address.values()))
            in_order = sorted(merged, key=itemgetter(0))
            self._merged[domain] = [place for _, place in in_order]
        self._hosts.clear()

    def domains(self) -> list[str]:
        """Return the domains that have resources, by the first of their most trusted sources."""
        first = {
            domain: min(((-place.trust, place.source) for place in places), default=(0, 0))
            for domain, places in self._merged.items()
        }
        return sorted(first, key=lambda domain: (first[domain], domain))

    @cached_property
    def greatest_trust(self) -> int:
        """The greatest trust in a source of resources."""
        places = chain.from_iterable(self._merged.values())
        return max((place.trust for place in places), default=LEAST_TRUST)

    def trust_of(self, domain: str) -> int:
        """Return the greatest trust in a source of a domain."""
        return max((place.trust for place in self._merged[domain]), default=LEAST_TRUST)

    def trust_of_url(self, url: str) -> int:
        """Return the trust in the source of a normalised URL, LEAST_TRUST where none lists it."""
        return self._trusts.get(url, LEAST_TRUST)

    @cached_property
    def _trusts(self) -> dict[str, int]:
        trusts: dict[str, int] = {}
        for place in chain.from_iterable(self._merged.values()):
            resource = self._resource(place)
            for url in (resource.given, resource.identity):
                trusts[url] = max(place.trust, trusts.get(url, place.trust))
        return trusts

    def claim(self, domain: str, endpoints: Endpoints, trust: int) -> int:
        """Move the resources of a domain that are any of these endpoints into a group of their own.

        A resource that is less trusted than the record of the endpoints is left out where it pays
        another address than that record names, or has a method that the record does not.
        Returns the number of the group, which may be empty.
        """
        claimed: list[Place] = []
        others: list[Place] = []
        urls = {url for url, _ in endpoints}
        for place in self._merged.get(domain, ()):
            resource = self._resource(place)
            spellings = {resource.given, resource.identity}
            named = _pairs(spellings, resource.method) & endpoints.keys()
            payees = {payee for pair in named for payee in endpoints[pair]}
            is_other = bool(payees) and payees.isdisjoint(resource.payees)
            if place.trust < trust and (is_other if named else spellings & urls):
                self._outrank(place)
            else:
                (claimed if named else others).append(place)
        self._groups.append(claimed)
        if domain in self._merged:
            self._merged[domain] = others
        return len(self._groups) - 1

    def drop(self, domain: str, rule: str, reason: str) -> None:
        """Leave out the resources of a domain that nothing has claimed."""
        for place in self._merged.pop(domain, ()):
            url = self._resource(place).identity
            self.dropped += [Dropped(each, url, rule, reason) for each in (place, *place.others)]

    def services(self) -> Iterator[Grouped]:
        """Yield the services of the resources that nothing has claimed, by domain."""
        for domain, places in sorted(self._merged.items()):
            if not places:
                continue
            grouped = [GroupedResource(self._resource(place), place.trust) for place in places]
            newest = max(places, key=lambda place: (place.updated, place.source))
            service: DiscoveredService = group_resources(domain, grouped, self._rules.policy)
            for place, each in zip(places, grouped, strict=True):
                place.in_record = each.in_record
            text = msgspec.json.encode(service)
            trust = max(place.trust for place in places)
            group = len(self._groups)
            self._groups.append(places)
            yield Grouped(group, domain, newest.source, trust, newest.position, text)
        self._merged.clear()

    def resources(self, group: int) -> Iterator[tuple[Place, Resource]]:
        """Yield the resources of a service in the order of URL, method and tool."""
        for place in self._groups[group]:
            yield place, self._resource(place)

    def listings(self, group: int) -> Iterator[tuple[Place, Listing]]:
        """Yield those resources of a service that are listed, in the same order."""
        for place in self._groups[group]:
            if text := self.read(place.stop, place.end):
                yield place, _listing.decode(text)

    def resources_except(self, groups: Iterable[int]) -> Iterator[tuple[Place, Resource]]:
        """Yield the resources of all groups but these."""
        for group in sorted(set(range(len(self._groups))).difference(groups)):
            for place, resource in self.resources(group):
                yield from ((each, resource) for each in (place, *place.others))

    def read(self, start: int, stop: int) -> bytes:
        """Return bytes of the spool."""
        self._spool.flush()
        return os.pread(self._spool.fileno(), stop - start, start)

    def _drop_outranked(self, by_address: dict[bytes, list[Place]]) -> None:
        """Drop resources whose URL a more trusted source lists with another tool or route."""
        places = [place for each in by_address.values() for place in each]
        if len({place.trust for place in places}) == 1:
            return
        trusts: dict[str, int] = {}
        for place in sorted(places, key=lambda place: place.trust):
            resource = self._resource(place)
            trusts[resource.given] = trusts[resource.identity] = place.trust
        for address, found in by_address.items():
            leading = max(place.trust for place in found)
            kept = []
            for place in found:
                resource = self._resource(place)
                if leading < max(trusts[resource.given], trusts[resource.identity]):
                    self._outrank(place)
                else:
                    kept.append(place)
            by_address[address] = kept

    def _merge_address(self, places: list[Place]) -> Iterator[tuple[str, Place]]:
        """Yield the merged resources of one URL and tool, each after its key."""
        if len(places) < 2:
            yield from map(self._take, places)
            return
        trust = max(place.trust for place in places)
        leading = {place.method for place in places if place.trust == trust}
        declared = leading - {""}
        only = ""
        if len(declared) == 1:
            (only,) = leading = declared
        by_method: dict[str, list[Place]] = defaultdict(list)
        for place in places:
            is_nameless = leading == {""} and place.trust < trust
            method = "" if is_nameless else place.method or only
            if method in leading:
                by_method[method].append(place)
            else:
                self._outrank(place)
        for method, candidates in by_method.items():
            if len(candidates) == 1:
                yield self._take(candidates[0])
            else:
                yield self._merge(method, candidates)

    def _take(self, place: Place) -> tuple[str, Place]:
        """Return a resource that only one source has, after its key."""
        key = _key(self._resource(place))
        self._decisions.take(key, self._names[place.source])
        return key, place

    def _outrank(self, place: Place) -> None:
        rule = "URLs that a more trusted source lists otherwise"
        url = self._resource(place).identity
        self.dropped.append(Dropped(place, url, rule, "a more trusted source lists this URL"))

    def _merge(self, method: str, places: list[Place]) -> tuple[str, Place]:
        """Return the place of the resource that these become, after its key."""
        resource = replace(self._resource(places[0]), method=method)
        key = _key(resource)
        candidates = [
            Candidate(
                number,
                self._names[place.source],
                place.trust,
                (place.end == place.stop, -place.updated, -place.source, place.method == ""),
                is_declared=place.method != "",
                fields=_fields.decode(self.read(place.end, place.text_end)),
            )
            for number, place in enumerate(places)
        ]
        merged = merge(candidates, resource.identity, key, self._decisions)
        first = places[merged.first]
        record = SourceRecord(first.position, merged.text)
        try:
            whole, listing = read_resource(record, self._rules, method)
            found = FoundResources(self, first.source, self._names[first.source], first.trust)
            place = self.spool(found, record, whole, listing)
        except InvalidRecord:  # merged, it breaks a rule that each keeps
            place = first
        place.others = tuple(each for each in places if each is not first)
        return key, place

    def _resource(self, place: Place) -> Resource:
        return _resource.decode(self.read(place.start, place.stop))


def read_endpoints(text: bytes) -> Endpoints:
    """Return the endpoints of a catalogue record, and whom they name to be paid."""
    payees: Endpoints = defaultdict(set)
    for each in _endpoints.decode(text).endpoints:
        payee = fold_address(string_of(each.pay_to))
        for pair in identify_endpoint(each.url, each.method):
            payees[pair].update({payee} - {""})
    return payees


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


def _digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()


def _key(resource: Resource) -> str:
    return "\n".join(resource.key)
