"""Intake: kinds of records, and sources that fail, shrink or change."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from indexer.build import build_snapshot
from indexer.errors import IndexerError, SourceError, SourceFailed, TooManyRejects
from indexer.intake.findings import State
from indexer.options import BuildOptions, Kind, OnError, RankingOptions, SourceOptions
from indexer.report import Report
from tests.support.artifacts import current, ids, listed, overlays
from tests.support.running import Build, Json, service, write_lines
from tests.support.sources.x402 import accept, resource

Publish = Callable[..., Report]


@pytest.fixture
def publish(artifacts: Path) -> Publish:
    """Return a function that builds from sources, each with options of a build."""
    plain: Json = {"ranking": RankingOptions(is_semantic=False), "downloads": False, "jobs": 1}

    def publish(*sources: SourceOptions, **options: Any) -> Report:
        return build_snapshot(BuildOptions(sources=sources, out=artifacts, **plain, **options))

    return publish


@pytest.fixture
def source(tmp_path: Path) -> Callable[..., SourceOptions]:
    """Return a function that writes the file of a source, curated unless options differ."""

    def source(name: str, records: list[Any], **options: Any) -> SourceOptions:
        path = write_lines(tmp_path / name, records)
        return SourceOptions(name=name, path=path, **({"trust": 1, "curated": True} | options))

    return source


Source = Callable[..., SourceOptions]


def paths(count: int, start: int = 0, **fields: Any) -> list[Json]:
    numbers = range(start, start + count)
    return [resource(f"https://api.feed.example/{n}", **fields) for n in numbers]


def listings(artifacts: Path) -> int:
    return sum(len(each["endpoints"]) for each in listed(artifacts))


def test_a_source_that_fails_publishes_nothing_unless_it_may(
    source: Source, publish: Publish, artifacts: Path
) -> None:
    other = source("other", [service("a")])
    feed = source("feed", paths(3), kind=Kind.RESOURCES)
    publish(other, feed)
    before = current(artifacts)
    Path(feed.path).write_text("[")
    with pytest.raises(SourceError, match="feed"):
        publish(source("other", [service("b")]), feed)
    assert current(artifacts) == before


@pytest.mark.parametrize("damage", ["missing", "cut short", "emptied"])
def test_the_last_accepted_copy_stands_for_a_source_that_fails(
    damage: str, source: Source, publish: Publish, artifacts: Path
) -> None:
    feed = source("feed", paths(15), kind=Kind.RESOURCES, on_error=OnError.LAST)
    publish(source("other", [service("a")]), feed)
    if damage == "missing":
        Path(feed.path).unlink()
    else:
        Path(feed.path).write_text("[" if damage == "cut short" else "[]")
    report = publish(source("other", [service("b")]), feed)
    assert sorted(ids(artifacts)) == ["api-feed-example", "b"]
    assert listings(artifacts) == 16
    _, tally = report.sources
    assert (tally.source, tally.state, tally.records) == ("feed", State.LAST, 15)
    assert "feed" in tally.failure
    assert tally.read_at is not None
    again = publish(source("other", [service("b")]), feed, from_scratch=True)
    assert again.sources[1].state is State.LAST


@pytest.mark.parametrize("max_age", [None, 0])
def test_without_a_copy_that_is_young_enough_the_source_fails(
    max_age: int | None, source: Source, publish: Publish
) -> None:
    feed = source("feed", paths(3), kind=Kind.RESOURCES, on_error=OnError.LAST)
    if max_age is not None:
        feed = replace(feed, max_age=max_age)
        publish(feed)
    Path(feed.path).unlink()
    expected = "no accepted copy" if max_age is None else "hours old"
    with pytest.raises(IndexerError, match=expected):
        publish(source("other", [service("a")]), feed)


def test_the_listings_of_a_source_that_is_skipped_go(
    source: Source, publish: Publish, artifacts: Path
) -> None:
    other = source("other", [service("a")])
    feed = source("feed", paths(3), kind=Kind.RESOURCES, on_error=OnError.SKIP)
    publish(other, feed)
    Path(feed.path).unlink()
    report = publish(other, feed)
    assert ids(artifacts) == ["a"]
    assert (report.sources[1].state, report.sources[1].records) == (State.SKIPPED, 0)


CHANGES: dict[str, tuple[list[Json], str]] = {
    "gone": (paths(19), "11 of 30 listings are gone"),
    "other payees": (
        [*paths(11, accepts=[accept(payTo="0xOther")]), *paths(19, 11)],
        "11 of 30 listings pay another address",
    ),
    "dearer": (
        [*paths(11, accepts=[accept("100000")]), *paths(19, 11)],
        "11 of 30 listings cost more",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_source_that_changed_too_much_has_failed_until_it_is_accepted_once(
    change: str, source: Source, publish: Publish, artifacts: Path
) -> None:
    records, reason = CHANGES[change]
    publish(source("feed", paths(30)))
    before = current(artifacts)
    changed = source("feed", records)
    with pytest.raises(SourceFailed, match=reason) as caught:
        publish(changed)
    assert "--accept feed" in str(caught.value)
    assert caught.value.status == 3
    assert current(artifacts) == before
    accepted = publish(changed, accept=frozenset(["feed"]))
    assert accepted.sources[0].state is State.CURRENT
    assert current(artifacts) != before
    assert publish(changed).sources[0].state is State.CURRENT


@pytest.mark.parametrize("change", CHANGES)
def test_the_last_copy_stands_for_a_source_that_changed_too_much_and_the_rest_is_published(
    change: str, source: Source, publish: Publish, artifacts: Path
) -> None:
    records, reason = CHANGES[change]
    publish(source("feed", paths(30), on_error=OnError.LAST))
    before = listed(artifacts)
    changed = source("feed", records, on_error=OnError.LAST)
    report = publish(changed, source("other", [service("a")]))
    assert report.sources[0].state is State.LAST
    assert reason in report.sources[0].failure
    assert before[0] in listed(artifacts)
    assert "a" in ids(artifacts)


@pytest.mark.parametrize(
    ("records", "max_removed"),
    [
        (paths(20), Fraction(1, 10)),
        (paths(15), Fraction(1, 2)),
        (paths(30, accepts=[accept("99999")]), Fraction(1, 10)),
        (paths(30, 0, description="new"), Fraction(1, 10)),
        (paths(60), Fraction(1, 10)),
    ],
    ids=["ten fewer", "half is allowed", "less than ten times the price", "other texts", "more"],
)
def test_smaller_changes_are_followed(
    records: list[Json], max_removed: Fraction, source: Source, publish: Publish
) -> None:
    publish(source("feed", paths(30)))
    report = publish(source("feed", records, max_removed=max_removed))
    assert report.sources[0].state is State.CURRENT


def test_overlays_policies_and_other_sources_do_not_count_as_changes_of_a_source(
    tmp_path: Path, artifacts: Path, build: Build
) -> None:
    feed = [resource(f"https://h{n}.example/") for n in range(30)]
    assert build(feed, [service("a")]) == 0
    assert build(feed, options=overlays(tmp_path, {f"h{n}-example": None for n in range(20)})) == 0
    assert build(feed) == 0
    assert listings(artifacts) == 30


def test_a_small_catalogue_may_be_emptied_at_once_and_a_large_one_not(
    artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build([service(str(n)) for n in range(11)]) == 0
    assert build([service("0")]) == 0
    assert build([service(str(n)) for n in range(30)]) == 0
    assert build([service("0")]) == 3
    assert "29 of 30 listings are gone" in capsys.readouterr().err
    assert len(ids(artifacts)) == 30
    name = str(artifacts.parent / "source0.jsonl")
    assert build([service("0")], options=("--accept", name)) == 0
    assert ids(artifacts) == ["0"]


BAD = {"resource": "nowhere", "accepts": []}


def test_malformed_resources_of_a_feed_stop_no_build_unless_there_are_more_than_before(
    source: Source, publish: Publish
) -> None:
    def feed(bad: int) -> SourceOptions:
        return source("feed", [*paths(40), *[BAD] * bad], kind=Kind.RESOURCES)

    first = publish(feed(10))
    assert (first.sources[0].malformed, first.sources[0].published) == (10, 40)
    publish(feed(10))
    with pytest.raises(TooManyRejects, match="20 of 60 records are malformed") as caught:
        publish(feed(20))
    assert "feed:41: $.resource: is not a URL" in str(caught.value)
    publish(feed(20), accept=frozenset(["feed"]))
    publish(feed(20))


@pytest.mark.parametrize("action", [OnError.LAST, OnError.SKIP])
def test_a_source_whose_malformed_share_grew_does_not_stop_the_others_where_it_may_fail(
    action: OnError, source: Source, publish: Publish, artifacts: Path
) -> None:
    options: Json = {"kind": Kind.RESOURCES, "on_error": action}
    publish(source("feed", paths(5), **options))
    report = publish(source("feed", [BAD] * 5, **options), source("other", [service("a")]))
    expected = {OnError.LAST: State.LAST, OnError.SKIP: State.SKIPPED}[action]
    assert report.sources[0].state is expected
    assert "5 of 5 records are malformed" in report.sources[0].failure
    assert listings(artifacts) == {OnError.LAST: 6, OnError.SKIP: 1}[action]


def test_a_feed_of_malformed_resources_alone_has_failed(source: Source, publish: Publish) -> None:
    with pytest.raises(TooManyRejects, match="2 of 2 records are malformed"):
        publish(source("feed", [BAD, BAD], kind=Kind.RESOURCES))


def test_malformed_records_of_a_file_stop_a_build_with_their_reason(
    source: Source, publish: Publish
) -> None:
    noted = source("noted", [resource("https://a.example/", accept(None))])
    with pytest.raises(TooManyRejects) as caught:
        publish(noted, source("broken", [service("a"), {"id": "b"}]))
    assert "broken: 1 of 2 records are malformed" in str(caught.value)
    assert "broken:2: $" in str(caught.value)
    assert "noted" not in str(caught.value)


def test_records_of_another_kind_are_left_out_and_named(
    source: Source, publish: Publish, artifacts: Path
) -> None:
    liar = service("api-victim-example", name="Victim (official)", enriched=True)
    both = liar | {"resource": "https://api.victim.example/", "accepts": [accept()]}
    feed = source("feed", [liar, both, *paths(1)], kind=Kind.RESOURCES)
    report = publish(feed, source("ours", [service("a"), *paths(1)], kind=Kind.RECORDS))
    assert sorted(ids(artifacts)) == ["a", "api-feed-example"]
    assert [each.left_out for each in report.sources] == [
        {"records of another kind": 2},
        {"records of another kind": 1},
    ]
    assert [each.published for each in report.sources] == [1, 1]


@pytest.mark.parametrize(
    ("kind", "record", "advice"),
    [
        (Kind.RESOURCES, service("a"), "--records URL"),
        (Kind.RECORDS, resource(), "gives resources and no catalogue records"),
    ],
)
def test_a_source_of_another_kind_alone_is_an_error(
    kind: Kind, record: Json, advice: str, source: Source, publish: Publish
) -> None:
    with pytest.raises(SourceError, match=advice):
        publish(source("feed", [record], kind=kind))


def test_a_file_without_a_kind_may_hold_both(
    source: Source, publish: Publish, artifacts: Path
) -> None:
    publish(source("both", [service("a"), *paths(1)]))
    assert sorted(ids(artifacts)) == ["a", "api-feed-example"]


def test_what_an_uncurated_source_says_of_ids_is_not_believed(
    source: Source, publish: Publish, artifacts: Path
) -> None:
    theirs = service("ours", domain="theirs.example", enriched=True)
    publish(
        source("ours", [service("ours", name="Ours")]),
        source("theirs", [theirs], kind=Kind.RECORDS, trust=0, curated=False),
    )
    services = {each["id"]: each for each in listed(artifacts)}
    assert services.keys() == {"ours", "theirs-example"}
    assert services["ours"]["name"] == "Ours"
    assert "enriched" not in services["theirs-example"]
