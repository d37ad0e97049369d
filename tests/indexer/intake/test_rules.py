"""Denials: which listings and services they are found for, and how often."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.intake.rules import Denials
from indexer.options import Denial

HOSTS = {
    "evil.example": "evil.example",
    "Evil.Example.": "evil.example",
    "*.evil.example": "a.b.evil.example",
    "*evil*": "my-evil.example",
    "*.Bücher.example": "api.xn--bcher-kva.example",
    "*": "a.example",
}


@pytest.mark.parametrize("pattern", HOSTS)
def test_a_host_is_matched_in_its_normal_form(pattern: str) -> None:
    denial = Denial(host=pattern, reason="spam")
    assert Denials([denial]).find(host=HOSTS[pattern]) == denial


@pytest.mark.parametrize(
    ("pattern", "host"),
    [
        ("evil.example", "a.evil.example"),
        ("*.evil.example", "evil.example"),
        ("*.evil.example", "evil-example.a"),
        ("a.*", "a"),
        ("*", ""),
    ],
)
def test_another_host_is_not_matched(pattern: str, host: str) -> None:
    assert Denials([Denial(host=pattern)]).find(host=host) is None


@given(
    st.lists(st.text("ab.*", min_size=1, max_size=4), max_size=4),
    st.text("ab.", min_size=1, max_size=5),
)
def test_patterns_together_match_as_each_alone(patterns: list[str], host: str) -> None:
    denials = Denials(Denial(host=pattern) for pattern in patterns)
    regexes = [re.escape(each.removesuffix(".")).replace(r"\*", ".*") for each in patterns]
    expected = any(regex and re.fullmatch(regex, host) for regex in regexes)
    assert (denials.find(host=host) is not None) == expected


def test_each_kind_of_value_has_its_denial() -> None:
    domain = Denial(domain="API.example:8443")
    payee, other = Denial(payee="0xAB"), Denial(payee="So11")
    service, url = Denial(id="Some-Id"), Denial(url="HTTPS://api.example:443/%41")
    denials = Denials([domain, payee, other, service, url])
    assert denials.find(domain="api.example:8443") == domain
    assert denials.find(payees=["0xcd", "0XaB"]) == payee
    assert denials.find(payees=["So11"]) == other
    assert denials.find(id="Some-Id") == service
    assert denials.find(urls=["https://api.example/", "https://api.example/A"]) == url
    assert denials.find(domain="api.example", payees=["so11"], id="some-id", host="0xab") is None


@pytest.mark.parametrize(
    ("denied", "domain", "is_denied"),
    [
        ("api.scam.example", "api.scam.example:8443", True),
        ("API.scam.example.", "Api.Scam.example.:8443", True),
        ("2001:0db8::1", "2001:0db8::1:8443", True),
        ("api.scam.example:8443", "api.scam.example:8443", True),
        ("api.scam.example:8443", "api.scam.example:8444", False),
        ("api.scam.example:8443", "api.scam.example", False),
        ("scam.example", "api.scam.example:8443", False),
    ],
)
def test_a_domain_stands_for_all_of_its_ports_unless_it_names_one(
    denied: str, domain: str, *, is_denied: bool
) -> None:
    denial = Denial(domain=denied)
    denials = Denials([denial])
    assert denials.find(domain=domain) == (denial if is_denied else None)
    assert denials.counts.total() == is_denied


def test_every_denial_that_applies_is_counted() -> None:
    exact, pattern = Denial(host="a.example"), Denial(host="*.example", reason="other")
    again, unused = Denial(host="a.example", reason="again"), Denial(id="a.example")
    denials = Denials([exact, pattern, again, unused])
    assert denials.find(host="a.example") == exact
    assert denials.find(host="b.example") == pattern
    assert denials.counts == {exact: 1, again: 1, pattern: 2}


def test_without_denials_nothing_is_denied() -> None:
    denials = Denials([])
    assert denials.is_empty
    assert denials.find(id="a", host="a.example", payees=["0xab"]) is None
