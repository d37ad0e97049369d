"""Requests for the pages of one feed, and the way from each to the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from pathlib import Path

import httpx

from indexer.errors import SourceError
from indexer.feeds.client import UNCONDITIONAL, FeedClient
from indexer.feeds.dedup import FeedItems
from indexer.feeds.page import Page, PlainFile, parse_body, parse_page
from indexer.feeds.url import feed_error, next_target, with_parameters
from indexer.feeds.walk import Walk, walk_feed, walk_links, walk_offsets
from indexer.options import Kind, Limits, SourceOptions

PAGE_SIZE = 200
PLAIN = (Kind.MANIFEST, Kind.PAYMENTS, Kind.OVERLAY, Kind.PROBES)
"""Kinds of sources that are files and never pages."""
MAX_DIGITS = 15  # of a number in a URL

FirstPage = tuple[httpx.Response, Page | PlainFile | None]
"""The first response, and its body unless it is not modified."""


class Pager:
    """The pages of one feed; `body` is the file that each is received in.

    `on_page` is called with the number of items of the walk so far, and the stated total.
    """

    def __init__(
        self,
        client: FeedClient,
        source: SourceOptions,
        url: httpx.URL,
        limits: Limits,
        body: Path,
        on_page: Callable[[int, int | None], None],
    ) -> None:
        self._client = client
        self._source = source
        self._url = url
        self._limits = limits
        self._body = body
        self._on_page = on_page
        self._prefetched: Page | None = None
        self._pages = self._received = 0

    async def fetch_first(self, conditions: Mapping[str, str] = UNCONDITIONAL) -> FirstPage:
        """Request the URL of the feed itself."""

        def parse(response: httpx.Response) -> FirstPage:
            if response.status_code == HTTPStatus.NOT_MODIFIED:
                return response, None
            if self._source.kind in PLAIN:
                return response, PlainFile(is_lines=False)
            limit, kind = self._limits.page_bytes, self._source.kind
            return response, parse_body(self._body, limit, response, kind)

        return await self._client.get(
            self._url, self._body, parse, max_bytes=self._limits.bytes, conditions=conditions
        )

    async def walk(self, first: Page, items: FeedItems) -> Walk:
        """Walk by the links, cursors or page numbers that the first page has, or by offset.

        Where more pages follow, a longer page is requested once, and taken if the server sends one.
        """
        start = self._parameter("offset")
        next_url = partial(self._next_url, first_number=min(first.pagination.page or 0, 1))
        by_offset = next_url(first) is None and not _ends_by_number(first)
        first, size = await self._enlarge(first, {"offset": start} if by_offset else {}, start)
        url = with_parameters(self._url, {"limit": size} if size else {})
        limit = size or self._parameter("limit") or len(first.items) or PAGE_SIZE
        self._prefetched = first

        async def fetch_offset(offset: int) -> Page:
            return await self._fetch(
                with_parameters(self._url, {"limit": limit, "offset": offset}), items
            )

        async def walk_once() -> Walk:
            self._pages = self._received = self._client.received = 0
            if by_offset:
                return await walk_offsets(fetch_offset, items, start)
            fetch = partial(self._fetch, items=items)
            return await walk_links(fetch, next_url, items, url, start)

        return await walk_feed(walk_once, items)

    async def _enlarge(self, first: Page, position: dict[str, int], start: int) -> tuple[Page, int]:
        """Return the first page of PAGE_SIZE items and this size, or the page as it is and 0."""
        stated = first.pagination
        missing = (stated.total or 0) - start - len(first.items)
        if (
            not (missing > 0 or stated.promises_more)
            or len(first.items) >= PAGE_SIZE
            or self._parameter("limit")
        ):
            return first, 0
        try:
            page = await self._request(
                with_parameters(self._url, {"limit": PAGE_SIZE} | position), attempts=1
            )
        except SourceError:  # some servers refuse a limit above their default
            return first, 0
        return (page, PAGE_SIZE) if len(page.items) >= len(first.items) else (first, 0)

    async def _fetch(self, url: httpx.URL, items: FeedItems) -> Page:
        self._pages += 1
        if self._pages > self._limits.pages:
            raise feed_error(self._url, f"has more than {self._limits.pages:,} pages")
        if len(items) > self._source.max_items:
            raise feed_error(
                self._url,
                f"has more than {self._source.max_items:,} items; raise `max_items` of the source "
                "if it is right",
            )
        page = self._prefetched or await self._request(url)
        self._prefetched = None
        self._received += len(page.items)
        self._on_page(self._received, page.pagination.total)
        return page

    async def _request(self, url: httpx.URL, attempts: int | None = None) -> Page:
        max_bytes = self._limits.page_bytes
        return await self._client.get(
            url,
            self._body,
            partial(parse_page, self._body, max_bytes),
            max_bytes=max_bytes,
            attempts=attempts,
        )

    def _next_url(self, page: Page, *, first_number: int) -> httpx.URL | None:
        """Return the URL of the next page by link, cursor or page number, or None."""
        stated = page.pagination
        if page.next:
            return next_target(self._url, page.url, page.next)
        if stated.cursor:
            return with_parameters(page.url, {stated.cursor.parameter: stated.cursor.value})
        if stated.page is None or stated.offset is not None or self._parameter("offset"):
            return None
        more = stated.more
        if stated.last_page is not None:
            more = stated.page - first_number + 1 < stated.last_page
        elif stated.total is not None:
            more = len(page.items) > 0 and max(self._received, len(page.items)) < stated.total
        return with_parameters(page.url, {"page": stated.page + 1}) if more else None

    def _parameter(self, name: str) -> int:
        """Return a number from the query of the feed, or 0."""
        text = self._url.params.get(name, self._source.params.get(name, ""))
        return int(text) if text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS else 0


def _ends_by_number(page: Page) -> bool:
    stated = page.pagination
    ends = stated.last_page is not None or stated.total is not None
    return stated.page is not None and stated.offset is None and ends
