"""Usage: what came to the addresses of a service in 30 days, filled in where its record is silent.

Endpoints that share an address each get what came to it: a payment does not say what it was for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import Raw, Struct

from service.records import format_timestamp

if TYPE_CHECKING:  # DuckDB is needed only where there are payments
    from duckdb import DuckDBPyConnection

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
WINDOW = 30 * 24 * 3_600_000
BATCH = 10_000
PART = 5_000_000

SCHEMA = "CREATE OR REPLACE TABLE addresses (service BIGINT, address VARCHAR, key UHUGEINT)"
INSERT = """
INSERT INTO addresses SELECT service, address, md5_number(plain_address(address)) FROM batch
"""
PAYERS = f"""
CREATE OR REPLACE TABLE payers AS
SELECT recipient AS key, sender, count(*) AS calls, max(moment) AS last
FROM payments SEMI JOIN addresses ON payments.recipient = addresses.key
WHERE moment > (SELECT max(moment) FROM payments) - {WINDOW}
GROUP BY ALL
"""  # noqa: S608  # made of constants

NAMED = """
CREATE OR REPLACE TABLE named AS
SELECT service, address, used.*
FROM addresses JOIN (
    SELECT key, sum(calls) AS calls, count(*) AS payers, max(last) AS last
    FROM payers GROUP BY key
) AS used USING (key)
"""
# Who paid several addresses of a service is one payer: those of the address that has most, and of
# the others' those who did not pay that one. So an address that many services name is not joined
# with each of them. What has to be joined is, a part at a time, so that it fits into the memory.
SERVICES = f"""
CREATE OR REPLACE TABLE services AS
SELECT *, sum(elsewhere) OVER (ORDER BY service) // {PART} AS part
FROM (
    SELECT service, sum(calls) AS calls, max(last) AS last, max(payers) AS payers,
        arg_max(key, (payers, key)) AS busiest, sum(payers) - max(payers) AS elsewhere
    FROM (SELECT DISTINCT service, key, calls, payers, last FROM named) GROUP BY service
)
"""  # noqa: S608  # a constant
OTHERS = "CREATE OR REPLACE TABLE others (service BIGINT, payers BIGINT)"
COUNT_OTHERS = """
INSERT INTO others
SELECT service, count(DISTINCT sender)
FROM (
    SELECT service, busiest, sender
    FROM (SELECT * FROM services WHERE part = ? AND elsewhere > 0)
    JOIN (SELECT DISTINCT service, key FROM named) USING (service)
    JOIN payers USING (key)
    WHERE key <> busiest
) AS other
ANTI JOIN payers ON payers.key = other.busiest AND payers.sender = other.sender
GROUP BY service
"""
USAGE = """
SELECT service, services.calls, services.payers + coalesce(others.payers, 0), services.last,
    addresses
