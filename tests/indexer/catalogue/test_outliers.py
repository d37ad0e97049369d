"""Suspicious prices, far from the median of their category."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.catalogue.outliers import MAGNITUDES, MIN_SERVICES, Outlier, find_outliers
from tests.support.artifacts import reported
from tests.support.running import (
    Build,
    Json,
    endpoint,
    examples,
    priced,
    service,
)


def outliers(records: Iterable[Json]) -> list[Outlier]:
    return find_outliers(json.dumps(record).encode() for record in records)


def test_prices_far_from_the_median_are_reported_and_published(
    build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    records = priced(*["0.01"] * MIN_SERVICES, "20", "0.000001", category="Data")
    assert build(records, options=("--json",)) == 0
    report = reported(capsys)
    assert [(each["id"], each["price"], each["usual"]) for each in report["suspiciousPrices"]] == [
        ("p11", 0.000001, 0.01),
        ("p10", 20, 0.01),
    ]
    assert report["services"] == len(records)
    assert build(records[::-1]) == 0
    output = capsys.readouterr().out
    assert "suspicious price: p10: 20 USDC, where 0.01 is usual in Data" in output


CENTS = priced(*["0.01"] * MIN_SERVICES)


def with_cents(*endpoints: Json, **fields: Any) -> list[Json]:
    """Return enough services of a cent to compare with, and one of these endpoints."""
    return [*CENTS, service("x", endpoints=list(endpoints), **fields)]


SUSPICIONS: dict[str, tuple[list[Json], list[str]]] = {
    "too few to compare": (priced(*["0.01"] * (MIN_SERVICES - 2), "1000"), []),
    "just not far enough": (with_cents(endpoint("9.99")), []),
    "just far enough": (with_cents(endpoint("10")), ["x"]),
    "one of many": (with_cents(*[endpoint()] * 9, endpoint("100")), ["x"]),
    "another category": (with_cents(endpoint("900"), category="Media"), []),
    "a category in other letters": (
        [*priced(*["0.01"] * MIN_SERVICES, category="data"), *priced("900", category="DATA")],
        ["p00"],
    ),
    "another currency": (with_cents(endpoint("900", "JPY")), []),
    "nothing": (with_cents(endpoint("0")), []),
    "no fixed price": (with_cents(endpoint("")), []),
    "play money": (with_cents(endpoint(), endpoint("900", network="base-sepolia")), []),
    "a bound": (with_cents(endpoint("", maxAmount="900")), ["x"]),
    "as large and small as amounts can be": (
        priced(*["9" * 100] * MIN_SERVICES, f"0.{'0' * 97}1", "1"),
        ["p10", "p11"],
    ),
    "no service": ([], []),
}


@pytest.mark.parametrize("case", SUSPICIONS)
def test_a_price_is_suspicious_only_where_it_can_be_compared(case: str) -> None:
    records, expected = SUSPICIONS[case]
    suspicious = outliers(records)
    assert [each.id for each in suspicious] == expected
    assert all(0 < each.usual < float("inf") for each in suspicious)


amounts = st.from_regex(r"[0-9]{1,30}(\.[0-9]{1,30})?", fullmatch=True)


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(st.tuples(amounts, amounts), max_size=3 * MIN_SERVICES))
def test_all_amounts_can_be_compared(prices: list[tuple[str, str]]) -> None:
    records = [
        service(f"s{number}", endpoints=[endpoint(low), endpoint(high)])
        for number, (low, high) in enumerate(prices)
    ]
    for each in outliers(records):
        ratio = max(each.price / each.usual, each.usual / each.price)
        assert ratio > 10**MAGNITUDES * 0.99
