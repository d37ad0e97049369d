"""Sources over HTTP, each read completely into a file of its folder."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from functools import partial
from http import HTTPStatus
from pathlib import Path
from time import time

import httpx
from msgspec import Struct

from indexer.errors import SourceError
from indexer.intake.http import (
    UNCONDITIONAL,
    FeedClient,
    feed_error,
    parse_feed_url,
)
from indexer.intake.kept import (
    FETCHED_FORMAT,
    LINES_SUFFIX,
    FetchedText,
    KeptSource,
    hash_request,
    validator,
)
from indexer.intake.walk import Page, Walk, parse_body
from indexer.options import DOCUMENTS, Kind, Limits, SourceOptions
from indexer.text import MAX_RECORD
from service.arrays.files import sha256

MAX_CONCURRENT = 8  # feeds
PLAIN = (Kind.MANIFEST, Kind.PAYMENTS, Kind.OVERLAY, Kind.PROBES)
"""Kinds of sources that are files and never pages."""
PUNCTUAL = 0.9
"""Share of `every` after which a feed is walked: builds by a timer start a little early or late."""


ReportProgress = Callable[[int, int], object]
"""Called with numbers of bytes and of items that were received since the last call."""


class Feed(Struct, frozen=True):
    """A feed that was read completely, now or within `every`, and the file that has its text."""

    path: Path
    fetched: FetchedText


def fetch_feeds(
    sources: Sequence[SourceOptions],
    artifacts: Path,
    limits: Limits,
    progress: ReportProgress = lambda _, __: None,
    *,
    from_scratch: bool = False,
) -> list[Feed | SourceError]:
    """Read sources concurrently, each completely and within limits of its own.

    A feed in pages is walked, unless its last walk started less than nine tenths of `every` ago;
    its items become JSON lines, each text once. A plain file is requested each time, conditionally.

    `from_scratch` uses nothing that is kept. Returns the error in the place of a source that cannot
    be read, of which stays what was kept.
    """

    async def read(source: SourceOptions, slots: asyncio.Semaphore) -> Feed | SourceError:
        try:
            async with slots:
                reader = _FeedReader(source, artifacts, limits, progress)
                return await reader.read(from_scratch=from_scratch)
        except SourceError as error:
            return error

    async def read_all() -> list[Feed | SourceError]:
        slots = asyncio.Semaphore(MAX_CONCURRENT)
        return await asyncio.gather(*(read(each, slots) for each in sources))

    return asyncio.run(read_all())


class _FeedReader:
    """Reads one source once."""

    def __init__(
        self,
        source: SourceOptions,
        artifacts: Path,
        limits: Limits,
        progress: ReportProgress,
    ) -> None:
        self._source, self._limits, self._report = source, limits, progress
        self._given = parse_feed_url(source.url)
        self._url = self._given.copy_with(userinfo=b"")
        self._started = time()
        self._kept = KeptSource(artifacts, source)

    async def read(self, *, from_scratch: bool) -> Feed:
        fetched = None if from_scratch else self._kept.fetched()
        if fetched and fetched.is_paged:  # a plain file is requested each time
            if 0 <= self._started - fetched.walked_at < PUNCTUAL * self._source.every:
                return self._feed(fetched)
            fetched = None  # a first page that is not modified says nothing of the others
        client = FeedClient(
            self._source, self._given, self._limits, lambda size: self._report(size, 0)
        )
        try:
            async with aclosing(client), asyncio.timeout_at(client.deadline):
                with self._kept.workspace() as folder:
                    return await self._read(client, folder, fetched)
        except TimeoutError as error:
            raise feed_error(
                self._url,
                f"was not read completely within the {self._limits.seconds:,g} seconds that a "
                "feed may take; try again later",
            ) from error

    async def _read(self, client: FeedClient, folder: Path, fetched: FetchedText | None) -> Feed:
        """Request the URL, and walk where it gives a page."""
        body, lines = folder / "body", folder / "lines"
        limits, size = self._limits, self._limits.page_bytes
        most = MAX_RECORD if self._source.kind in DOCUMENTS else limits.bytes

        def parse_first(response: httpx.Response) -> Page:
            if response.status_code == HTTPStatus.NOT_MODIFIED or self._source.kind in PLAIN:
                return Page(response)
            return parse_body(body, size, response, self._source.kind)

        async def request(url: httpx.URL, attempts: int | None) -> Page:
            parse = partial(parse_body, body, size, is_page=True)
            return await client.get(url, body, parse, max_bytes=size, attempts=attempts)

        conditions = fetched.conditions() if fetched else UNCONDITIONAL
        page = await client.get(self._url, body, parse_first, max_bytes=most, conditions=conditions)
        if fetched and page.response.status_code == HTTPStatus.NOT_MODIFIED:
            fetched.walked_at = self._started
            self._kept.store_fetched(fetched)
            return self._feed(fetched)
        if page.items is None:
            return self._store(body, page.response)
        with lines.open("wb") as file:
            walk = Walk(
                request, self._source, self._url, limits, file, lambda count: self._report(0, count)
            )
            await walk.read(page)
        has_validators = not page.response.headers.keys().isdisjoint(("etag", "last-modified"))
        is_paged = not (walk.is_one_page and has_validators)
        return self._store(lines, page.response, LINES_SUFFIX, is_paged=is_paged, note=walk.note)

    def _store(
        self,
        text: Path,
        first: httpx.Response,
        end: str = "",
        *,
        is_paged: bool = False,
        note: str = "",
    ) -> Feed:
        """Keep a plain file with the validators of its response, or the items of pages."""
        fetched = FetchedText(
            format=FETCHED_FORMAT,
            request=hash_request(self._source),
            text=sha256(text) + end,
            etag=validator(first.headers.get("etag", "")),
            last_modified=validator(first.headers.get("last-modified", "")),
            is_paged=is_paged,
            walked_at=self._started,
            note=note,
        )
        self._kept.store_fetched(fetched, text)
        return self._feed(fetched)

    def _feed(self, fetched: FetchedText) -> Feed:
        return Feed(self._kept.path(fetched), fetched)
