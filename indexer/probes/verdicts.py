"""Verdicts: what the observations of an endpoint say together, by SQL over all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import msgspec
import numpy as np
from msgspec import UNSET

from indexer.errors import IndexerError
from indexer.probes.drift import TermsComparison, Verdict
from indexer.probes.observation import Observation, ObservedState, state_of
from indexer.probes.targets import Targets
from indexer.untrusted import MICROSECOND, SECOND, since_epoch
from service.errors import needs_extra
from service.schema.probes import NO_PROBE_FACTS, Drift, Probe, ProbeFacts, Terms
from service.schema.values import EPOCH, Timestamp, format_timestamp

if TYPE_CHECKING:  # a catalogue without observations is built without DuckDB
    from duckdb import DuckDBPyConnection

ALIVE, DEAD, UNDECIDED = 1, -1, 0
"""Verdicts on an endpoint or a service, as filters store them."""
DAY = 24 * 3600 * SECOND
BATCH = 50_000
MEMORY = "256MB"
NO_NUMBER = -1
TYPES = {
    "target": "INTEGER",
    "host": "INTEGER",
    "moment": "BIGINT",
    "state": "TINYINT",
    "prober": "VARCHAR",
    "outcome": "VARCHAR",
    "status": "INTEGER",
    "latency": "DOUBLE",
    "verdict": "TINYINT",
    "terms": "VARCHAR",
    "wildcard": "TINYINT",
}
SCHEMA = f"CREATE TABLE seen ({', '.join(f'{name} {kind}' for name, kind in TYPES.items())})"
# A run is the lines of one kind after the last line of the other kind, which wins at the same
# moment.
RUN = f"""
SELECT {{key}}, min(moment) AS first, min(moment) // {DAY} <> max(moment) // {DAY} AS on_two_days
FROM (SELECT *, max(moment) FILTER ({{ends}}) OVER (PARTITION BY {{key}}) AS ended FROM seen)
WHERE {{member}} AND moment > coalesce(ended, -1) GROUP BY {{key}}
"""  # noqa: S608  # made of constants
FAILED, QUOTED = ObservedState.FAILED.value, ObservedState.QUOTED.value
DRIFTED, AGREED = Verdict.DRIFTED.value, Verdict.AGREED.value
_runs = {
    "failures": ("target", f"state = {FAILED}", f"state > {FAILED}"),
    "drifts": ("target", f"verdict = {DRIFTED}", f"verdict = {AGREED}"),
    "wild": ("host", "wildcard = 1", "wildcard = -1"),
}
_with = ", ".join(
    f"{name} AS ({RUN.format(key=key, member=member, ends=ends)})"
    for name, (key, member, ends) in _runs.items()
)
# Informative observations come before silent ones, then newer ones, then better states, so that
# the order of lines does not matter.
FACTS = f"""
WITH {_with},
newest AS (
    SELECT target, any_value(host) AS host,
        max((state > 0, moment, state, prober, outcome, status, latency)) AS latest,
        max((moment, verdict, terms)) FILTER (state = {QUOTED}) AS quoted
    FROM seen GROUP BY target
)
SELECT target, latest, quoted, coalesce(failures.on_two_days, false), failures.first,
    coalesce(wild.on_two_days, false), drifts.first