FROM services
JOIN (
    SELECT service, list((address, calls, payers, last)) AS addresses FROM named GROUP BY service
) USING (service)
LEFT JOIN others USING (service)
ORDER BY service
"""


class Usage(Struct, frozen=True):
    """Payments, the number of those who made them, and the last, in milliseconds since 1970."""

    calls: int
    payers: int
    last: int


class ServiceUsage(Struct):
    """What came to all addresses of a service, no payer counted twice, and to each in use."""

    whole: Usage
    addresses: dict[str, Usage]


class PaidEndpoint(Struct, rename="camel"):
    """Where an endpoint says it is paid, be that an address or not."""

    pay_to: Any = None


class PaidRecord(Struct):
    """A record as far as it says where it is paid."""

    endpoints: list[PaidEndpoint]


_paid = msgspec.json.Decoder(PaidRecord)
_paid_endpoint = msgspec.json.Decoder(PaidEndpoint)
_object = msgspec.json.Decoder(dict[str, Raw])
_array = msgspec.json.Decoder(list[Raw])


def read_addresses(text: bytes) -> tuple[str, ...]:
    """The addresses that the endpoints of a valid record are paid at, each once."""
    paid = (endpoint.pay_to for endpoint in _paid.decode(text).endpoints)
    return tuple(dict.fromkeys(address for address in paid if isinstance(address, str)))


def count_usage(
    payments: DuckDBPyConnection | None, services: Iterable[tuple[str, ...]]
) -> Iterator[ServiceUsage | None]:
    """What came to the addresses of each service, in their order; None where nothing did.

    It is counted over the 30 days up to and including the newest payment. The services are read
    to their end first; their addresses stand in the database of `load_payments`.
    """
    if payments is None:
        yield from (None for _ in services)
        return
    connection = payments.cursor()  # a result of its own, whatever else is asked meanwhile
    try:
        connection.execute(SCHEMA)
        count = _insert(connection, services)
        for query in (PAYERS, NAMED, SERVICES, OTHERS):
            connection.execute(query)
        parts = connection.execute("SELECT DISTINCT part FROM services WHERE elsewhere > 0")
        for part in parts.fetchall():
            connection.execute(COUNT_OTHERS, part)
        found = _found(connection)
        upcoming = next(found, None)
        for number in range(count):
            if upcoming is None or upcoming[0] != number:
                yield None
                continue
            yield upcoming[1]
            upcoming = next(found, None)
    finally:
        connection.close()


def fill_usage(text: bytes, usage: ServiceUsage | None) -> bytes:
    """The record with its quality and that of its endpoints filled in, key by key, where absent.

    All else of it, and `quality.score`, stays as it stands.
    """
    if usage is None:
        return text
    record = _object.decode(text)
    endpoints = [_fill_endpoint(endpoint, usage) for endpoint in _array.decode(record["endpoints"])]
    record["endpoints"] = Raw(msgspec.json.encode(endpoints))
    whole = usage.whole
    last = format_timestamp(EPOCH + timedelta(milliseconds=whole.last))
    quality = {"totalCalls": whole.calls, "uniquePayers": whole.payers, "lastCalledAt": last}
    return msgspec.json.encode(_filled(record, quality))


def _insert(connection: DuckDBPyConnection, services: Iterable[tuple[str, ...]]) -> int:
    """Insert the addresses of services; returns how many services there are."""
    numbered, count = iter(services), 0
    while batch := list(islice(numbered, BATCH)):
        pairs = [(number, address) for number, own in enumerate(batch, count) for address in own]
        count += len(batch)
        if not pairs:
            continue
        numbers, addresses = zip(*pairs, strict=True)
        columns = {"service": np.array(numbers), "address": np.array(addresses, dtype=object)}
        connection.register("batch", columns)
        connection.execute(INSERT)
        connection.unregister("batch")
    return count


def _found(connection: DuckDBPyConnection) -> Iterator[tuple[int, ServiceUsage]]:
    cursor = connection.execute(USAGE)
    while batch := cursor.fetchmany(BATCH):
        for service, calls, payers, last, addresses in batch:
            own = {address: Usage(int(c), p, at) for address, c, p, at in addresses}
            yield service, ServiceUsage(Usage(int(calls), payers, last), own)


def _fill_endpoint(text: Raw, usage: ServiceUsage) -> Raw:
    address = _paid_endpoint.decode(text).pay_to
    used = usage.addresses.get(address) if isinstance(address, str) else None
    if used is None:
        return text
    quality = {"l30DaysTotalCalls": str(used.calls), "l30DaysUniquePayers": str(used.payers)}
    return Raw(msgspec.json.encode(_filled(_object.decode(text), quality)))


def _filled(record: dict[str, Raw], quality: dict[str, Any]) -> dict[str, Any]:
    given = record.get("quality")
    known = {} if given is None or bytes(given) == b"null" else _object.decode(given)
    absent = {key: value for key, value in quality.items() if key not in known}
    return record | {"quality": known | absent}
