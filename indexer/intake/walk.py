"""One walk through the pages of a feed: all items, or a failure that says why not."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Awaitable, Callable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO

import httpx
import msgspec
from msgspec import Struct

from indexer.errors import SourceError
from indexer.intake.forms import NoList, known_members, mask_surrogates
from indexer.intake.http import (
    CHECK_PATH,
    NotFound,
    PermanentError,
    TransientError,
    check_url,
    feed_error,
    next_target,
    with_parameters,
)
from indexer.intake.lists import BeyondBounds, DamagedText, open_list
from indexer.intake.pagination import NONE, StatedPagination, describe_shortfall, read_pagination
from indexer.options import Kind, Limits, SourceOptions
from indexer.text import MAX_RECORD

PAGE_SIZE = 200
MAX_PAGE_ITEMS = 200_000
"""Items of a page; each takes some 300 bytes of memory besides its text."""
MAX_REPEATS = 3
"""Pages in a row without a new item after which links and cursors lead nowhere."""
MAX_DIGITS = 15  # of a number in a URL
KEY_BYTES = 16  # small, since the keys of a million items are held in memory
REPEATS = "a page repeats although the server promises another one"
ADVICE = "check how the server names the next page, or request all with ?limit="

_one_line = bytes.maketrans(b"\r\n", b"  ")  # JSON has line breaks only between tokens


class Page(Struct):
    """A response, its items as received, and what it states of other pages.

    items: None for a plain file: JSON lines, an array, a document or a record
    """

    response: httpx.Response
    items: list[bytes] | None = None
    pagination: StatedPagination = NONE

    @property
    def url(self) -> httpx.URL:
        """The URL of this page."""
        return self.response.url

    @property
    def is_static(self) -> bool:
        """Whether a list is a file on a web server, which says nothing of pages."""
        is_file = self.url.path.endswith(".json") and not self.url.query
        return is_file and "last-modified" in self.response.headers and self.pagination == NONE


RequestPage = Callable[[httpx.URL, int | None], Awaitable[Page]]
"""Requests a page in so many attempts, or in those that the limits allow."""


class Walk:
    """A walk by the links, cursors or page numbers of the first page, or by offset.

    Distinct items are written to `lines`, one a line. `on_page` is called with the number of
    items of each page.

    received: items of pages with a new one, duplicates included
    note: a remark for the operator
    """

    def __init__(
        self,
        request: RequestPage,
        source: SourceOptions,
        url: httpx.URL,
        limits: Limits,
        lines: BinaryIO,
        on_page: Callable[[int], object],
    ) -> None:
        self._request, self._source, self._url = request, source, url
        self._max_pages, self._lines, self._on_page = limits.pages, lines, on_page
        self._start, self._limit = self._parameter("offset"), self._parameter("limit")
        self._keys: set[bytes] = set()
        self._visited = {url}
        self._longest = self._requests = self._pages = 0
        self._total: int | None = None
        self._snapshot = ""
        self._repeats = False  # the server sends the same page at every offset
        self.received = 0
        self.note = ""

    @property
    def is_one_page(self) -> bool:
        """Whether the first page has all items, as it says or as it comes at every offset."""
        return self._pages <= 1 and (self._repeats or not self._requests)

    async def read(self, page: Page) -> None:
        """Read from the first page to the last; raises SourceError unless all items were read."""
        self._add(page)
        if page.is_static:
            return
        self._snapshot = _snapshot(page)
        stated = page.pagination
        self._first_number = min(stated.page or 0, 1)
        has_end = stated.last_page is not None or stated.total is not None
        is_numbered = stated.page is not None and stated.offset is None and has_end
        if is_numbered or self._link(page) is not None:
            page = await self._follow_links(page)
        else:
            page = await self._follow_offsets(page)
        self._check_end(page)

    async def _follow_links(self, page: Page) -> Page:
        """Follow links, cursors or page numbers; returns the last page."""
        barren = 0
        while (target := self._link(page)) is not None and not _names_itself(page):
            if target in self._visited or (barren >= MAX_REPEATS and page.items):
                raise self._fault(REPEATS)
            self._visited.add(target)
            has_cursor = page.pagination.cursor is not None and not page.pagination.next
            page = await self._fetch(target, page if has_cursor else None)
            barren = 0 if self._add(page) else barren + 1
        return page

    async def _follow_offsets(self, page: Page) -> Page:
        """Request the next offset until a page ends the feed; returns the one that tells."""
        while not self._is_last(page):
            limit = self._limit or len(page.items or ())
            place = {"limit": limit, "offset": self._start + self.received}
            target = with_parameters(self._url, place)
            try:
                following = await self._fetch(target, page)
            except NotFound:
                if self._promises(page) or len(page.items or ()) >= self._longest:
                    raise
                return page
            is_promised = page.pagination.promises and following.pagination.more is not False
            is_new = self._add(following)
            if not is_new and (is_promised or self._promises(following)):
                # Once more, for a transient fault.
                following = await self._fetch(with_parameters(self._url, place))
                is_new = self._add(following)
            if not is_new:
                self._repeats = self._pages == 1 and bool(following.items)
                if following.items and self._total is None:
                    count = f"its {len(self._keys):,} items count as all"
                    self.note = f"repeats a page instead of an end: {count}"
                return page if is_promised else following
            page = following
        return page

    def _is_last(self, page: Page) -> bool:
        """Whether a page ends the feed.

        A page of full length does so only where it says that there are no more, whatever the total:
        some servers state the length of the page.
        """
        if not page.items or self._missing():
            return not page.items
        is_full = len(page.items) >= self._longest
        return page.pagination.more is False or (self._total is not None and not is_full)

    async def _fetch(self, url: httpx.URL, before: Page | None = None) -> Page:
        """Request a page; the one behind a short first page with PAGE_SIZE items, if it may be."""
        page = None
        is_short = before is not None and len(before.items or ()) < PAGE_SIZE
        is_second = not self._requests and not self._parameter("limit")
        if before is not None and is_short and is_second and self._promises(before):
            try:
                page = await self._request(with_parameters(url, {"limit": PAGE_SIZE}), 1)
                self._limit = PAGE_SIZE
            except SourceError:  # some servers refuse a limit above their default
                pass
        page = page or await self._request(url, None)
        self._requests += 1
        if self._requests >= self._max_pages:
            raise feed_error(self._url, f"has more than {self._max_pages:,} pages")
        if "" != _snapshot(page) != self._snapshot != "":
            raise feed_error(self._url, "changed while it was read; try again later")
        return page

    def _add(self, page: Page) -> bool:
        """Write the items that are new; returns whether there are any."""
        before, items = len(self._keys), page.items or []
        self._longest = max(self._longest, len(items), page.pagination.limit or 0)
        if page.pagination.total is not None:
            self._total = page.pagination.total
        for item in items:
            text = item.translate(_one_line)
            key = hashlib.blake2b(text, digest_size=KEY_BYTES).digest()
            if key not in self._keys:
                self._keys.add(key)
                self._lines.write(text + b"\n")
        if len(self._keys) > self._source.max_items:
            raise feed_error(
                self._url,
                f"has more than {self._source.max_items:,} items; raise `max_items` of the source "
                "if it is right",
            )
        is_new = len(self._keys) > before
        if is_new:
            self._pages += 1
            self.received += len(items)
            self._on_page(len(items))
        return is_new

    def _missing(self) -> int:
        """Return how many items the walk falls short of the total that was stated last."""
        return max(0, (self._total or 0) - self._start - self.received)

    def _promises(self, page: Page) -> bool:
        return bool(page.pagination.promises) or self._missing() > 0

    def _check_end(self, page: Page) -> None:
        """Raise SourceError for a last page that promises more, or whose total is not reached."""
        promises = page.pagination.promises
        if promises and not _names_itself(page):
            raise self._fault(
                f"its last page has `{promises[0]}`, and no page with a new item follows"
            )
        if self._missing():
            shortfall = describe_shortfall((self._total or 0) - self._start, len(self._keys))
            where = ", the same at every offset" if self._repeats else ""
            raise feed_error(self._url, f"{shortfall}{where}; {ADVICE}, or try again later")

    def _fault(self, fault: str) -> SourceError:
        return feed_error(self._url, f"{fault}, after {len(self._keys):,} items; {ADVICE}")

    def _link(self, page: Page) -> httpx.URL | None:
        """Return the URL of the next page by link, cursor or page number, or None."""
        stated = page.pagination
        if stated.next:
            return next_target(self._url, page.url, stated.next)
        if stated.cursor is not None:
            return self._with(page, stated.cursor.parameter, stated.cursor.value)
        if stated.page is None or stated.offset is not None or self._start:
            return None
        more = stated.more
        if stated.last_page is not None:
            more = stated.page - self._first_number + 1 < stated.last_page
        elif stated.total is not None:
            more = bool(page.items) and self._missing() > 0
        return self._with(page, "page", stated.page + 1) if more else None

    def _with(self, page: Page, parameter: str, value: str | int) -> httpx.URL:
        """Return the URL of a page with a parameter; raises SourceError for one that is none."""
        try:
            return with_parameters(page.url, {parameter: value})
        except httpx.InvalidURL as error:
            raise self._fault(f"its `{parameter}` makes no URL: {error}") from error

    def _parameter(self, name: str) -> int:
        """Return a number from the query of the feed, or 0."""
        text = self._url.params.get(name, self._source.params.get(name, ""))
        return int(text) if text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS else 0


def _snapshot(page: Page) -> str:
    return str(page.response.headers.get("ratecard-snapshot", ""))


def _names_itself(page: Page) -> bool:
    """Whether an empty page has the cursor by which it was asked for, as an end of some servers."""
    cursor = page.pagination.cursor
    if cursor is None or page.items or page.pagination.more:
        return False
    return bool(page.url.params.get(cursor.parameter) == cursor.value)


def parse_body(
    path: Path,
    max_bytes: int,
    response: httpx.Response,
    kind: Kind | None = None,
    *,
    is_page: bool = False,
) -> Page:
    """Parse a body of up to `max_bytes`, of a declared kind; JSON lines may be longer.

    An array or lines are a page where a header names the next one or a total, or after such a page.
    Raises TransientError for damaged or truncated content, and PermanentError for another text:
    after a page that is transient too, as it may be an error page.
    """
    refusal = TransientError if is_page else PermanentError
    with path.open("rb") as file:
        try:
            found = open_list(file, max_bytes, kind)
        except NoList as error:
            raise refusal(f"{error}; {check_url(kind)}") from error
        except BeyondBounds as error:
            raise refusal(str(error)) from error
        except DamagedText as error:
            fault = "is empty (a list of nothing is written as [])"
            fault = f"is not JSON, or cut short: {error}" if error.line else fault
            raise TransientError(fault) from error
        lines = found.items
        if found.is_lines:
            lines = _check_lines(lines, file, refusal)
        link = response.links.get("next", {}).get("url", "")
        total = response.headers.get("x-total-count", "")
        is_list = bool(found.key) or (found.kind is None and (is_page or bool(link or total)))
        if not is_list and is_page:
            raise TransientError("is a plain file where a page is expected")
        if not is_list:
            return Page(response)
        items = [text for _, text in islice(lines, MAX_PAGE_ITEMS + 1)]
    if len(items) > MAX_PAGE_ITEMS:
        raise refusal(f"has more than {MAX_PAGE_ITEMS:,} items on one page")
    return Page(response, items, read_pagination(found.beside, link, total))


def _check_lines(
    lines: Iterator[tuple[str, bytes]], file: io.BufferedReader, refusal: type[Exception]
) -> Iterator[tuple[str, bytes]]:
    """Return all lines; raises TransientError for none, or one cut short by a lost connection."""
    first = next(lines)
    place = file.tell()
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - MAX_RECORD))
    last = file.read().rpartition(b"\n")[2].strip()
    file.seek(place)
    for line, fault in ((first[1], "is not JSON, or cut short"), (last, "ends within a line")):
        try:
            known_members(mask_surrogates(line or b"{}"))
        except (msgspec.ValidationError, RecursionError) as error:
            raise refusal(f"is not a list of services or resources; {CHECK_PATH}") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise TransientError(fault) from error
    return chain([first], lines)
