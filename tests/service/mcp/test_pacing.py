"""Pacing: one call at a time, with pauses, and refusals where too many wait."""

from __future__ import annotations

import asyncio

import pytest

from service.errors import Overloaded
from service.mcp.pacing import LONGEST_PAUSE, MAX_WAITING, Pace

SHARE = 0.4


class Clock:
    """A clock that stands still but for work and sleep."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.pauses: list[float] = []

    def perf_counter(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the module."""
    clock = Clock()
    monkeypatch.setattr("service.mcp.pacing.time", clock)
    monkeypatch.setattr("service.mcp.pacing.sleep", clock.sleep)
    return clock


def test_calls_take_their_share_of_the_time_and_no_more(clock: Clock) -> None:
    async def run() -> None:
        pace = Pace(SHARE)
        for work in (0.003, 0.012, 10.0, 0.0):
            async with pace.turn():
                clock.now += work

    asyncio.run(run())
    ratio = (1 - SHARE) / SHARE
    assert clock.pauses == pytest.approx([0.003 * ratio, 0.012 * ratio, LONGEST_PAUSE])


def test_a_share_of_1_has_no_pauses(clock: Clock) -> None:
    async def run() -> None:
        pace = Pace(1)
        for work in (0.003, 10.0, 0.0):
            async with pace.turn():
                clock.now += work

    asyncio.run(run())
    assert clock.pauses == []


def test_a_call_after_a_while_does_not_wait(clock: Clock) -> None:
    async def run() -> None:
        pace = Pace(SHARE)
        for _ in range(3):
            async with pace.turn():
                clock.now += 0.01
            clock.now += 0.01 / SHARE

    asyncio.run(run())
    assert clock.pauses == []


def test_calls_take_turns() -> None:
    async def run() -> None:
        pace = Pace(SHARE)
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
        pace = Pace(SHARE)
        release = asyncio.Event()

        async def call() -> None:
            async with pace.turn():
                await release.wait()

        tasks = [asyncio.create_task(call()) for _ in range(1 + MAX_WAITING)]  # one runs
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
        pace = Pace(SHARE)

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
