"""Quotes of 402 responses that anyone may have written."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from indexer.probes.observation import (
    MAX_QUOTES,
    Observation,
    Outcome,
    Quote,
    decode_observation,
    encode_observation,
)
from indexer.probing.quotes import CHALLENGES, HEADER, read_quotes

KEYS = ("scheme", "network", "asset", "amount", "maxAmountRequired", "payTo")
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
entries = st.dictionaries(st.sampled_from(KEYS), values) | values
challenges = st.fixed_dictionaries(
    {}, optional={"x402Version": values, "accepts": st.lists(entries, max_size=4) | values}
)


@given(challenges | values, challenges | values)
def test_quotes_of_anything_are_an_observation_that_can_be_read(header: Any, body: Any) -> None:
    headers = httpx.Headers({HEADER: b64encode(json.dumps(header).encode()).decode()})
    quotes = read_quotes(headers, json.dumps(body).encode())
    line = Observation(url="https://a.example/", outcome=Outcome.QUOTED, quotes=quotes)
    assert decode_observation(encode_observation(line)).quotes == quotes


@given(st.text(st.characters(codec="ascii")), st.binary())
def test_any_header_and_any_body_are_read(header: str, body: bytes) -> None:
    assert read_quotes(httpx.Headers({HEADER: header}), body) == []


def test_as_many_quotes_are_read_as_an_observation_may_have() -> None:
    accepts = [{"scheme": "exact", "amount": str(number)} for number in range(MAX_QUOTES + 1)]
    quotes = read_quotes(httpx.Headers(), json.dumps({"accepts": accepts}).encode())
    assert [quote.amount for quote in quotes] == [str(number) for number in range(MAX_QUOTES)]


TERMS = {"amount": "1000", "currency": "0xUsdc", "recipient": "0xSeller"}
PAYMENT = Quote(scheme="charge", network="tempo", asset="0xUsdc", amount="1000", pay_to="0xSeller")


def challenge(terms: Any = TERMS, method: str = "tempo", intent: str = '"charge"') -> str:
    request = urlsafe_b64encode(json.dumps(terms).encode()).decode().rstrip("=")
    named = 'Payment id="1", realm="a, Payment \\"b"'
    return f'{named}, method="{method}", intent={intent}, request="{request}"'


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (challenge(), [PAYMENT]),
        (challenge(intent="charge").replace("Payment id", "payment  ID"), [PAYMENT]),
        (f'Bearer realm="x", {challenge()}, Basic realm=y', [PAYMENT]),
        (
            f"{challenge()}, {challenge(method='stripe')}",
            [PAYMENT, replace(PAYMENT, network="stripe")],
        ),
        (challenge(TERMS | {"amount": 1000, "recipient": None}), [replace(PAYMENT, pay_to=None)]),
        (challenge(TERMS | {"amount": "1.5"}), []),
        (challenge([]), []),
        (challenge().replace("Payment id", "Bearer id"), []),
        ("Payment", []),
    ],
)
def test_challenges_of_mpp_are_quotes(header: str, expected: list[Quote]) -> None:
    assert read_quotes(httpx.Headers({CHALLENGES: header}), b"") == expected


@given(st.text(st.characters(codec="ascii")))
def test_any_challenge_is_read(header: str) -> None:
    assert read_quotes(httpx.Headers({CHALLENGES: header}), b"") == []


@pytest.mark.parametrize("text", ["a", "a ", 'a="', 'a="\\"'])
def test_a_header_of_any_length_is_read_in_time(text: str) -> None:
    assert read_quotes(httpx.Headers({CHALLENGES: text * 400_000}), b"") == []
