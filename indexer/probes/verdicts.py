"""ProbeVerdicts: what the observations of an endpoint say together, by SQL over all of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import UNSET, Struct

from indexer.errors import IndexerError
from indexer.untrusted import MICROSECOND, SECOND, since_epoch
from service.errors import needs_extra
from service.schema.probes import NO_PROBE_FACTS, Deliveries, Drift, Probe, ProbeFacts, Terms
from service.schema.values import EPOCH, Timestamp, format_timestamp

if TYPE_CHECKING:  # a catalogue without observations is built without DuckDB
    from duckdb import DuckDBPyConnection

ALIVE, DEAD, UNDECIDED = 1, -1, 0
"""ProbeVerdicts on an endpoint or a service, as filters store them."""
DAY = 24 * 3600 * SECOND
BATCH = 10_000
MEMORY = "256MB"
INTERRUPTED = "Query interrupted"  # message of the RuntimeError that DuckDB raises on Ctrl-C
COLUMNS = {
    "target": "INTEGER",
    "host": "VARCHAR",
    "moment": "BIGINT",
    "prober": "VARCHAR",
    "outcome": "VARCHAR",
    "status": "INTEGER",
    "latency": "DOUBLE",
    "wildcard": "BOOLEAN",
    "drift": "TINYINT",
    "terms": "VARCHAR",
    "observer": "VARCHAR",
    "id": "VARCHAR",
    "payment": "VARCHAR",
    "digest": "VARCHAR",
    "delivered": "BOOLEAN",
}
"""The last five are `Observation.bought`."""
# `state` tells the best last: silent, as the visitor was refused or did not ask; failed; answered;
# and quoted, which is 402 with a price.
SCHEMA = f"""
CREATE TABLE lines ({", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())});
CREATE VIEW seen AS SELECT *, CASE
    WHEN outcome = 'quoted' THEN 3
    WHEN outcome = 'unreachable' THEN 1
    WHEN outcome <> 'answered' OR status IN (401, 403, 405, 429) THEN 0
    WHEN status IN (404, 410) OR status >= 500 THEN 1 ELSE 2 END AS state
FROM lines WHERE digest IS NULL
"""  # noqa: S608  # made of constants
# A run is the lines of one kind after the last line of the other kind, which wins at the same
# moment.
RUN = f"""
SELECT {{key}}, min(moment) AS since, min(moment) // {DAY} <> max(moment) // {DAY} AS on_two_days
FROM (SELECT *, max(moment) FILTER ({{ends}}) OVER (PARTITION BY {{key}}) AS ended FROM seen)
WHERE {{member}} AND moment > coalesce(ended, -1) GROUP BY {{key}}
"""  # noqa: S608  # made of constants
# Informative observations come before silent ones, then newer ones, then better states, so that
# the order of lines does not matter.
FACTS = f"""
WITH failures AS ({RUN.format(key="target", member="state = 1", ends="state > 1")}),
drifts AS ({RUN.format(key="target", member="drift = 0", ends="drift = 2")}),
wild AS ({RUN.format(key="host", member="wildcard", ends="NOT wildcard")}),
newest AS (
    SELECT target, any_value(host) AS host,
        max((state > 0, moment, state, prober, outcome, coalesce(status, -1),
            coalesce(latency, -1))) AS latest,
        max((moment, drift, terms)) FILTER (state = 3) AS quoted
    FROM seen GROUP BY target
)
SELECT target, latest, quoted, CASE WHEN latest[3] <> 3 THEN -coalesce(failures.on_two_days, false)
        ::INTEGER ELSE (latest[2] >= $oldest)::INTEGER END AS alive,
    failures.since, coalesce(wild.on_two_days, false), drifts.since
FROM newest LEFT JOIN failures USING (target) LEFT JOIN drifts USING (target)
LEFT JOIN wild USING (host)
"""  # noqa: S608  # made of constants
# Of records with the same id, and then of those with the same payment, the newest one counts; the
# same record in several files is one.
NEWEST = "QUALIFY rank() OVER (PARTITION BY {} ORDER BY moment DESC, digest) = 1"
DELIVERIES = f"""
WITH records AS (SELECT * FROM lines WHERE digest IS NOT NULL {NEWEST.format("observer, id")}),
purchases AS (SELECT * FROM records {NEWEST.format("payment")})
SELECT target, count(DISTINCT digest), count(DISTINCT digest) FILTER (delivered),
    max(moment), count(DISTINCT observer)
FROM purchases GROUP BY target
"""  # noqa: S608  # made of constants

_drifted_terms = msgspec.json.Decoder(tuple[list[Terms], list[Terms]])


class ProbeVerdicts(Struct):
    """The facts of each endpoint that was observed, by its number.

    holds_until: the last moment at which all endpoints that are alive stay so, None without any
    """

    facts: dict[int, ProbeFacts] = {}
    holds_until: int | None = None

    def alive(self, target: int) -> int:
        """Return whether an endpoint is ALIVE, DEAD or UNDECIDED."""
        return verdict_of(self.facts.get(target, NO_PROBE_FACTS))

    def alive_together(self, targets: Iterable[int]) -> int:
        """Return the verdict on a service of these endpoints.

        One living endpoint suffices; a service is dead only if each of its endpoints is.
        """
        verdicts = {self.alive(target) for target in targets}
        if ALIVE in verdicts:
            return ALIVE
        return DEAD if verdicts == {DEAD} else UNDECIDED


@contextmanager
def query_errors(rows: str, verb: str) -> Iterator[None]:
    """Raise IndexerError when DuckDB is missing, or fails so that these rows cannot be `verb`.

    KeyboardInterrupt is raised when Ctrl-C ends a query.
    """
    try:
        import duckdb  # noqa: PLC0415  # optional
    except ImportError as error:
        raise IndexerError(needs_extra(f"reading {rows}", "indexer")) from error
    try:
        yield
    except (duckdb.Error, RuntimeError) as error:
        if isinstance(error, duckdb.InterruptException) or str(error) == INTERRUPTED:
            raise KeyboardInterrupt from error
        if not isinstance(error, duckdb.Error):
            raise
        reason = str(error).partition("\n")[0]
        raise IndexerError(f"the {rows} cannot be {verb}: {reason}") from error


@contextmanager
def open_spool(path: Path) -> Iterator[DuckDBPyConnection]:
    """Open a database for observations, which is removed in the end.

    Raises IndexerError when DuckDB is missing or fails.
    """
    with query_errors("observations", "judged"):
        import duckdb  # noqa: PLC0415  # optional

        with duckdb.connect(
            str(path), config={"memory_limit": MEMORY, "temp_directory": f"{path}.tmp"}
        ) as connection:
            yield connection
    path.unlink()


def judge(
    lines: Iterable[tuple[Any, ...]], connection: DuckDBPyConnection, now: datetime, max_age: int
) -> ProbeVerdicts:
    """Return what observations say of endpoints.

    lines: the values of COLUMNS
    connection: an empty database
    max_age: seconds that an endpoint is alive after it quoted a price
    """
    oldest = since_epoch(now) - max_age * SECOND
    connection.execute(SCHEMA)
    insert_rows(connection, "INSERT INTO lines FROM batch", COLUMNS, lines)
    rows = connection.execute(FACTS, {"oldest": oldest}).fetchall()
    bought = connection.execute(DELIVERIES).fetchall()
    alive = [latest[1] for _, latest, _, verdict, *_ in rows if verdict == ALIVE]
    holds_until = min(alive) + max_age * SECOND if alive else None
    facts = {target: _facts(*rest) for target, *rest in rows}
    for target, purchases, delivered, last, observers in bought:
        counts = Deliveries(purchases, delivered, _timestamp(last), observers)
        facts.setdefault(target, ProbeFacts()).deliveries = counts
    return ProbeVerdicts(facts, holds_until)


def insert_rows(
    connection: DuckDBPyConnection,
    query: str,
    columns: Collection[str],
    rows: Iterable[tuple[Any, ...]],
) -> None:
    """Run a query for each batch of rows, which has these columns and is its table `batch`."""
    rows = iter(rows)
    # By default the types of a batch are those of a sample of its rows.
    connection.execute(f"SET pandas_analyze_sample = {BATCH}")
    while batch := [*islice(rows, BATCH)]:
        values = (np.array(column, dtype=object) for column in zip(*batch, strict=True))
        connection.register("batch", dict(zip(columns, values, strict=True)))
        connection.execute(query)
        connection.unregister("batch")


def verdict_of(facts: ProbeFacts) -> int:
    """Return the verdict on an endpoint with these facts."""
    if facts.alive is UNSET:
        return UNDECIDED
    return ALIVE if facts.alive else DEAD


def _facts(
    latest: tuple[Any, ...],
    quoted: tuple[int, int, str] | None,
    alive: int,
    dead_since: int,
    is_wildcard: bool,
    drifted_since: int,
) -> ProbeFacts:
    _, observed_at, _, prober, outcome, status, latency = latest
    probe = Probe(
        prober=prober,
        observed_at=_timestamp(observed_at),
        outcome=outcome,
        status=UNSET if status < 0 else status,
        latency_ms=UNSET if latency < 0 else int(latency) if latency % 1 == 0 else latency,
    )
    facts = ProbeFacts(probe=probe, wildcard=is_wildcard or UNSET)
    if alive != UNDECIDED:
        facts.alive = alive == ALIVE
    if alive == DEAD:
        facts.since = _timestamp(dead_since)
    if quoted is not None:
        moment, _, terms = quoted
        facts.last_seen = _timestamp(moment)
        if terms:
            listed, instead = _drifted_terms.decode(terms)
            facts.drift = Drift(listed=listed, quoted=instead, since=_timestamp(drifted_since))
    return facts


def _timestamp(moment: int) -> Timestamp:
    return format_timestamp(EPOCH + moment * MICROSECOND)
