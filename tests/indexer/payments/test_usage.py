"""Usage from payments: counted as by brute force, and filled in where a record is silent."""

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
    PART,
    SERVICES,
    ServiceUsage,
    Usage,
    count_usage,
    fill_usage,
    read_addresses,
)
from indexer.sources.rejects import Rejects
from tests.support.running import Json, endpoint, payment, service, write_lines

NEWEST = datetime(2026, 5, 7, 10, 16, 51, tzinfo=UTC)
MONTH = timedelta(days=30)
MOMENT = int(NEWEST.timestamp() * 1000)
ADDRESSES = ("0xA", "0xa", "0xB", "Sol", "sol", "idle")

Paid = list[tuple[timedelta, str, str]]
ages = st.one_of(
    st.timedeltas(timedelta(0), 2 * MONTH),
    st.sampled_from([timedelta(0), MONTH, MONTH - timedelta(milliseconds=1)]),
).map(lambda age: age // timedelta(milliseconds=1) * timedelta(milliseconds=1))
payments = st.lists(
    st.tuples(ages, st.sampled_from("abcde"), st.sampled_from(ADDRESSES[:-1])), max_size=30
)
services = st.lists(st.lists(st.sampled_from(ADDRESSES), max_size=4).map(tuple), max_size=5)


def count(paid: Paid, asked: list[tuple[str, ...]]) -> list[ServiceUsage | None]:
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
        first = list(count_usage(connection, iter(asked)))
        assert list(count_usage(connection, asked)) == first
        return first


@settings(max_examples=25, deadline=None)
@given(payments, services)
def test_usage_counts_as_brute_force_does(paid: Paid, asked: list[tuple[str, ...]]) -> None:
    paid = [(timedelta(0), "a", "Sol"), *paid]
    assert count(paid, asked) == [expected(paid, addresses) for addresses in asked]


def expected(paid: Paid, addresses: tuple[str, ...]) -> ServiceUsage | None:
    each = {address: total(paid, {address}) for address in addresses}
    used = {address: usage for address, usage in each.items() if usage is not None}
    whole = total(paid, set(addresses))
    return None if whole is None else ServiceUsage(whole, used)


def total(paid: Paid, addresses: set[str]) -> Usage | None:
    wanted = {plain(address) for address in addresses}
    window = [row for row in paid if row[0] < MONTH and plain(row[2]) in wanted]
    if not window:
        return None
    last = NEWEST - min(age for age, _, _ in window)
    milliseconds = (last - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    return Usage(len(window), len({payer for _, payer, _ in window}), milliseconds)


def plain(address: str) -> str:
    return address.lower() if address.startswith("0x") else address


def test_the_payments_of_more_services_than_a_batch_find_their_service() -> None:
    asked: list[tuple[str, ...]] = [
        (f"0x{number}",) if number % 2 else () for number in range(25_000)
    ]
    found = count([(timedelta(0), "a", "0x19999"), (timedelta(0), "b", "0x1")], asked)
    assert [number for number, usage in enumerate(found) if usage] == [1, 19_999]


def test_payers_counted_in_parts_are_those_counted_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paid = [(timedelta(0), "abcdefgh"[n % 8], f"S{n % 11}") for n in range(60)]
    asked = [tuple(f"S{(n + k * k) % 11}" for k in range(n % 4)) for n in range(40)]
    at_once = count(paid, asked)
    monkeypatch.setattr("indexer.payments.usage.SERVICES", SERVICES.replace(f"// {PART}", "// 3"))
    assert count(paid, asked) == at_once == [expected(paid, addresses) for addresses in asked]


def test_without_payments_there_is_no_usage() -> None:
    assert list(count_usage(None, [("0xa",), ()])) == [None, None]
    assert fill_usage(b"{", None) == b"{"


def record(**fields: object) -> Json:
    return service(endpoints=[endpoint() | {"payTo": "0xA"} | fields])


def fill(text: str) -> Json:
    usage = ServiceUsage(Usage(7, 3, MOMENT), {"0xA": Usage(5, 2, MOMENT - 1)})
    filled: Json = json.loads(fill_usage(text.encode(), usage))
    return filled


@pytest.mark.parametrize("absent", [{}, {"quality": None}, {"quality": {}}])
def test_what_a_record_does_not_say_is_filled_in(absent: Json) -> None:
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


def test_what_a_record_says_stays() -> None:
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


def test_unknown_fields_and_numbers_stay_as_they_are_written() -> None:
    verbatim = '"x":123456789012345678901234567890,"y":[1.10,1e400,"\\u00e9"]'
    plain_endpoint = f'{{"url":"u","payTo":7,{verbatim}}}'
    text = f'{{"id":"one",{verbatim},"endpoints":[{{"payTo":"0xA",{verbatim}}},{plain_endpoint}]}}'
    usage = ServiceUsage(Usage(7, 3, MOMENT), {"0xA": Usage(5, 2, MOMENT)})
    filled = fill_usage(text.encode(), usage).decode()
    assert filled.count(verbatim) == 3
    assert plain_endpoint in filled


def test_addresses_are_those_of_endpoints_each_once() -> None:
    endpoints = [endpoint() | {"payTo": to} for to in ("0xA", "Sol", None, 7, ["x"], "0xA")]
    text = json.dumps(service(endpoints=[*endpoints, endpoint()])).encode()
    assert read_addresses(text) == ("0xA", "Sol")
