"""Reading observations: each line is checked, and found to be of listed endpoints or left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

from indexer.errors import InvalidRecord, LeftOut
from indexer.intake.findings import Findings
from indexer.intake.lists import SourceRecord, read_records
from indexer.intake.rules import Rules
from indexer.intake.sources import Input
from indexer.probes.drift import TermsComparison, Verdict, compare_terms, quoted_terms
from indexer.probes.observation import (
    Observation,
    ObservedState,
    Quote,
    decode_observation,
    state_of,
)
from indexer.probes.targets import Targets
from indexer.probes.verdicts import Observations, Probed
from indexer.progress import Stage
from indexer.untrusted import NEVER, url_or_invalid
from service.schema.probes import Terms

UNDATED = "undated observations"
FUTURE = "observations in the future"
UNLISTED = "observations of URLs that are not listed"
UNKNOWN = TermsComparison(Verdict.UNKNOWN)
MAX_CACHED = 2**16
"""URLs, and quotes of endpoints, that are kept: lines repeat those of the days before."""

TermsOf = Callable[[int], list[Terms]]
"""Returns the listed ways to pay of an endpoint, by its number."""


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

    A source without trust is noted, and not read. Raises SourceError for one that fails, and
    TooManyRejects for one with too many malformed lines.

    spool: the database of observations, which is removed in the end
    """
    observations = Observations.open(spool)
    reader = _LineReader(targets, terms_of, rules)
    for each in inputs:
        if each.options.trust <= 0:
            findings.notes.append(
                f"{each.name}: observations of a source without trust decide nothing, and were "
                "not read; give it a `trust` above 0"
            )
            continue
        tally = findings.tally(each.name)
        tally.file, tally.read_at = each.shown_file, each.read_at or now
        if each.failure is not None:
            raise each.failure
        records = read_records(
            each.path, each.name, is_lines=True, max_items=each.options.max_items
        )
        for record in records:
            progress.advance(len(record.text) + 1)
            tally.records += 1
            try:
                reader.add(record, each.source_name, observations)
            except InvalidRecord as fault:
                findings.refuse(tally, record.position, reader.url, fault)
            else:
                tally.published += 1
        findings.check(tally, max_rejects)
    probed = Probed(targets, observations.verdicts(), now, rules.policy.probe_max_age)
    spool.unlink()
    if probed.holds_until is not None:
        rules.hold_until(probed.holds_until)
    return probed


class _LineReader:
    """Reads lines; `url` is the one of the last line, None where it has none."""

    def __init__(self, targets: Targets, terms_of: TermsOf, rules: Rules) -> None:
        self.url: str | None = None
        self._targets, self._rules = targets, rules

        @lru_cache(MAX_CACHED)
        def find(url: str, method: str) -> list[int]:
            return [*targets.matching(url_or_invalid(url, "$.url"), method)]

        @lru_cache(MAX_CACHED)
        def compare(target: int, quotes: tuple[Quote, ...]) -> TermsComparison:
            listed = terms_of(target)
            quoted = quoted_terms(quotes) if listed else []
            return compare_terms(listed, quoted) if quoted else UNKNOWN

        self._find, self._compare = find, compare

    def add(self, record: SourceRecord, prober: str, observations: Observations) -> None:
        """Add the observation of a line; raises InvalidRecord for a line that counts nothing."""
        self.url = None
        if record.fault:
            raise record.fault
        observation = decode_observation(record.text)
        self.url = observation.url
        numbers = self._find(observation.url, observation.method)
        moment = self._moment(observation)
        if not numbers:
            raise LeftOut(UNLISTED, "$.url", "is listed by no source with this method")
        is_quoted = state_of(observation) is ObservedState.QUOTED
        quotes = tuple(observation.quotes) if is_quoted else ()
        for number in numbers:
            comparison = self._compare(number, quotes) if quotes else UNKNOWN
            host = self._targets.host_of(number)
            observations.add(number, host, moment, prober, observation, comparison)

    def _moment(self, observation: Observation) -> int:
        moment = self._rules.read_time(observation.given_time)
        if moment != NEVER:
            return moment
        if observation.moment == NEVER:
            raise LeftOut(UNDATED, "$.observed_at", "is no time")
        raise LeftOut(FUTURE, "$.observed_at", "is more than an hour in the future")
