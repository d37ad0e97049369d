from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from indexer.probes.drift import (
    AGREED,
    DRIFTED,
    MAX_SHOWN,
    UNKNOWN,
    compare_terms,
    listed_terms,
    quoted_terms,
)
from indexer.probes.observation import Quote
from service.schema.records import PaymentOffer
from tests.indexer.probes.probing import ENTRY, QUOTE, USDC

OTHER_ASSET = "0x" + "9" * 40


def compare(entries: list[Any], *quotes: dict[str, Any]) -> int:
    read = [Quote(pay_to=each.pop("payTo", None), **each) for each in map(dict, quotes)]
    return compare_terms(listed_terms(entries), quoted_terms(read))[0]


def without(entry: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key != name}


def test_other_spellings_of_network_asset_payee_and_amount_agree() -> None:
    assert compare([ENTRY], QUOTE) == AGREED
    assert compare([ENTRY], QUOTE | {"amount": 1000, "scheme": "EXACT"}) == AGREED
    version_1 = without(ENTRY, "amount") | {"maxAmountRequired": "1000"}
    assert compare([version_1], QUOTE) == AGREED


@pytest.mark.parametrize("change", [{"amount": "10000"}, {"payTo": "0xdef"}])
def test_another_amount_or_payee_drifts(change: dict[str, Any]) -> None:
    assert compare([ENTRY], QUOTE | change) == DRIFTED


@pytest.mark.parametrize("change", [{"network": "polygon"}, {"asset": OTHER_ASSET}])
def test_ways_to_pay_that_are_not_shared_never_drift(change: dict[str, Any]) -> None:
    assert compare([ENTRY], QUOTE | {"amount": "9"} | change) == UNKNOWN


@pytest.mark.parametrize("name", ["scheme", "network", "asset", "payTo", "amount"])
def test_what_lacks_a_member_never_drifts(name: str) -> None:
    other = QUOTE | {"amount": "9", "payTo": "0xdef"}
    assert compare([without(ENTRY, name)], other) == UNKNOWN
    assert compare([ENTRY], without(other, name)) == UNKNOWN


@pytest.mark.parametrize("amount", [None, "", "dynamic", "0.5", {}, -5])
def test_dynamic_amounts_never_drift(amount: Any) -> None:
    assert compare([ENTRY | {"amount": amount}], QUOTE | {"amount": "9"}) == UNKNOWN


def test_the_scheme_upto_never_drifts() -> None:
    entry = ENTRY | {"scheme": "UpTo"}
    assert compare([entry], QUOTE | {"scheme": "upto", "amount": "9"}) == UNKNOWN


def test_one_quote_as_listed_suffices_for_its_way_to_pay_alone() -> None:
    polygon = ENTRY | {"network": "polygon"}
    dear = QUOTE | {"amount": "10000"}
    assert compare([ENTRY, polygon], dear, QUOTE) == AGREED
    assert compare([ENTRY, polygon], QUOTE, dear | {"network": "polygon"}) == DRIFTED


def test_a_drift_shows_a_bounded_number_of_ways_to_pay() -> None:
    entries = [ENTRY | {"amount": str(amount)} for amount in range(1, 100)]
    quotes = [Quote(**without(QUOTE, "payTo"), pay_to=f"0x{n}") for n in range(99)]
    terms = listed_terms([*entries, "junk", None])
    outcome, listed, quoted = compare_terms(terms, quoted_terms(quotes))
    assert outcome == DRIFTED
    assert len(listed) == len(quoted) == MAX_SHOWN
    assert listed[0].asset == USDC


def test_ways_to_pay_of_mpp_are_compared_without_a_payee_that_is_not_listed() -> None:
    offer = PaymentOffer(
        protocol="mpp",
        stated_by="mpp",
        method="tempo",
        intent="charge",
        amount="0.001",
        asset=USDC,
        decimals=6,
    )
    quote = Quote(scheme="charge", network="tempo", asset=USDC.lower(), amount="1000", pay_to="0xa")
    for listed, amount, expected in (
        (offer, "1000", AGREED),
        (offer, "2000", DRIFTED),
        (replace(offer, pay_to="0xA"), "1000", AGREED),
        (replace(offer, pay_to="0xb"), "1000", DRIFTED),
        (replace(offer, amount="", min_amount="0.001"), "2000", UNKNOWN),
        (replace(offer, protocol="x402"), "2000", UNKNOWN),
    ):
        quoted = quoted_terms([replace(quote, amount=amount)])
        assert compare_terms(listed_terms([], [listed]), quoted)[0] == expected
