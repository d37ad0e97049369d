"""The cache of feeds between builds, and conditional requests."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from indexer.errors import SourceError
from tests.support.sources.feeds import (
    LINES,
    RESOURCES,
    SERVICES,
    WHOLE,
    failing,
    fetch_feed,
    in_turn,
    items_of,
    misbehaving,
    pages_of,
    sending,
    validated,
)


def test_an_unchanged_feed_costs_one_request(cache: Path) -> None:
    with misbehaving(validated(RESOURCES)) as server:
        first = fetch_feed(server.url, cache)
        before = len(server.requests)
        again = fetch_feed(server.url, cache)
    assert len(server.requests) == before + 1
    assert again == msgspec.structs.replace(first, unchanged=True)
    assert items_of(again) == RESOURCES


def test_last_modified_is_sent_back_too(cache: Path) -> None:
    headers = {"Last-Modified": "Thu, 07 May 2026 10:16:51 GMT"}
    with misbehaving(sending(LINES, headers)) as server:
        fetch_feed(server.url, cache)
        server.behaviour = failing(304)
        assert fetch_feed(server.url, cache).unchanged
    assert server.requests[1].headers["If-Modified-Since"] == headers["Last-Modified"]


def test_a_changed_feed_is_read_again(cache: Path) -> None:
    with misbehaving(validated(RESOURCES)) as server:
        first = fetch_feed(server.url, cache)
        server.behaviour = validated(RESOURCES[:-1], '"two"')
        second = fetch_feed(server.url, cache)
        third = fetch_feed(server.url, cache)
    assert (first.unchanged, second.unchanged, third.unchanged) == (False, False, True)
    assert items_of(third) == RESOURCES[:-1]


def test_a_feed_without_validators_is_unchanged_if_its_content_is_the_same(cache: Path) -> None:
    with misbehaving(WHOLE) as server:
        assert not fetch_feed(server.url, cache).unchanged
        assert fetch_feed(server.url, cache).unchanged


def test_an_unchanged_first_page_of_another_snapshot_is_walked(cache: Path) -> None:
    with misbehaving(validated(RESOURCES, **{"Ratecard-Snapshot": "a"})) as server:
        fetch_feed(server.url, cache)
        others = RESOURCES[:10] + RESOURCES[11:]
        server.behaviour = validated(others, **{"Ratecard-Snapshot": "b"})
        feed = fetch_feed(server.url, cache)
    assert (items_of(feed), feed.unchanged) == (others, False)


def test_a_first_page_of_the_same_snapshot_is_unchanged(cache: Path) -> None:
    headers = {"Ratecard-Snapshot": "a"}
    with misbehaving(pages_of(SERVICES, name="services", headers=headers)) as server:
        first = fetch_feed(server.url, cache)
        before = len(server.requests)
        again = fetch_feed(server.url, cache)
    assert again == msgspec.structs.replace(first, unchanged=True)
    assert len(server.requests) == before + 1


@pytest.mark.parametrize("shift", [25 * 3600, -3600])
def test_a_feed_in_pages_is_walked_at_least_once_a_day(
    shift: float, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with misbehaving(validated(RESOURCES)) as server:
        fetch_feed(server.url, cache)
        now = datetime.now(UTC).timestamp()
        monkeypatch.setattr("indexer.feeds.reader.time", lambda: now + shift)
        before = len(server.requests)
        assert fetch_feed(server.url, cache).unchanged
        assert len(server.requests) - before > 2


def test_a_failing_feed_does_not_change_the_cache(cache: Path) -> None:
    with misbehaving(in_turn(*[WHOLE] * 6, failing(500))) as server:
        feed = fetch_feed(server.url, cache)
        with pytest.raises(SourceError):
            fetch_feed(server.url, cache)
        server.behaviour = WHOLE
        assert items_of(feed) == RESOURCES
        assert fetch_feed(server.url, cache).unchanged
    assert [path.name for path in feed.path.parent.iterdir()] != []


def entry_of(cache: Path) -> Path:
    [entry] = cache.glob("*/entry.json")
    return entry


def text_of(entry: Path) -> Path:
    [text] = [path for path in entry.parent.iterdir() if path != entry]
    return text


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a truncated entry": lambda entry: entry.write_text(entry.read_text()[:40]),
    "an empty entry": lambda entry: entry.write_text(""),
    "an entry of another format": lambda entry: entry.write_text(
        entry.read_text().replace('"format":2', '"format":1')
    ),
    "an entry that names a file elsewhere": lambda entry: entry.write_text('{"sha256":"../../x"}'),
    "an entry with a line break in a header": lambda entry: entry.write_text(
        entry.read_text().replace("one", "\\r\\nX: y")
    ),
    "another text": lambda entry: text_of(entry).write_bytes(LINES),
    "no text": lambda entry: text_of(entry).unlink(),
    "no entry": Path.unlink,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_cache_is_ignored(damage: str, cache: Path) -> None:
    with misbehaving(validated(RESOURCES)) as server:
        fetch_feed(server.url, cache)
        DAMAGES[damage](entry_of(cache))
        feed = fetch_feed(server.url, cache)
    assert (items_of(feed), feed.unchanged) == (RESOURCES, False)


def test_files_of_a_crashed_read_are_removed_by_the_next_one(cache: Path) -> None:
    with misbehaving(WHOLE) as server:
        folder = fetch_feed(server.url, cache).path.parent
        (folder / "tmpx").mkdir()
        (folder / "tmpx" / "body").write_text("half")
        (folder / ("0" * 64)).write_text("a text that no entry names")
        feed = fetch_feed(server.url, cache)
    assert {path.name for path in folder.iterdir()} == {"entry.json", feed.path.name}


def test_a_feed_that_was_not_read_for_30_days_is_removed(cache: Path) -> None:
    def unused(folder: Path, days: int) -> Path:
        moment = datetime.now(UTC).timestamp() - days * 24 * 3600
        os.utime(folder, (moment, moment))
        return folder

    with misbehaving(validated(RESOURCES)) as server:
        urls = [f"{server.url}?q={number}" for number in range(3)]
        feeds = [fetch_feed(url, cache) for url in urls]
        own, old, recent = (feed.path.parent for feed in feeds)
        (cache / "of the operator").mkdir()
        foreign = unused(cache / "of the operator", 99)
        unused(own, 99)
        unused(old, 31)
        unused(recent, 29)
        again = fetch_feed(urls[0], cache)
    assert (items_of(again), again.unchanged) == (RESOURCES, True)
    assert set(cache.iterdir()) == {own, recent, foreign}
    assert datetime.now(UTC).timestamp() - own.stat().st_mtime < 3600


def test_a_crash_before_the_entry_is_replaced_leaves_the_cached_feed(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with misbehaving(validated(RESOURCES)) as server:
        feed = fetch_feed(server.url, cache)
        server.behaviour = validated(RESOURCES[:5], '"two"')
        with monkeypatch.context() as patch:
            patch.setattr("indexer.feeds.cache.write_durably", crash)
            with pytest.raises(KeyboardInterrupt):
                fetch_feed(server.url, cache)
        server.behaviour = validated(RESOURCES)
        again = fetch_feed(server.url, cache)
    assert again == msgspec.structs.replace(feed, unchanged=True)
    assert items_of(again) == RESOURCES


def test_each_user_and_url_has_its_own_folder(cache: Path) -> None:
    with misbehaving(WHOLE) as server:
        urls = [server.url, server.url + "?q=1", server.url.replace("//", "//user:pass@")]
        folders = {fetch_feed(url, cache).path.parent for url in urls}
    assert len(folders) == 3
