"""Ecosystem tables: the answers for every timeframe, precomputed, and the demand of services."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from heapq import nlargest
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from indexer.index.popularity import Payers
from service.arrays.container import writing_arrays
from service.arrays.texts import write_texts
from service.schema.demand import DemandFigures, DemandInputs, PopularService
from service.schema.ecosystem import Bucket, Overview, Transaction
from service.schema.values import EPOCH, format_timestamp
from service.snapshot.payments import TABLES

if TYPE_CHECKING:  # a catalogue without payments is built without DuckDB
    from duckdb import DuckDBPyConnection

HOUR = 3_600_000  # milliseconds
DAY = 24 * HOUR
ATTO_IN_MICRO = 10**12
NEWEST = 10_000  # payments that /v1/ecosystem/transactions lists
ZEROS = (0, 0, 0, 0)
SHOWN = 10
"""Services of the chart of the ecosystem."""

Tables = dict[str, Sequence[Struct]]
"""The rows of TABLES that payments alone decide."""

_figures = msgspec.json.Decoder(DemandFigures)
_encode = msgspec.json.Encoder().encode

# An age is a number of whole 24-hour days before the newest payment. Each buyer and seller counts
# once, at the age of its last payment, so that sums over ages count distinct ones.
AGES = f"""
WITH newest AS (SELECT max(paid_at) AS paid_at FROM payments),
paid AS (
    SELECT (newest.paid_at - payments.paid_at) // {DAY} AS age, count(*) AS count, sum(atto) AS atto
    FROM payments, newest GROUP BY age
),
buyers AS (
    SELECT (newest.paid_at - last) // {DAY} AS age, count(*) AS count
    FROM (SELECT max(paid_at) AS last FROM payments GROUP BY sender), newest GROUP BY age
),
sellers AS (
    SELECT (newest.paid_at - last) // {DAY} AS age, count(*) AS count
    FROM (SELECT max(paid_at) AS last FROM payments GROUP BY recipient), newest GROUP BY age
)
SELECT age, paid.count, paid.atto, coalesce(buyers.count, 0), coalesce(sellers.count, 0)
FROM paid LEFT JOIN buyers USING (age) LEFT JOIN sellers USING (age)
"""  # noqa: S608  # made of constants

BUCKETS = """
SELECT paid_at // $length, count(*), sum(atto), count(DISTINCT sender), count(DISTINCT recipient)
FROM payments
WHERE paid_at > $after AND paid_at % $length > $offset
GROUP BY ALL
"""

TRANSACTIONS = f"""
SELECT id, coalesce(tx_hash, '') AS tx_hash, paid_at AS block_timestamp, sender, recipient,
    base_units AS amount, decimal_places AS decimals, chain, address, transaction_from, provider,
    facilitator_id, event_index AS log_index, token_address
