"""Walks through the pages of a feed, by offset, until one can be trusted."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from indexer.feeds.dedup import FeedItems, Key
from indexer.feeds.page import Page

MOST_WALKS = 3

# So many answers in a row without anything new end a feed that says it holds more, or that does
# not say: the first is asked for again, in case it was a slip, and the second passed over.
MOST_REPEATS = 3


class Walk(Struct):
    """What one walk from an offset met: its items, and what the pages said of all of them.

    `snapshots` are what the pages named as theirs; `pages` counts those with something new, and
    `given` their items, also where they overlap; `repeated` is whether one had items and none of
    them new; `unsteady` is whether the feed kept changing, so that no walk met all of `seen`.
    """

    start: int
    seen: dict[Key, None] = field(default_factory=dict)
    pages: int = 0
    given: int = 0
    totals: set[int] = field(default_factory=set)
    snapshots: set[str] = field(default_factory=set)
    overlapped: bool = False
    repeated: bool = False
    unsteady: bool = False
    longest: int = 0

    @property
    def total(self) -> int | None:
        """How many items there are by the word of the server, the most where it said several."""
        return max(0, max(self.totals) - self.start) if self.totals else None

    @property
    def missing(self) -> int:
        """How many items did not come, by the word of the server."""
        return max(0, (self.total or 0) - len(self.seen))

    @property
    def shifted(self) -> bool:
        """Whether the feed changed on the way, so that items may have slipped through."""
        if len(self.snapshots) > 1:
            return True
        if self.total is None:
            return self.overlapped
        return self.missing > 0 and (len(self.totals) > 1 or self.overlapped or self.repeated)

    def take(self, page: Page, items: FeedItems) -> int:
        """Add a page; returns how many of its items this walk had not met."""
        self.snapshots.add(page.snapshot)
        self.longest = max(self.longest, len(page.items), page.limit or 0)
        if page.total is not None:
            self.totals.add(page.total)
        before = len(self.seen)
        for item in page.items:
            self.seen[items.add(item, is_service=page.are_services)] = None
        news = len(self.seen) - before
        self.pages += news > 0
        self.given += len(page.items) if news else 0
        self.overlapped |= 0 < news < len(page.items)
        self.repeated |= 0 == news < len(page.items)
        return news


def walk_feed(ask: Callable[[int], Page], items: FeedItems, start: int) -> Walk:
    """Walk until a walk can be trusted, or until one meets all that was met before and no more.

    Where no walk can be, whatever was met on any of them is taken.
    """
    walk, met = _walk_once(ask, items, start), -1
    for _ in range(MOST_WALKS - 1):
        if _is_trusted(walk, items) or len(walk.seen) == len(items) == met:
            break
        met = len(items)
        walk = _walk_once(ask, items, start)
    if not _is_trusted(walk, items):
        changed = len(walk.snapshots) > 1 or len(walk.totals) > 1
        walk.unsteady = changed or len(walk.seen) < len(items)
        walk.seen = items.keys()
    return walk


def _is_trusted(walk: Walk, items: FeedItems) -> bool:
    """Whether a walk met all that there is to meet.

    What it did not meet and an earlier one did is gone only where the server says that it gave
    all it holds: a first page that is a slip shows nothing odd, but that items went missing.
    """
    vouched_for = walk.total is not None and not walk.missing
    return not walk.shifted and (vouched_for or len(walk.seen) == len(items))


def _walk_once(ask: Callable[[int], Page], items: FeedItems, start: int) -> Walk:
    """Ask for pages at one offset after the other until there is nothing new.

    The offset advances by what a page holds, whatever limit was asked for. A page as long as
    pages get is never the last, whatever the total: some servers give the length of the page.
    """
    walk, offset, repeats = Walk(start), start, 0
    while repeats < MOST_REPEATS:
        page = ask(offset)
        length = len(page.items)
        news = walk.take(page, items)
        repeats = 0 if news else repeats + 1
        if news or repeats == MOST_REPEATS - 1:
            offset += length
        passed = walk.total is not None and offset - start >= walk.total
        if news and passed and length < walk.longest:
            break
        if not news and _is_end(walk, length, repeats, passed=passed):
            break
    return walk


def _is_end(walk: Walk, length: int, repeats: int, *, passed: bool) -> bool:
    """Whether a page without anything new ends the feed."""
    if walk.total is None:
        return length == 0
    return passed or not walk.missing or (length == 0 and repeats > 1)
