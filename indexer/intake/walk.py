"""One walk through the pages of a feed: all items, or a failure that says why not."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from http import HTTPStatus
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import httpx
import msgspec
from msgspec import Struct

from indexer.errors import SourceError
from indexer.intake.forms import NoList, known_members, mask_surrogates
from indexer.intake.http import (
    CHECK_URL,
    UNCONDITIONAL,
    FeedClient,
    NotFound,
    PermanentError,
    TransientError,
    feed_error,
    next_target,
    with_parameters,
)
from indexer.intake.lists import BeyondBounds, DamagedText, open_list
from indexer.intake.pagination import (
    NONE,
    StatedPagination,
    describe_shortfall,
    read_pagination,
)
from indexer.options import Kind, Limits, SourceOptions
from indexer.text import MAX_RECORD

PAGE_SIZE = 200
MAX_PAGE_ITEMS = 200_000
"""Items of a page; each takes some 300 bytes of memory besides its text."""
MAX_REPEATS = 3
"""Pages in a row without a new item after which links and cursors lead nowhere."""
MAX_DIGITS = 15  # of a number in a URL
KEY_BYTES = 16  # small, since the keys of a million items are held in memory
PLAIN = (Kind.MANIFEST, Kind.PAYMENTS, Kind.OVERLAY, Kind.PROBES)
"""Kinds of sources that are files and never pages."""
REPEATS = "a page repeats although the server promises another one"
ADVICE = "check how the server names the next page, or request all with ?limit="

_one_line = bytes.maketrans(b"\r\n", b"  ")  # JSON has line breaks only between tokens


class Page(Struct):
    """Items as received, and what the server states of other pages.

    url: of this page
    snapshot: the `Ratecard-Snapshot` header
    """

    items: list[bytes]
    pagination: StatedPagination
    url: httpx.URL
    snapshot: str


class PlainFile(Struct):
    """JSON lines (`is_lines`), an array, a document or a single record: a text without pages."""

    is_lines: bool


def is_static(response: httpx.Response, page: Page) -> bool:
    """Whether a list is a file on a web server, which says nothing of pages and when it changed."""
    url = response.url
    is_file = url.path.endswith(".json") and not url.query and "last-modified" in response.headers
    return is_file and page.pagination == NONE


class Walk:
    """A walk by the links, cursors or page numbers of the first page, or by offset.

    Distinct items are written to `lines`, one a line. `on_page` is called with the number of items
    so far, and the stated total.

    received: items of pages with a new one, duplicates included
    pages: pages with a new item
    note: a remark for the operator
    repeats: whether the server sends the same page at every offset
    """

    def __init__(
        self,
        client: FeedClient,
        source: SourceOptions,
        url: httpx.URL,
        limits: Limits,
        body: Path,
        lines: BinaryIO,
        on_page: Callable[[int, int | None], None],
    ) -> None:
        self._client, self._source, self._url, self._limits = client, source, url, limits
        self._body, self._lines, self._on_page = body, lines, on_page
        self._start, self._limit = self._parameter("offset"), self._parameter("limit")
        self._keys: set[bytes] = set()
        self._visited = {url}
        self._longest = self._requests = self._barren = 0
        self._total: int | None = None
        self._snapshot = ""
        self._is_new = False
        self.received = self.pages = 0
        self.note = ""
        self.repeats = False

    @property
    def is_one_page(self) -> bool:
        """Whether the first page has all items, as it says or as it comes at every offset."""
        return self.pages <= 1 and (self.repeats or not self._requests)

    async def read(self, page: Page) -> None:
        """Read from the first page to the last; raises SourceError unless all items were read."""
        self._snapshot = page.snapshot
        self.add(page)
        self._end = page
        number = page.pagination.page
        self._first_number = min(number or 0, 1)
        ends = page.pagination.last_page is not None or page.pagination.total is not None
        by_number = number is not None and page.pagination.offset is None and ends
        by_offset = not by_number and self._link(page) is None
        following: Page | None = page
        while following is not None:
            page = self._end = following
            if by_offset:
                following = await self._next_by_offset(page)
            else:
                following = await self._next_by_link(page)
        self._check_end(self._end)

    async def _next_by_offset(self, page: Page) -> Page | None:
        """Return the page at the next offset, None after the last one."""
        if self._is_last(page):
            return None
        limit = self._limit or len(page.items)
        place = {"limit": limit, "offset": self._start + self.received}
        try:
            following = await self._request_longer(page, with_parameters(self._url, place))
        except NotFound:
            if self._promises(page) or len(page.items) >= self._longest:
                raise
            return None
        is_promised = page.pagination.promises and following.pagination.more is not False
        if not self.add(following) and (is_promised or self._promises(following)):
            # Once more, for a transient fault.
            following = await self._fetch(with_parameters(self._url, place))
            self.add(following)
        if self._is_new:
            return following
        self.repeats = self.pages == 1 and len(following.items) > 0
        if following.items and self._total is None:
            self.note = (
                f"repeats a page instead of an end: its {len(self._keys):,} items count as all"
            )
        self._end = page if is_promised else following
        return None

    def _is_last(self, page: Page) -> bool:
        """Whether a page ends the feed.

        A page of full length does so only where it says that there are no more, whatever the total:
        some servers state the length of the page.
        """
        if not page.items or self._missing():
            return not page.items
        is_full = len(page.items) >= self._longest
        return page.pagination.more is False or (self._total is not None and not is_full)

    async def _next_by_link(self, page: Page) -> Page | None:
        """Return the page that a page leads to, None after the last one."""
        target = self._link(page)
        if target is None or _names_itself(page):
            return None
        if target in self._visited:
            raise self._fault(REPEATS)
        self._visited.add(target)
        has_cursor = page.pagination.cursor is not None and not page.pagination.next
        request = partial(self._request_longer, page) if has_cursor else self._fetch
        following = await request(target)
        self._barren = 0 if self.add(following) else self._barren + 1
        if self._barren == MAX_REPEATS and following.items:
            raise self._fault(REPEATS)
        return following

    async def _request_longer(self, page: Page, url: httpx.URL) -> Page:
        """Request the second page with PAGE_SIZE items, and as before where that is refused."""
        is_short = len(page.items) < PAGE_SIZE and not self._parameter("limit")
        if self._requests or not is_short or not self._promises(page):
            return await self._fetch(url)
        try:
            longer = await self._request(with_parameters(url, {"limit": PAGE_SIZE}), attempts=1)
        except SourceError:  # some servers refuse a limit above their default
            return await self._fetch(url)
        self._limit = PAGE_SIZE
        return self._count(longer)

    def add(self, page: Page) -> bool:
        """Write the items that are new; returns whether there are any."""
        before = len(self._keys)
        self._longest = max(self._longest, len(page.items), page.pagination.limit or 0)
        if page.pagination.total is not None:
            self._total = page.pagination.total
        for item in page.items:
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
        self._is_new = len(self._keys) > before
        if self._is_new:
            self.pages += 1
            self.received += len(page.items)
            self._on_page(self.received, self._total)
        return self._is_new

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
            total = (self._total or 0) - self._start
            shortfall = describe_shortfall(total, len(self._keys))
            where = ", the same at every offset" if self.repeats else ""
            raise feed_error(self._url, f"{shortfall}{where}; {ADVICE}, or try again later")

    def _fault(self, fault: str) -> SourceError:
        return feed_error(self._url, f"{fault}, after {len(self._keys):,} items; {ADVICE}")

    def _link(self, page: Page) -> httpx.URL | None:
        """Return the URL of the next page by link, cursor or page number, or None."""
        stated = page.pagination
        if stated.next:
            return next_target(self._url, page.url, stated.next)
        if stated.cursor is not None:
            return with_parameters(page.url, {stated.cursor.parameter: stated.cursor.value})
        if stated.page is None or stated.offset is not None or self._start:
            return None
        more = stated.more
        if stated.last_page is not None:
            more = stated.page - self._first_number + 1 < stated.last_page
        elif stated.total is not None:
            more = len(page.items) > 0 and self._missing() > 0
        return with_parameters(page.url, {"page": stated.page + 1}) if more else None

    async def _fetch(self, url: httpx.URL) -> Page:
        return self._count(await self._request(url))

    def _count(self, page: Page) -> Page:
        """Check the bounds of a walk, and that it is one of one snapshot."""
        self._requests += 1
        if self._requests >= self._limits.pages:
            raise feed_error(self._url, f"has more than {self._limits.pages:,} pages")
        if page.snapshot and self._snapshot and page.snapshot != self._snapshot:
            raise feed_error(self._url, "changed while it was read; try again later")
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

    def _parameter(self, name: str) -> int:
        """Return a number from the query of the feed, or 0."""
        text = self._url.params.get(name, self._source.params.get(name, ""))
        return int(text) if text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS else 0


def _names_itself(page: Page) -> bool:
    """Whether an empty page has the cursor by which it was asked for, as an end of some servers."""
    cursor = page.pagination.cursor
    if cursor is None or page.items or page.pagination.more:
        return False
    return bool(page.url.params.get(cursor.parameter) == cursor.value)


async def fetch_first(
    client: FeedClient,
    source: SourceOptions,
    url: httpx.URL,
    limits: Limits,
    body: Path,
    conditions: Mapping[str, str] = UNCONDITIONAL,
) -> tuple[httpx.Response, Page | PlainFile | None]:
    """Request the URL of a source; returns the response, and its body unless it is not modified."""

    def parse(response: httpx.Response) -> tuple[httpx.Response, Page | PlainFile | None]:
        if response.status_code == HTTPStatus.NOT_MODIFIED:
            return response, None
        if source.kind in PLAIN:
            return response, PlainFile(is_lines=False)
        return response, parse_body(body, limits.page_bytes, response, source.kind)

    return await client.get(url, body, parse, max_bytes=limits.bytes, conditions=conditions)


def parse_page(path: Path, max_bytes: int, response: httpx.Response) -> Page:
    """Parse a page after the first; raises TransientError for any other content.

    An error page is transient here, because the first page was one.
    """
    try:
        page = parse_body(path, max_bytes, response)
    except PermanentError as error:
        raise TransientError(str(error)) from error
    if isinstance(page, PlainFile):
        raise TransientError("is a plain file where a page is expected")
    return page


def parse_body(
    path: Path, max_bytes: int, response: httpx.Response, kind: Kind | None = None
) -> Page | PlainFile:
    """Parse a body of up to `max_bytes`, of a declared kind; JSON lines may be longer.

    Raises TransientError for damaged or truncated content, and PermanentError for another text.
    """
    with path.open("rb") as file:
        try:
            found = open_list(file, max_bytes, kind)
        except NoList as error:
            raise PermanentError(f"{error}; {CHECK_URL}") from error
        except BeyondBounds as error:
            raise PermanentError(str(error)) from error
        except DamagedText as error:
            raise TransientError(f"is not JSON, or cut short: {error}") from error
        if found.is_lines:
            _check_lines(found.items, file)
        if not found.key:
            return PlainFile(found.is_lines)
        items = [text for _, text in islice(found.items, MAX_PAGE_ITEMS + 1)]
    if len(items) > MAX_PAGE_ITEMS:
        raise PermanentError(f"has more than {MAX_PAGE_ITEMS:,} items on one page")
    link = response.links.get("next", {}).get("url", "")
    snapshot = response.headers.get("ratecard-snapshot", "")
    return Page(items, read_pagination(found.beside, link), response.url, snapshot)


def _check_lines(lines: Iterator[tuple[str, bytes]], file: io.BufferedReader) -> None:
    """Raise TransientError for lines that are none, or cut short as after a lost connection."""
    _, first = next(lines)
    _check_line(first, "is not JSON, or cut short")
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - MAX_RECORD))
    if last := file.read().rpartition(b"\n")[2].strip():
        _check_line(last, "ends within a line")


def _check_line(line: bytes, fault: str) -> None:
    try:
        known_members(mask_surrogates(line))
    except (msgspec.ValidationError, RecursionError) as error:
        raise PermanentError(f"is not a list of services or resources; {CHECK_URL}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TransientError(fault) from error