FROM payments
ORDER BY paid_at DESC, chain, tx_hash, event_index DESC, sender, recipient, base_units, id, row
LIMIT {NEWEST}
"""  # noqa: S608  # made of constants


class CountedDemand(Struct, frozen=True):
    """The payments of a service: the JSON of its demand, and the payers that order it.

    payers: None without payments that are credited to the service
    of_endpoints: the same of its endpoints that have payments
    """

    text: bytes
    payers: Payers | None
    of_endpoints: dict[int, Payers]


def count_payments(payments: DuckDBPyConnection | None) -> tuple[int, Tables]:
    """Return the number of payments, and their statistics."""
    extent = "SELECT count(*), min(paid_at), max(paid_at) FROM payments"
    row = None if payments is None else payments.execute(extent).fetchone()
    if payments is None or row is None or not row[0]:
        return 0, {"overview": [Overview(**_totals(*ZEROS), latest_block_timestamp=None)]}
    count, oldest, newest = row
    # A timeframe of days starts just after the time of day of the newest payment; `first_days`
    # has the part of the first UTC day that is in it.
    today, longest = newest // DAY, (newest - oldest) // DAY
    days = range(oldest // DAY, today + 1)
    first_days = range(today - 1, today - longest - 1, -1)
    hours = range(max(oldest, newest - DAY) // HOUR, newest // HOUR + 1)
    tables = {
        "overview": _overview(payments, newest),
        "days": _buckets(payments, days, DAY),
        "first_days": _buckets(payments, first_days, DAY, offset=newest % DAY),
        "hours": _buckets(payments, hours, HOUR, after=newest - DAY),
        "transactions": _transactions(payments),
    }
    return count, {name: [*rows] for name, rows in tables.items()}


def write_ecosystem(
    folder: Path,
    statistics: Tables,
    inputs: DemandInputs,
    services: Iterable[tuple[str, str, bytes]],
) -> None:
    """Write the file that `service.snapshot.payments` reads.

    services: the id, the name and the JSON of the demand of each, which is empty without payments
    """
    popular: list[PopularService] = []

    def demand() -> Iterator[bytes]:
        for service_id, name, text in services:
            yield text
            if text:
                figures = asdict(_figures.decode(text))
                popular.append(PopularService(id=service_id, name=name, **figures))
                popular[:] = nlargest(SHOWN, popular, key=lambda one: one.payments)

    with writing_arrays(folder / "ecosystem.arrays") as writer:
        for name in TABLES:
            rows = map(_encode, statistics.get(name, ()))
            write_texts(writer, name, demand() if name == "demand" else rows)
        writer.stream("inputs", [_encode(inputs)])
        writer.stream("popular", [_encode([each for each in popular if each.payments])])


def format_milliseconds(milliseconds: int) -> str:
    """Format milliseconds since 1970 as a timestamp of the API."""
    return format_timestamp(EPOCH + timedelta(milliseconds=milliseconds))


def _overview(payments: DuckDBPyConnection, newest: int) -> Iterator[Struct]:
    """Yield the totals of the last 1, 2, 3, … days."""
    latest = format_milliseconds(newest)
    totals = {age: row for age, *row in payments.execute(AGES).fetchall()}
    running = [*ZEROS]
    for age in range(max(totals) + 1):
        running = [*map(add, running, totals.get(age, ZEROS))]
        yield Overview(**_totals(*running), latest_block_timestamp=latest)


def _buckets(
    payments: DuckDBPyConnection, numbers: range, length: int, after: int = -1, offset: int = -1
) -> Iterator[Struct]:
    """Yield the totals of the buckets with these numbers, in order, empty buckets included.

    Bucket n starts at n * length milliseconds since 1970. Only payments after `after`, and more
    than `offset` milliseconds after the start of their bucket, count.
    """
    values = {"length": length, "after": after, "offset": offset}
    totals = {number: row for number, *row in payments.execute(BUCKETS, values).fetchall()}
    for number in numbers:
        start = format_milliseconds(number * length)
        yield Bucket(**_totals(*totals.get(number, ZEROS)), bucket_start=start)


def _transactions(payments: DuckDBPyConnection) -> Iterator[Struct]:
    cursor = payments.execute(TRANSACTIONS)
    columns = [column[0] for column in cursor.description or ()]
    rows = cursor.fetchall()
    for row, payment_id in zip(rows, _unique_ids(rows), strict=True):
        fields = dict(zip(columns, row, strict=True)) | {"id": payment_id}
        fields["block_timestamp"] = format_milliseconds(fields["block_timestamp"])
        yield Transaction(**{name: value for name, value in fields.items() if value is not None})


def _unique_ids(rows: list[tuple[Any, ...]]) -> Iterator[str]:
    """Yield a unique id for each row: its own id, or else an id derived from the row.

    Rows that share an id get a short hash of the row appended, which does not depend on the order
    of the files; equal rows are numbered.
    """
    counts = Counter(row[0] for row in rows if row[0])
    taken = set(counts)
    copies: Counter[str] = Counter()
    for row in rows:
        payment_id = row[0]
        if counts[payment_id] == 1:
            yield payment_id
            continue
        row_hash = hashlib.sha256(msgspec.json.encode(row)).hexdigest()[:32]
        unique = derived = f"{payment_id}-{row_hash[:8]}" if payment_id else row_hash
        while unique in taken:
            copies[derived] += 1
            unique = f"{derived}-{copies[derived] + 1}"
        taken.add(unique)
        yield unique


def _totals(count: int, atto: int, buyers: int, sellers: int) -> dict[str, int]:
    return {
        "total_transactions": count,
        "total_amount": (atto + ATTO_IN_MICRO // 2) // ATTO_IN_MICRO,
        "unique_buyers": buyers,
        "unique_sellers": sellers,
    }
