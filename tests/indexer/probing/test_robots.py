"""Rules of robots.txt that `protego` does not have itself, or that are bounded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.probing.visits import AGENT, MAX_RULES, parse_robots


@pytest.mark.parametrize(
    ("text", "is_allowed"),
    [
        ("", True),
        ("User-agent: *\nDisallow: /\n\nUser-agent: ratecard-probe\nAllow: /", True),
        ("User-agent: Ratecard-Probe/1.0\nDisallow: /\n\nUser-agent: *\nAllow: /", False),
        ("User-agent: *\nAllow: /\nDisallow: /a", False),  # the longest rule, not the first
        ("User-agent: other\nDisallow: /", True),
        ("\ufeffUser-agent: *\r\nDisallow: /\r\n", False),
        ("User-agent: *\n" + "Allow: /\n" * (MAX_RULES + 1), False),
    ],
)
def test_the_groups_that_name_the_agent_come_before_those_for_all(
    text: str, is_allowed: bool
) -> None:
    assert parse_robots(text.encode()).can_fetch("/a", AGENT) is is_allowed


@given(st.binary(max_size=200))
def test_any_bytes_are_read(text: bytes) -> None:
    parse_robots(text).can_fetch("/a", AGENT)


def test_a_pattern_of_many_wildcards_is_matched_in_time() -> None:
    robots = parse_robots(f"User-agent: *\nDisallow: /{'*a' * 500}b".encode())
    assert robots.can_fetch("/" + "a" * 4_000, AGENT)
