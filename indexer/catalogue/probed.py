"""Probed services: what observations say of the endpoints of a catalogue."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from indexer.catalogue.catalogue import Catalogue, ListedService
from indexer.catalogue.table import Table, decode_resource
from indexer.intake.findings import Findings
from indexer.intake.rules import Rules
from indexer.intake.sources import Input
from indexer.probes.drift import listed_terms, offered_terms
from indexer.probes.reading import read_probes
from indexer.probes.targets import NO_TARGET, Targets
from indexer.probes.verdicts import Probed
from indexer.progress import Stage
from indexer.resources.resource import Resource
from indexer.x402.endpoints import decode_endpoints
from service.schema.probes import NO_PROBE_FACTS, ProbeFacts, Terms

MAX_TERMS = 2**14
"""Endpoints whose listed ways to pay are cached: lines of one endpoint often follow each other."""


class _Accepts(Struct):
    accepts: list[Any] = []


class _Service(NamedTuple):
    """The numbers of the endpoints of a record in order, and of all listings of its service.

    tools: indexes of the endpoints that are tools
    """

    endpoints: array[int]
    tools: frozenset[int]
    listings: array[int]


_accepts = msgspec.json.Decoder(_Accepts)


class ProbedCatalogue:
    """The endpoints of all services with their facts; without observations there are none."""

    def __init__(
        self, probed: Probed | None = None, services: dict[str, _Service] | None = None
    ) -> None:
        self._probed, self._services = probed, services or {}

    def of_endpoints(self, services: Iterable[ListedService]) -> Iterator[ProbeFacts]:
        """Yield the facts of the endpoints of records, in order."""
        for each in services:
            if self._probed is None:
                yield from (NO_PROBE_FACTS for _ in range(each.endpoints))
                continue
            service = self._services[each.id]
            for index, number in enumerate(service.endpoints):
                yield self._facts(number, has_terms=index not in service.tools)

    def of_listing(self, listing: Resource) -> ProbeFacts:
        """Return the facts of a listed resource."""
        if self._probed is None:
            return NO_PROBE_FACTS
        number = self._probed.targets.find(listing.url, listing.method)
        return self._facts(number, has_terms=not listing.tool)

    def _facts(self, number: int, *, has_terms: bool) -> ProbeFacts:
        if self._probed is None or number == NO_TARGET:
            return NO_PROBE_FACTS
        return self._probed.facts(number, has_terms=has_terms)


def probe_catalogue(
    inputs: list[Input],
    catalogue: Catalogue,
    rules: Rules,
    findings: Findings,
    *,
    spool: Path,
    now: datetime,
    max_rejects: Fraction,
    progress: Stage,
) -> ProbedCatalogue:
    """Read observations of the endpoints of services, and note which services are alive.

    Raises SourceError or TooManyRejects, as `read_probes` does.
    """
    targets = Targets()
    listed: dict[int, int] = {}
    services = {
        each.id: _Service(
            *_add_endpoints(targets, catalogue.text(each)),
            _add_listings(targets, listed, catalogue.table, each),
        )
        for each in catalogue.services.values()
    }

    @lru_cache(maxsize=MAX_TERMS)
    def terms_of(target: int) -> list[Terms]:
        number = listed.get(target)
        if number is None:
            return []
        listing = decode_resource(catalogue.table.resource(number))
        accepted = listed_terms(_accepts.decode(listing.text).accepts)
        return accepted + offered_terms(each.to_offer() for each in listing.offers)

    probed = read_probes(
        inputs,
        targets,
        terms_of,
        rules,
        findings,
        spool=spool,
        now=now,
        max_rejects=max_rejects,
        progress=progress,
    )
    for each in catalogue.services.values():
        service = services[each.id]
        each.alive = probed.alive_together([*service.endpoints, *service.listings])
    return ProbedCatalogue(probed, services)


def _add_endpoints(targets: Targets, text: bytes) -> tuple[array[int], frozenset[int]]:
    """Add the endpoints of a record; returns their numbers, and the indexes of tools."""
    endpoints = decode_endpoints(text)
    numbers = array("i", [targets.add(each.url, each.method) for each in endpoints])
    return numbers, frozenset(index for index, each in enumerate(endpoints) if each.has_tool)


def _add_listings(
    targets: Targets, listed: dict[int, int], table: Table, service: ListedService
) -> array[int]:
    """Add the listed resources of a service; returns their numbers.

    listed: gets the number of the item of each endpoint that is no tool
    """
    numbers = array("i")
    for row, listing in table.listings(service.number):
        number = targets.add(listing.url, listing.method, listing.stated_url)
        numbers.append(number)
        if not listing.tool:
            listed.setdefault(number, row.number or 0)
    return numbers
