"""Suspicious prices: those far from the median of their category."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.catalogue.outliers import MAGNITUDES, MIN_SERVICES, Outlier, find_outliers
from tests.support.reports import reported
from tests.support.running import (
    Build,
    Json,
    endpoint,
    priced,
    service,
)


def outliers(records: Iterable[Json]) -> list[Outlier]:
    return find_outliers(json.dumps(record).encode() for record in records)


def test_prices_far_from_the_median_are_reported_and_kept(
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
    said = capsys.readouterr().out
    assert "suspicious price: p10: 20 USDC, where 0.01 is usual in Data" in said


CENTS = priced(*["0.01"] * MIN_SERVICES)


def beside(*endpoints: Json, **fields: Any) -> list[Json]:
    """Enough services of a cent, and one of these endpoints."""
    return [*CENTS, service("x", endpoints=list(endpoints), **fields)]


SUSPICIONS: dict[str, tuple[list[Json], list[str]]] = {
    "too few to compare": (priced(*["0.01"] * (MIN_SERVICES - 2), "1000"), []),
    "just not far enough": (beside(endpoint("9.99")), []),
    "just far enough": (beside(endpoint("10")), ["x"]),
    "one of many": (beside(*[endpoint()] * 9, endpoint("100")), ["x"]),
    "another category": (beside(endpoint("900"), category="Media"), []),
    "a category in other letters": (
        [*priced(*["0.01"] * MIN_SERVICES, category="data"), *priced("900", category="DATA")],
        ["p00"],
    ),
    "another currency": (beside(endpoint("900", "JPY")), []),
    "nothing": (beside(endpoint("0")), []),
    "no fixed price": (beside(endpoint("")), []),
    "play money": (beside(endpoint(), endpoint("900", network="base-sepolia")), []),
    "a bound": (beside(endpoint("", maxAmount="900")), ["x"]),
    "as large and small as amounts can be": (
        priced(*["9" * 100] * MIN_SERVICES, f"0.{'0' * 97}1", "1"),
        ["p10", "p11"],
    ),
    "no service": ([], []),
}


@pytest.mark.parametrize("case", SUSPICIONS)
def test_a_price_is_suspicious_only_where_it_can_be_compared(case: str) -> None:
    records, expected = SUSPICIONS[case]
    found = outliers(records)
    assert [each.id for each in found] == expected
    assert all(0 < each.usual < float("inf") for each in found)


amounts = st.from_regex(r"[0-9]{1,30}(\.[0-9]{1,30})?", fullmatch=True)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(amounts, amounts), max_size=3 * MIN_SERVICES))
def test_all_amounts_can_be_compared(prices: list[tuple[str, str]]) -> None:
    records = [
        service(f"s{number}", endpoints=[endpoint(low), endpoint(high)])
        for number, (low, high) in enumerate(prices)
    ]
    for each in outliers(records):
        ratio = max(each.price / each.usual, each.usual / each.price)
        assert ratio > 10**MAGNITUDES * 0.99
