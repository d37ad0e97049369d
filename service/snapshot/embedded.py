"""The postings in the files of a snapshot, searched in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from service.errors import Overloaded, SnapshotUnsupported
from service.search.searcher import Scorer, Searcher
from service.snapshot.data import SnapshotData

THREAD_FROM = 4 << 20
"""Cost of a search from which it runs in a thread: below, it takes some milliseconds."""
YIELD_FROM = 1 << 16
"""Cost of a search after which other requests have their turn."""
MAX_WAITING = 32
"""Searches that run in the thread or wait for it; further ones are refused."""

T = TypeVar("T")

_thread = ThreadPoolExecutor(1, "search")
_waiting: set[Future[Any]] = set()


class EmbeddedPostings(Searcher):
    """The postings of a snapshot, mapped from its files."""

    def __init__(self, data: SnapshotData) -> None:
        super().__init__(data.folder / "postings", data.header, data.groups)

    async def run(self, search: Coroutine[Any, Any, T], cost: int) -> T:
        """Run a search here, or in the thread of the process if it is expensive.

        Raises Overloaded where too many wait for the thread.
        """
        if cost >= THREAD_FROM:
            return await _run_in_thread(search)
        result = await search
        if cost >= YIELD_FROM:
            await asyncio.sleep(0)
        return result

    async def check(self) -> None:
        """Files that were opened need no check."""


class MissingPostings:
    """The postings of a snapshot that are in a cluster, which nothing connects with."""

    def scorer(self, *_: Any, **__: Any) -> Scorer:
        """Raise SnapshotUnsupported."""
        raise SnapshotUnsupported(
            "the postings of this snapshot are in OpenSearch: start the service with "
            "`--engine opensearch`, or build it for the embedded engine"
        )

    def cost(self, *_: Any, **__: Any) -> int:
        """Return 0: there is nothing to add up."""
        return 0

    async def run(self, search: Coroutine[Any, Any, T], *_: Any) -> T:
        """Run a search that needs no postings."""
        return await search

    async def check(self) -> None:
        """Lists and records need no postings."""


async def _run_in_thread(search: Coroutine[Any, Any, T]) -> T:
    """Run an expensive search in the thread of the process, one at a time."""
    if len(_waiting) >= MAX_WAITING:
        search.close()
        raise Overloaded("too many expensive searches are waiting; try again in a second")
    future = _thread.submit(run_now, search)
    _waiting.add(future)
    try:
        return await asyncio.wrap_future(future)
    finally:
        _waiting.discard(future)
        if future.cancel():
            search.close()


def run_now(search: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits for nothing."""
    try:
        search.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    search.close()
    raise RuntimeError("the search waits for something: await it")
