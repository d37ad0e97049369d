"""Reading observations: the last one of each prober, and the rows of the trusted ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import NamedTuple

from indexer.errors import InvalidRecord, LeftOut, SourceError
from indexer.intake.findings import Findings, State, Tally
from indexer.intake.records import SourceRecord, read_records
from indexer.intake.sources import Input
from indexer.probes.drift import TermsComparison, Verdict, compare_terms, quoted_terms
from indexer.probes.facts import Latest, Probed, TrustedLines, latest_of
from indexer.probes.liveness import ObservedState
from indexer.probes.observation import Observation, decode_observation
from indexer.probes.targets import Targets
from indexer.progress import Stage
from indexer.untrusted import url_or_invalid
from indexer.x402.members.dates import NEVER
from indexer.x402.rules import Rules
from service.schema.probes import Terms

UNDATED = "undated observations"
FUTURE = "observations in the future"
UNLISTED = "observations of URLs that are not listed"

TermsOf = Callable[[int], list[Terms]]
"""Returns the listed ways to pay of an endpoint, by its number."""


class Line(NamedTuple):
    """An observation of listed endpoints, and when it was made."""

    observation: Observation
    moment: int
    targets: list[int]


def read_probes(
    inputs: Iterable[Input],
    targets: Targets,
    terms_of: TermsOf,
    rules: Rules,
    findings: Findings,
    *,
    spool: Path,
    now: datetime,
    max_rejects: Fraction,
    progress: Stage,
) -> Probed:
    """Read all observations; returns what they say of the endpoints.

    A trusted source that fails, or has too many malformed lines, ends the build: raises SourceError
    or TooManyRejects. Another one is left out as far as it fails.

    spool: a file for the rows of trusted observations, which is removed in the end
    """
    with spool.open("w+b") as file:
        trusted = TrustedLines(file)
        others: list[dict[int, Latest]] = []
        read = partial(_read_lines, targets, rules, findings, progress)
        for each in inputs:
            tally = findings.tally(each.name)
            tally.file, tally.read_at = each.shown_file, each.read_at or now
            if each.options.trust > 0:
                for line in read(each, tally):
                    _add(trusted, line, each.source_name, targets, terms_of)
                findings.check(tally, max_rejects)
            else:
                others.append(_read_untrusted(read(each, tally), each.source_name, tally))
        probed = Probed(targets, trusted, others, now, rules.policy.probe_max_age)
    spool.unlink()
    if probed.holds_until is not None:
        rules.hold_until(probed.holds_until)
    return probed


def _read_lines(
    targets: Targets, rules: Rules, findings: Findings, progress: Stage, each: Input, tally: Tally
) -> Iterator[Line]:
    """Yield the observations of listed endpoints, and count the other lines; raises SourceError."""
    for record in open_probes(each):
        progress.advance(len(record.text) + 1)
        tally.records += 1
        url: str | None = None
        try:
            observation = decode_line(record)
            url = observation.url
            line = judge_line(observation, targets, rules)
        except InvalidRecord as fault:
            findings.refuse(tally, record.position, url, fault)
        else:
            tally.published += 1
            yield line


def open_probes(each: Input) -> Iterator[SourceRecord]:
    """Return the lines of a file of observations; raises SourceError."""
    if each.failure is not None:
        raise each.failure
    options = each.options
    return read_records(each.path, each.name, is_lines=True, max_items=options.max_items)


def decode_line(record: SourceRecord) -> Observation:
    """Return the observation of a line; raises InvalidRecord."""
    if record.fault:
        raise record.fault
    return decode_observation(record.text)


def judge_line(observation: Observation, targets: Targets, rules: Rules) -> Line:
    """Return an observation of some of these endpoints; raises InvalidRecord for another one."""
    url = url_or_invalid(observation.url, "$.url")
    moment = rules.read_time(observation.given_time)
    if moment == NEVER and observation.moment == NEVER:
        raise LeftOut(UNDATED, "$.observed_at", "is no time")
    if moment == NEVER:
        raise LeftOut(FUTURE, "$.observed_at", "is more than an hour in the future")
    numbers = [*targets.matching(url, observation.method)]
    if not numbers:
        raise LeftOut(UNLISTED, "$.url", "is listed by no source with this method")
    return Line(observation, moment, numbers)


def _add(
    trusted: TrustedLines, line: Line, prober: str, targets: Targets, terms_of: TermsOf
) -> None:
    observation, moment, numbers = line
    latest = latest_of(observation, moment, prober)
    quoted = quoted_terms(observation.quotes) if latest.state is ObservedState.QUOTED else []
    for number in numbers:
        listed = terms_of(number) if quoted else []
        comparison = compare_terms(listed, quoted) if listed else TermsComparison(Verdict.UNKNOWN)
        host = targets.host_of(number)
        trusted.add(number, host, latest, comparison, wildcard=observation.wildcard)


def _read_untrusted(lines: Iterable[Line], prober: str, tally: Tally) -> dict[int, Latest]:
    """Return the last observations of an untrusted prober, none if its file cannot be read."""
    seen: dict[int, Latest] = {}
    try:
        for observation, moment, numbers in lines:
            latest = latest_of(observation, moment, prober)
            for number in numbers:
                seen[number] = max(latest, seen.get(number, latest))
    except SourceError as error:
        tally.failure, tally.state = str(error), State.SKIPPED
        tally.published = 0
        return {}
    return seen
