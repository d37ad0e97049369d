"""Usage: payments to the addresses of a service in 30 days, added where its record states none.

Each endpoint counts all payments to its address, also where endpoints share one: a payment does not
name an endpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import Raw, Struct

from indexer.snapshot.ecosystem import format_milliseconds

if TYPE_CHECKING:  # a catalogue without payments is built without DuckDB
    from duckdb import DuckDBPyConnection

WINDOW = 30 * 24 * 3_600_000  # milliseconds
BATCH = 10_000
PART = 5_000_000  # rows that COUNT_OTHERS joins at a time; bounds the memory of the join

SCHEMA = "CREATE OR REPLACE TABLE addresses (service BIGINT, address VARCHAR, key UHUGEINT)"
INSERT = """
INSERT INTO addresses
SELECT service, address, md5_number(canonical_address(address)) FROM batch
"""
PAYERS = f"""
CREATE OR REPLACE TABLE payers AS
SELECT recipient AS key, sender, count(*) AS calls, max(paid_at) AS last
FROM payments SEMI JOIN addresses ON payments.recipient = addresses.key
WHERE paid_at > (SELECT max(paid_at) FROM payments) - {WINDOW}
GROUP BY ALL
"""  # noqa: S608  # made of constants

PAID_ADDRESSES = """
CREATE OR REPLACE TABLE paid_addresses AS
SELECT service, address, totals.*
FROM addresses JOIN (
    SELECT key, sum(calls) AS calls, count(*) AS payers, max(last) AS last
    FROM payers GROUP BY key
) AS totals USING (key)
"""
# A payer of several addresses of a service counts once. `paid_addresses` has the number of payers
# of the busiest address; COUNT_OTHERS adds the payers of the other addresses who did not pay that
# one. So no join multiplies the payers of a busy address by the many services that name it.
SERVICES = """
CREATE OR REPLACE TABLE services AS
SELECT *, sum(elsewhere) OVER (ORDER BY service) // $part AS part
FROM (
    SELECT service, sum(calls) AS calls, max(last) AS last, max(payers) AS payers,
        arg_max(key, (payers, key)) AS busiest, sum(payers) - max(payers) AS elsewhere
    FROM (SELECT DISTINCT service, key, calls, payers, last FROM paid_addresses)
    GROUP BY service
)
"""
OTHERS = "CREATE OR REPLACE TABLE others (service BIGINT, payers BIGINT)"
COUNT_OTHERS = """
INSERT INTO others
SELECT service, count(DISTINCT sender)
FROM (
    SELECT service, busiest, sender
    FROM (SELECT * FROM services WHERE part = ? AND elsewhere > 0)
    JOIN (SELECT DISTINCT service, key FROM paid_addresses) USING (service)
    JOIN payers USING (key)
    WHERE key <> busiest
) AS other
ANTI JOIN payers ON payers.key = other.busiest AND payers.sender = other.sender
GROUP BY service
"""
# A row for each of `$count` services, in order, with nulls for a service without payments.
USAGE = """
SELECT services.calls::BIGINT, services.payers + coalesce(others.payers, 0), services.last, paid
FROM range($count) AS numbers(service)
LEFT JOIN services USING (service)
LEFT JOIN others USING (service)
LEFT JOIN (
    SELECT service, list((address, calls::BIGINT, payers, last)) AS paid
    FROM paid_addresses GROUP BY service
) USING (service)
ORDER BY service
"""


class Usage(Struct, frozen=True):
    """Payments, distinct payers, and the time of the last payment in milliseconds since 1970."""

    calls: int
    payers: int
    last: int


class ServiceUsage(Struct):
    """The usage of a whole service, and that of each of its addresses with payments."""

    whole: Usage
    addresses: dict[str, Usage]


class PaidEndpoint(Struct, rename="camel"):
    """An endpoint, with `payTo` of any JSON type: catalogue records may hold anything there."""

    pay_to: Any = None


class PaidRecord(Struct):
    """A record of which only the endpoints are decoded."""

    endpoints: list[PaidEndpoint]


_record = msgspec.json.Decoder(PaidRecord)
_endpoint = msgspec.json.Decoder(PaidEndpoint)
_object = msgspec.json.Decoder(dict[str, Raw])
_array = msgspec.json.Decoder(list[Raw])


def read_addresses(text: bytes) -> tuple[str, ...]:
    """Return the distinct `payTo` addresses of the endpoints of a valid record."""
    values = (endpoint.pay_to for endpoint in _record.decode(text).endpoints)
    return tuple(dict.fromkeys(value for value in values if isinstance(value, str)))


def count_usage(
    payments: DuckDBPyConnection, services: Iterable[tuple[str, ...]]
) -> Iterator[ServiceUsage | None]:
    """Yield the usage of each service, given its addresses; None for a service without payments.

    The window is the 30 days up to and including the newest payment. `payments` is the database
    that `load_payments` filled. All services are consumed before the first usage is yielded.
    """
    with payments.cursor() as connection:  # the caller may run other queries meanwhile
        connection.execute(SCHEMA)
        count = _insert_addresses(connection, services)
        connection.execute(PAYERS)
        connection.execute(PAID_ADDRESSES)
        connection.execute(SERVICES, {"part": PART})
        connection.execute(OTHERS)
        parts = connection.execute("SELECT DISTINCT part FROM services WHERE elsewhere > 0")
        for part in parts.fetchall():
            connection.execute(COUNT_OTHERS, part)
        rows = connection.execute(USAGE, {"count": count})
        while batch := rows.fetchmany(BATCH):
            for calls, payers, last, paid in batch:
                if calls is None:
                    yield None
                else:
                    addresses = {address: Usage(*totals) for address, *totals in paid}
                    yield ServiceUsage(Usage(calls, payers, last), addresses)


def fill_usage(text: bytes, usage: ServiceUsage) -> bytes:
    """Add to a record and its endpoints the usage that their `quality` lacks.

    All other values of the record stay byte for byte.
    """
    record = _object.decode(text)
    endpoints = [_fill_endpoint(endpoint, usage) for endpoint in _array.decode(record["endpoints"])]
    record["endpoints"] = Raw(msgspec.json.encode(endpoints))
    whole = usage.whole
    quality = {
        "totalCalls": whole.calls,
        "uniquePayers": whole.payers,
        "lastCalledAt": format_milliseconds(whole.last),
    }
    return msgspec.json.encode(_add_quality(record, quality))


def _insert_addresses(connection: DuckDBPyConnection, services: Iterable[tuple[str, ...]]) -> int:
    """Insert the addresses of services; returns the number of services."""
    remaining, count = iter(services), 0
    while batch := list(islice(remaining, BATCH)):
        pairs = [
            (number, address)
            for number, addresses in enumerate(batch, count)
            for address in addresses
        ]
        count += len(batch)
        if pairs:
            numbers, addresses = zip(*pairs, strict=True)
            columns = {"service": np.array(numbers), "address": np.array(addresses, dtype=object)}
            connection.register("batch", columns)
            connection.execute(INSERT)
            connection.unregister("batch")
    return count


def _fill_endpoint(text: Raw, usage: ServiceUsage) -> Raw:
    address = _endpoint.decode(text).pay_to
    totals = usage.addresses.get(address) if isinstance(address, str) else None
    if totals is None:
        return text
    quality = {"l30DaysTotalCalls": str(totals.calls), "l30DaysUniquePayers": str(totals.payers)}
    return Raw(msgspec.json.encode(_add_quality(_object.decode(text), quality)))


def _add_quality(record: dict[str, Raw], quality: dict[str, Any]) -> dict[str, Any]:
    given = record.get("quality")
    known = {} if given is None or bytes(given) == b"null" else _object.decode(given)
    absent = {key: value for key, value in quality.items() if key not in known}
    return record | {"quality": known | absent}
