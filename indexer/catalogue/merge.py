"""Merging: the items of several sources with one URL, method and tool become one listing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import msgspec
from msgspec import Raw

from indexer.catalogue.reading import apply_rules
from indexer.catalogue.table import ItemRow, ItemTable, decode_resource, encode_resource, row_of
from indexer.decisions import Decisions
from indexer.errors import InvalidRecord, LeftOut
from indexer.intake.findings import Conflict, Findings
from indexer.intake.rules import Rules, fold_address
from indexer.resources.assets import find_stablecoins
from indexer.resources.documents import join_resources
from indexer.resources.listing import MAX_ENTRIES, MAX_LISTING
from indexer.resources.resource import Resource
from indexer.resources.x402 import read_resource
from indexer.untrusted import raw_members
from service.networks import network_key
from service.schema.values import NULL

PATH = "$.resource"
OUTRANKED = LeftOut(
    "URLs that a more trusted source lists otherwise",
    PATH,
    "a more trusted source lists this URL",
)
DUPLICATE = LeftOut("duplicate listings", PATH, "is listed again, newer or more complete")
KEPT_APART = frozenset(("accepts", "quality", "resource"))
"""Members that are not taken whole from the first source that has them."""


class EntryGroup(NamedTuple):
    """Entries of `accepts`, whom they pay, and the source that they come from."""

    source: str
    texts: list[Raw]
    payees: set[str]


Fields = dict[str, Raw]
Entries = dict[str, EntryGroup]
"""Entries of `accepts` by scheme, network and asset."""


class Variant(NamedTuple):
    """An item as one source has it, with the members of its text, none of a document."""

    row: ItemRow
    source: str
    fields: Fields
    resource: Resource


class Merger:
    """Merges the items of a table, once all sources are read."""

    def __init__(
        self, table: ItemTable, decisions: Decisions, rules: Rules, findings: Findings
    ) -> None:
        self._table, self._decisions = table, decisions
        self._rules, self._findings = rules, findings
        self._conflicts: dict[int | None, set[Conflict]] = {}
        """Conflicts by the number of the listing."""

    @property
    def conflicts(self) -> list[Conflict]:
        """The conflicts of the listings that were not dropped, by URL."""
        return sorted(set().union(*self._conflicts.values()))

    def merge(self) -> None:
        """Merge items, those of one domain after those of another.

        A less trusted source adds nothing but usage to a URL that a more trusted source lists, and
        no method. An undeclared method joins the only one that is declared.
        """
        for domain in sorted(self._table.domains()):
            rows = self._table.rows(domain)
            trusts = trusts_of(rows)
            for _, found in groupby(rows, key=lambda row: (row.url, row.tool)):
                same = self._best_of_sources([*found])
                leading = max(row.trust for row in same)
                kept = []
                for row in same:
                    if leading < max(trusts[row.given], trusts[row.url]):
                        self.drop(row, OUTRANKED)
                    else:
                        kept.append(row)
                self._merge_address(kept)

    def _best_of_sources(self, rows: list[ItemRow]) -> list[ItemRow]:
        """Return the best item of each source and method, and leave out the others.

        Listed items come first, then newer ones. Among equals the greater bytes decide, so that
        the order of pages does not matter.
        """

        def rank(row: ItemRow) -> tuple[int, int, bytes, bytes]:
            texts = self._table.text(row.number or 0), self._table.resource(row.number)
            return row.is_listed, row.updated, *texts

        keys = [(row.source, row.method) for row in rows]
        if len({*keys}) == len(rows):
            return rows
        best = {(row.source, row.method): row for row in sorted(rows, key=rank)}
        for row, key in zip(rows, keys, strict=True):
            if best[key] is not row:
                self.drop(row, DUPLICATE)
        return [row for row, key in zip(rows, keys, strict=True) if best[key] is row]

    def drop(self, row: ItemRow, fault: LeftOut) -> None:
        """Leave out an item, with those that were merged into it."""
        self._conflicts.pop(row.number, None)
        for each in self._table.drop(row.number):
            tally = self._findings.tallies[each.source]
            subject = decode_resource(self._table.resource(each.number)).to_subject()
            self._findings.withdraw(tally, each.position, each.url, fault, subject)

    def _merge_address(self, rows: list[ItemRow]) -> None:
        """Merge the items of one URL and tool."""
        trust = max((row.trust for row in rows), default=0)
        leading = {row.method for row in rows if row.trust == trust}
        declared = leading - {""}
        only = ""
        if len(declared) == 1:
            (only,) = leading = declared
        by_method: dict[str, list[ItemRow]] = defaultdict(list)
        for row in rows:
            is_nameless = leading == {""} and row.trust < trust
            method = "" if is_nameless else row.method or only
            if method in leading:
                by_method[method].append(row)
            else:
                self.drop(row, OUTRANKED)
        for method, found in by_method.items():
            if len(found) == 1:
                self._decisions.take(found[0].key, self._name(found[0]))
            else:
                self._merge_rows(method, found)

    def _merge_rows(self, method: str, rows: list[ItemRow]) -> None:
        """Merge the items of one URL, method and tool into the first of them."""
        key = rows[0]._replace(method=method).key
        rows = self._in_order(rows, self._decisions.source_of(key))
        first, *others = rows
        self._decisions.take(key, self._name(first))
        variants = [self._variant(row) for row in rows]
        leading = [each for each in variants if each.row.trust == first.trust]
        fields, taken, entries = merge_variants(leading)
        if found := {*find_conflicts(variants, entries)}:
            self._conflicts[first.number] = found
        used = most_used(variants)
        if fields and used is not None:
            fields["quality"] = used.fields["quality"]
        text = msgspec.json.encode(fields) if fields else b""
        self._table.lead(first.number or 0, (each.number for each in others))
        try:
            resource = self._read(text, [each.resource for each in taken], method)
            if used is not None and not fields:
                usage = used.resource
                resource.calls, resource.payers = usage.calls, usage.payers
                resource.called = usage.called
        except InvalidRecord:  # merged, it breaks a rule that each keeps
            return
        row = row_of(resource, first.source, first.trust, first.position)
        if (row.url, row.tool) != (first.url, first.tool):  # merged, it names another server
            return
        self._table.put_item(row._replace(number=first.number), text, encode_resource(resource))
        known = {notice for each in variants for notice in each.resource.notices}
        tally, subject = self._findings.tallies[first.source], variants[0].resource.to_subject()
        for notice in resource.notices:
            if notice not in known:
                self._findings.note(tally, first.position, first.url, notice, subject)

    def _variant(self, row: ItemRow) -> Variant:
        resource = decode_resource(self._table.resource(row.number))
        text = self._table.text(row.number or 0) or resource.text  # of an entry of a manifest
        fields = raw_members(text) if text else {}
        return Variant(row, self._name(row), fields, resource)

    def _read(self, text: bytes, resources: list[Resource], method: str) -> Resource:
        """Return what the merged text of feeds and the resources of documents say together."""
        stablecoins = find_stablecoins(self._rules.policy.stablecoins)
        resource = read_resource(text, stablecoins) if text else None
        if resource is None or any(each.texts or each.offers for each in resources):
            resource = join_resources(resource, resources)
        if not resource.tool_url:
            resource.method = resource.method or method
        apply_rules(resource, self._rules)
        self._rules.check_age(resource.updated)
        return resource

    def _name(self, row: ItemRow) -> str:
        return self._findings.tallies[row.source].source

    def _in_order(self, rows: list[ItemRow], served: str) -> list[ItemRow]:
        """Return rows by trust; then the source that was served, else the newest; then by date.

        The source that will have been served next time comes first, so that a build repeats itself.
        """

        def order(row: ItemRow) -> tuple[object, ...]:
            return -row.trust, not row.is_listed, -row.updated, -row.source, row.method == ""

        first = min(rows, key=order)
        sources = {self._name(row) for row in rows if row.trust == first.trust}
        source = served if served in sources else self._name(first)
        return sorted(rows, key=lambda row: (-row.trust, self._name(row) != source, order(row)))


def trusts_of(rows: Iterable[ItemRow]) -> dict[str, int]:
    """Return the greatest trust in a source of each URL, with and without a route template."""
    trusts: dict[str, int] = {}
    for row in sorted(rows, key=lambda row: row.trust):
        trusts[row.given] = trusts[row.url] = row.trust
    return trusts


def merge_variants(variants: Sequence[Variant]) -> tuple[Fields, list[Variant], Entries]:
    """Merge equally trusted variants, the first one's members first.

    Entries of one scheme, network and asset come whole from the first variant that has them, other
    members from the first that has each; variants that declare a method come first for these. A
    variant that would make the item too large adds nothing. Returns the members, the variants that
    they are from, and the entries.
    """
    taken = [variants[0]]
    entries = group_entries(variants[0])
    joined = dict(variants[0].fields)
    for variant in variants[1:]:
        wider = entries | {
            key: each for key, each in group_entries(variant).items() if key not in entries
        }
        fields = _join([*taken, variant], wider)
        is_small = len(msgspec.json.encode(fields)) <= MAX_LISTING
        if is_small and sum(len(each.texts) for each in wider.values()) <= MAX_ENTRIES:
            taken.append(variant)
            joined, entries = fields, wider
    return joined, taken, entries


def group_entries(variant: Variant) -> Entries:
    """Return the entries of `accepts` by what they ask for."""
    groups: Entries = {}
    for entry in variant.resource.entries:
        asset = network_key(entry.network), fold_address(entry.asset)
        key = "\n".join((entry.scheme or "exact", *asset))
        group = groups.setdefault(key, EntryGroup(variant.source, [], set()))
        group.texts.append(Raw(variant.resource.text[entry.start : entry.stop]))
        group.payees.update({fold_address(entry.pay_to)} - {""})
    return groups


def find_conflicts(variants: Sequence[Variant], taken: Entries) -> Iterator[Conflict]:
    """Yield the sources that name another payee for entries that come from another source."""
    for variant in variants:
        for key, other in group_entries(variant).items():
            choice = taken.get(key)
            if choice is not None and choice.payees and choice.source != variant.source:
                for payee in other.payees - choice.payees:
                    names = choice.source, min(choice.payees), variant.source, payee
                    yield Conflict(variant.row.url, *names)


def _join(variants: Sequence[Variant], entries: Entries) -> Fields:
    """Return the members of a merged item, in the order of the first one."""
    first = next((each.fields for each in variants if each.fields), {})
    joined = {name: value if name in KEPT_APART else NULL for name, value in first.items()}
    for each in sorted(variants, key=lambda each: each.row.method == ""):
        for name, value in each.fields.items():
            if name not in KEPT_APART and bytes(joined.get(name, NULL)) == b"null":
                joined[name] = value
    if texts := [text for each in entries.values() for text in each.texts]:
        joined["accepts"] = Raw(msgspec.json.encode(texts))
    return joined


def most_used(variants: Iterable[Variant]) -> Variant | None:
    """Return the most trusted variant that states its usage, among equals that of more calls."""

    def rank(variant: Variant) -> tuple[int, int, bytes]:
        usage = bytes(variant.fields["quality"])
        return variant.row.trust, variant.resource.calls or 0, usage

    stated = (each for each in variants if bytes(each.fields.get("quality", NULL)) != b"null")
    return max(stated, key=rank, default=None)
