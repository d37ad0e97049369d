"""Pacing: one call at a time, with pauses, and refusals where too many wait."""

from __future__ import annotations

import asyncio
import time

import pytest

from service.errors import Overloaded
from service.mcp.pacing import LONGEST_PAUSE, MAX_WAITING, SHARE, Pace

WORK = 0.01  # seconds


def work() -> None:
    """Take the event loop for a while."""
    deadline = time.perf_counter() + WORK
    while time.perf_counter() < deadline:
        pass


def test_calls_take_their_share_of_the_time_and_no_more() -> None:
    async def run() -> float:
        pace, calls = Pace(), 10
        started = time.perf_counter()

        async def call() -> None:
            async with pace.turn():
                work()

        await asyncio.gather(*(call() for _ in range(calls)))
        return calls * WORK / (time.perf_counter() - started)

    # The pause after the last call is not waited for.
    assert asyncio.run(run()) <= 10 / (9 / SHARE + 1) + 0.001


def test_calls_take_turns() -> None:
    async def run() -> None:
        pace = Pace()
        active: list[int] = []

        async def call(number: int) -> None:
            async with pace.turn():
                active.append(number)
                await asyncio.sleep(0)
                assert active == [number]
                active.remove(number)

        await asyncio.gather(*map(call, range(MAX_WAITING)))

    asyncio.run(run())


def test_too_many_waiting_calls_are_refused_and_later_ones_are_not() -> None:
    async def run() -> None:
        pace = Pace()
        release = asyncio.Event()

        async def call() -> None:
            async with pace.turn():
                await release.wait()

        tasks = [asyncio.create_task(call()) for _ in range(MAX_WAITING)]
        await asyncio.sleep(0)
        with pytest.raises(Overloaded) as refused:
            await call()
        assert refused.value.retry_after == 1
        release.set()
        await asyncio.gather(*tasks)
        await call()

    asyncio.run(run())


def test_a_call_that_fails_or_is_cancelled_ends_its_turn() -> None:
    async def run() -> None:
        pace = Pace()

        async def fail() -> None:
            async with pace.turn():
                raise ValueError

        async def hang() -> None:
            async with pace.turn():
                await asyncio.Event().wait()

        for _ in range(MAX_WAITING + 1):
            with pytest.raises(ValueError, match=r"^$"):
                await fail()
        hanging = asyncio.create_task(hang())
        waiting = asyncio.create_task(hang())
        await asyncio.sleep(0)
        for task in (waiting, hanging):
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        async with asyncio.timeout(10 * LONGEST_PAUSE), pace.turn():
            pass

    asyncio.run(run())
