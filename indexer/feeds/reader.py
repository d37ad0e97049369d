"""Feeds: catalogues over HTTP, each read completely into a local file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from http import HTTPStatus
from pathlib import Path
from time import time

import httpx
import msgspec
from msgspec import Struct

from indexer.errors import SourceError
from indexer.feeds.cache import FORMAT, CacheEntry, FeedCache, remove_unused, validator
from indexer.feeds.client import UNCONDITIONAL, FeedClient, RequestRefused
from indexer.feeds.dedup import FeedItems
from indexer.feeds.page import Page, parse_body, parse_page
from indexer.feeds.url import page_url, parse_feed_url
from indexer.feeds.walk import Walk, walk_feed
from indexer.options import Limits
from service.snapshot.manifest import sha256

PAGE_SIZE = 200
DAY = 24 * 60 * 60  # seconds
MAX_DIGITS = 15  # of a number in a URL
MAX_CONCURRENT = 8  # feeds


class FeedProgress(Struct, frozen=True):
    """How far one feed is read.

    source: its URL, without credentials
    bytes: transferred so far
    items: received in the current walk
    total: items of the feed as stated by the server, None if it does not state it
    """

    source: str
    bytes: int
    items: int
    total: int | None


class Feed(Struct):
    """A feed that was read completely.

    path: a file for `read_records`
    source: its URL, without credentials
    unchanged: whether the file is the one that was read last time
    note: a remark for the operator, or empty
    """

    path: Path
    source: str
    unchanged: bool
    note: str


def fetch_feeds(
    urls: Sequence[str],
    cache: Path,
    limits: Limits,
    progress: Callable[[FeedProgress], object] = lambda _: None,
) -> list[Feed]:
    """Read feeds concurrently, each completely and within limits of its own, into `cache`.

    A page of services, resources or items is the first of a walk by `limit` and `offset`; its
    items become JSON lines, each as received and each once. A feed that changes during a walk is
    walked again, and after three walks all items that were received are taken. Any other content
    is a plain file, which is kept as received, but decompressed.

    A cached feed is requested conditionally, and costs one request if it did not change, as does
    another Ratecard that serves the same snapshot. Since the response is about the first page
    only, a feed in pages is walked at least once a day. Feeds that were not read for 30 days are
    removed from the cache.

    Raises SourceError for the first feed that cannot be read; the cache keeps its previous content
    for that feed, and for those that were still being read.
    """
    readers = [_Reader(url, cache, limits, progress) for url in urls]
    remove_unused(cache)
    return asyncio.run(_read_all(readers))


async def _read_all(readers: Sequence[_Reader]) -> list[Feed]:
    slots = asyncio.Semaphore(MAX_CONCURRENT)

    async def read(reader: _Reader) -> Feed:
        async with slots:
            return await reader.read()

    # URLs that share a folder of the cache are one feed, and two readers would spoil the folder.
    distinct = {reader.folder: reader for reader in readers}
    feeds = await asyncio.gather(*map(read, distinct.values()))
    by_folder = dict(zip(distinct, feeds, strict=True))
    return [by_folder[reader.folder] for reader in readers]


class _Reader:
    """Reads one feed once."""

    def __init__(
        self,
        url: str,
        cache: Path,
        limits: Limits,
        progress: Callable[[FeedProgress], object],
    ) -> None:
        self._given = parse_feed_url(url)
        self._url = self._given.copy_with(userinfo=b"")
        self._limits = limits
        self._report = progress
        self._progress = FeedProgress(str(self._url), 0, 0, None)
        self._cache = FeedCache(cache, self._given)
        self._cached = self._cache.load()
        self.folder = self._cache.folder

    async def read(self) -> Feed:
        client = FeedClient(self._given, self._limits, self._count)
        try:
            async with aclosing(client), asyncio.timeout_at(client.deadline):
                with self._cache.workspace(self._cached) as folder:
                    return await self._read(client, folder)
        except TimeoutError as error:
            raise SourceError(
                f"{self._url}: was not read completely within the {self._limits.seconds:,g} "
                "seconds that a feed may take; try again later"
            ) from error

    async def _read(self, client: FeedClient, folder: Path) -> Feed:
        body, lines = folder / "body", folder / "lines"
        cached = self._cached if self._cached and _is_recent(self._cached) else None
        response, page = await self._fetch_first(client, body, cached)
        if cached and _is_unchanged(cached, response):
            return self._feed(cached, unchanged=True)
        if response.status_code == HTTPStatus.NOT_MODIFIED:  # other pages may have changed
            response, page = await self._fetch_first(client, body, None)
        if page is None:
            return self._store(body, _cache_entry(response, body))
        with (folder / "spool").open("wb") as spool:
            items = FeedItems(spool)
            walk = await self._walk(client, page, folder / "page", items)
            note = self._check_walk(walk)
            items.write(lines, walk.keys)
        return self._store(lines, _cache_entry(response, lines, walk, note))

    async def _fetch_first(
        self, client: FeedClient, path: Path, cached: CacheEntry | None
    ) -> tuple[httpx.Response, Page | None]:
        """Request the URL of the feed itself, conditionally if there is a cache entry."""

        def parse(response: httpx.Response) -> tuple[httpx.Response, Page | None]:
            if response.status_code == HTTPStatus.NOT_MODIFIED:
                return response, None
            return response, parse_body(path, self._limits.page_bytes, _snapshot(response))

        conditions = cached.conditions() if cached else UNCONDITIONAL
        max_bytes = self._limits.bytes
        return await client.get(self._url, path, parse, max_bytes=max_bytes, conditions=conditions)

    async def _walk(self, client: FeedClient, first: Page, path: Path, items: FeedItems) -> Walk:
        """Walk from the offset of the URL, with its limit or the best one that the server takes."""
        start = _parameter(self._url, "offset")
        limit = _parameter(self._url, "limit") or len(first.items) or PAGE_SIZE
        prefetched: Page | None = first
        pages = 0

        async def fetch_page(offset: int) -> Page:
            nonlocal prefetched, pages
            if offset == start:
                pages = 0
                client.start_walk()
                self._update(items=0)
            pages += 1
            if pages > self._limits.pages:
                raise SourceError(f"{self._url}: has more than {self._limits.pages:,} pages")
            page = prefetched or await self._fetch_page(client, path, limit, offset)
            prefetched = None
            self._update(items=self._progress.items + len(page.items), total=page.total)
            return page

        more = (first.total or 0) - start - len(first.items)
        if more > 0 and len(first.items) < PAGE_SIZE and not _parameter(self._url, "limit"):
            with suppress(RequestRefused):  # some servers refuse a limit above their default
                prefetched = await self._fetch_page(client, path, PAGE_SIZE, start)
                limit = PAGE_SIZE
        return await walk_feed(fetch_page, items, start)

    async def _fetch_page(self, client: FeedClient, path: Path, limit: int, offset: int) -> Page:
        max_bytes = self._limits.page_bytes
        return await client.get(
            page_url(self._url, limit, offset),
            path,
            lambda response: parse_page(path, max_bytes, _snapshot(response)),
            max_bytes=max_bytes,
        )

    def _check_walk(self, walk: Walk) -> str:
        """Return a note for the operator; raises SourceError if too many items are missing."""
        total, received = walk.total or 0, len(walk.keys)
        counts = f"states a total of {total:,} items and gives {received:,}"
        if walk.repeated and walk.pages == 1 and walk.received < total:
            raise SourceError(
                f"{self._url}: {counts}, the same at every offset; request all with ?limit="
            )
        if received < self._limits.share * total:
            raise SourceError(f"{self._url}: {counts}; try again later")
        notes = [counts] if walk.missing else []
        if walk.unstable:
            notes.append("changed during every walk: all items that were received are taken")
        return "; ".join(notes)

    def _count(self, received: int) -> None:
        self._update(bytes=self._progress.bytes + received)

    def _update(self, **fields: int | None) -> None:
        self._progress = msgspec.structs.replace(self._progress, **fields)
        self._report(self._progress)

    def _store(self, text: Path, entry: CacheEntry) -> Feed:
        self._cache.store(text, entry)
        unchanged = self._cached is not None and self._cached.sha256 == entry.sha256
        return self._feed(entry, unchanged=unchanged)

    def _feed(self, entry: CacheEntry, *, unchanged: bool) -> Feed:
        return Feed(
            path=self._cache.path(entry),
            source=str(self._url),
            unchanged=unchanged,
            note=entry.note,
        )


def _is_recent(entry: CacheEntry) -> bool:
    """Whether the first page may stand for all pages; a plain file has no others."""
    return not entry.paged or 0 <= time() - entry.read_at < DAY


def _is_unchanged(entry: CacheEntry, response: httpx.Response) -> bool:
    """Whether the first response shows that the feed is as cached.

    A snapshot is immutable, so one page of it stands for all of them.
    """
    snapshot = _snapshot(response)
    if response.status_code == HTTPStatus.NOT_MODIFIED:
        return snapshot in {"", entry.snapshot}
    return entry.paged and snapshot == entry.snapshot != ""


def _cache_entry(
    response: httpx.Response, text: Path, walk: Walk | None = None, note: str = ""
) -> CacheEntry:
    """Describe a text; of an unstable feed no validator is kept, so that it is walked next time."""
    stable = walk is None or not walk.unstable
    headers = response.headers if stable else httpx.Headers()
    snapshots = walk.snapshots if walk and stable else set()
    return CacheEntry(
        format=FORMAT,
        sha256=sha256(text),
        etag=validator(headers.get("etag", "")),
        last_modified=validator(headers.get("last-modified", "")),
        snapshot=min(snapshots) if len(snapshots) == 1 else "",
        paged=walk is not None,
        read_at=time(),
        note=note,
    )


def _snapshot(response: httpx.Response) -> str:
    snapshot: str = response.headers.get("ratecard-snapshot", "")
    return snapshot


def _parameter(url: httpx.URL, name: str) -> int:
    """Return a number from the query of a URL, or 0."""
    text = url.params.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS else 0
