"""Prices in words."""

from __future__ import annotations

import pytest

from service.prices import endpoint_price, price_range, service_price
from service.schema.records import PriceSummary, Pricing


@pytest.mark.parametrize(
    ("pricing", "words"),
    [
        (Pricing(amount="0.01", currency="USDC"), "0.01 USDC"),
        (Pricing(amount="", currency="USDC", min_amount="1", max_amount="2"), "1–2 USDC"),
        (Pricing(amount="", currency="USDC", min_amount="2", max_amount="2"), "2 USDC"),
        (Pricing(amount="", currency="USDC", max_amount="2"), "at most 2 USDC"),
        (Pricing(amount="", currency="USDC", min_amount="1"), "from 1 USDC"),
        (Pricing(amount="2", currency="USDC", scheme="UpTo"), "at most 2 USDC"),
        (
            Pricing(amount="1", currency="USDC", scheme="upto", min_amount="1", max_amount="3"),
            "at most 3 USDC",
        ),
        (Pricing(amount="", currency="USDC", scheme="upto"), "no fixed price"),
    ],
)
def test_the_price_of_an_endpoint_is_fixed_a_range_or_a_ceiling(
    pricing: Pricing, words: str
) -> None:
    assert str(endpoint_price(pricing)) == words


def test_no_fixed_price_is_said_only_where_a_seller_said_so() -> None:
    metered = Pricing(amount="", currency="USDC", scheme="batch-settlement")
    assert str(endpoint_price(metered)) == str(price_range("", "", "")) == "no fixed price"
    exact = Pricing(amount="", currency="USDC", scheme="exact")
    unknown = Pricing(amount="", currency="")
    prices = [endpoint_price(exact), endpoint_price(unknown), service_price(None)]
    assert [*map(str, prices)] == ["price not listed"] * 3


def test_the_price_of_a_service_is_its_range_or_its_ceiling() -> None:
    summary = PriceSummary(
        min_amount="1",
        max_amount="2",
        avg_cost_per_transaction="",
        avg_cost_basis="varies",
        currency="USDC",
    )
    assert service_price(summary) == ("1–2", "USDC")
    assert service_price(summary, at_most=True) == ("at most 2", "USDC")
