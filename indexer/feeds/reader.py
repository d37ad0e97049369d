"""Feeds: catalogues over HTTP, read to their end into one local file, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from time import time
from typing import BinaryIO

import httpx
from msgspec import Struct

from indexer.errors import SourceError
from indexer.feeds.cache import FORMAT, FeedCache, Kept, remove_unused, validator
from indexer.feeds.client import NO_CONDITIONS, Answer, Declined, Fetcher
from indexer.feeds.dedup import FeedItems
from indexer.feeds.page import Page, read_page, recognise
from indexer.feeds.url import page_url, read_url
from indexer.feeds.walk import Walk, walk_feed
from indexer.options import Limits
from service.snapshot.manifest import sha256

PAGE = 200
DAY = 24 * 60 * 60
LONGEST_NUMBER = 16


class FeedProgress(Struct):
    """How far a fetch is: the bytes received, the items met in this walk, and all of them."""

    bytes: int = 0
    items: int = 0
    total: int | None = None


class Feed(Struct):
    """A feed that was read to its end: a file for `read_records`, and how it was come by.

    `source` is the address without user and password; `sha256` is of the file; `unchanged` is
    whether it holds what it held last time; `items` is None for a plain file, which is one page.
    `note` is what an operator should know, if there is anything.
    """

    path: Path
    source: str
    sha256: str
    unchanged: bool
    pages: int
    items: int | None
    note: str


def fetch_feed(
    url: str,
    cache: Path,
    limits: Limits | None = None,
    progress: Callable[[FeedProgress], None] | None = None,
) -> Feed:
    """Read a feed to its end into a folder of its own in `cache`.

    A page of services, resources or items leads to the pages behind it, by `limit` and `offset`;
    their items become JSON lines, each as it came and each once. Where the feed changed on the
    way it is walked again, and after three walks every item that was met is taken. Anything else
    is a plain file and kept as it is, but decompressed.

    A feed that was read before is asked for on condition that it changed, and costs one request
    when it did not, as does another Ratecard that serves the same snapshot. Since that answer is
    about the first page alone, a feed of pages is walked once a day in any case. Raises
    SourceError when the feed cannot be read to its end within the limits; what was kept of it
    before stays as it was. What is kept of other feeds goes once they were not asked for in
    30 days.
    """
    reading = _Reading(url, cache, limits or Limits(), progress or (lambda _: None))
    remove_unused(cache)
    return reading.feed()


class _Reading:
    """One reading of a feed."""

    def __init__(
        self, url: str, cache: Path, limits: Limits, report: Callable[[FeedProgress], None]
    ) -> None:
        self._limits = limits
        self._report = report
        self._progress = FeedProgress()
        self._cache = FeedCache(cache, read_url(url))
        self._kept = self._cache.load()
        self._fetcher = Fetcher(url, limits, self._count)
        self._url = self._fetcher.url

    def feed(self) -> Feed:
        """The feed as it is kept if it is unchanged, else as it is now."""
        with self._fetcher, self._cache.workspace(self._kept) as folder:
            body = folder / "body"
            with body.open("w+b") as file:
                vouched_for = self._kept if self._kept and _is_recent(self._kept) else None
                answer, page = self._ask_first(file, vouched_for)
                if vouched_for and _is_unchanged(vouched_for, answer):
                    return self._found(vouched_for, unchanged=True)
                if answer.status == HTTPStatus.NOT_MODIFIED:
                    answer, page = self._ask_first(file, None)  # its other pages need not be so
            if page is None:
                return self._keep(body, _entry(answer, body))
            lines = folder / "lines"
            with (folder / "spool").open("wb") as spool:
                items = FeedItems(spool)
                walk = self._walk(page, folder / "page", items)
                note = self._judge(walk)
                items.write(lines, walk.seen)
            return self._keep(lines, _entry(answer, lines, walk, note))

    def _ask_first(self, file: BinaryIO, kept: Kept | None) -> tuple[Answer, Page | None]:
        """What the address itself answers, asked on condition that it changed since it was kept."""

        def understand(answer: Answer) -> tuple[Answer, Page | None]:
            if answer.status == HTTPStatus.NOT_MODIFIED:
                return answer, None
            page = recognise(file, self._limits.page_bytes)
            if page is not None:
                page.snapshot = _snapshot(answer)
            return answer, page

        conditions = kept.conditions() if kept else NO_CONDITIONS
        most = self._limits.bytes
        return self._fetcher.get(self._url, file, understand, most=most, conditions=conditions)

    def _walk(self, first: Page, path: Path, items: FeedItems) -> Walk:
        """Walk from the offset and by the limit of the address, if it has any.

        Else pages are asked for as long as servers commonly give, or as long as this one likes to.
        """
        start = _parameter(self._url, "offset")
        limit = _parameter(self._url, "limit") or len(first.items) or PAGE
        upcoming: Page | None = first
        asked = 0

        def ask(offset: int) -> Page:
            nonlocal upcoming, asked
            if offset == start:
                asked = 0
                self._fetcher.start_walk()
                self._progress.items = 0
            asked += 1
            if asked > self._limits.pages:
                raise SourceError(f"{self._url}: has more than {self._limits.pages:,} pages")
            page, upcoming = upcoming or self._ask_page(file, limit, offset), None
            self._progress.items += len(page.items)
            self._progress.total = page.total
            self._report(self._progress)
            return page

        with path.open("w+b") as file:
            more = (first.total or 0) - start - len(first.items)
            if more > 0 and len(first.items) < PAGE and not _parameter(self._url, "limit"):
                with suppress(Declined):  # this server likes its own pages better
                    upcoming, limit = self._ask_page(file, PAGE, start), PAGE
            return walk_feed(ask, items, start)

    def _ask_page(self, file: BinaryIO, limit: int, offset: int) -> Page:
        def understand(answer: Answer) -> Page:
            page = read_page(file, self._limits.page_bytes)
            page.snapshot = _snapshot(answer)
            return page

        url = page_url(self._url, limit, offset)
        return self._fetcher.get(url, file, understand, most=self._limits.page_bytes)

    def _judge(self, walk: Walk) -> str:
        """What is to be noted of a walk; raises SourceError when too much did not come."""
        total, given = walk.total or 0, len(walk.seen)
        says = f"says that it holds {total:,} items, and gives {given:,}"
        if walk.repeated and walk.pages == 1 and walk.given < total:
            raise SourceError(f"{self._url}: {says} at whatever offset; ask for all with ?limit=")
        if given < self._limits.share * total:
            raise SourceError(f"{self._url}: {says}; try again later")
        notes = [says] if walk.missing else []
        if walk.unsteady:
            notes.append("kept changing while it was read: whatever was met is taken")
        return "; ".join(notes)

    def _count(self, received: int) -> None:
        self._progress.bytes += received
        self._report(self._progress)

    def _keep(self, text: Path, entry: Kept) -> Feed:
        self._cache.keep(text, entry)
        unchanged = self._kept is not None and self._kept.sha256 == entry.sha256
        return self._found(entry, unchanged=unchanged)

    def _found(self, entry: Kept, *, unchanged: bool) -> Feed:
        return Feed(
            path=self._cache.path(entry),
            source=str(self._url),
            sha256=entry.sha256,
            unchanged=unchanged,
            pages=entry.pages,
            items=entry.items,
            note=entry.note,
        )


def _is_recent(kept: Kept) -> bool:
    """Whether a first page may still vouch for all; a plain file has no other page."""
    return kept.items is None or 0 <= time() - kept.read_at < DAY


def _is_unchanged(kept: Kept, answer: Answer) -> bool:
    """Whether the first answer shows that the feed is as it is kept.

    A snapshot is never edited, so that a page of the same one vouches for all of its pages.
    """
    snapshot = _snapshot(answer)
    if answer.status == HTTPStatus.NOT_MODIFIED:
        return snapshot in {"", kept.snapshot}
    return kept.items is not None and snapshot == kept.snapshot != ""


def _entry(answer: Answer, text: Path, walk: Walk | None = None, note: str = "") -> Kept:
    """What to keep of a feed; one that kept changing is to be walked whatever its first page is."""
    steady = walk is None or not walk.unsteady
    headers = answer.headers if steady else httpx.Headers()
    snapshots = walk.snapshots if walk and steady else set()
    return Kept(
        format=FORMAT,
        sha256=sha256(text),
        etag=validator(headers.get("etag", "")),
        last_modified=validator(headers.get("last-modified", "")),
        snapshot=min(snapshots) if len(snapshots) == 1 else "",
        pages=walk.pages if walk else 1,
        items=len(walk.seen) if walk else None,
        read_at=time(),
        note=note,
    )


def _snapshot(answer: Answer) -> str:
    snapshot: str = answer.headers.get("ratecard-snapshot", "")
    return snapshot


def _parameter(url: httpx.URL, name: str) -> int:
    """A number that the address gives as a parameter, or 0."""
    text = url.params.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < LONGEST_NUMBER else 0
