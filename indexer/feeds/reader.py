"""Feeds: catalogues over HTTP, each read completely into a local file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from time import time

import httpx
import msgspec
from msgspec import Struct

from indexer.errors import SourceError
from indexer.feeds.cache import FORMAT, CacheEntry, FeedCache, remove_unused, validator
from indexer.feeds.client import UNCONDITIONAL, FeedClient, check_headers
from indexer.feeds.dedup import FeedItems
from indexer.feeds.page import Page
from indexer.feeds.pager import Pager
from indexer.feeds.threads import run_in_thread
from indexer.feeds.url import feed_error, parse_feed_url
from indexer.feeds.walk import Walk
from indexer.intake.pagination import describe_shortfall
from indexer.options import Limits, SourceOptions
from service.snapshot.manifest import sha256

MAX_CONCURRENT = 8  # feeds
PUNCTUAL = 0.9
"""Share of `every` after which a feed is walked: builds by a timer start a little early or late."""


class FeedProgress(Struct, frozen=True):
    """How far one feed is read.

    name: of the source
    bytes: transferred so far
    items: received in the current walk
    total: items of the feed as stated by the server, None if it does not state it
    """

    name: str
    bytes: int
    items: int
    total: int | None


class Feed(Struct, frozen=True):
    """A feed that was read completely, now or within `every`.

    name: of the source
    path: a file for `read_records`
    is_lines: whether that file is JSON lines, whatever its first line looks like
    note: a remark for the operator, or empty
    walked_at: seconds since the epoch at the start of the last walk or request
    """

    name: str
    path: Path
    is_lines: bool
    note: str
    walked_at: float


def fetch_feeds(
    sources: Sequence[SourceOptions],
    cache: Path,
    limits: Limits,
    progress: Callable[[FeedProgress], object] = lambda _: None,
    *,
    from_scratch: bool = False,
) -> list[Feed | SourceError]:
    """Read feeds concurrently, each completely and within limits of its own, into `cache`.

    A feed in pages is walked by link, cursor, page number or offset, unless its last walk started
    less than nine tenths of `every` ago; its items become JSON lines, each text once. A feed that
    changes during a walk is walked again; after three walks all items are taken, those of the last
    walk first. Other content is a plain file, which is requested each time, conditionally, and kept
    decompressed.

    `from_scratch` uses nothing that is cached. Feeds that were not read for 30 days are removed
    from the cache. Returns the error in the place of a feed that cannot be read, whose cached
    content stays.
    """
    remove_unused(cache)
    return asyncio.run(_read_all(sources, cache, limits, progress, from_scratch=from_scratch))


async def _read_all(
    sources: Sequence[SourceOptions],
    cache: Path,
    limits: Limits,
    progress: Callable[[FeedProgress], object],
    *,
    from_scratch: bool,
) -> list[Feed | SourceError]:
    slots = asyncio.Semaphore(MAX_CONCURRENT)
    # Sources that share a folder of the cache are one feed, and two readers would spoil the folder.
    reading: dict[Path, asyncio.Task[Feed]] = {}

    async def read(reader: _FeedReader) -> Feed:
        async with slots:
            return await reader.read(from_scratch=from_scratch)

    async def settle(source: SourceOptions) -> Feed | SourceError:
        try:
            reader = _FeedReader(source, cache, limits, progress)
            if reader.folder not in reading:
                reading[reader.folder] = asyncio.create_task(read(reader))
            feed = await reading[reader.folder]
        except SourceError as error:
            return error
        return msgspec.structs.replace(feed, name=source.name)

    return await asyncio.gather(*map(settle, sources))


class _FeedReader:
    """Reads one feed once."""

    def __init__(
        self,
        source: SourceOptions,
        cache: Path,
        limits: Limits,
        progress: Callable[[FeedProgress], object],
    ) -> None:
        check_headers(source)
        self._source = source
        self._given = parse_feed_url(source.url)
        self._url = self._given.copy_with(userinfo=b"")
        self._limits = limits
        self._report = progress
        self._started = 0.0
        self._progress = FeedProgress(source.name, 0, 0, None)
        self._cache = FeedCache(cache, self._given, source)
        self.folder = self._cache.folder

    async def read(self, *, from_scratch: bool) -> Feed:
        cached = self._cache.load()
        usable = None if from_scratch else cached
        self._started = time()
        if usable and usable.is_paged and self._is_recent(usable):
            return self._feed(usable)  # a plain file is requested each time
        client = FeedClient(self._source, self._given, self._limits, self._count)
        try:
            async with aclosing(client), asyncio.timeout_at(client.deadline):
                with self._cache.workspace(cached) as folder:
                    return await self._read(client, folder, usable)
        except TimeoutError as error:
            raise feed_error(
                self._url,
                f"was not read completely within the {self._limits.seconds:,g} seconds that a "
                "feed may take; try again later",
            ) from error

    def _is_recent(self, entry: CacheEntry) -> bool:
        return 0 <= self._started - entry.walked_at < PUNCTUAL * self._source.every

    async def _read(self, client: FeedClient, folder: Path, cached: CacheEntry | None) -> Feed:
        body, lines = folder / "body", folder / "lines"
        pager = Pager(client, self._source, self._url, self._limits, body, self._count_items)
        # A first page that is not modified says nothing of the others.
        conditions = cached.conditions() if cached and not cached.is_paged else UNCONDITIONAL
        response, page = await pager.fetch_first(conditions)
        if cached and page is None:
            entry = msgspec.structs.replace(cached, walked_at=self._started)
            self._cache.replace_entry(entry, folder / "entry")
            return self._feed(entry)
        if not isinstance(page, Page):
            return self._store(body, is_lines=page is not None and page.is_lines, first=response)
        with (folder / "spool").open("wb") as spool:
            items = FeedItems(spool)
            walk = await pager.walk(page, items)
            note = self._check_walk(walk)
            await run_in_thread(partial(items.write, lines, walk.keys))
        return self._store(lines, is_lines=True, note=note)

    def _check_walk(self, walk: Walk) -> str:
        """Return a note for the operator; raises SourceError if items are missing."""
        total, received = walk.total or 0, len(walk.keys)
        shortfall = describe_shortfall(walk.total, received)
        if walk.fault:
            raise feed_error(
                self._url,
                f"{walk.fault}, after {received:,} items; check how the server names the next "
                "page, or request all with ?limit=",
            )
        if walk.repeated and walk.pages == 1 and walk.received < total:
            raise feed_error(
                self._url, f"{shortfall}, the same at every offset; request all with ?limit="
            )
        if received < self._limits.share * total:
            raise feed_error(self._url, f"{shortfall}; try again later")
        notes = [shortfall] if shortfall else []
        if walk.ends_in_repeats and walk.total is None:
            notes.append(f"repeats a page instead of an end: its {received:,} items count as all")
        if walk.unstable:
            notes.append("changed during every walk: all items that were received are taken")
        return "; ".join(notes)

    def _count(self, received: int) -> None:
        self._update(bytes=self._progress.bytes + received)

    def _count_items(self, items: int, total: int | None) -> None:
        self._update(items=items, total=total)

    def _update(self, **fields: int | None) -> None:
        self._progress = msgspec.structs.replace(self._progress, **fields)
        self._report(self._progress)

    def _store(
        self, text: Path, *, is_lines: bool, first: httpx.Response | None = None, note: str = ""
    ) -> Feed:
        """Cache a plain file with the validators of its response, or the items of pages."""
        headers = first.headers if first else httpx.Headers()
        entry = CacheEntry(
            format=FORMAT,
            sha256=sha256(text),
            etag=validator(headers.get("etag", "")),
            last_modified=validator(headers.get("last-modified", "")),
            is_lines=is_lines,
            is_paged=first is None,
            walked_at=self._started,
            note=note,
        )
        self._cache.store(text, entry)
        return self._feed(entry)

    def _feed(self, entry: CacheEntry) -> Feed:
        return Feed(
            name=self._source.name,
            path=self._cache.path(entry),
            is_lines=entry.is_lines,
            note=entry.note,
            walked_at=entry.walked_at,
        )
