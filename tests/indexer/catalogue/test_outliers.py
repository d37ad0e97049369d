"""Suspicious prices, far from the median of their category."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from math import log10, sqrt
from statistics import median
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
from tests.support.sources.columns import columns_of


def outliers(records: Iterable[Json]) -> list[Outlier]:
    return find_outliers(columns_of(records))


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


def magnitudes(price: float, usual: float) -> float:
    return abs(log10(price / usual))


def expected_outliers(records: list[Json]) -> set[tuple[str, str, float]]:
    """Return the id, the currency and the price of each, service by service."""
    groups: dict[tuple[str, str], list[tuple[str, float, float]]] = defaultdict(list)
    for record in records:
        prices: dict[str, list[float]] = defaultdict(list)
        for each in record["endpoints"]:
            prices[each["pricing"]["currency"]].append(float(each["pricing"]["amount"]))
        for currency, own in prices.items():
            group = groups[record.get("category", "").casefold(), currency]
            group.append((record["id"], min(own), max(own)))
    found = set()
    for (_, currency), own_ranges in groups.items():
        if len(own_ranges) < MIN_SERVICES:
            continue
        usual = median(sqrt(lowest * highest) for _, lowest, highest in own_ranges)
        for service_id, *ends in own_ranges:
            price = max(ends, key=lambda price: magnitudes(price, usual))
            if magnitudes(price, usual) >= MAGNITUDES:
                found.add((service_id, currency, price))
    return found


common = st.sampled_from(["0.01", "0.01", "0.01", "0.02", "10", "9.999", "0.00001", "300"])
services = st.tuples(
    st.sampled_from(["", "Data", "DATA"]),
    st.lists(st.tuples(common, st.sampled_from(["USDC", "EURC"])), max_size=3),
)


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(services, min_size=2 * MIN_SERVICES, max_size=6 * MIN_SERVICES))
def test_each_suspicious_price_is_found(given_services: list[Any]) -> None:
    records = [
        service(f"s{number}", category=category, endpoints=[endpoint(*each) for each in prices])
        for number, (category, prices) in enumerate(given_services)
    ]
    found = outliers(records)
    assert {(each.id, each.currency, each.price) for each in found} == expected_outliers(records)
    distances = [-magnitudes(each.price, each.usual) for each in found]
    assert distances == sorted(distances)
    categories = {each["id"]: each["category"] for each in records}
    assert all(each.category == categories[each.id] for each in found)
