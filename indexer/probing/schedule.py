"""The order of requests: one at a time, with pauses between the requests to a site."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from heapq import heappop, heappush
from time import monotonic


async def take_turns(
    visits: Sequence[AsyncIterator[float]],
    now: Callable[[], float] = monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Advance the visits of sites until all have ended, one step at a time.

    Each step yields the seconds until the next step of the same visit. The first visit that is due
    comes first, so that the longest ones are given first: others fill their pauses, and few
    visits are under way at a time.
    """
    ready = list(range(len(visits)))  # a heap, as it is sorted
    waiting: list[tuple[float, int]] = []
    while ready or waiting:
        while waiting and (not ready or waiting[0][0] <= now()):
            due, number = heappop(waiting)
            if due > now():
                await sleep(due - now())
            heappush(ready, number)
        number = heappop(ready)
        delay = await anext(visits[number], None)
        if delay is not None:
            heappush(waiting, (now() + delay, number))