FROM newest LEFT JOIN failures USING (target) LEFT JOIN drifts USING (target)
LEFT JOIN wild USING (host)
"""  # noqa: S608  # made of constants

_drifted_terms = msgspec.json.Decoder(tuple[list[Terms], list[Terms]])


class _Verdict(NamedTuple):
    latest: tuple[Any, ...]
    quoted: tuple[int, int, str] | None
    is_dead: bool
    dead_since: int
    is_wildcard: bool
    drifted_since: int


class Observations:
    """The observations of listed endpoints, in a database of the staging folder."""

    def __init__(self, connection: DuckDBPyConnection) -> None:
        self._connection = connection
        self._batch: list[tuple[Any, ...]] = []
        connection.execute(SCHEMA)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Create the database; raises IndexerError without DuckDB."""
        try:
            import duckdb  # noqa: PLC0415  # optional
        except ImportError as error:
            raise IndexerError(needs_extra("reading observations", "indexer")) from error
        config = {"memory_limit": MEMORY, "temp_directory": f"{path}.tmp"}
        return cls(duckdb.connect(str(path), config={**config}))

    def add(
        self,
        target: int,
        host: int,
        moment: int,
        prober: str,
        observation: Observation,
        comparison: TermsComparison,
    ) -> None:
        """Add an observation of an endpoint."""
        terms, latency = "", observation.latency_ms
        if comparison.verdict is Verdict.DRIFTED:
            terms = msgspec.json.encode((comparison.listed, comparison.quoted)).decode()
        wildcard = observation.wildcard
        self._batch.append(
            (
                target,
                host,
                moment,
                state_of(observation).value,
                prober,
                observation.outcome.value,
                NO_NUMBER if observation.status is None else observation.status,
                NO_NUMBER if latency is None else latency,
                comparison.verdict.value,
                terms,
                UNDECIDED if wildcard is None else ALIVE if wildcard else DEAD,
            )
        )
        if len(self._batch) >= BATCH:
            self._flush()

    def verdicts(self) -> dict[int, _Verdict]:
        """Return the verdict on each endpoint that was observed, and close the database."""
        self._flush()
        with self._connection as connection:
            rows = connection.execute(FACTS).fetchall()
        return {target: _Verdict(*verdict) for target, *verdict in rows}

    def _flush(self) -> None:
        if self._batch:
            columns = dict(zip(TYPES, map(_column, zip(*self._batch, strict=True)), strict=True))
            self._connection.register("batch", columns)
            self._connection.execute("INSERT INTO seen FROM batch")
            self._connection.unregister("batch")
            self._batch.clear()


class Probed:
    """The facts of all endpoints that were observed."""

    def __init__(
        self, targets: Targets, verdicts: dict[int, _Verdict], now: datetime, max_age: int
    ) -> None:
        self.targets = targets
        self._verdicts = verdicts
        self._max_age = max_age * SECOND
        self._oldest = since_epoch(now) - self._max_age

    @property
    def holds_until(self) -> int | None:
        """The last moment at which all endpoints that are alive stay so, None without any."""
        alive = (
            each.latest[1] for number, each in self._verdicts.items() if self.alive(number) == ALIVE
        )
        oldest = min(alive, default=None)
        return None if oldest is None else oldest + self._max_age

    def alive(self, target: int) -> int:
        """Return whether an endpoint is ALIVE, DEAD or UNDECIDED."""
        verdict = self._verdicts.get(target)
        if verdict is None:
            return UNDECIDED
        _, moment, state, *_ = verdict.latest
        if state == ObservedState.QUOTED:
            return ALIVE if moment >= self._oldest else UNDECIDED
        return DEAD if verdict.is_dead else UNDECIDED

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
        verdict = self._verdicts.get(target)
        if verdict is None:
            return NO_PROBE_FACTS
        alive, quoted = self.alive(target), verdict.quoted
        return ProbeFacts(
            alive=UNSET if alive == UNDECIDED else alive == ALIVE,
            since=_timestamp(verdict.dead_since) if alive == DEAD else UNSET,
            last_seen=UNSET if quoted is None else _timestamp(quoted[0]),
            probe=_shown(verdict.latest),
            wildcard=verdict.is_wildcard or UNSET,
            drift=(_drift(verdict) if has_terms else None) or UNSET,
        )


def verdict_of(facts: ProbeFacts) -> int:
    """Return the verdict on an endpoint with these facts."""
    if facts.alive is UNSET:
        return UNDECIDED
    return ALIVE if facts.alive else DEAD


def _drift(verdict: _Verdict) -> Drift | None:
    """Return how the last quoted price contradicts the listing, None if it does not."""
    if verdict.quoted is None or verdict.quoted[1] != Verdict.DRIFTED:
        return None
    listed, instead = _drifted_terms.decode(verdict.quoted[2])
    return Drift(listed=listed, quoted=instead, since=_timestamp(verdict.drifted_since))


def _shown(latest: tuple[Any, ...]) -> Probe:
    _, moment, _, prober, outcome, status, latency = latest
    return Probe(
        prober=prober,
        observed_at=_timestamp(moment),
        outcome=outcome,
        status=UNSET if status == NO_NUMBER else status,
        latency_ms=UNSET if latency == NO_NUMBER else int(latency) if latency % 1 == 0 else latency,
    )


def _column(values: Sequence[Any]) -> Any:
    return np.array(values, dtype=object if isinstance(values[0], str) else None)


def _timestamp(moment: int) -> Timestamp:
    return format_timestamp(EPOCH + moment * MICROSECOND)
