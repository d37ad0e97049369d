"""Rules of robots.txt, as RFC 9309 has them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.probing.visits import MAX_RULES, parse_robots

AGENT = "ratecard-probe"


def allow(text: str, path: str) -> bool:
    return parse_robots(text.encode()).can_fetch(path, AGENT)


@pytest.mark.parametrize(
    ("rules", "path", "is_allowed"),
    [
        ("", "/a", True),
        ("Disallow:", "/a", True),
        ("Disallow: /", "/a", False),
        ("disallow : /a # all of it", "/a/b", False),
        ("Disallow: /a", "/b/a", True),
        ("Disallow: /a/", "/a", True),
        ("Disallow: /*.json$", "/a.json", False),
        ("Disallow: /*.json$", "/a.json?x=1", True),
        ("Disallow: /*?key=", "/a?key=1", False),
        ("Disallow: /a*b*c", "/a/b/c/d", False),
        ("Disallow: /a$", "/a/b", True),
        ("Disallow: /\nAllow: /a", "/a", True),
        ("Allow: /\nDisallow: /a", "/a", False),  # the longest rule, not the first
        ("Disallow: /a\nAllow: /a", "/a", True),
        ("Disallow: /caf%c3%a9", "/caf%C3%A9", False),
        ("Disallow: /café", "/caf%C3%A9", False),
        ("Sitemap: https://a.example/\nDisallow: /a", "/a", False),
        ("Disallow /a", "/a", False),  # obeyed, as Google does
    ],
)
def test_the_longest_rule_that_matches_decides(rules: str, path: str, is_allowed: bool) -> None:
    assert allow(f"User-agent: *\n{rules}\n", path) is is_allowed


@pytest.mark.parametrize(
    ("text", "is_allowed"),
    [
        ("User-agent: *\nDisallow: /\n\nUser-agent: ratecard-probe\nAllow: /", True),
        ("User-agent: Ratecard-Probe/1.0\nDisallow: /\n\nUser-agent: *\nAllow: /", False),
        ("User-agent: other\nUser-agent: ratecard-probe\nDisallow: /", False),
        (
            "User-agent: ratecard-probe\nDisallow: /b\n\nUser-agent: ratecard-probe\nDisallow: /a",
            False,
        ),
        ("User-agent: other\nDisallow: /", True),
        ("Disallow: /", True),
        ("\ufeffUser-agent: *\r\nDisallow: /\r\n", False),
    ],
)
def test_the_groups_that_name_the_agent_come_before_those_for_all(
    text: str, is_allowed: bool
) -> None:
    assert allow(text, "/a") is is_allowed


def test_the_delay_is_that_of_the_group() -> None:
    text = "User-agent: *\nCrawl-delay: 5\n\nUser-agent: ratecard-probe\nCrawl-delay: 2.5\n"
    assert parse_robots(text.encode()).crawl_delay(AGENT) == 2.5
    assert parse_robots(b"User-agent: *\nCrawl-delay: soon").crawl_delay(AGENT) is None


def test_a_file_of_too_many_rules_disallows_everything() -> None:
    rules = "Allow: /\n" * (MAX_RULES + 1)
    assert not allow(f"User-agent: *\n{rules}", "/a")


@given(st.binary(max_size=200))
def test_any_bytes_are_read(text: bytes) -> None:
    parse_robots(text).can_fetch("/a", AGENT)


def test_a_pattern_of_many_wildcards_is_matched_in_time() -> None:
    assert allow(f"User-agent: *\nDisallow: /{'*a' * 500}b", "/" + "a" * 4_000)
