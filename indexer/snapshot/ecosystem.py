"""Ecosystem tables: every answer that a timeframe can have, computed from the payments once."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from indexer.snapshot.record_store import write_record_store
from service.records import Bucket, Overview, Transaction, format_timestamp

if TYPE_CHECKING:  # DuckDB is needed only where there are payments
    from duckdb import DuckDBPyConnection

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HOUR = 3_600_000
DAY = 24 * HOUR
ATTO_IN_MICRO = 10**12
NEWEST = 10_000
NONE = (0, 0, 0, 0)

# Days before the newest payment, in which a payment lies or a buyer or seller was last seen.
AGES = f"""
WITH newest AS (SELECT max(moment) AS moment FROM payments),
paid AS (
    SELECT (newest.moment - payments.moment) // {DAY} AS age, count(*) AS count, sum(atto) AS atto
    FROM payments, newest GROUP BY age
),
buyers AS (
    SELECT (newest.moment - last) // {DAY} AS age, count(*) AS count
    FROM (SELECT max(moment) AS last FROM payments GROUP BY sender), newest GROUP BY age
),
sellers AS (
    SELECT (newest.moment - last) // {DAY} AS age, count(*) AS count
    FROM (SELECT max(moment) AS last FROM payments GROUP BY recipient), newest GROUP BY age
)
SELECT age, paid.count, paid.atto, coalesce(buyers.count, 0), coalesce(sellers.count, 0)
FROM paid LEFT JOIN buyers USING (age) LEFT JOIN sellers USING (age)
"""  # noqa: S608  # made of constants

BUCKETS = """
SELECT moment // {length}, count(*), sum(atto), count(DISTINCT sender), count(DISTINCT recipient)
FROM payments WHERE {condition} GROUP BY ALL
"""

TRANSACTIONS = f"""
SELECT id, coalesce(tx_hash, '') AS tx_hash, moment AS block_timestamp, sender, recipient,
    base AS amount, places AS decimals, chain, address, transaction_from, provider,
    facilitator_id, event AS log_index, token_address
FROM details SEMI JOIN payments USING (row)
ORDER BY moment DESC, chain, tx_hash, event DESC, sender, recipient, base, id, row
LIMIT {NEWEST}
"""  # noqa: S608  # made of constants


def write_ecosystem(folder: Path, payments: DuckDBPyConnection | None) -> int:
    """Write the tables that `service.snapshot.ecosystem` reads; returns the count of payments."""
    folder.mkdir()
    count, oldest, newest = (0, 0, 0) if payments is None else _extent(payments)
    if payments is None or not count:
        nothing = Overview(**_totals(*NONE), latest_block_timestamp=None)
        tables: dict[str, Iterable[Struct]] = {"overview": [nothing]}
        tables |= dict.fromkeys(("days", "first_days", "hours", "transactions"), ())
    else:
        tables = {
            "overview": _overview(payments, newest),
            "days": _days(payments, oldest, newest),
            "first_days": _first_days(payments, oldest, newest),
            "hours": _hours(payments, oldest, newest),
            "transactions": _transactions(payments),
        }
    for name, rows in tables.items():
        write_record_store(folder, name, map(msgspec.json.encode, rows))
    return count


def _extent(payments: DuckDBPyConnection) -> tuple[int, int, int]:
    row = payments.execute("SELECT count(*), min(moment), max(moment) FROM payments").fetchone()
    return row or (0, 0, 0)


def _overview(payments: DuckDBPyConnection, newest: int) -> Iterator[Struct]:
    """Running totals from the newest day back, one row for each timeframe."""
    latest = _timestamp(newest)
    by_age = {age: row for age, *row in payments.execute(AGES).fetchall()}
    running = [0, 0, 0, 0]
    for age in range(max(by_age) + 1):
        running = [*map(add, running, by_age.get(age, NONE))]
        yield Overview(**_totals(*running), latest_block_timestamp=latest)


def _days(payments: DuckDBPyConnection, oldest: int, newest: int) -> Iterator[Struct]:
    return _buckets(payments, DAY, "true", range(oldest // DAY, newest // DAY + 1))


def _first_days(payments: DuckDBPyConnection, oldest: int, newest: int) -> Iterator[Struct]:
    """The part of a day that lies in the timeframe that starts within it, newest day first.

    A timeframe starts at the time of day of the newest payment, without that moment itself.
    """
    within = f"moment % {DAY} > {newest % DAY}"
    longest = (newest - oldest) // DAY
    days = range(newest // DAY - 1, newest // DAY - longest - 1, -1)
    return _buckets(payments, DAY, within, days)


def _hours(payments: DuckDBPyConnection, oldest: int, newest: int) -> Iterator[Struct]:
    first = max(oldest, newest - DAY) // HOUR
    return _buckets(payments, HOUR, f"moment > {newest - DAY}", range(first, newest // HOUR + 1))


def _buckets(
    payments: DuckDBPyConnection, length: int, condition: str, numbers: range
) -> Iterator[Struct]:
    """The totals of the buckets with these numbers, in their order, also of empty ones."""
    found = payments.execute(BUCKETS.format(length=length, condition=condition)).fetchall()
    by_number = {number: row for number, *row in found}
    for number in numbers:
        totals = _totals(*by_number.get(number, NONE))
        yield Bucket(**totals, bucket_start=_timestamp(number * length))


def _transactions(payments: DuckDBPyConnection) -> Iterator[Struct]:
    cursor = payments.execute(TRANSACTIONS)
    columns = [column[0] for column in cursor.description or ()]
    rows = cursor.fetchall()
    for row, payment_id in zip(rows, _ids(rows), strict=True):
        given = dict(zip(columns, row, strict=True)) | {"id": payment_id}
        given["block_timestamp"] = _timestamp(given["block_timestamp"])
        yield Transaction(**{name: value for name, value in given.items() if value is not None})


def _ids(rows: list[tuple[Any, ...]]) -> Iterator[str]:
    """An id for each row, no two alike: as given, or else derived from the row.

    Where rows share an id, each gets a short hash of the row appended, so that which one has which
    does not depend on the order of files; rows alike in everything are numbered.
    """
    given = Counter(row[0] for row in rows if row[0])
    taken = set(given)
    alike: Counter[str] = Counter()
    for row in rows:
        payment_id, row_id = row[0], _row_id(row)
        if given[payment_id] == 1:
            yield payment_id
            continue
        unique = derived = f"{payment_id}-{row_id[:8]}" if payment_id else row_id
        while unique in taken:
            alike[derived] += 1
            unique = f"{derived}-{alike[derived] + 1}"
        taken.add(unique)
        yield unique


def _row_id(row: tuple[object, ...]) -> str:
    return hashlib.sha256(msgspec.json.encode(row)).hexdigest()[:32]


def _totals(count: int, atto: int, buyers: int, sellers: int) -> dict[str, int]:
    return {
        "total_transactions": count,
        "total_amount": (atto + ATTO_IN_MICRO // 2) // ATTO_IN_MICRO,
        "unique_buyers": buyers,
        "unique_sellers": sellers,
    }


def _timestamp(milliseconds: int) -> str:
    return format_timestamp(EPOCH + timedelta(milliseconds=milliseconds))
