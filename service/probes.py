"""Facts of probes as people and agents read them: short texts without a word of a seller."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET

from service.schema.probes import Drift, ProbeFacts

MAX_DIGITS = 30
"""Digits of an amount that a text shows."""
DATE = slice(len("2026-05-07"))


def describe_liveness(facts: ProbeFacts) -> str:
    """Return the verdict of trusted probers and its date, or what they saw last; may be empty."""
    probe = facts.probe
    if probe is UNSET:
        return ""
    if facts.alive is UNSET:
        status = "" if probe.status is UNSET else f" ({probe.status})"
        return f"{probe.outcome.replace('_', ' ')}{status} on {probe.observed_at[DATE]}"
    if facts.alive:
        return f"alive on {probe.observed_at[DATE]}"
    return "dead" if facts.since is UNSET else f"dead since {facts.since[DATE]}"


def describe_deliveries(facts: ProbeFacts) -> str:
    """Return how many purchases of observers were delivered, and the date; may be empty."""
    counts = facts.deliveries
    if counts is UNSET:
        return ""
    noun = "purchase" if counts.purchases == 1 else "purchases"
    delivered = f"delivered {counts.delivered} of {counts.purchases} {noun}"
    return f"{delivered}, last on {counts.last[DATE]}"


def describe_drift(drift: Drift) -> str:
    """Return how the 402 differs from the listing, and since when.

    Amounts are shown where each side has one.
    """
    listed, quoted = ({each.amount for each in side} for side in (drift.listed, drift.quoted))
    parts = []
    if not listed & quoted:
        amounts = [*listed, *quoted]
        is_short = len(amounts) == 2 and max(map(len, amounts)) <= MAX_DIGITS
        shown = f" ({amounts[1]} and not {amounts[0]} base units)" if is_short else ""
        parts.append(f"another amount{shown}")
    payees, others = ({each.pay_to for each in side} for side in (drift.listed, drift.quoted))
    if not payees & others:
        parts.append("another payee")
    return f"since {drift.since[DATE]} its 402 has {' and '.join(parts) or 'other terms'}"


def warnings_of(facts: ProbeFacts) -> Iterator[str]:
    """Yield the reasons to be careful with an endpoint."""
    if facts.alive is False:
        yield describe_liveness(facts)
    if facts.wildcard is True:
        yield "its host answers any path with 402, so that this proves no endpoint"
    if facts.drift is not UNSET:
        yield describe_drift(facts.drift)
