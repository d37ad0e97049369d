"""Walks through the pages of a feed, by offset or from page to page, repeated while it changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import httpx
from msgspec import Struct, field

from indexer.feeds.dedup import FeedItems, ItemKey
from indexer.feeds.page import Page

MAX_WALKS = 3

# Consecutive pages without a new item that end a walk, if the server states a larger total or none.
# The first is requested again, in case it was a transient fault, and the second is skipped.
MAX_REPEATS = 3

PROMISES_MORE = "a page repeats although the server promises another one"


class Walk(Struct):
    """The result of one walk from the offset `start`.

    keys: of the distinct items
    pages, received: pages with a new item, and the number of their items, duplicates included
    totals, snapshots: the distinct values that the server stated
    overlapped: a page had both new items and known ones
    repeated: a page had items, all of them known
    ends_in_repeats: the walk ended because pages repeated, and not at an empty page or the total
    fault: why the walk has not reached all pages
    unstable: the feed changed during every walk, so that none has all items
    max_page: length of the longest page
    """

    start: int
    keys: dict[ItemKey, None] = field(default_factory=dict)
    pages: int = 0
    received: int = 0
    totals: set[int] = field(default_factory=set)
    snapshots: set[str] = field(default_factory=set)
    overlapped: bool = False
    repeated: bool = False
    ends_in_repeats: bool = False
    fault: str = ""
    unstable: bool = False
    max_page: int = 0

    @property
    def total(self) -> int | None:
        """The largest stated total, less the items before the start; None if none is stated."""
        return max(0, max(self.totals) - self.start) if self.totals else None

    @property
    def missing(self) -> int:
        """How many items the walk falls short of the stated total."""
        return max(0, (self.total or 0) - len(self.keys))

    @property
    def shifted(self) -> bool:
        """Whether the feed changed during the walk, which may have skipped items."""
        if len(self.snapshots) > 1:
            return True
        if self.total is None:
            return self.overlapped
        return self.missing > 0 and (len(self.totals) > 1 or self.overlapped or self.repeated)

    def add(self, page: Page, items: FeedItems) -> int:
        """Add a page and return how many of its items are new to this walk."""
        self.snapshots.add(page.snapshot)
        self.max_page = max(self.max_page, len(page.items), page.pagination.limit or 0)
        if page.pagination.total is not None:
            self.totals.add(page.pagination.total)
        before = len(self.keys)
        for item in page.items:
            self.keys[items.add(item)] = None
        new = len(self.keys) - before
        self.pages += new > 0
        self.received += len(page.items) if new else 0
        self.overlapped |= 0 < new < len(page.items)
        self.repeated |= 0 == new < len(page.items)
        return new


async def walk_feed(walk_once: Callable[[], Awaitable[Walk]], items: FeedItems) -> Walk:
    """Walk until a walk is complete, or two walks in a row agree; else return all items.

    The items of the last walk come first, so that its text stays where an id has several.
    """
    walk, known = await walk_once(), -1
    for _ in range(MAX_WALKS - 1):
        if walk.fault or _is_complete(walk, items) or len(walk.keys) == len(items) == known:
            break
        known = len(items)
        walk = await walk_once()
    if not walk.fault and not _is_complete(walk, items):
        changed = len(walk.snapshots) > 1 or len(walk.totals) > 1
        walk.unstable = changed or len(walk.keys) < len(items)
        walk.keys |= dict.fromkeys(items.keys())
    return walk


def _is_complete(walk: Walk, items: FeedItems) -> bool:
    """Whether a walk has every item.

    An item of an earlier walk that this one lacks was removed from the feed only if the stated
    total is reached: after a faulty first page, missing items are the only sign of the fault.
    """
    reached_total = walk.total is not None and not walk.missing
    return not walk.shifted and (reached_total or len(walk.keys) == len(items))


async def walk_offsets(
    fetch_page: Callable[[int], Awaitable[Page]], items: FeedItems, start: int
) -> Walk:
    """Fetch the page at each offset until there is nothing new.

    The offset advances by the length of each page, whatever limit was requested. A page of full
    length is never the last, whatever the total: some servers state the length of the page.
    """
    walk, offset, repeats = Walk(start), start, 0
    while repeats < MAX_REPEATS:
        page = await fetch_page(offset)
        length = len(page.items)
        new = walk.add(page, items)
        repeats = 0 if new else repeats + 1
        if new or repeats == MAX_REPEATS - 1:
            offset += length
        past_total = walk.total is not None and offset - start >= walk.total
        if new and _is_last(walk, page, past_total=past_total):
            break
        if not new and _is_end(walk, length, repeats, past_total=past_total):
            break
    walk.ends_in_repeats = repeats == MAX_REPEATS
    if walk.ends_in_repeats and page.pagination.promises_more:
        walk.fault = PROMISES_MORE
    return walk


def _is_last(walk: Walk, page: Page, *, past_total: bool) -> bool:
    """Whether a page with a new item ends the feed."""
    if walk.total is None:
        return page.pagination.more is False
    return past_total and len(page.items) < walk.max_page


def _is_end(walk: Walk, length: int, repeats: int, *, past_total: bool) -> bool:
    """Whether a page without a new item ends the feed."""
    if walk.total is None:
        return length == 0
    return past_total or not walk.missing or (length == 0 and repeats > 1)


async def walk_links(
    fetch_page: Callable[[httpx.URL], Awaitable[Page]],
    next_url: Callable[[Page], httpx.URL | None],
    items: FeedItems,
    first: httpx.URL,
    start: int,
) -> Walk:
    """Fetch the first page, and from each page the next one, until a page names none."""
    walk, repeats = Walk(start), 0
    visited: set[httpx.URL] = set()
    url: httpx.URL | None = first
    while url is not None:
        visited.add(url)
        page = await fetch_page(url)
        repeats = 0 if walk.add(page, items) else repeats + 1
        url = next_url(page)
        if url in visited and not page.items and not page.pagination.more:
            break  # some servers name the last cursor again, beside an empty page
        if url in visited or (url is not None and page.items and repeats == MAX_REPEATS):
            walk.fault = PROMISES_MORE
            break
    return walk
