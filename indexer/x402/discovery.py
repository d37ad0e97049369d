"""Discovered resources of all sources: merged by URL, method and tool, and claimed by records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from itertools import chain, product
from operator import itemgetter
from typing import NamedTuple

from msgspec import Struct

from indexer.errors import InvalidRecord, LeftOut
from indexer.intake.findings import Notice
from indexer.intake.records import SourceRecord
from indexer.record_store import Spool
from indexer.resources.documents import Described, join_resources
from indexer.resources.resource import Resource
from indexer.sources.decisions import Decisions
from indexer.untrusted import raw_members
from indexer.x402.endpoints import EndpointPayees, split_methods
from indexer.x402.merging import Candidate, merge
from indexer.x402.readings import Readings, ReadResource

LEAST_TRUST = -(2**62)
PATH = "$.resource"
OUTRANKED = LeftOut(
    "URLs that a more trusted source lists otherwise",
    PATH,
    "a more trusted source lists this URL",
)


class Place(Struct, gc=False):
    """Where a resource is in its source, and the numbers of its reading and of its text.

    text_number: of its text in the spool
    size: bytes of its text
    service: path of its service, empty for the host
    in_record: whether the record of its service has it
    others: places of the other resources that it was merged of
    """

    updated: int
    source: int
    trust: int
    position: str
    method: str
    is_listed: bool
    number: int
    text_number: int
    size: int
    service: str
    in_record: bool = True
    others: tuple[Place, ...] = ()


class Grouped(NamedTuple):
    """The resources of a discovered service, and source and position of the newest.

    group: the number by which `Discovery` finds the resources
    key: the domain, followed by the path of a service that shares the domain
    """

    group: int
    key: str
    domain: str
    source: int
    trust: int
    position: str
    places: list[Place]

    @property
    def size(self) -> int:
        """The bytes of the texts of the resources."""
        return sum(place.size for place in self.places)


class Dropped(NamedTuple):
    """A resource that is not listed although its source was accepted: its place, and why."""

    place: Place
    fault: LeftOut


class SourceResources:
    """The resources of one source, the best of each URL, method and tool, in the spool.

    Listed resources come first, then newer ones. Among equals the greater bytes decide, so that
    the order of pages does not matter.
    """

    def __init__(self, discovery: Discovery, source: int, name: str, trust: int) -> None:
        self.source, self.name, self.trust = source, name, trust
        self.places: dict[str, dict[str, Place]] = defaultdict(dict)
        self._discovery = discovery

    def add(self, record: SourceRecord, reading: ReadResource) -> Place | None:
        """Add a resource unless a better one is known; returns the place of the worse one."""
        outline = reading.outline
        place = self._discovery.spool(self.source, self.trust, record, reading)
        places, key = self.places[outline.domain], outline.key
        known = places.get(key)
        if known is not None:
            rank, other = (
                (each.is_listed, each.updated, self._discovery.text(each))
                for each in (place, known)
            )
            if rank <= other:
                return place
        places[key] = place
        return known


class Discovery:
    """The resources of all sources; only their places are in memory.

    groups: the resources of each service; the first is of services without resources
    remarks: new notices on merged resources, each after the place of the first of these
    """

    def __init__(self, spool: Spool, readings: Readings, decisions: Decisions) -> None:
        self._spool = spool
        self.readings = readings
        self._decisions = decisions
        self._hosts: dict[str, list[tuple[str, Place]]] = defaultdict(list)
        self._names: dict[int, str] = {}
        self._merged: dict[str, list[Place]] = {}
        self._services: dict[str, list[str]] = {}
        self.groups: list[list[Place]] = [[]]
        self.dropped: list[Dropped] = []
        self.remarks: list[tuple[Place, Notice]] = []

    def spool(self, source: int, trust: int, record: SourceRecord, reading: ReadResource) -> Place:
        """Write the text of a resource to the spool; returns its place."""
        number, outline = reading
        text = outline.text if isinstance(record, Described) else record.text
        return Place(
            updated=outline.updated,
            source=source,
            trust=trust,
            position=record.position,
            method=outline.method,
            is_listed=outline.is_listed,
            number=number,
            text_number=self._spool.add(text),
            size=len(record.text),
            service=outline.service,
        )

    def rewrite(self, place: Place, text: bytes, resources: list[Resource], method: str) -> Place:
        """Spool what several resources are together, and their text, which documents lack.

        Returns the place; raises InvalidRecord.
        """
        record = SourceRecord(place.position, text)
        reading = self.readings.read(record, method) if text else None
        if reading is None or any(each.texts or each.offers for each in resources):
            joined = join_resources(reading and reading.outline, resources)
            joined.method = joined.method or method
            reading = self.readings.keep(joined)
        return self.spool(place.source, place.trust, record, reading)

    def accept(self, found: SourceResources) -> None:
        """Add the resources of a source."""
        self._names[found.source] = found.name
        for domain, places in found.places.items():
            self._hosts[domain] += places.items()

    def merge(self) -> None:
        """Merge the resources that several sources list, once all sources are accepted.

        A less trusted source adds nothing but usage to a URL that a more trusted source lists, and
        no method. An undeclared method joins the only one that is declared.
        """
        for domain, found in self._hosts.items():
            # By URL and tool, which the resources of all methods share.
            by_address: dict[tuple[str, str], list[tuple[str, Place]]] = defaultdict(list)
            for key, place in found:
                url, _, tool = key.split("\n", 2)
                by_address[url, tool].append((key, place))
            self._drop_outranked(by_address)
            merged = chain.from_iterable(map(self._merge_address, by_address.values()))
            in_order = sorted(merged, key=itemgetter(0))
            self._merged[domain] = [place for _, place in in_order]
            if paths := {place.service for _, place in in_order} - {""}:
                self._services[domain] = sorted(paths, key=len, reverse=True)
        self._hosts.clear()

    def domains(self) -> list[str]:
        """Return the domains that have resources, by the first of their most trusted sources."""
        first = {
            domain: min(((-place.trust, place.source) for place in places), default=(0, 0))
            for domain, places in self._merged.items()
        }
        return sorted(first, key=lambda domain: (first[domain], domain))

    def keys(self, domain: str) -> list[str]:
        """Return the keys of the services that a domain may have, its own first."""
        return [domain, *(f"{domain}{path}" for path in sorted(self._services.get(domain, ())))]

    @cached_property
    def greatest_trust(self) -> int:
        """The greatest trust in a source of resources."""
        places = chain.from_iterable(self._merged.values())
        return max((place.trust for place in places), default=LEAST_TRUST)

    def trust_of(self, domain: str) -> int:
        """Return the greatest trust in a source of a domain."""
        return max((place.trust for place in self._merged[domain]), default=LEAST_TRUST)

    @cached_property
    def trusts(self) -> dict[str, int]:
        """The trust in the source of each normalised URL that is listed."""
        trusts: dict[str, int] = {}
        for place in chain.from_iterable(self._merged.values()):
            outline = self.outline(place)
            for url in (outline.given, outline.identity):
                trusts[url] = max(place.trust, trusts.get(url, place.trust))
        return trusts

    def claim(self, domain: str, endpoints: EndpointPayees, trust: int) -> int:
        """Move the resources of a domain that are any of these endpoints into a group of their own.

        A resource less trusted than the record of the endpoints is left out if the record names
        another payee, or its URL without its method. Returns the number of the group, which may be
        empty.
        """
        claimed: list[Place] = []
        others: list[Place] = []
        urls = {url for url, _ in endpoints}
        for place in self._merged.get(domain, ()):
            outline = self.outline(place)
            spellings = {outline.given, outline.identity}
            named = set(product(spellings, split_methods(outline.method))) & endpoints.keys()
            payees = {payee for pair in named for payee in endpoints[pair]}
            is_other = bool(payees) and payees.isdisjoint(outline.payees)
            if place.trust < trust and (is_other if named else spellings & urls):
                for each in (place, *place.others):
                    self.outrank(each)
            else:
                (claimed if named else others).append(place)
        self.groups.append(claimed)
        if domain in self._merged:
            self._merged[domain] = others
        return len(self.groups) - 1

    def drop(self, domain: str, rule: str, reason: str) -> None:
        """Leave out the resources of a domain that nothing has claimed."""
        for place in self._merged.pop(domain, ()):
            fault = LeftOut(rule, PATH, reason)
            self.dropped += [Dropped(each, fault) for each in (place, *place.others)]

    def outrank(self, place: Place) -> None:
        """Leave out a resource whose URL a more trusted source lists otherwise."""
        self.dropped.append(Dropped(place, OUTRANKED))

    def services(self) -> Iterator[Grouped]:
        """Yield the services of the resources that nothing has claimed, by domain and path.

        A resource belongs to the service with the longest path above its URL, whichever source
        lists it.
        """
        for domain, found in sorted(self._merged.items()):
            by_key: dict[str, list[Place]] = defaultdict(list)
            for place in found:
                by_key[self._key_of(domain, place)].append(place)
            for key, places in sorted(by_key.items()):
                newest = max(places, key=lambda place: (place.updated, place.source))
                trust = max(place.trust for place in places)
                group = len(self.groups)
                self.groups.append(places)
                yield Grouped(group, key, domain, newest.source, trust, newest.position, places)
        self._merged.clear()

    def _key_of(self, domain: str, place: Place) -> str:
        paths = self._services.get(domain)
        if not paths:
            return domain
        url = self.outline(place).identity.lower().partition("?")[0]
        rest = url.partition("://")[2].removeprefix(domain)
        path = next((each for each in paths if f"{rest}/".startswith(f"{each}/")), "")
        return f"{domain}{path}"

    def listings(self, group: int) -> Iterator[tuple[Place, Resource]]:
        """Yield the resources of a service that are listed, by URL, method and tool."""
        for place in self.groups[group]:
            if place.is_listed:
                yield place, self.outline(place)

    def outline(self, place: Place) -> Resource:
        """Return a resource."""
        return self.readings.outline(place.number)

    def text(self, place: Place) -> bytes:
        """Return the text of a resource."""
        return self._spool.read(place.text_number)

    def _drop_outranked(self, by_address: dict[tuple[str, str], list[tuple[str, Place]]]) -> None:
        """Drop resources whose URL a more trusted source lists with another tool or route."""
        places = [place for each in by_address.values() for _, place in each]
        if len({place.trust for place in places}) == 1:
            return
        trusts: dict[str, int] = {}
        for place in sorted(places, key=lambda place: place.trust):
            outline = self.outline(place)
            trusts[outline.given] = trusts[outline.identity] = place.trust
        for address, found in by_address.items():
            leading = max(place.trust for _, place in found)
            kept = []
            for key, place in found:
                outline = self.outline(place)
                if leading < max(trusts[outline.given], trusts[outline.identity]):
                    self.outrank(place)
                else:
                    kept.append((key, place))
            by_address[address] = kept

    def _merge_address(self, found: list[tuple[str, Place]]) -> Iterator[tuple[str, Place]]:
        """Yield the merged resources of one URL and tool, each after its key."""
        trust = max((place.trust for _, place in found), default=LEAST_TRUST)
        leading = {place.method for _, place in found if place.trust == trust}
        declared = leading - {""}
        only = ""
        if len(declared) == 1:
            (only,) = leading = declared
        by_method: dict[str, list[tuple[str, Place]]] = defaultdict(list)
        for key, place in found:
            is_nameless = leading == {""} and place.trust < trust
            method = "" if is_nameless else place.method or only
            if method in leading:
                by_method[method].append((key, place))
            else:
                self.outrank(place)
        for method, candidates in by_method.items():
            if len(candidates) == 1:
                ((key, place),) = candidates
                self._decisions.take(key, self._names[place.source])
                yield key, place
            else:
                yield self._merge(method, [place for _, place in candidates])

    def _merge(self, method: str, places: list[Place]) -> tuple[str, Place]:
        """Return the place of the resource that these become, after its key."""
        outline = self.outline(places[0])
        outline.method = method
        key = outline.key
        candidates = [
            Candidate(
                number,
                self._names[place.source],
                place.trust,
                (not place.is_listed, -place.updated, -place.source, place.method == ""),
                is_declared=place.method != "",
                fields=raw_members(text) if (text := self.text(place)) else {},
                resource=self.outline(place),
            )
            for number, place in enumerate(places)
        ]
        text, taken = merge(candidates, outline.identity, key, self._decisions)
        first = places[taken[0].number]
        try:
            place = self.rewrite(first, text, [each.resource for each in taken], method)
        except InvalidRecord:  # merged, it breaks a rule that each keeps
            place = first
        known = {notice for each in places for notice in self.outline(each).notices}
        notices = (notice for notice in self.outline(place).notices if notice not in known)
        self.remarks += ((first, notice) for notice in notices)
        place.others = tuple(each for each in places if each is not first)
        return key, place
