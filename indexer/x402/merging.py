"""Merging: the resources of several sources with one URL, method and tool become one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct

from indexer.intake.findings import Conflict
from indexer.resources.listing import MAX_ENTRIES, MAX_LISTING
from indexer.resources.resource import Resource
from indexer.sources.decisions import Decisions
from indexer.sources.denials import fold_address
from indexer.untrusted import raw_items
from service.networks import network_key
from service.schema.values import NULL

KEPT_APART = frozenset(("accepts", "quality", "resource"))
"""Members that are not taken whole from the first source that has them."""
CALLS = "l30DaysTotalCalls"


class Candidate(Struct):
    """A resource as one source has it.

    number: of the candidate, which no other has
    order: of equally trusted candidates, the smallest first
    is_declared: whether it declares its method
    fields: the members of its text; a document has none
    """

    number: int
    source: str
    trust: int
    order: tuple[Any, ...]
    is_declared: bool
    fields: dict[str, Raw]
    resource: Resource


_AcceptsEntry = tuple[Raw, str]
"""The text of an entry of `accepts`, and whom it pays."""


class _Choice(NamedTuple):
    """The entries of one scheme, network and asset, and the candidate that has them."""

    candidate: Candidate
    entries: list[_AcceptsEntry]


def merge(
    candidates: Sequence[Candidate], url: str, key: str, decisions: Decisions
) -> tuple[bytes, list[Candidate]]:
    """Merge the resources of one key; returns the text, and the candidates of which it is.

    Entries of one scheme, network and asset come whole from one of the most trusted sources: the
    source that was served before, else the newest. Usage comes from the most trusted candidate that
    states any, among equals from that of more calls. Other values come whole from the first of the
    most trusted sources that has them. A candidate that would make the resource too large adds
    nothing. `decisions` record the sources.
    """
    trust = max(each.trust for each in candidates)
    served = decisions.source_of(key)
    leading = [each for each in candidates if each.trust == trust]
    # The source that will have been served next time comes first, so that a build repeats itself.
    newest = min(leading, key=lambda each: each.order)
    source = served if any(each.source == served for each in leading) else newest.source
    first, *others = sorted(leading, key=lambda each: (each.source != source, each.order))
    taken = [first]
    choices = _choose([first], key, served, decisions)
    for other in others:
        wider = _choose([*taken, other], key, served, decisions)
        if _fits(wider, [*taken, other]):
            taken.append(other)
            choices = wider
    _report_conflicts(candidates, choices, url, decisions)
    decisions.take(key, first.source)
    for entry_key, choice in choices.items():
        if choice.candidate.source != first.source:
            decisions.take(f"{key}\n{entry_key}", choice.candidate.source)
    fields = _join(taken, choices) if len(taken) > 1 else dict(first.fields)
    quality = _best_quality(candidates)
    if quality is not None:
        fields["quality"] = quality
    return msgspec.json.encode(fields) if "resource" in fields else b"", taken


def _choose(
    taken: Sequence[Candidate],
    key: str,
    served: str,
    decisions: Decisions,
) -> dict[str, _Choice]:
    """Return the entries by scheme, network and asset, each from one of these candidates."""
    choices: dict[str, _Choice] = {}
    for each in taken:
        for entry_key, entries in _group(each.fields).items():
            before = decisions.source_of(f"{key}\n{entry_key}") or served
            choice = choices.setdefault(entry_key, _Choice(each, entries))
            ranks = [(one.source != before, one.order) for one in (each, choice.candidate)]
            if ranks[0] < ranks[1]:
                choices[entry_key] = _Choice(each, entries)
    return choices


def _group(fields: dict[str, Raw]) -> dict[str, list[_AcceptsEntry]]:
    """Return the entries of `accepts` by what they ask for: scheme, network and asset."""
    groups: dict[str, list[_AcceptsEntry]] = {}
    accepts = fields.get("accepts")
    for text in raw_items(accepts) if accepts is not None and bytes(accepts) != b"null" else ():
        entry = msgspec.json.decode(text)
        scheme, network, asset, payee = (
            value if isinstance(value := entry.get(name), str) else ""
            for name in ("scheme", "network", "asset", "payTo")
        )
        key = "\n".join((scheme or "exact", network_key(network), fold_address(asset)))
        groups.setdefault(key, []).append((text, fold_address(payee)))
    return groups


def _join(taken: Sequence[Candidate], choices: dict[str, _Choice]) -> dict[str, Raw]:
    """Return the members of the merged resource, in the order of the first one.

    Resources that declare a method come before others.
    """
    first = next((each.fields for each in taken if each.fields), {})
    joined = {name: value if name in KEPT_APART else NULL for name, value in first.items()}
    for each in sorted(taken, key=lambda each: not each.is_declared):
        for name, value in each.fields.items():
            if name not in KEPT_APART and bytes(joined.get(name, NULL)) == b"null":
                joined[name] = value
    if entries := [text for choice in choices.values() for text, _ in choice.entries]:
        joined["accepts"] = Raw(msgspec.json.encode(entries))
    return joined


def _fits(choices: dict[str, _Choice], taken: Sequence[Candidate]) -> bool:
    """Whether a resource of these entries keeps within the limits of one."""
    if sum(len(choice.entries) for choice in choices.values()) > MAX_ENTRIES:
        return False
    return len(msgspec.json.encode(_join(taken, choices))) <= MAX_LISTING


def _best_quality(candidates: Sequence[Candidate]) -> Raw | None:
    """Return the usage that the most trusted candidate states, among equals that of more calls."""
    stated = [
        (each.trust, _calls(each.fields), bytes(value), value)
        for each in candidates
        if (value := each.fields.get("quality")) is not None and bytes(value) != b"null"
    ]
    return max(stated, key=lambda each: each[:3])[3] if stated else None


def _calls(fields: dict[str, Raw]) -> int:
    quality = fields["quality"]
    values = msgspec.json.decode(quality) if bytes(quality).startswith(b"{") else {}
    calls = values.get(CALLS)
    is_count = isinstance(calls, int) or (isinstance(calls, str) and calls[:20].isdecimal())
    return int(calls[:20] if isinstance(calls, str) else calls or 0) if is_count else 0


def _report_conflicts(
    candidates: Iterable[Candidate],
    choices: dict[str, _Choice],
    url: str,
    decisions: Decisions,
) -> None:
    """Record the sources that name another payee for entries that are taken from a source."""
    for each in candidates:
        for entry_key, entries in _group(each.fields).items():
            choice = choices.get(entry_key)
            if choice is None or choice.candidate.source == each.source:
                continue
            payees = {payee for _, payee in choice.entries}
            for payee in {payee for _, payee in entries} - payees:
                served = choice.candidate.source
                decisions.conflicts.add(Conflict(url, served, min(payees), each.source, payee))
