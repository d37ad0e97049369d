"""Usage from payments: equal to a brute force count, and added where a record states none."""

from __future__ import annotations

import json
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.payments.load import load_payments
from indexer.payments.usage import (
    ServiceUsage,
    Usage,
    count_usage,
    fill_usage,
    read_addresses,
)
from indexer.sources.rejects import Rejects
from tests.support.running import Json, endpoint, examples, payment, service, write_lines

NEWEST = datetime(2026, 5, 7, 10, 16, 51, tzinfo=UTC)
MONTH = timedelta(days=30)
MOMENT = int(NEWEST.timestamp() * 1000)
ADDRESSES = ("0xA", "0xa", "0xB", "Sol", "sol", "idle")

Service = tuple[str, ...]
"""The addresses that its endpoints are paid at."""

Paid = list[tuple[timedelta, str, str]]
"""Payments: the age at NEWEST, the payer, the address."""

ages = st.one_of(
    st.timedeltas(timedelta(0), 2 * MONTH),
    st.sampled_from([timedelta(0), MONTH, MONTH - timedelta(milliseconds=1)]),
).map(lambda age: age // timedelta(milliseconds=1) * timedelta(milliseconds=1))
payments = st.lists(
    st.tuples(ages, st.sampled_from("abcde"), st.sampled_from(ADDRESSES[:-1])), max_size=30
)
services = st.lists(st.lists(st.sampled_from(ADDRESSES), max_size=4).map(tuple), max_size=5)


def count(paid: Paid, services: list[Service]) -> list[ServiceUsage | None]:
    rows = [
        payment(
            tx_hash=f"0x{number}",
            block_timestamp=(NEWEST - age).isoformat(),
            sender=payer,
            recipient=address,
        )
        for number, (age, payer, address) in enumerate(paid)
    ]
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
        name = write_lines(Path(folder) / "payments.jsonl", rows)
        load_payments(connection, [name], Path(folder), Rejects(None), NEWEST)
        usages = list(count_usage(connection, iter(services)))
        assert list(count_usage(connection, services)) == usages
        return usages


def count_by_brute_force(paid: Paid, service: Service) -> ServiceUsage | None:
    each = {address: total(paid, {address}) for address in service}
    whole = total(paid, set(service))
    in_use = {address: usage for address, usage in each.items() if usage is not None}
    return None if whole is None else ServiceUsage(whole, in_use)


def total(paid: Paid, addresses: set[str]) -> Usage | None:
    canonical = {canonical_address(address) for address in addresses}
    window = [row for row in paid if row[0] < MONTH and canonical_address(row[2]) in canonical]
    if not window:
        return None
    last = NEWEST - min(age for age, _, _ in window)
    milliseconds = (last - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    return Usage(len(window), len({payer for _, payer, _ in window}), milliseconds)


def canonical_address(address: str) -> str:
    return address.lower() if address.startswith("0x") else address


@settings(max_examples=examples(25), deadline=None)
@given(payments, services)
def test_usage_equals_a_brute_force_count(paid: Paid, services: list[Service]) -> None:
    paid = [(timedelta(0), "a", "Sol"), *paid]
    expected = [count_by_brute_force(paid, service) for service in services]
    assert count(paid, services) == expected


def test_usage_is_counted_for_more_services_than_a_batch() -> None:
    services: list[Service] = [(f"0x{n}",) if n % 2 else () for n in range(25_000)]
    usages = count([(timedelta(0), "a", "0x19999"), (timedelta(0), "b", "0x1")], services)
    assert [number for number, usage in enumerate(usages) if usage] == [1, 19_999]
    assert len(usages) == 25_000


def test_payers_counted_in_parts_equal_payers_counted_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paid = [(timedelta(0), "abcdefgh"[n % 8], f"S{n % 11}") for n in range(60)]
    services = [tuple(f"S{(n + k * k) % 11}" for k in range(n % 4)) for n in range(40)]
    at_once = count(paid, services)
    monkeypatch.setattr("indexer.payments.usage.PART", 3)
    assert count(paid, services) == at_once
    assert at_once == [count_by_brute_force(paid, service) for service in services]


def record(**fields: object) -> Json:
    return service(endpoints=[endpoint() | {"payTo": "0xA"} | fields])


def fill(text: str) -> Json:
    usage = ServiceUsage(Usage(7, 3, MOMENT), {"0xA": Usage(5, 2, MOMENT - 1)})
    filled: Json = json.loads(fill_usage(text.encode(), usage))
    return filled


@pytest.mark.parametrize("absent", [{}, {"quality": None}, {"quality": {}}])
def test_missing_quality_is_filled_in(absent: Json) -> None:
    given = record(**absent)
    filled = fill(json.dumps(given | absent))
    assert filled.pop("quality") == {
        "totalCalls": 7,
        "uniquePayers": 3,
        "lastCalledAt": "2026-05-07T10:16:51.000Z",
    }
    assert filled["endpoints"][0].pop("quality") == {
        "l30DaysTotalCalls": "5",
        "l30DaysUniquePayers": "2",
    }
    for shape in (given, given["endpoints"][0]):
        shape.pop("quality", None)
    assert filled == given


def test_given_quality_stays() -> None:
    given = record(quality={"l30DaysTotalCalls": "1"})
    filled = fill(json.dumps(given | {"quality": {"score": 0.5, "totalCalls": 1}}))
    assert filled["endpoints"][0]["quality"] == {
        "l30DaysTotalCalls": "1",
        "l30DaysUniquePayers": "2",
    }
    assert filled["quality"] == {
        "score": 0.5,
        "totalCalls": 1,
        "uniquePayers": 3,
        "lastCalledAt": "2026-05-07T10:16:51.000Z",
    }


def test_unknown_fields_and_numbers_stay_byte_for_byte() -> None:
    verbatim = '"x":123456789012345678901234567890,"y":[1.10,1e400,"\\u00e9"]'
    plain_endpoint = f'{{"url":"u","payTo":7,{verbatim}}}'
    text = f'{{"id":"one",{verbatim},"endpoints":[{{"payTo":"0xA",{verbatim}}},{plain_endpoint}]}}'
    usage = ServiceUsage(Usage(7, 3, MOMENT), {"0xA": Usage(5, 2, MOMENT)})
    filled = fill_usage(text.encode(), usage).decode()
    assert filled.count(verbatim) == 3
    assert plain_endpoint in filled


def test_each_address_of_the_endpoints_is_read_once() -> None:
    endpoints = [endpoint() | {"payTo": to} for to in ("0xA", "Sol", None, 7, ["x"], "0xA")]
    text = json.dumps(service(endpoints=[*endpoints, endpoint()])).encode()
    assert read_addresses(text) == ("0xA", "Sol")
