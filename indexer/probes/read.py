"""Reading observations: each is checked, and found to be of listed endpoints or left out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

import msgspec

from indexer.endpoints import split_methods
from indexer.errors import InvalidRecord, LeftOut
from indexer.intake.findings import Findings
from indexer.intake.lists import read_records
from indexer.intake.rules import Rules, fold_address
from indexer.intake.sources import Input
from indexer.options import Kind
from indexer.probes.drift import DRIFTED, Comparison, compare_terms, quoted_terms
from indexer.probes.observation import Observation, Outcome, Quote, decode_observation
from indexer.probes.purchases import Purchase, PurchaseReader, is_purchase
from indexer.probes.verdicts import ProbeVerdicts, judge
from indexer.progress import Stage
from indexer.untrusted import NEVER, url_or_invalid
from service.schema.probes import Terms
from service.urls import find_url

if TYPE_CHECKING:  # a catalogue without observations is built without DuckDB
    from duckdb import DuckDBPyConnection

UNDATED = "undated observations"
FUTURE = "observations in the future"
UNLISTED = "observations of URLs that are not listed"
MOVED = "purchases whose payee is not listed"
MAX_CACHED = 2**16
"""URLs, and quotes of endpoints, that are kept: lines repeat those of the days before."""
NO_TARGET = -1

_parse = lru_cache(MAX_CACHED)(find_url)


class Targets:
    """The endpoints that observations may name, by number; a URL with the same methods counts once.

    hosts: the host of each, with its port
    """

    def __init__(self) -> None:
        self.hosts: list[str] = []
        self._numbers: dict[tuple[str, str], int] = {}
        self._methods: list[set[str]] = []
        self._by_url: dict[str, list[int]] = defaultdict(list)

    def add(self, url: str, methods: str, given: str = "") -> int:
        """Return the number of an endpoint, which is new or known; NO_TARGET if it has no URL.

        given: another URL of the endpoint, where its own is a template
        """
        parsed, other = _parse(url), _parse(given) if given else None
        if parsed is None:
            return NO_TARGET
        number = self._numbers.setdefault((parsed.identity, methods), len(self.hosts))
        if number == len(self.hosts):
            self.hosts.append(parsed.domain)
            self._methods.append(split_methods(methods) if methods.strip() else set())
            self._by_url[parsed.identity].append(number)
        if other is not None and number not in self._by_url[other.identity]:
            self._by_url[other.identity].append(number)
        return number

    def find(self, url: str, methods: str) -> int:
        """Return the number of an endpoint, or NO_TARGET."""
        parsed = _parse(url)
        return NO_TARGET if parsed is None else self._numbers.get((parsed.identity, methods), -1)

    def matching(self, url: str, method: str) -> list[int]:
        """Return the endpoints that an observation of a URL and a method is of.

        An endpoint that declares no method has the observations of any. Raises InvalidRecord for a
        URL that is none.
        """
        name = method.strip().upper() or "GET"
        numbers = self._by_url.get(url_or_invalid(url, "$.url").identity, ())
        return [each for each in numbers if not self._methods[each] or name in self._methods[each]]


def read_probes(
    inputs: Sequence[Input],
    targets: Targets,
    terms_of: Callable[[int], list[Terms]],
    rules: Rules,
    findings: Findings,
    *,
    database: DuckDBPyConnection,
    now: datetime,
    max_rejects: Fraction,
    progress: Stage,
) -> ProbeVerdicts:
    """Read all observations; returns what they say of the endpoints.

    A source without trust is noted, and not read. Raises SourceError for one that fails, and
    TooManyRejects for one with too many malformed lines.

    terms_of: returns the listed ways to pay of an endpoint
    database: an empty one, for the observations
    """
    reader = _LineReader(targets, terms_of, rules)

    def read(name: str, files: list[Input]) -> Iterator[tuple[Any, ...]]:
        tally, purchases = findings.tally(name), PurchaseReader(files[0].options.observers)
        for source in files:
            tally.file, tally.read_at = source.shown_file, source.read_at or now
            if source.failure is not None:
                raise source.failure
            records = read_records(
                source.path,
                source.name,
                is_lines=not source.options.observers,
                kind=Kind.PROBES,
                max_items=source.options.max_items,
            )
            prober = source.public_name
            place = "" if source.name == name else f"{source.name}:"  # one of several files
            for record in records:
                progress.advance(len(record.text) + 1)
                tally.records += 1
                url = None
                try:
                    if record.fault:
                        raise record.fault
                    decode = purchases.read if is_purchase(record.text) else decode_observation
                    observation = decode(record.text)
                    url = observation.url
                    yield from reader.rows(observation, prober)
                    tally.published += 1
                except InvalidRecord as fault:
                    findings.refuse(tally, f"{place}{record.position}", url, fault)
        findings.check(tally, max_rejects)

    trusted = [each for each in inputs if each.options.trust > 0]
    findings.notes += (
        f"{each.name}: observations of a source without trust decide nothing, and were not read; "
        "give it a `trust` above 0"
        for each in inputs
        if each not in trusted
    )
    sources = groupby(trusted, lambda each: each.source_name)
    lines = chain.from_iterable(read(name, [*files]) for name, files in sources)
    verdicts = judge(lines, database, now, rules.policy.probe_max_age)
    if verdicts.holds_until is not None:
        rules.hold_until(verdicts.holds_until)
    return verdicts


class _LineReader:
    def __init__(
        self, targets: Targets, terms_of: Callable[[int], list[Terms]], rules: Rules
    ) -> None:
        self._hosts, self._rules = targets.hosts, rules
        self._find, self._terms_of = lru_cache(MAX_CACHED)(targets.matching), terms_of

        @lru_cache(MAX_CACHED)
        def compare(target: int, quotes: tuple[Quote, ...]) -> Comparison:
            listed = terms_of(target) if quotes else ()
            return compare_terms(listed, quoted_terms(quotes))

        self._compare = compare

    def rows(self, seen: Observation, prober: str) -> Iterator[tuple[Any, ...]]:
        """Yield the values of `verdicts.COLUMNS` of each endpoint that a line is of.

        Raises InvalidRecord for a line that counts nothing.
        """
        numbers, moment = self._find(seen.url, seen.method), self._moment(seen)
        if not numbers:
            raise LeftOut(UNLISTED, seen.URL, "is listed by no source with this method")
        if isinstance(seen, Purchase):
            payees = [{fold_address(each.pay_to) for each in self._terms_of(n)} for n in numbers]
            numbers = [n for n, paid in zip(numbers, payees, strict=True) if seen.payee in paid]
            if not numbers:
                raise LeftOut(MOVED, "$.payment.payTo", "is no payee of the listing")
        quotes = tuple(seen.quotes) if seen.outcome is Outcome.QUOTED else ()
        answer = seen.outcome.value, seen.status, seen.latency_ms, seen.wildcard
        for number in numbers:
            drift, *sides = self._compare(number, quotes)
            terms = msgspec.json.encode(sides).decode() if drift == DRIFTED else None
            yield number, self._hosts[number], moment, prober, *answer, drift, terms, *seen.bought

    def _moment(self, seen: Observation) -> int:
        moment = self._rules.read_time(seen.given_time)
        if moment != NEVER:
            return moment
        if seen.moment == NEVER:
            raise LeftOut(UNDATED, seen.TIME, "is no time")
        raise LeftOut(FUTURE, seen.TIME, "is more than an hour in the future")
