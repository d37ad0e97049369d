"""The cache of feeds between builds, and conditional requests."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from indexer.errors import SourceError
from indexer.options import Kind
from tests.support.running import Json
from tests.support.sources.feeds import (
    LINES,
    RESOURCES,
    SERVICES,
    WHOLE,
    Behaviour,
    Exchange,
    failing,
    fetch_feed,
    in_turn,
    items_of,
    misbehaving,
    resource,
    sending,
    source_of,
    validated,
)


def plain(items: Any, tag: str = '"one"') -> Behaviour:
    """Serve a plain file with an ETag, and 304 to conditional requests that match it."""

    def behave(exchange: Exchange) -> None:
        if exchange.headers["If-None-Match"] == tag:
            exchange.respond(b"", 304)
        else:
            exchange.respond(items, headers={"ETag": tag})

    return behave


def test_an_unchanged_plain_file_costs_one_conditional_request(cache: Path) -> None:
    with misbehaving(plain(RESOURCES)) as server:
        first = fetch_feed(server.url, cache)
        again = fetch_feed(server.url, cache)
        assert [request.headers["If-None-Match"] for request in server.requests] == [None, '"one"']
        server.behaviour = plain(RESOURCES[:5], '"two"')
        changed = fetch_feed(server.url, cache)
    earlier, later = first.fetched, again.fetched
    assert later == msgspec.structs.replace(earlier, walked_at=later.walked_at)
    assert later.walked_at > earlier.walked_at
    assert (items_of(again), items_of(changed)) == (RESOURCES, RESOURCES[:5])


def test_last_modified_is_sent_back_too(cache: Path) -> None:
    headers = {"Last-Modified": "Thu, 07 May 2026 10:16:51 GMT"}
    with misbehaving(sending(LINES, headers)) as server:
        fetch_feed(server.url, cache)
        server.behaviour = failing(304)
        assert items_of(fetch_feed(server.url, cache)) == SERVICES
    assert server.requests[1].headers["If-Modified-Since"] == headers["Last-Modified"]


def test_a_first_page_that_is_not_modified_never_stands_for_the_others(cache: Path) -> None:
    repriced = [*RESOURCES[:-1], resource(24, accepts=[])]
    with misbehaving(validated(RESOURCES, **{"Ratecard-Snapshot": "constant"})) as server:
        fetch_feed(server.url, cache)
        server.behaviour = validated(repriced, **{"Ratecard-Snapshot": "constant"})
        feed = fetch_feed(server.url, cache)
    assert items_of(feed) == repriced


def test_a_feed_in_pages_is_not_requested_within_every_and_walked_whole_after_it(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with misbehaving(WHOLE) as server:
        source = source_of(server.url, every=3600)
        first = fetch_feed(source, cache)
        walk = len(server.requests)
        assert fetch_feed(source, cache) == first
        assert len(server.requests) == walk
        for shift in (3601, -60):
            now = datetime.now(UTC).timestamp()
            monkeypatch.setattr("indexer.intake.fetch.time", lambda now=now + shift: now)
            before = len(server.requests)
            fetch_feed(source, cache)
            assert len(server.requests) == before + walk


@pytest.mark.parametrize("behaviour", [validated(RESOURCES), plain(RESOURCES)])
def test_from_scratch_reads_all_of_a_feed(behaviour: Behaviour, cache: Path) -> None:
    with misbehaving(behaviour) as server:
        source = source_of(server.url, every=3600)
        fetch_feed(source, cache)
        before = len(server.requests)
        fetch_feed(source, cache, from_scratch=True)
    assert len(server.requests) == 2 * before
    assert not any("If-None-Match" in request.headers for request in server.requests)


def test_a_failing_feed_does_not_change_the_cache(cache: Path) -> None:
    with misbehaving(WHOLE) as server:
        feed = fetch_feed(server.url, cache)
        server.behaviour = in_turn(WHOLE, WHOLE, failing(500))
        with pytest.raises(SourceError):
            fetch_feed(server.url, cache)
        assert items_of(feed) == RESOURCES
        assert fetch_feed(source_of(server.url, every=3600), cache) == feed


def entry_of(cache: Path) -> Path:
    [entry] = cache.glob("*/*/fetched.json")
    return entry


def text_of(entry: Path) -> Path:
    [text] = [path for path in entry.parent.iterdir() if path != entry]
    return text


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a truncated entry": lambda entry: entry.write_text(entry.read_text()[:40]),
    "an empty entry": lambda entry: entry.write_text(""),
    "an entry of another format": lambda entry: entry.write_text(
        entry.read_text().replace('"format":5', '"format":1')
    ),
    "an entry that names a file elsewhere": lambda entry: entry.write_text(
        re.sub('"text":"[^"]*"', '"text":"../../x"', entry.read_text())
    ),
    "an entry with a line break in a header": lambda entry: entry.write_text(
        entry.read_text().replace("one", "\\r\\nX: y")
    ),
    "another text": lambda entry: text_of(entry).write_bytes(LINES),
    "no text": lambda entry: text_of(entry).unlink(),
    "no entry": Path.unlink,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_cache_is_ignored(damage: str, cache: Path) -> None:
    with misbehaving(plain(RESOURCES)) as server:
        fetch_feed(server.url, cache)
        DAMAGES[damage](entry_of(cache))
        assert items_of(fetch_feed(server.url, cache)) == RESOURCES
    assert not any("If-None-Match" in request.headers for request in server.requests)


def test_files_of_a_crashed_read_are_removed_by_the_next_one(cache: Path) -> None:
    with misbehaving(WHOLE) as server:
        folder = fetch_feed(server.url, cache).path.parent
        (folder / "tmpx").mkdir()
        (folder / "tmpx" / "body").write_text("half")
        (folder / ("0" * 64)).write_text("a text that no entry names")
        feed = fetch_feed(server.url, cache)
    assert {path.name for path in folder.iterdir()} == {"fetched.json", feed.path.name}


def test_a_crash_before_the_entry_is_replaced_leaves_the_cached_feed(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with misbehaving(plain(RESOURCES)) as server:
        feed = fetch_feed(server.url, cache)
        server.behaviour = plain(RESOURCES[:5], '"two"')
        with monkeypatch.context() as patch:
            patch.setattr("service.arrays.files.write_durably", crash)
            with pytest.raises(KeyboardInterrupt):
                fetch_feed(server.url, cache)
        server.behaviour = plain(RESOURCES)
        again = fetch_feed(server.url, cache)
    assert again.path == feed.path
    assert items_of(again) == RESOURCES


def test_another_request_uses_nothing_that_was_kept(cache: Path) -> None:
    with misbehaving(plain(RESOURCES)) as server:
        name = "one name"
        sources = [
            source_of(server.url, name=name),
            source_of(server.url, name=name, headers={"Authorization": "Bearer one"}),
            source_of(server.url, name=name, headers={"Authorization": "Bearer two"}),
            source_of(server.url, name=name, params={"key": "one"}),
            source_of(server.url, name=name, kind=Kind.RECORDS),
        ]
        folders = {fetch_feed(source, cache).path.parent for source in sources}
    assert len(folders) == 1
    assert [request.headers["If-None-Match"] for request in server.requests] == [None] * 5


@pytest.mark.parametrize("stated", [{}, {"hasMore": False}, {"total": 25, "limit": 100}])
def test_a_list_of_one_page_is_read_again_by_one_conditional_request(
    stated: Json, cache: Path
) -> None:
    with misbehaving(plain({"items": RESOURCES} | stated)) as server:
        first = fetch_feed(server.url, cache)
        before = len(server.requests)
        again = fetch_feed(server.url, cache)
        assert [each.headers["If-None-Match"] for each in server.requests[before:]] == ['"one"']
        server.behaviour = plain({"items": RESOURCES[:5]} | stated | {"total": 5}, '"two"')
        assert items_of(fetch_feed(server.url, cache)) == RESOURCES[:5]
    assert items_of(first) == items_of(again) == RESOURCES


def test_a_list_without_pages_on_a_web_server_is_requested_once(cache: Path) -> None:
    headers = {"Last-Modified": "Thu, 07 May 2026 10:16:51 GMT"}
    with misbehaving(sending({"items": RESOURCES}, headers)) as server:
        url = f"{server.origin}/feed.json"
        assert items_of(fetch_feed(url, cache)) == RESOURCES
        assert len(server.requests) == 1
        server.behaviour = failing(304)
        assert items_of(fetch_feed(url, cache)) == RESOURCES
    assert server.requests[1].headers["If-Modified-Since"] == headers["Last-Modified"]
    assert len(server.requests) == 2
