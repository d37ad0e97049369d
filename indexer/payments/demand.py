"""Demand: the shape of the payments that were credited to a service, or to one of its endpoints.

Facts beside each other, none of them a verdict. The formulas are in docs/sources.md#demand.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain, groupby, repeat
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import asdict

from indexer.endpoints import decode_endpoints
from indexer.index.popularity import Payers
from indexer.snapshot.ecosystem import ATTO_IN_MICRO, CountedDemand, format_milliseconds
from indexer.untrusted import raw_items, raw_members
from service.schema.demand import (
    Amounts,
    DemandFigures,
    DemandInputs,
    EndpointDemand,
    Shares,
    StoredDemand,
)

if TYPE_CHECKING:  # a catalogue without payments is built without DuckDB
    from duckdb import DuckDBPyConnection

BATCH = 10_000
DAYS = 31
"""UTC days that the 30 x 24 hours touch."""
ENDPOINT_BITS = 32
ENDPOINT_MASK = 2**ENDPOINT_BITS - 1
SERVICE_MASK = ~ENDPOINT_MASK
SHARE_DIGITS = 6

# A row for each service that has payments, and then for its endpoints.
DEMAND = f"""
WITH paid AS (
    SELECT * REPLACE (seller & {SERVICE_MASK} AS seller) FROM credits WHERE seller IS NOT NULL
    UNION ALL
    FROM credits WHERE seller & {ENDPOINT_MASK} > 0
),
payers AS (
    SELECT seller, sum(calls) AS calls, sum(volume) AS volume, max(last) AS last,
        bit_or(1::BIGINT << day) AS days,
        coalesce(bit_or(1::BIGINT << day) FILTER (NOT is_returned), 0) AS counted_days,
        coalesce(sum(calls) FILTER (is_returned), 0) AS returned, sum(unmatched) AS unmatched
    FROM paid WHERE NOT is_self
    GROUP BY seller, sender
),
shape AS (
    SELECT seller, max(last) AS last, count(*) FILTER (bit_count(counted_days) > 1) AS returning,
        count(*) FILTER (counted_days <> 0) AS counted, max(calls)::BIGINT AS top_calls,
        max(volume) AS top_volume, sum(volume) AS volume, sum(calls)::BIGINT AS calls,
        count(*) AS payers, count(*) FILTER (bit_count(days) > 1) AS returning_payers,
        bit_count(bit_or(days))::BIGINT AS active_days,
        sum(returned)::BIGINT AS cycle_payments, sum(unmatched)::BIGINT AS price_unmatched
    FROM payers GROUP BY seller
),
daily AS (
    SELECT seller, list(calls ORDER BY day) AS daily, list(day ORDER BY day) AS on_days
    FROM (
        SELECT seller, day, sum(calls)::BIGINT AS calls FROM paid
        WHERE NOT is_self AND seller & {ENDPOINT_MASK} = 0
        GROUP BY seller, day
    )
    GROUP BY seller
),
selves AS (
    SELECT seller, sum(calls)::BIGINT AS self_payments FROM paid WHERE is_self GROUP BY seller
)
SELECT seller, daily, on_days, coalesce(COLUMNS(* EXCLUDE (seller, daily, on_days)), 0)
FROM shape FULL JOIN selves USING (seller) LEFT JOIN daily USING (seller)
ORDER BY seller
"""  # noqa: S608  # made of constants
COUNTS = [
    "payers",
    "returning_payers",
    "active_days",
    "cycle_payments",
    "price_unmatched",
    "self_payments",
]
"""The last columns of DEMAND, as the public schema names them."""
INPUTS = """
SELECT min(paid_at), max(paid_at), count(*),
    count(*) FILTER (tx_hash IS NULL), count(*) FILTER (event_index IS NULL),
    count(*) FILTER (token_address IS NULL),
    list_sort(list(DISTINCT network))
