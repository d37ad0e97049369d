"""Merging: which source each part of a resource that several sources list is taken from."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from indexer.decisions import FILE, Decisions, DecisionTable
from indexer.intake.findings import Conflict
from indexer.resources.listing import MAX_ENTRIES, MAX_LISTING, encode_listing
from tests.support.running import Json
from tests.support.sources.x402 import (
    SOLANA_USDC,
    URL,
    USDC,
    Feed,
    accept,
    discover,
    resource,
    v1,
    v2,
)

OLD, NEW = "2026-05-01T00:00:00Z", "2026-05-02T00:00:00Z"
ON_SOLANA = accept(network="solana", asset=SOLANA_USDC, payTo="So1")
HONEST, LIAR = accept("10000", payTo="0xHonest"), accept("9000000", payTo="0xLiar")


class Outcome(NamedTuple):
    """Services and listings of a merge, what it dropped, and its decisions."""

    services: list[Json]
    listings: list[Json]
    dropped: list[str]
    conflicts: list[Conflict]
    table: DecisionTable

    @property
    def payees(self) -> list[str]:
        return [entry["payTo"] for each in self.listings for entry in each["accepts"]]

    @property
    def methods(self) -> list[str]:
        return [each["ratecard"]["endpoint"]["method"] for each in self.listings]


Merge = Callable[..., Outcome]


def merge_in(folder: Path, feeds: Sequence[Feed], served: DecisionTable | None = None) -> Outcome:
    decisions = Decisions(served)
    services: list[Json] = []
    listings: list[Json] = []
    file = BytesIO()
    discovery = discover(feeds, decisions, file=file)
    for group, service in discovery.groups():
        services.append(service)
        listings += (json.loads(encode_listing(each, "id")) for each in discovery.listings(group))
    found = map(json.loads, file.getvalue().splitlines())
    dropped = [f"{each['source']} {each['position']}" for each in found if each["fate"] != "noted"]
    decisions.conflicts = discovery.conflicts
    decisions.write(folder)
    table = msgspec.json.decode((folder / FILE).read_bytes(), type=DecisionTable)
    return Outcome(services, listings, dropped, discovery.conflicts, table)


@pytest.fixture
def merge(tmp_path: Path) -> Merge:
    """Return a function that merges feeds, as after a build of a table of decisions."""

    def merge(*feeds: Feed, served: DecisionTable | None = None) -> Outcome:
        return merge_in(tmp_path, feeds, served)

    return merge


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {"network": "base"}),
        ({}, {"asset": USDC.lower()}),
        ({}, {"scheme": None}),
        ({"network": "Base"}, {"network": "8453", "asset": USDC.upper().replace("X", "x")}),
    ],
)
def test_spellings_of_one_scheme_network_and_asset_are_one_entry(
    one: Json, other: Json, merge: Merge
) -> None:
    old, new = HONEST | one, LIAR | other
    feeds = [
        Feed([resource(URL, old, lastUpdated=OLD)], "old"),
        Feed([resource(URL, new, lastUpdated=NEW)], "new"),
    ]
    assert merge(*feeds).listings[0]["accepts"] == [new]
    assert merge(*reversed(feeds)).listings[0]["accepts"] == [new]


def test_entries_of_one_asset_come_whole_from_one_source(merge: Merge) -> None:
    pair = [accept("10000", payTo="0xA"), accept("50000", payTo="0xB", extra={"name": "x"})]
    feeds = [
        Feed([resource(URL, *pair, lastUpdated=NEW)], "pair"),
        Feed([resource(URL, accept("7", payTo="0xC"), ON_SOLANA, lastUpdated=OLD)], "other"),
    ]
    assert merge(*feeds).listings[0]["accepts"] == [*pair, ON_SOLANA]


def test_a_payee_that_another_source_names_is_a_conflict_which_is_not_served(
    merge: Merge,
) -> None:
    feeds = [
        Feed([resource(URL, LIAR, ON_SOLANA, lastUpdated=NEW)], "liar"),
        Feed([resource(URL, HONEST, lastUpdated=OLD)], "trusted", 1),
    ]
    outcome = merge(*feeds)
    assert outcome.payees == ["0xHonest"]
    assert outcome.conflicts == [Conflict(URL, "trusted", "0xhonest", "liar", "0xliar")]
    assert outcome.table.conflicts == outcome.conflicts


def test_a_source_that_names_no_payee_contradicts_none(merge: Merge) -> None:
    silent = {name: value for name, value in HONEST.items() if name != "payTo"}
    blank = HONEST | {"payTo": ""}
    for first, other in [(HONEST, silent), (silent, HONEST), (HONEST, blank), (blank, LIAR)]:
        feeds = [Feed([resource(URL, first)], "first", 1), Feed([resource(URL, other)], "other")]
        assert merge(*feeds).conflicts == []
        assert merge(*(each._replace(trust=0) for each in feeds)).conflicts == []
    feeds = [Feed([resource(URL, silent, HONEST)], "first", 1), Feed([resource(URL, LIAR)], "liar")]
    assert [str(each) for each in merge(*feeds).conflicts] == [
        f"{URL} pays 0xhonest by first, and 0xliar by liar"
    ]


def test_a_tool_stays_at_its_server_whatever_another_source_adds(merge: Merge) -> None:
    server = "https://h.example/mcp"
    mine = resource("mcp://tool/forecast", metadata={"serverUrl": server}, lastUpdated=NEW)
    named = {"type": "mcp", "toolName": "forecast", "serverUrl": "https://evil.example/mcp"}
    declared = {"bazaar": {"info": {"input": named}}}
    theirs = resource(server, extensions=declared, lastUpdated=OLD)
    outcome = merge(Feed([mine], "mine"), Feed([theirs], "theirs"))
    assert [each["domain"] for each in outcome.services] == ["h.example"]


def test_the_source_of_an_entry_that_was_served_keeps_it_and_its_changes_are_followed(
    merge: Merge,
) -> None:
    def honest(amount: str, updated: str) -> Feed:
        return Feed(
            [resource(URL, accept(amount, payTo="0xHonest"), lastUpdated=updated)], "honest"
        )

    first = merge(honest("10000", OLD))
    newcomer = Feed([resource(URL, LIAR, ON_SOLANA, lastUpdated=NEW)], "newcomer")
    second = merge(newcomer, honest("10000", OLD), served=first.table)
    assert second.payees == ["0xHonest", "So1"]
    third = merge(newcomer, honest("20000", OLD), served=second.table)
    assert [each["amount"] for each in third.listings[0]["accepts"]] == ["20000", "10000"]
    rival = Feed([resource(URL, ON_SOLANA | {"payTo": "So2"}, lastUpdated=NEW)], "rival")
    fourth = merge(rival, newcomer, honest("20000", OLD), served=third.table)
    assert fourth.payees == ["0xHonest", "So1"]
    assert merge(newcomer, served=fourth.table).payees == ["0xLiar", "So1"]


def test_usage_is_the_most_trusted_that_is_stated_and_among_equals_the_larger(
    merge: Merge,
) -> None:
    def stating(calls: object, name: str, trust: int = 0) -> Feed:
        quality = {"l30DaysTotalCalls": calls, "l30DaysUniquePayers": 1}
        return Feed([resource(quality=quality)], name, trust)

    def calls_of(*feeds: Feed) -> object:
        (listing,) = merge(*feeds).listings
        return listing["quality"]["l30DaysTotalCalls"]

    few, many = stating(3, "few"), stating("20", "many")
    assert calls_of(few, many) == calls_of(many, few) == "20"
    assert calls_of(few, many, stating(1, "trusted", 1)) == 1
    assert calls_of(few, stating("x" * 30, "odd"), stating(None, "none")) == 3
    silent = Feed([resource(), resource(quality=None)], "silent", 2)
    assert calls_of(few, many, silent) == "20"


@pytest.mark.parametrize("is_one_source", [True, False])
@pytest.mark.parametrize("is_reversed", [True, False])
def test_an_undeclared_method_joins_the_only_one_that_is_declared(
    is_reversed: bool, is_one_source: bool, merge: Merge
) -> None:
    undeclared = resource(URL, ON_SOLANA, description="Forecasts", lastUpdated=OLD)
    declared = v2({"method": "GET"}) | {"lastUpdated": NEW}
    records = [undeclared, declared][:: -1 if is_reversed else 1]
    feeds = [Feed([each], str(number)) for number, each in enumerate(records)]
    outcome = merge(*([Feed(records)] if is_one_source else feeds))
    (listing,) = outcome.listings
    assert outcome.methods == ["GET"]
    assert [each["network"] for each in listing["accepts"]] == ["eip155:8453", "solana"]
    assert listing["description"] == "Forecasts"


def test_an_undeclared_method_stays_beside_several_that_are_declared(merge: Merge) -> None:
    declared = [v2({"method": method}) for method in ("GET", "POST")]
    assert merge(Feed(declared, "one"), Feed([resource()], "other")).methods == ["", "GET", "POST"]


def test_versions_of_the_protocol_are_merged(merge: Merge) -> None:
    first, second = v1({"method": "GET"}), v2({"method": "GET"}) | {"accepts": [ON_SOLANA]}
    (listing,) = merge(Feed([first], "one"), Feed([second], "other")).listings
    assert {each["network"] for each in listing["accepts"]} == {"base", "solana"}


@pytest.mark.parametrize(
    "more",
    [
        {"accepts": [accept(network=f"eip155:{n}") for n in range(1, MAX_ENTRIES + 1)]},
        {"extra": "x" * (MAX_LISTING - 1000)},
    ],
    ids=["entries", "bytes"],
)
def test_a_source_that_would_make_a_listing_too_large_adds_nothing(
    more: Json, merge: Merge
) -> None:
    small = resource(URL, HONEST, description="x" * 1000, lastUpdated=NEW)
    outcome = merge(
        Feed([small], "small"),
        Feed([resource(URL, lastUpdated=OLD) | more], "large"),
        Feed([resource(URL, ON_SOLANA)], "third"),
    )
    (listing,) = outcome.listings
    assert outcome.payees == ["0xHonest", "So1"]
    assert "extra" not in listing


def test_a_resource_with_payments_comes_before_a_newer_one_without(merge: Merge) -> None:
    bare = {"resource": URL, "accepts": [], "description": "bare", "lastUpdated": NEW}
    payable = resource(description="payable", lastUpdated=OLD)
    (listing,) = merge(Feed([bare], "bare"), Feed([payable], "payable")).listings
    assert listing["description"] == "payable"
    assert listing["accepts"] == [accept()]
