"""Ecosystem tables: every answer equals a brute force count."""

from __future__ import annotations

import json
import random
import tempfile
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.intake.findings import Findings
from indexer.options import SourceOptions
from indexer.payments.load import load_payments
from indexer.snapshot.ecosystem import count_payments, write_ecosystem
from service.schema.demand import DemandInputs
from service.schema.values import format_timestamp
from service.snapshot.payments import Ecosystem
from tests.support.running import Json, examples, payment, write_lines
from tests.support.sources.payments import open_database

START = datetime(2026, 3, 27, tzinfo=UTC)
DAY = timedelta(days=1)
HOUR = timedelta(hours=1)

# Windows begin and end around midnight and the full hour.
moments = st.one_of(
    st.timedeltas(timedelta(0), 9 * DAY),
    st.builds(
        lambda hours, nudge: hours * HOUR + timedelta(milliseconds=nudge),
        st.integers(1, 9 * 24),
        st.integers(-1, 1),
    ),
    st.sampled_from([timedelta(0), DAY, 3 * DAY, 300 * DAY]),
).map(lambda since: START + timedelta(milliseconds=since // timedelta(milliseconds=1)))
payments = st.lists(
    st.tuples(moments, st.sampled_from("abcde"), st.sampled_from("xyz"), st.integers(0, 10**13)),
    min_size=1,
    max_size=40,
)
Payment = tuple[datetime, str, str, int]


@settings(max_examples=examples(30), deadline=None)
@given(payments, st.integers(1, 14))
def test_the_answer_for_every_timeframe_equals_a_brute_force_count(
    paid: list[Payment], decimals: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ecosystem = tabulate(Path(folder), paid, decimals)
        for timeframe in (1, 2, 3, 5, 8, 9, 10, 11, 299, 300, 301, 10**9):
            window = within(paid, timeframe)
            newest = format_timestamp(max(moment for moment, *_ in paid))
            expected = totals(window, decimals) | {"latest_block_timestamp": newest}
            assert json.loads(ecosystem.overview(timeframe)) == expected
            length = HOUR if timeframe == 1 else DAY
            stats = json.loads(b"[%b]" % ecosystem.stats(timeframe))
            assert stats == buckets(paid, window, timeframe, length, decimals)


def test_pages_give_exactly_the_newest_10_000_payments(tmp_path: Path) -> None:
    moments = [START + timedelta(milliseconds=number) for number in range(10_005)]
    shuffled = random.Random(1).sample(moments, len(moments))  # noqa: S311  # not for cryptography
    ecosystem = tabulate(tmp_path, [(moment, "a", "x", 1) for moment in shuffled], 6)
    listed: list[str] = []
    page, has_next = 0, True
    while has_next:
        items, has_next = ecosystem.transactions(page, 200)
        listed += [item["block_timestamp"] for item in json.loads(b"[%b]" % items)]
        page += 1
    assert page == 50
    assert listed == [format_timestamp(moment) for moment in moments[:-10_001:-1]]


def test_equal_payments_without_a_hash_have_numbered_ids(tmp_path: Path) -> None:
    ecosystem = write_and_open(tmp_path, [payment(tx_hash="") for _ in range(3)])
    items, _ = ecosystem.transactions(0, 10)
    first, *others = sorted(item["id"] for item in json.loads(b"[%b]" % items))
    assert others == [f"{first}-2", f"{first}-3"]


def test_of_payments_of_one_transaction_the_last_event_is_the_newest(tmp_path: Path) -> None:
    rows = [payment(log_index=number, sender=f"0x{number % 4}") for number in (2, 9, 1, 7)]
    ecosystem = write_and_open(tmp_path, rows)
    items, _ = ecosystem.transactions(0, 10)
    assert [item["log_index"] for item in json.loads(b"[%b]" % items)] == [9, 7, 2, 1]


def tabulate(folder: Path, paid: list[Payment], decimals: int) -> Ecosystem:
    rows = [
        payment(
            tx_hash=f"0x{number}",
            block_timestamp=moment.isoformat(),
            sender=buyer,
            recipient=seller,
            amount=amount,
            decimals=decimals,
        )
        for number, (moment, buyer, seller, amount) in enumerate(paid)
    ]
    return write_and_open(folder, rows)


def write_and_open(folder: Path, rows: list[Json]) -> Ecosystem:
    name = write_lines(folder / "payments.jsonl", rows)
    with open_database() as connection:
        inputs = [SourceOptions(name=name, path=name)]
        load_payments(connection, inputs, folder, Findings(None), datetime(2100, 1, 1, tzinfo=UTC))
        count, statistics = count_payments(connection)
    assert count == len(rows)
    write_ecosystem(folder, statistics, DemandInputs(), [])
    return Ecosystem(folder)


def within(paid: list[Payment], timeframe: int) -> list[Payment]:
    newest = max(moment for moment, *_ in paid)
    return [row for row in paid if timeframe > 10**6 or row[0] > newest - timeframe * DAY]


def totals(window: list[Payment], decimals: int) -> Json:
    return {
        "total_transactions": len(window),
        "total_amount": (sum(row[3] for row in window) * 10**6 * 2 + 10**decimals)
        // (2 * 10**decimals),
        "unique_buyers": len({row[1] for row in window}),
        "unique_sellers": len({row[2] for row in window}),
    }


def buckets(
    paid: list[Payment], window: list[Payment], timeframe: int, length: timedelta, decimals: int
) -> list[Json]:
    oldest, newest = min(row[0] for row in paid), max(row[0] for row in paid)
    first = oldest if timeframe > 10**6 else max(oldest, newest - timeframe * DAY)
    start = first - (first - START) % length
    rows: dict[int, list[Payment]] = defaultdict(list)
    for row in window:
        rows[(row[0] - start) // length].append(row)
    return [
        totals(rows[number], decimals) | {"bucket_start": format_timestamp(start + number * length)}
        for number in range((newest - start) // length + 1)
    ]
