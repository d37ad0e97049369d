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
from msgspec import UNSET, Struct
from msgspec.structs import replace

from indexer.catalogue.catalogue import Catalogue, ListedService
from indexer.catalogue.table import decode_resource
from indexer.endpoints import decode_endpoints
from indexer.intake.findings import Findings
from indexer.intake.rules import Rules
from indexer.intake.sources import Input
from indexer.probes.drift import listed_terms
from indexer.probes.read import Targets, read_probes
from indexer.probes.verdicts import ProbeVerdicts, open_spool
from indexer.progress import Stage
from indexer.resources.resource import Resource
from service.schema.probes import NO_PROBE_FACTS, ProbeFacts, Terms

MAX_TERMS = 2**14
"""Endpoints whose listed ways to pay are cached: lines of one endpoint often follow each other."""


class _Accepts(Struct):
    accepts: list[Any] = []


class _Service(NamedTuple):
    """The numbers of the endpoints of a record in order; the indexes of those that are tools."""

    endpoints: array[int]
    tools: frozenset[int]


_accepts = msgspec.json.Decoder(_Accepts)


class ProbedCatalogue:
    """The endpoints of all services with their facts; without observations there are none.

    paid: the payees of the endpoints of catalogue records, as entries of `accepts`
    """

    def __init__(self) -> None:
        self.targets, self.verdicts = Targets(), ProbeVerdicts()
        self.paid: dict[int, list[dict[str, str]]] = {}
        self._services: dict[str, _Service] = {}

    def of_endpoints(self, services: Iterable[ListedService]) -> Iterator[ProbeFacts]:
        """Yield the facts of the endpoints of records, in order."""
        for each in services:
            service = self._services.get(each.id)
            if service is None:
                yield from (NO_PROBE_FACTS for _ in range(each.endpoints))
            else:
                for index, number in enumerate(service.endpoints):
                    yield self._facts(number, is_tool=index in service.tools)

    def of_listing(self, listing: Resource) -> ProbeFacts:
        """Return the facts of a listed resource."""
        number = self.targets.find(listing.url, listing.method)
        return self._facts(number, is_tool=bool(listing.tool))

    def add_record(self, service_id: str, text: bytes, *, discovered: bool) -> array[int]:
        """Add the endpoints of a record; returns their numbers."""
        endpoints = decode_endpoints(text)
        numbers = array("i", [self.targets.add(each.url, each.method) for each in endpoints])
        tools = frozenset(index for index, each in enumerate(endpoints) if each.has_tool)
        self._services[service_id] = _Service(numbers, tools)
        for number, each in () if discovered else zip(numbers, endpoints, strict=True):
            if each.payee and not each.has_tool:
                self.paid.setdefault(number, []).append({"payTo": each.payee})
        return numbers

    def _facts(self, number: int, *, is_tool: bool) -> ProbeFacts:
        """Return the facts of an endpoint; the URL of a tool does not identify what is bought."""
        facts = self.verdicts.facts.get(number, NO_PROBE_FACTS)
        return replace(facts, drift=UNSET, deliveries=UNSET) if is_tool else facts


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
    probed = ProbedCatalogue()
    listed: dict[int, int] = {}
    numbers: dict[str, array[int]] = {}
    for each in catalogue.services.values():
        text = catalogue.text(each)
        own = array("i", probed.add_record(each.id, text, discovered=each.discovered))
        for row, listing in catalogue.table.listings(each.number):
            own.append(probed.targets.add(listing.url, listing.method, listing.stated_url))
            if not listing.tool:
                listed.setdefault(own[-1], row.number or 0)
        numbers[each.id] = own

    @lru_cache(maxsize=MAX_TERMS)
    def terms_of(target: int) -> list[Terms]:
        number, own = listed.get(target), probed.paid.get(target, [])
        if number is None:
            return listed_terms(own)
        listing = decode_resource(catalogue.table.resource(number))
        offers = (each.to_offer() for each in listing.offers)
        return listed_terms([*own, *_accepts.decode(listing.text).accepts], offers)

    with open_spool(spool) as database:
        probed.verdicts = read_probes(
            inputs,
            probed.targets,
            terms_of,
            rules,
            findings,
            database=database,
            now=now,
            max_rejects=max_rejects,
            progress=progress,
        )
    for each in catalogue.services.values():
        each.alive = probed.verdicts.alive_together(numbers[each.id])
    return probed
