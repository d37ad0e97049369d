"""Facts: the verdict of trusted probers on each endpoint, beside the observations of others."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import BinaryIO, NamedTuple, SupportsInt

import msgspec
from msgspec import UNSET

from indexer.probes.drift import TermsComparison, Verdict
from indexer.probes.liveness import ObservedState, find_runs, pack_row, state_of
from indexer.probes.observation import Observation
from indexer.probes.targets import Targets
from indexer.x402.members.dates import MICROSECOND, SECOND, since_epoch
from service.schema.probes import NO_PROBE_FACTS, Drift, Probe, ProbeFacts, Terms
from service.schema.values import EPOCH, Timestamp, format_timestamp

MAX_OTHERS = 5
"""Untrusted probers whose observations of an endpoint are shown."""
ALIVE, DEAD, UNDECIDED = 1, -1, 0
"""Verdicts on an endpoint or a service, as filters store them."""
NO_NUMBER = -1


class Latest(NamedTuple):
    """An observation; the greatest one of an endpoint is shown.

    Informative observations are greater than silent ones, then newer ones, then better states: the
    order of lines does not matter.
    """

    is_informative: bool
    moment: int
    state: ObservedState
    prober: str
    outcome: str
    status: int
    latency: float

    @property
    def shown(self) -> Probe:
        """The observation as responses have it."""
        return Probe(
            prober=self.prober,
            observed_at=_timestamp(self.moment),
            outcome=self.outcome,
            status=UNSET if self.status == NO_NUMBER else self.status,
            latency_ms=UNSET if self.latency == NO_NUMBER else self.latency,
        )


class _Quoted(NamedTuple):
    """The last observation with a price: its moment, and how it compares with the listing.

    terms: the JSON of the ways to pay that drifted, listed ones first
    """

    moment: int
    verdict: int
    terms: bytes


_drifted_terms = msgspec.json.Decoder(tuple[list[Terms], list[Terms]])


def verdict_of(facts: ProbeFacts) -> int:
    """Return the verdict on an endpoint with these facts."""
    if facts.alive is UNSET:
        return UNDECIDED
    return ALIVE if facts.alive else DEAD


def latest_of(observation: Observation, moment: int, prober: str) -> Latest:
    """Return an observation of a prober as it is kept."""
    state, latency = state_of(observation), observation.latency_ms
    return Latest(
        is_informative=state is not ObservedState.SILENT,
        moment=moment,
        state=state,
        prober=prober,
        outcome=observation.outcome.value,
        status=NO_NUMBER if observation.status is None else observation.status,
        latency=NO_NUMBER if latency is None else latency,
    )


class TrustedLines:
    """The observations of trusted probers: the last ones in memory, and all as rows in a file.

    All are added before the rows are read, as files of observations may have any size.
    """

    def __init__(self, rows: BinaryIO) -> None:
        self.rows = rows
        self.latest: dict[int, Latest] = {}
        self.quoted: dict[int, _Quoted] = {}

    def add(
        self,
        target: int,
        host: int,
        latest: Latest,
        comparison: TermsComparison,
        *,
        wildcard: bool | None,
    ) -> None:
        """Add an observation of an endpoint."""
        self.latest[target] = max(latest, self.latest.get(target, latest))
        if latest.state is ObservedState.QUOTED:
            terms = b""
            if comparison.verdict is Verdict.DRIFTED:
                terms = msgspec.json.encode((comparison.listed, comparison.quoted))
            quoted = _Quoted(latest.moment, comparison.verdict, terms)
            self.quoted[target] = max(quoted, self.quoted.get(target, quoted))
        self.rows.write(
            pack_row(
                target,
                host,
                latest.moment,
                latest.state,
                comparison.verdict,
                UNDECIDED if wildcard is None else ALIVE if wildcard else DEAD,
            )
        )


class Probed:
    """The facts of all endpoints that were observed."""

    def __init__(
        self,
        targets: Targets,
        trusted: TrustedLines,
        others: Iterable[dict[int, Latest]],
        now: datetime,
        max_age: int,
    ) -> None:
        self.targets = targets
        self._latest, self._quoted = trusted.latest, trusted.quoted
        self._others = _by_target(others)
        self._max_age = max_age * SECOND
        self._oldest = since_epoch(now) - self._max_age
        runs, count = partial(find_runs, trusted.rows), len(targets)
        self._failures = runs(
            "target",
            count,
            lambda rows: rows["state"] == ObservedState.FAILED,
            lambda rows: rows["state"] > ObservedState.FAILED,
        )
        self._drifts = runs(
            "target",
            count,
            lambda rows: rows["verdict"] == Verdict.DRIFTED,
            lambda rows: rows["verdict"] == Verdict.AGREED,
        )
        wildcards = runs(
            "host",
            targets.hosts,
            lambda rows: rows["wildcard"] == ALIVE,
            lambda rows: rows["wildcard"] == DEAD,
        )
        self._is_wildcard = wildcards.on_two_days
        self._is_dead = self._failures.on_two_days

    @property
    def holds_until(self) -> int | None:
        """The last moment at which all endpoints that are alive stay so, None without any."""
        alive = (
            each.moment for number, each in self._latest.items() if self.alive(number) == ALIVE
        )
        oldest = min(alive, default=None)
        return None if oldest is None else oldest + self._max_age

    def alive(self, target: int) -> int:
        """Return whether an endpoint is ALIVE, DEAD or UNDECIDED."""
        latest = self._latest.get(target)
        if latest is None:
            return UNDECIDED
        if latest.state is ObservedState.QUOTED:
            return ALIVE if latest.moment >= self._oldest else UNDECIDED
        return DEAD if self._is_dead[target] else UNDECIDED

    def alive_together(self, targets: Iterable[int]) -> int:
        """Return the verdict on a service of these endpoints.

        One living endpoint suffices; a service is dead only if each of its endpoints is.
        """
        verdicts = {self.alive(target) for target in targets}
        if ALIVE in verdicts:
            return ALIVE
        return DEAD if verdicts == {DEAD} else UNDECIDED

    def facts(self, target: int, *, has_terms: bool = True) -> ProbeFacts:
        """Return the facts of an endpoint.

        has_terms: whether its URL alone identifies the purchase, so that drift is its own
        """
        others = self._others.get(target, ())
        latest = self._latest.get(target)
        if latest is None and not others:
            return NO_PROBE_FACTS
        alive = self.alive(target)
        quoted = self._quoted.get(target)
        is_wildcard = bool(self._is_wildcard[self.targets.host_of(target)])
        return ProbeFacts(
            alive=UNSET if alive == UNDECIDED else alive == ALIVE,
            since=_timestamp(self._failures.first[target]) if alive == DEAD else UNSET,
            last_seen=UNSET if quoted is None else _timestamp(quoted.moment),
            probe=UNSET if latest is None else latest.shown,
            wildcard=is_wildcard or UNSET,
            drift=(self.drift(target) if has_terms else None) or UNSET,
            others=[each.shown for each in others] or UNSET,
        )

    def drift(self, target: int) -> Drift | None:
        """Return how the last quoted price contradicts the listing, None if it does not."""
        quoted = self._quoted.get(target)
        if quoted is None or quoted.verdict != Verdict.DRIFTED:
            return None
        listed, instead = _drifted_terms.decode(quoted.terms)
        return Drift(listed=listed, quoted=instead, since=_timestamp(self._drifts.first[target]))


def _by_target(sources: Iterable[dict[int, Latest]]) -> dict[int, list[Latest]]:
    """Return the observations of untrusted probers by endpoint, the newest of each prober."""
    merged: dict[int, dict[str, Latest]] = {}
    for source in sources:
        for target, latest in source.items():
            own = merged.setdefault(target, {})
            own[latest.prober] = max(latest, own.get(latest.prober, latest))
    return {
        target: sorted(own.values(), key=lambda each: (-each.moment, each.prober))[:MAX_OTHERS]
        for target, own in merged.items()
    }


def _timestamp(moment: SupportsInt) -> Timestamp:
    return format_timestamp(EPOCH + int(moment) * MICROSECOND)
