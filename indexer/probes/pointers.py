"""Bare pointers of which a trusted prober saw a price: they are listed with what it was quoted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

import msgspec
from msgspec import Raw

from indexer.errors import InvalidRecord, LeftOut
from indexer.intake.records import STANDARD_INPUT
from indexer.intake.sources import Input
from indexer.probes.facts import Latest, latest_of
from indexer.probes.liveness import ObservedState
from indexer.probes.reading import decode_line, judge_line, open_probes
from indexer.probes.targets import NO_TARGET, Targets
from indexer.x402.discovery import Discovery, Dropped, Place
from indexer.x402.members.dates import SECOND, since_epoch
from indexer.x402.members.described import decode_fields, encode_fields
from indexer.x402.rules import Rules

QUOTED = ("scheme", "network", "asset", "amount", "payTo")
"""Members of a quote that an entry of `accepts` has."""


class _Seen(NamedTuple):
    """An observation of a pointer, greater than earlier ones, and the JSON of its quotes."""

    latest: Latest
    method: str
    accepts: bytes


def quote_pointers(
    inputs: Iterable[Input], discovery: Discovery, rules: Rules, now: datetime
) -> None:
    """List the pointers whose last observation by a trusted prober is a recent price.

    A pointer without a method gets the method of the observation. Raises SourceError.
    """
    trusted = [each for each in inputs if each.options.trust > 0 and each.path != STANDARD_INPUT]
    if not trusted or not discovery.pointers:
        return
    targets = Targets()
    places: dict[int, list[Place]] = defaultdict(list)
    for place in (each for pointers in discovery.pointers.values() for each in pointers):
        number = targets.add(discovery.outline(place).identity, place.method)
        places[number].append(place)
    seen: dict[int, _Seen] = {}
    for each in trusted:
        for number, observed in _observations(each, targets, rules):
            seen[number] = max(observed, seen.get(number, observed))
    oldest = since_epoch(now) - rules.policy.probe_max_age * SECOND
    current = [
        (place, seen[number])
        for number, pointers in places.items()
        if number in seen and number != NO_TARGET
        for place in pointers
        if seen[number].latest.state is ObservedState.QUOTED
        and seen[number].latest.moment >= oldest
    ]
    current.sort(key=lambda item: (-item[0].trust, item[0].source))
    _list(discovery, current)


def _observations(each: Input, targets: Targets, rules: Rules) -> Iterator[tuple[int, _Seen]]:
    """Yield the observations of pointers; the others are judged when all are read."""
    for record in open_probes(each):
        try:
            observation, moment, numbers = judge_line(decode_line(record), targets, rules)
        except InvalidRecord:
            continue
        quotes = [msgspec.to_builtins(quote) for quote in observation.quotes]
        entries = [{key: quote[key] for key in QUOTED if key in quote} for quote in quotes]
        seen = _Seen(
            latest_of(observation, moment, each.source_name),
            observation.method.strip().upper(),
            msgspec.json.encode(entries),
        )
        for number in numbers:
            yield number, seen


def _list(discovery: Discovery, pointers: Iterable[tuple[Place, _Seen]]) -> None:
    """Make a resource of all pointers of a key, the most trusted first."""
    settled: set[int] = set()
    listed: dict[str, Place] = {}
    for pointer, seen in pointers:
        try:
            fields = decode_fields(discovery.text(pointer)) | {"accepts": Raw(seen.accepts)}
            method = pointer.method or seen.method
            place = discovery.rewrite(pointer, encode_fields(fields), method)
        except LeftOut as fault:
            discovery.dropped.append(Dropped(pointer, fault))
        except InvalidRecord:
            continue  # its quote is no price
        else:
            first = listed.setdefault(discovery.outline(place).key, place)
            if first is not place:
                first.others = (*first.others, place)
        settled.add(id(pointer))
    by_domain: dict[str, list[Place]] = defaultdict(list)
    for place in listed.values():
        by_domain[discovery.outline(place).domain].append(place)
        discovery.take(place)
    for domain, places in by_domain.items():
        discovery.replace(domain, [*discovery.of_domain(domain), *places])
    for url, waiting in [*discovery.pointers.items()]:
        discovery.wait(url, [each for each in waiting if id(each) not in settled])
