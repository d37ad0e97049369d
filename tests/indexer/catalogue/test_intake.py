"""Intake: kinds of records, and the accepted copy of a source that fails."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.artifacts import ids, listed, reported
from tests.support.intake import CatalogueFolder, source
from tests.support.running import Json, service
from tests.support.sources.x402 import accept, resource

BAD = {"resource": "nowhere", "accepts": []}
VICTIM = service("api-victim-example", name="Victim (official)", enriched=True)


def paths(count: int) -> list[Json]:
    return [resource(f"https://api.feed.example/{n}") for n in range(count)]


@pytest.mark.parametrize("damage", [None, "[", "[]"], ids=["missing", "cut short", "emptied"])
def test_the_last_accepted_copy_stands_for_a_source_that_fails(
    damage: str | None, catalogue: CatalogueFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    feed = {"name": "feed", "path": "feed.jsonl", "kind": "resources", "on_error": "last"}
    assert catalogue.build(source("other", [service("a")]), source("feed", paths(15))) == 0
    file = catalogue.artifacts.parent / "feed.jsonl"
    file.unlink() if damage is None else file.write_text(damage)
    capsys.readouterr()
    for more in ((), ("--from-scratch",)):
        other = source("other", [service("b")])
        assert catalogue.build(other, feed, options=("--json", *more)) == 0
        _, tally = reported(capsys)["sources"]
        assert (tally["name"], tally["state"], tally["records"]) == ("feed", "last", 15)
        assert "feed" in tally["failure"]
        assert tally["readAt"]
    assert sorted(ids(catalogue.artifacts)) == ["api-feed-example", "b"]
    assert sum(len(each["endpoints"]) for each in listed(catalogue.artifacts)) == 16


def test_malformed_resources_of_a_feed_stop_no_build_unless_there_are_more_than_before(
    catalogue: CatalogueFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    few, many = (
        source("feed", [*paths(40), *[BAD] * bad], kind="resources", on_error="fail")
        for bad in (10, 20)
    )
    assert catalogue.build(few, options=("--json",)) == 0
    (tally,) = reported(capsys)["sources"]
    assert (tally["rejected"], tally["published"]) == (10, 40)
    assert catalogue.build(few) == 0
    assert catalogue.build(many) == 3
    error = capsys.readouterr().err
    assert "20 of 60 records are malformed" in error
    assert "feed:41: $.resource: is not a URL" in error
    assert catalogue.build(many, options=("--accept", "feed")) == 0
    assert catalogue.build(many) == 0


def test_records_of_another_kind_are_left_out_and_named(
    catalogue: CatalogueFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    both = VICTIM | {"resource": "https://api.victim.example/", "accepts": [accept()]}
    feed = source("feed", [VICTIM, both, *paths(1)], kind="resources")
    ours = source("ours", [service("a"), *paths(1)], kind="records")
    assert catalogue.build(feed, ours, options=("--json",)) == 0
    assert sorted(ids(catalogue.artifacts)) == ["a", "api-feed-example"]
    tallies = reported(capsys)["sources"]
    assert [each["leftOut"]["records of another kind"] for each in tallies] == [2, 1]
    assert [each["published"] for each in tallies] == [1, 1]


@pytest.mark.parametrize(
    ("kind", "record", "advice"),
    [
        ("resources", service("a"), "--records URL"),
        ("records", resource(), "gives resources and no catalogue records"),
    ],
)
def test_a_source_of_another_kind_alone_is_an_error(
    kind: str,
    record: Json,
    advice: str,
    catalogue: CatalogueFolder,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert catalogue.build(source("feed", [record], kind=kind, on_error="fail")) == 1
    assert advice in " ".join(capsys.readouterr().err.split())


def test_a_file_without_a_kind_may_hold_both(catalogue: CatalogueFolder) -> None:
    both: list[Any] = [service("a"), *paths(1)]
    assert catalogue.build(source("both", both)) == 0
    assert sorted(ids(catalogue.artifacts)) == ["a", "api-feed-example"]