FROM payments WHERE paid_at > $start
"""


class CreditedDemand(Struct, frozen=True):
    """The payments of 30 days to a service or an endpoint, without payments to oneself.

    daily: the payments of a service on each of the DAYS, empty without payments
    counted: the payers that count for the order, but for those whose money comes back to them
    last: the time of the newest payment, in milliseconds since 1970
    """

    figures: DemandFigures
    daily: list[int]
    counted: Payers
    last: int


class ServiceDemand(Struct, frozen=True):
    """The demand of a service, and of its endpoints that have credits of their own."""

    whole: CreditedDemand
    endpoints: dict[int, CreditedDemand]

    def describe(self, text: bytes) -> CountedDemand:
        """Return the demand as its public schema has it, given the record of the service."""
        addresses = decode_endpoints(text) if self.endpoints else []
        endpoints = [
            EndpointDemand(
                url=addresses[number].url, method=addresses[number].method, **asdict(own.figures)
            )
            for number, own in self.endpoints.items()
        ]
        whole = self.whole
        stored = StoredDemand(endpoints=endpoints, daily=whole.daily, **asdict(whole.figures))
        payers = self.whole.counted if self.whole.figures.payments else None
        own = {n: each.counted for n, each in self.endpoints.items() if each.figures.payments}
        return CountedDemand(msgspec.json.encode(stored), payers, own)

    def fill_usage(self, text: bytes) -> bytes:
        """Add to a record and its endpoints the usage that their `quality` lacks.

        All other values of the record stay byte for byte.
        """
        whole = self.whole.figures
        if not whole.payments:
            return text
        record = raw_members(text)
        endpoints = raw_items(record["endpoints"])
        for number, own in self.endpoints.items():
            if own.figures.payments:
                endpoints[number] = _add_quality(
                    raw_members(endpoints[number]),
                    l30DaysTotalCalls=str(own.figures.payments),
                    l30DaysUniquePayers=str(own.figures.payers),
                )
        record["endpoints"] = Raw(msgspec.json.encode(endpoints))
        filled = _add_quality(
            record,
            totalCalls=whole.payments,
            uniquePayers=whole.payers,
            lastCalledAt=format_milliseconds(self.whole.last),
        )
        return bytes(filled)


def read_demand(connection: DuckDBPyConnection, count: int) -> Iterator[ServiceDemand | None]:
    """Yield the demand of each of `count` services, in order; closes the connection at the end.

    Reads the table `credits` of `indexer.payments.credit`.
    """
    position = 0
    with connection:
        cursor = connection.execute(DEMAND)
        rows = chain.from_iterable(iter(partial(cursor.fetchmany, BATCH), []))
        for service, own in groupby(rows, lambda row: row[0] >> ENDPOINT_BITS):
            yield from repeat(None, service - position)
            whole, *others = own  # the row of a service is before those of its endpoints
            endpoints = {(row[0] & ENDPOINT_MASK) - 1: _credited(*row) for row in others}
            yield ServiceDemand(_credited(*whole), endpoints)
            position = service + 1
    yield from repeat(None, count - position)


def read_inputs(connection: DuckDBPyConnection, start: int) -> DemandInputs:
    """Return the properties of the payments after `start`, credited or not."""
    (row,) = connection.execute(INPUTS, {"start": start}).fetchall()
    oldest, newest, payments, without_transaction, without_log_index, without_token, networks = row
    return DemandInputs(
        start=format_milliseconds(oldest),
        end=format_milliseconds(newest),
        payments=payments,
        networks=networks,
        without_transaction_hash=without_transaction,
        without_log_index=without_log_index,
        without_token=without_token,
    )


def _credited(
    _seller: int,
    calls: list[int] | None,
    on_days: list[int] | None,
    last: int,
    counted_returning: int,
    counted: int,
    top_payments: int,
    top_volume: int,
    volume: int,
    payments: int,
    *counts: int,
) -> CreditedDemand:
    figures = DemandFigures(
        payments=payments,
        volume=_micro(volume),
        top_payer_share=Shares(_ratio(top_payments, payments), _ratio(top_volume, volume)),
        without_top_payer=Amounts(payments - top_payments, _micro(volume - top_volume)),
        **dict(zip(COUNTS, counts, strict=True)),
    )
    by_day = dict(zip(on_days or (), calls or (), strict=True))
    daily = [by_day.get(day, 0) for day in range(DAYS)] if by_day else []
    return CreditedDemand(figures, daily, Payers(counted_returning, counted), last)


def _add_quality(record: dict[str, Raw], **usage: int | str) -> Raw:
    given = record.get("quality")
    known = {} if given is None or bytes(given) == b"null" else raw_members(given)
    return Raw(msgspec.json.encode(record | {"quality": known | (usage | known)}))


def _micro(atto: int) -> int:
    return (atto + ATTO_IN_MICRO // 2) // ATTO_IN_MICRO


def _ratio(part: int, whole: int) -> float:
    return min(round(part / whole, SHARE_DIGITS), 1.0) if whole else 0.0
