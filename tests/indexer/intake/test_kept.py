"""Accepted copies: what changed since a source was last published, and what stands for it."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from datetime import UTC, datetime
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.intake.fetch import Feed, fetch_feeds
from indexer.intake.kept import (
    FETCHED,
    FLOOR,
    FOLDER,
    LISTINGS,
    PRICE_RISE,
    STATE,
    AcceptedListings,
    KeptSource,
    remove_unused,
)
from indexer.options import UNUSED_SECONDS, OnError, SourceOptions
from tests.support.artifacts import ids, reported
from tests.support.running import Build, Json, service, write_lines
from tests.support.sources.feeds import QUICK, items_of, misbehaving, sending, source_of
from tests.support.sources.x402 import accept, resource

NOW = datetime(2026, 6, 1, tzinfo=UTC)
TENTH = Fraction(1, 10)
FEED = SourceOptions(name="feed", url="https://feed.example/", on_error=OnError.LAST)
OWN = SourceOptions(name="own", path="own.jsonl")

Facts = dict[str, tuple[str, float]]
"""The payee and the price of listings by their names."""
names = st.integers(0, 40).map(str)
facts = st.dictionaries(
    names, st.tuples(st.sampled_from(("", "0xa", "0xb")), st.sampled_from((0.0, 1.0, 9.9, 10.0)))
)
shares = st.fractions(0, 1)


def listings_of(facts: Facts) -> AcceptedListings:
    listings = AcceptedListings()
    for name, (payee, price) in facts.items():
        listings.add(name, [payee] if payee else [], price)
    return listings


def numbered(stop: int, payee: str = "0xa", price: float = 1) -> Facts:
    return {str(number): (payee, price) for number in range(stop)}


def accept_listings(artifacts: Path, facts: Facts, source: SourceOptions = FEED) -> KeptSource:
    """Accept listings, and return the source as the next build finds it."""
    text = artifacts / "text"
    artifacts.mkdir(parents=True, exist_ok=True)
    text.write_text("text")
    accepted = KeptSource(artifacts, source)
    accepted.store(text, listings_of(facts), NOW, 0.25)
    return KeptSource(artifacts, source)


@given(facts, facts, shares)
def test_more_than_a_share_and_a_floor_must_be_gone_or_changed(
    tmp_path_factory: pytest.TempPathFactory, before: Facts, now: Facts, share: Fraction
) -> None:
    accepted = accept_listings(tmp_path_factory.mktemp("artifacts"), before)
    kept = before.keys() & now.keys()
    counts = {
        "are gone": len(before.keys() - now.keys()),
        "pay another address": sum(before[name][0] not in ("", now[name][0]) for name in kept),
        "cost more": sum(0 < before[name][1] * PRICE_RISE <= now[name][1] for name in kept),
    }
    limit = max(FLOOR, int(share * len(before)))
    changes = [each.splitlines()[0] for each in accepted.find_changes(listings_of(now), share)]
    assert changes == [
        f"{count} of {len(before)} listings {kind}"
        for kind, count in counts.items()
        if count > limit
    ]


@given(facts, facts)
def test_listings_that_are_added_are_no_change(
    tmp_path_factory: pytest.TempPathFactory, before: Facts, others: Facts
) -> None:
    accepted = accept_listings(tmp_path_factory.mktemp("artifacts"), before)
    assert accepted.find_changes(listings_of(others | before), Fraction(0)) == []


def test_a_change_names_its_first_listings(tmp_path: Path) -> None:
    accepted = accept_listings(tmp_path, numbered(200))
    (change,) = accepted.find_changes(listings_of(numbered(200, payee="0xb")), TENTH)
    assert change.splitlines() == [
        "200 of 200 listings pay another address",
        *(f"    {number}" for number in range(5)),
        "    and 195 more",
    ]


def test_the_order_of_payees_is_no_change(tmp_path: Path) -> None:
    listings, other = AcceptedListings(), AcceptedListings()
    for number in range(2 * FLOOR):
        listings.add(str(number), ["0xa", "0xb"], 1)
        other.add(str(number), ["0xb", "0xa"], 1)
    text = tmp_path / "text"
    text.touch()
    KeptSource(tmp_path, FEED).store(text, listings, NOW, 0)
    assert KeptSource(tmp_path, FEED).find_changes(other, Fraction(0)) == []


def test_a_source_is_found_by_its_name_and_place(tmp_path: Path) -> None:
    state = accept_listings(tmp_path, numbered(1)).state
    assert state is not None
    assert (state.read_at, state.malformed) == (NOW, 0.25)
    others: list[dict[str, Any]] = [{"name": "other"}, {"url": "https://feed.example/2"}]
    for fields in others:
        other = SourceOptions(**{"name": FEED.name, "url": FEED.url} | fields)
        assert KeptSource(tmp_path, other).state is None


@pytest.mark.parametrize("name", ["../../up", "a/b", ".", "..", "-", "\u00fc", "x" * 100])
def test_a_source_of_any_name_has_a_folder_of_its_own(name: str, tmp_path: Path) -> None:
    source = SourceOptions(name=name, url=FEED.url, on_error=OnError.LAST)
    accepted = accept_listings(tmp_path, numbered(1), source)
    assert accepted.folder.parent == tmp_path / FOLDER
    assert accepted.state is not None


@pytest.mark.parametrize("action", OnError)
def test_a_copy_of_the_text_is_kept_where_it_may_be_used(action: OnError, tmp_path: Path) -> None:
    source = SourceOptions(name="own", path="own.jsonl", on_error=action)
    accepted = accept_listings(tmp_path, numbered(1), source)
    (tmp_path / "text").write_text("another text")
    if action is OnError.LAST:
        assert accepted.copy is not None
        assert accepted.copy.read_text() == "text"
    else:
        assert accepted.copy is None
    files = {each.name for each in accepted.folder.iterdir()}
    assert files - {STATE, LISTINGS} == ({accepted.copy.name} if accepted.copy else set())


@pytest.mark.parametrize("name", [STATE, LISTINGS])
@pytest.mark.parametrize("content", [b"", b"\xff", b"{}", b"[]"])
def test_a_damaged_copy_is_none(name: str, content: bytes, tmp_path: Path) -> None:
    accepted = accept_listings(tmp_path, numbered(100))
    (accepted.folder / name).write_bytes(content)
    again = KeptSource(tmp_path, FEED)
    assert (again.state is None) == (name == STATE)
    assert (
        again.find_changes(AcceptedListings(), TENTH) == []
        if name == LISTINGS
        else again.copy is None
    )


def test_copies_of_sources_that_are_not_read_are_removed_after_a_while(tmp_path: Path) -> None:
    unused, used = accept_listings(tmp_path, {}), accept_listings(tmp_path, {}, OWN)
    foreign = tmp_path / FOLDER / "of the operator"
    foreign.mkdir()
    for seconds, exists in ((UNUSED_SECONDS - 60, True), (UNUSED_SECONDS + 60, False)):
        then = datetime.now(UTC).timestamp() - seconds
        for folder in (unused.folder, used.folder, foreign):
            os.utime(folder, (then, then))
        KeptSource(tmp_path, OWN)  # reads it now
        remove_unused(tmp_path)
        assert (unused.folder.exists(), used.folder.exists()) == (exists, True)
    assert foreign.exists()
    remove_unused(tmp_path / "none")


def test_a_build_removes_copies_of_sources_that_are_not_read(build: Build, artifacts: Path) -> None:
    unused = accept_listings(artifacts, {}).folder
    os.utime(unused, (0, 0))
    assert build([service()]) == 0
    assert not unused.exists()


def resources(stop: int, **fields: Any) -> list[Json]:
    return [resource(f"https://s{n}.example/", accept(**fields)) for n in range(stop)]


WORSE = {
    "emptied": [],
    "half gone": resources(20),
    "of another payee": resources(40, payTo="0xThief"),
    "ten times as dear": resources(40, amount="100000"),
}


@pytest.mark.parametrize("change", WORSE)
def test_a_source_that_changed_too_much_publishes_nothing_until_it_is_accepted(
    change: str, artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    with misbehaving(sending(resources(40))) as server:
        assert build(server.url) == 0
        before = sorted(ids(artifacts))
        server.behaviour = sending(WORSE[change])
        assert build(server.url) == 3
        error = capsys.readouterr().err
        assert f"--accept {server.url} takes it once" in error
        assert sorted(ids(artifacts)) == before
        assert build(server.url, options=("--accept", server.url)) == 0
        assert len(ids(artifacts)) == len(WORSE[change])
        assert build(server.url, options=("--from-scratch",)) == 0


def test_a_url_gives_no_items_only_where_that_was_accepted(
    artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuses() -> bool:
        failed = build(server.url, options=("--from-scratch",)) == 3
        return failed and f"{server.url}: gives no items; if that is " in capsys.readouterr().err

    with misbehaving(sending([])) as server:
        assert refuses(), "it was never accepted"
        server.behaviour = sending(resources(3))  # fewer than any source may lose
        assert build(server.url) == 0
        server.behaviour = sending([])
        assert refuses()
        assert len(ids(artifacts)) == 3
        assert build(server.url, options=("--accept", server.url)) == 0
        assert not refuses()
        assert ids(artifacts) == []


@pytest.mark.parametrize("change", WORSE)
def test_the_last_copy_of_a_source_that_changed_too_much_serves_beside_others(
    change: str, artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--on-error", "last", "--json")
    with misbehaving(sending(resources(40))) as server:
        assert build(server.url, options=options) == 0
        before = ids(artifacts)
        server.behaviour = sending(WORSE[change])
        for name in ("one", "two"):
            assert build(server.url, [service(name)], options=options) == 0
            assert sorted(ids(artifacts)) == sorted([*before, name])
            source, _ = reported(capsys)["sources"]
            assert (source["state"], source["published"]) == ("last", 40)
            assert "--accept" in source["failure"]


def test_a_copy_that_is_too_old_does_not_serve(
    artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    source = tmp_path / "feed.jsonl"
    write_lines(source, [service("a")])
    assert build(source, keys={"on_error": "last"}) == 0
    source.unlink()
    assert build(source, keys={"on_error": "last", "max_age": "0s"}) == 1
    assert "which is more than its max_age" in capsys.readouterr().err
    assert ids(artifacts) == ["a"]


def test_without_a_copy_the_failure_says_so(
    tmp_path: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "feed.jsonl"
    assert build(source, options=("--on-error", "last")) == 1
    assert capsys.readouterr().err == (
        f"error: {source}: there is no such file\ncorrect the source, or build without it by "
        f'`on_error = "skip"`; there is no earlier copy of {source} to serve\n'
    )


def test_what_an_earlier_release_accepted_is_taken_over(
    artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--on-error", "last", "--json")
    with misbehaving(sending(resources(40))) as server:
        assert build(server.url, options=options) == 0
        before = ids(artifacts)
        (artifacts / FOLDER).rename(artifacts / "accepted")
        for path in (artifacts / "accepted").rglob(FETCHED):
            path.unlink()
        (artifacts / "feeds" / "feed.example-x").mkdir(parents=True)
        server.behaviour = sending(resources(5))
        capsys.readouterr()
        assert build(server.url, options=options) == 0
    report = reported(capsys)
    assert ids(artifacts) == before
    assert (report["sources"][0]["state"], report["notes"]) == (
        "last",
        ["removed feeds of an earlier release"],
    )
    assert {each.name for each in artifacts.iterdir()}.isdisjoint({"accepted", "feeds"})


def test_what_was_read_and_what_was_accepted_are_one_text_or_two(
    artifacts: Path, build: Build
) -> None:
    def texts() -> set[str]:
        (folder,) = (artifacts / FOLDER).iterdir()
        return {path.name for path in folder.iterdir()} - {STATE, LISTINGS, FETCHED}

    options = ("--on-error", "last")
    with misbehaving(sending(resources(40))) as server:
        assert build(server.url, options=options) == 0
        (accepted,) = texts()
        server.behaviour = sending(resources(5))
        assert build(server.url, options=options) == 0
        assert accepted in texts()
        assert len(texts()) == 2
        server.behaviour = sending(resources(41))
        assert build(server.url, options=options) == 0
        assert len(texts()) == 1


STOPS = [
    *("service.arrays.files.write_durably", "service.arrays.files.sync"),
    *("indexer.intake.kept.sync", "indexer.intake.kept.replace_durably"),
]


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("number", range(4))
def test_a_crash_while_a_source_is_kept_leaves_the_earlier_one(
    stop: str, number: int, artifacts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, _, name = stop.rpartition(".")
    real, calls = getattr(sys.modules[module], name), count()

    def crash(*arguments: Any) -> None:
        if next(calls) == number:
            raise KeyboardInterrupt
        real(*arguments)

    def fetch() -> list[str]:
        (feed,) = fetch_feeds([source_of(server.url, name="feed")], artifacts, QUICK)
        return [each["resource"] for each in items_of(cast("Feed", feed))]

    with misbehaving(sending(resources(2))) as server:
        assert len(fetch()) == 2
        server.behaviour = sending(resources(3))
        with monkeypatch.context() as patch:
            patch.setattr(stop, crash)
            with suppress(KeyboardInterrupt):
                fetch()
        kept = KeptSource(artifacts, source_of(server.url, name="feed"))
        fetched = kept.fetched()
        assert fetched is not None
        assert len(json.loads(kept.path(fetched).read_bytes())) in {2, 3}
        assert len(fetch()) == 3
