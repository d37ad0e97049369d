"""How well known a service is, between 0 and 1."""

from __future__ import annotations

from math import log10

MANY_CALLS = 1_000_000
"""Calls in 30 days beyond which more of them say nothing more."""


def prior_of(enriched: bool, calls: int) -> float:
    """Half for curation, half for use on a logarithmic scale."""
    use = log10(1 + max(calls, 0)) / log10(1 + MANY_CALLS)
    return 0.5 * enriched + 0.5 * min(1.0, use)
