"""Prices of discovered resources, and the networks that they are paid on."""

from __future__ import annotations

from decimal import Decimal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.resources.assets import is_test_network
from indexer.resources.entries import shift_point
from tests.support.running import Json
from tests.support.sources.x402 import (
    SOLANA_USDC,
    TEST_NETWORK_PRICE,
    URL,
    USDC,
    accept,
    endpoint_of,
    read,
    resource,
)

WETH = "0x4200000000000000000000000000000000000006"


UNKNOWN = accept("7", asset=WETH, payTo="0xEth")


REAL = accept("20", network="solana", asset=SOLANA_USDC, payTo="So1")


@pytest.mark.parametrize(
    ("accepts", "amount", "pay_to", "networks"),
    [
        ([TEST_NETWORK_PRICE, REAL], "0.00002", "So1", ["Base Sepolia", "Solana"]),
        ([UNKNOWN, TEST_NETWORK_PRICE, REAL], "0.00002", "So1", ["Base", "Base Sepolia", "Solana"]),
        ([TEST_NETWORK_PRICE, UNKNOWN], "0.000007", "0xPlay", ["Base Sepolia", "Base"]),
        ([UNKNOWN, TEST_NETWORK_PRICE], "", "0xEth", ["Base", "Base Sepolia"]),
        ([accept(None), UNKNOWN], "", "0xEth", ["Base"]),
        ([REAL, accept("-1"), accept("x", network="base")], "0.00002", "So1", ["Solana", "Base"]),
    ],
)
def test_the_price_is_the_first_in_a_known_asset_on_a_main_network_else_the_first(
    accepts: list[Json], amount: str, pay_to: str, networks: list[str]
) -> None:
    endpoint = endpoint_of(resource(URL, *accepts))
    assert (endpoint["pricing"]["amount"], endpoint["payTo"]) == (amount, pay_to)
    assert read(resource(URL, *accepts)).networks == networks


def test_an_unknown_asset_is_listed_without_a_price_and_noted() -> None:
    unpriced = read(resource(URL, UNKNOWN))
    pricing = {"amount": "", "currency": "", "network": "Base", "scheme": "exact"}
    assert msgspec.to_builtins(unpriced.pricing) == pricing
    (notice,) = unpriced.notices
    assert notice.path == "$.accepts[0].asset"
    assert "not a known stablecoin on Base" in notice.reason
    assert not read(resource()).notices


@pytest.mark.parametrize(
    ("network", "asset", "amount"),
    [
        ("base", USDC.lower(), "1"),
        ("base", USDC.upper().replace("X", "x"), "1"),
        ("BASE", f"eip155:8453/erc20:{USDC}", "1"),
        ("eip155:56", "0x8AC76a51cc950d9822D68b83fE1Ad97B32Cd580d", "0.000000000001"),
        ("solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", SOLANA_USDC, "1"),
        ("solana", SOLANA_USDC.lower(), ""),
        ("polygon", USDC, ""),
    ],
)
def test_an_asset_is_recognised_by_network_and_address(
    network: str, asset: str, amount: str
) -> None:
    endpoint = endpoint_of(resource(URL, accept("1000000", network=network, asset=asset)))
    assert endpoint["pricing"]["amount"] == amount


@settings(deadline=None)
@given(st.integers(0, 10**10))
def test_amounts_are_exact_and_plain(units: int) -> None:
    amount = endpoint_of(resource(URL, accept(str(units))))["pricing"]["amount"]
    assert Decimal(amount) == Decimal(units) / 10**6
    assert "E" not in amount
    assert "." not in amount or amount[-1] not in "0."


def test_a_token_without_decimals_keeps_its_amounts() -> None:
    assert [shift_point("120", decimals) for decimals in (0, 1, 4)] == ["120", "12", "0.012"]


@pytest.mark.parametrize(
    ("scheme", "amounts"),
    [
        ("exact", {"amount": "0.02"}),
        ("upto", {"amount": "", "maxAmount": "0.02"}),
        ("batch-settlement", {"amount": "", "maxAmount": "0.02"}),
        ("keeta-usdc", {"amount": "0.02"}),
    ],
)
def test_the_scheme_says_whether_an_amount_is_a_maximum(scheme: str, amounts: Json) -> None:
    endpoint = endpoint_of(resource(URL, accept("20000", scheme=scheme)))
    pricing = {"currency": "USDC", "network": "Base", "scheme": scheme}
    assert endpoint["pricing"] == pricing | amounts


@pytest.mark.parametrize(
    ("entry", "amount", "currency"),
    [
        ({"price": "$0.01"}, "0.01", "USD"),
        ({"price": "0.01 USDC"}, "0.01", "USDC"),
        ({"price": 0.01, "asset": USDC}, "0.01", "USDC"),
        ({"price": "0.01", "currency": "EUR"}, "0.01", "EUR"),
        ({"price": "0.01", "asset": "USDC"}, "0.01", "USDC"),
        ({"price": {"amount": "10000", "asset": USDC}}, "0.01", "USDC"),
        ({"price": "$5", "amount": "10000", "asset": USDC}, "0.01", "USDC"),
        ({"price": "$0.01", "asset": WETH}, "", ""),
    ],
)
def test_a_price_in_units_is_a_price_unless_the_token_may_be_anything(
    entry: Json, amount: str, currency: str
) -> None:
    found = read(resource(URL, {"network": "base", "payTo": "0xPay"} | entry)).pricing
    assert (found.amount, found.currency) == (amount, currency)


@pytest.mark.parametrize(
    ("network", "asset"),
    [
        ("stellar-mainnet", "CCW67TSZV3SSS2HXMBQ5JFGCKJNXKZM7UQUWUZPUTHXSTZLEO7SJMI75"),
        ("stellar:pubnet", "USDC:GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVN"),
        ("algorand-mainnet", "31566704"),
        ("algorand:wGHE2Pwdvd7S12BL5FaOP20EGYesN73k", "31566704"),
        ("hedera:mainnet", "0.0.456858"),
        ("aptos:1", "0xbae207659db88bea0cbead6da0ed00aac12edcdda169e591cd41c94180b46f3b"),
        ("sui", "0xdba34672e30cb065b1f93e3ab55318768fd6fef66c15942c9f7cb846e2f900e7::usdc::USDC"),
        ("near-mainnet", "17208628f84f5d6ad33f0da3bbbeb27ffcb398eac501a31bd6ad2011e36133a1"),
        ("eip155:196", "0x74b7F16337b8972027F6196A17a631aC6dE26d22"),
    ],
)
def test_stablecoins_of_other_networks_are_dollars(network: str, asset: str) -> None:
    found = read(resource(URL, accept("1000000", network=network, asset=asset)))
    assert found.pricing.amount == ("0.1" if "stellar" in network else "1")
    assert [each.is_usd for each in found.entries] == [True]


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        ("base", False),
        ("mainnet", False),
        ("eip155:8453", False),
        ("contest-chain", False),
        ("", False),
        ("base-sepolia", True),
        ("Base Sepolia", True),
        ("eip155:84532", True),
        ("eip155:97", True),
        ("eip155:31337", True),
        ("84531", True),
        ("cardano:preprod", True),
        ("xrpl:1", True),
        ("xrpl:0", False),
        ("solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG", True),
        ("near:testnet", True),
        ("btc-testnet4", True),
    ],
)
def test_a_test_network_is_recognised_by_name_or_number(network: str, expected: bool) -> None:
    assert is_test_network(network) is expected
