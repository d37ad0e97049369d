"""Demand: the shape of the payments that were credited to a service, or to one of its endpoints.

Facts beside each other, none of them a verdict. The formulas are in docs/indexing.md#demand.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw, Struct

from indexer.search.popularity import Payers
from indexer.snapshot.demand import CountedDemand
from indexer.snapshot.ecosystem import ATTO_IN_MICRO, format_milliseconds
from indexer.untrusted import raw_items, raw_members
from indexer.x402.endpoints import decode_endpoints
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
        bit_or(days) AS days, coalesce(bit_or(days) FILTER (NOT is_returned), 0) AS counted_days,
        coalesce(sum(calls) FILTER (is_returned), 0) AS returned, sum(unmatched) AS unmatched
    FROM paid WHERE NOT is_self
    GROUP BY seller, sender
),
shape AS (
    SELECT seller, sum(calls)::BIGINT AS calls, count(*) AS payers,
        count(*) FILTER (bit_count(days) > 1) AS returning,
        count(*) FILTER (counted_days <> 0) AS counted,
        count(*) FILTER (bit_count(counted_days) > 1) AS counted_returning,
        bit_count(bit_or(days))::BIGINT AS active_days, max(last) AS last,
        sum(volume) AS volume, max(calls)::BIGINT AS top_calls, max(volume) AS top_volume,
        sum(returned)::BIGINT AS returned, sum(unmatched)::BIGINT AS unmatched
    FROM payers GROUP BY seller
),
selves AS (SELECT seller, sum(calls)::BIGINT AS selves FROM paid WHERE is_self GROUP BY seller)
SELECT seller, coalesce(COLUMNS(* EXCLUDE (seller)), 0)
FROM shape FULL JOIN selves USING (seller)
ORDER BY seller
"""  # noqa: S608  # made of constants
INPUTS = """
SELECT coalesce(min(paid_at), 0), coalesce(max(paid_at), 0), count(*),
    count(*) FILTER (tx_hash IS NULL), count(*) FILTER (event_index IS NULL),
    count(*) FILTER (token_address IS NULL),
    coalesce(list_sort(list(DISTINCT network)), [])
FROM payments WHERE paid_at > $start
"""


class CreditedDemand(Struct, frozen=True):
    """The payments of 30 days to a service or an endpoint, without payments to oneself.

    returning: payers on two UTC days at least
    counted_payers, counted_returning: the same without payments that were paid back
    last: of the newest payment, in milliseconds since 1970
    volume, top_volume: in 10^-18 US dollars, of all payers and of the greatest one
    unmatched: payments of an amount that no endpoint asks
    """

    payments: int
    payers: int
    returning: int
    counted_payers: int
    counted_returning: int
    active_days: int
    last: int
    volume: int
    top_payments: int
    top_volume: int
    cycle_payments: int
    unmatched: int
    self_payments: int

    @property
    def counted(self) -> Payers:
        """The payers that count for the order, but for those whose money comes back to them."""
        return Payers(self.counted_returning, self.counted_payers)

    def figures(self) -> dict[str, Any]:
        """Return the values of `DemandFigures`, by field."""
        rest = self.payments - self.top_payments, _micro(self.volume - self.top_volume)
        shares = _ratio(self.top_payments, self.payments), _ratio(self.top_volume, self.volume)
        figures = DemandFigures(
            payments=self.payments,
            volume=_micro(self.volume),
            payers=self.payers,
            returning_payers=self.returning,
            active_days=self.active_days,
            top_payer_share=Shares(*shares),
            self_payments=self.self_payments,
            cycle_payments=self.cycle_payments,
            without_top_payer=Amounts(*rest),
            price_unmatched=self.unmatched,
        )
        return msgspec.structs.asdict(figures)


class ServiceDemand(Struct, frozen=True):
    """The demand of a service, and of its endpoints that have credits of their own."""

    whole: CreditedDemand
    endpoints: dict[int, CreditedDemand]

    def describe(self, text: bytes) -> CountedDemand:
        """Return the demand as its public schema has it, given the record of the service."""
        addresses = decode_endpoints(text) if self.endpoints else []
        endpoints = [
            EndpointDemand(url=addresses[each].url, method=addresses[each].method, **own.figures())
            for each, own in self.endpoints.items()
        ]
        stored = StoredDemand(endpoints=endpoints, **self.whole.figures())
        payers = self.whole.counted if self.whole.payments else None
        own = {number: each.counted for number, each in self.endpoints.items() if each.payments}
        return CountedDemand(msgspec.json.encode(stored), payers, own)

    def fill_usage(self, text: bytes) -> bytes:
        """Add to a record and its endpoints the usage that their `quality` lacks.

        All other values of the record stay byte for byte.
        """
        if not self.whole.payments:
            return text
        record = raw_members(text)
        endpoints = raw_items(record["endpoints"])
        for number, own in self.endpoints.items():
            if own.payments:
                endpoints[number] = _add_quality(
                    raw_members(endpoints[number]),
                    l30DaysTotalCalls=str(own.payments),
                    l30DaysUniquePayers=str(own.payers),
                )
        record["endpoints"] = Raw(msgspec.json.encode(endpoints))
        filled = _add_quality(
            record,
            totalCalls=self.whole.payments,
            uniquePayers=self.whole.payers,
            lastCalledAt=format_milliseconds(self.whole.last),
        )
        return bytes(filled)


def read_demand(connection: DuckDBPyConnection, count: int) -> Iterator[ServiceDemand | None]:
    """Yield the demand of each of `count` services, in order; closes the connection at the end.

    Reads the table `credits` of `indexer.payments.credit`.
    """
    next_service = 0
    with connection:
        for service, demand in _by_service(connection):
            for _ in range(next_service, service):
                yield None
            yield demand
            next_service = service + 1
    for _ in range(next_service, count):
        yield None


def read_inputs(connection: DuckDBPyConnection, start: int | None) -> DemandInputs:
    """Return the properties of the payments after `start`, credited or not."""
    (row,) = connection.execute(INPUTS, {"start": start}).fetchall()
    oldest, newest, payments, without_transaction, without_log_index, without_token, networks = row
    if not payments:
        return DemandInputs()
    return DemandInputs(
        start=format_milliseconds(oldest),
        end=format_milliseconds(newest),
        payments=payments,
        networks=networks,
        without_transaction_hash=without_transaction,
        without_log_index=without_log_index,
        without_token=without_token,
    )


def _by_service(connection: DuckDBPyConnection) -> Iterator[tuple[int, ServiceDemand]]:
    cursor = connection.execute(DEMAND)
    rows = chain.from_iterable(iter(partial(cursor.fetchmany, BATCH), []))
    for service, own in groupby(rows, lambda row: row[0] >> ENDPOINT_BITS):
        (_, *figures), *others = own  # the row of a service is before those of its endpoints
        endpoints = {
            (seller & ENDPOINT_MASK) - 1: CreditedDemand(*of_endpoint)
            for seller, *of_endpoint in others
        }
        yield service, ServiceDemand(CreditedDemand(*figures), endpoints)


def _add_quality(record: dict[str, Raw], **usage: int | str) -> Raw:
    given = record.get("quality")
    known = {} if given is None or bytes(given) == b"null" else raw_members(given)
    return Raw(msgspec.json.encode(record | {"quality": known | (usage | known)}))


def _micro(atto: int) -> int:
    return (atto + ATTO_IN_MICRO // 2) // ATTO_IN_MICRO


def _ratio(part: int, whole: int) -> float:
    return min(round(part / whole, SHARE_DIGITS), 1.0) if whole else 0.0
