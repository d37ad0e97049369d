"""Walks through the pages of simulated servers."""

from __future__ import annotations

import asyncio
import io

import httpx
from hypothesis import example, given, settings
from hypothesis import strategies as st

from indexer.containers.pagination import StatedPagination
from indexer.feeds.dedup import FeedItems
from indexer.feeds.page import Page
from indexer.feeds.walk import walk_feed, walk_offsets


class SimulatedServer:
    """A server of `count` items in pages of at most `most`; page `slip` repeats the one before."""

    def __init__(self, count: int, most: int, total: str, end: str, slip: int) -> None:
        self.items = [b'{"n":%d}' % number for number in range(count)]
        self.most, self.total, self.end, self.slip = most, total, end, slip
        self.pages: list[Page] = []

    async def fetch_page(self, offset: int) -> Page:
        if len(self.pages) == self.slip > 0:
            self.pages.append(self.pages[-1])
        else:
            self.pages.append(self.page(offset))
        return self.pages[-1]

    def page(self, offset: int) -> Page:
        if self.end == "clamped":
            offset = max(0, min(offset, len(self.items) - self.most))
        if self.end == "repeated" and offset >= len(self.items):
            offset = max(0, len(self.items) - 1) // self.most * self.most
        items = self.items[offset : offset + self.most]
        totals = {"right": len(self.items), "small": len(self.items) // 3, "page": len(items)}
        pagination = StatedPagination(total=totals.get(self.total))
        return Page(items, pagination, "", httpx.URL("https://a.example/"), "")


@settings(deadline=None)
@given(
    count=st.integers(0, 40),
    most=st.integers(1, 12),
    start=st.integers(0, 5),
    total=st.sampled_from(["right", "none", "page", "small"]),
    end=st.sampled_from(["empty", "repeated", "clamped"]),
    slip=st.integers(0, 12),
)
@example(count=3, most=2, start=0, total="none", end="clamped", slip=5)  # in the second walk
def test_a_walk_has_every_item_once(
    count: int, most: int, start: int, total: str, end: str, slip: int
) -> None:
    server = SimulatedServer(count, most, total, end, slip if total in {"right", "none"} else 0)
    spool = io.BytesIO()
    items = FeedItems(spool)
    walk = asyncio.run(walk_feed(lambda: walk_offsets(server.fetch_page, items, start), items))
    lines = spool.getvalue().splitlines()
    assert len(lines) == len(set(lines)) == len(walk.keys)
    expected = {*server.items[start:]}
    assert expected == set(lines) if end == "empty" else expected <= set(lines)
    assert len(server.pages) <= 3 * (count // most + 5)
