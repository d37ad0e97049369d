"""The cache of what takes long to open: each request has the value that it waited for."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable

from service.artifacts.open_cache import OpenCache

TIMEOUT = 30.0  # seconds


def test_requests_have_values_that_others_evicted_before_the_event_loop_continued() -> None:
    cache: OpenCache[str, str] = OpenCache(1, "open", "full")
    made: Counter[str] = Counter()
    is_last_made = threading.Event()

    def maker(key: str) -> Callable[[], str]:
        def make() -> str:
            made[key] += 1
            if key == "c":
                is_last_made.set()
            return key.upper()

        return make

    async def visit() -> list[str]:
        keys = "abcabc"
        opening = asyncio.gather(*(cache.open(key, maker(key)) for key in keys))
        await asyncio.sleep(0)  # all wait now
        assert is_last_made.wait(TIMEOUT)  # a busy event loop: `a` and `b` are evicted meanwhile
        return await asyncio.wait_for(opening, TIMEOUT)

    assert asyncio.run(visit()) == [*"ABCABC"]
    assert made == Counter("abc")
