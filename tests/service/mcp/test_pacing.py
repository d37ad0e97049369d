"""Pacing: pauses for computing, none for waiting, and refusals where too many wait."""

from __future__ import annotations

import asyncio

import pytest

from service.errors import Overloaded
from service.mcp.pacing import LONGEST_PAUSE, MAX_RUNNING, MAX_WAITING, Pace

SHARE = 0.5


class Clock:
    """A clock that stands still but for work, waiting and sleep."""

    def __init__(self) -> None:
        self.now = 1024.0
        self.cpu = 16.0
        self.pauses: list[float] = []

    def perf_counter(self) -> float:
        return self.now

    def thread_time(self) -> float:
        return self.cpu

    def work(self, seconds: float) -> None:
        self.now += seconds
        self.cpu += seconds

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


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
                clock.work(work)

    asyncio.run(run())
    ratio = (1 - SHARE) / SHARE
    assert clock.pauses == pytest.approx([0.003 * ratio, 0.012 * ratio, LONGEST_PAUSE])


def test_a_call_that_waits_costs_no_pause(clock: Clock) -> None:
    async def run() -> None:
        pace = Pace(SHARE)
        for _ in range(3):
            async with pace.turn():
                clock.work(0.125)
                clock.now += 5

    asyncio.run(run())
    assert clock.pauses == []


def test_calls_at_once_take_their_share_together(clock: Clock) -> None:
    """CPU time of two calls that overlap is charged once."""
    calls, work = 16, 2**-7

    async def run() -> None:
        pace = Pace(SHARE)

        async def call() -> None:
            async with pace.turn():
                for _ in range(4):
                    clock.work(work / 4)
                    await asyncio.sleep(0)

        await asyncio.gather(*(call() for _ in range(calls)))
        async with pace.turn():
            pass

    started = clock.now
    asyncio.run(run())
    assert clock.cpu - 16 == calls * work
    assert clock.now - started == pytest.approx(calls * work / SHARE)


def test_a_share_of_1_has_no_pauses(clock: Clock) -> None:
    async def run() -> None:
        pace = Pace(1)
        for work in (2**-8, 10.0, 0.0):
            async with pace.turn():
                clock.work(work)

    asyncio.run(run())
    assert clock.pauses == []


def test_a_call_after_a_while_does_not_wait(clock: Clock) -> None:
    async def run() -> None:
        pace = Pace(SHARE)
        for _ in range(3):
            async with pace.turn():
                clock.work(0.01)
            clock.now += 0.01 / SHARE

    asyncio.run(run())
    assert clock.pauses == []


def test_calls_that_wait_run_side_by_side(clock: Clock) -> None:
    async def run() -> None:
        pace = Pace(SHARE)
        together = asyncio.Barrier(MAX_RUNNING)

        async def call() -> None:
            async with pace.turn():
                clock.work(0.001)
                await together.wait()

        await asyncio.gather(*(call() for _ in range(MAX_RUNNING)))

    asyncio.run(run())


def test_no_more_calls_run_at_once_than_allowed(clock: Clock) -> None:
    async def run() -> None:
        pace = Pace(SHARE)
        running = 0

        async def call() -> None:
            nonlocal running
            async with pace.turn():
                running += 1
                for _ in range(MAX_RUNNING):
                    assert running <= MAX_RUNNING
                    await asyncio.sleep(0)
                running -= 1

        await asyncio.gather(*(call() for _ in range(2 * MAX_WAITING)))

    asyncio.run(run())
    assert clock.pauses == []


def test_too_many_waiting_calls_are_refused_and_later_ones_are_not(clock: Clock) -> None:
    async def run() -> None:
        pace = Pace(SHARE)
        release = asyncio.Event()

        async def call() -> None:
            async with pace.turn():
                await release.wait()

        tasks = [asyncio.create_task(call()) for _ in range(MAX_RUNNING + MAX_WAITING)]
        await asyncio.sleep(0)
        with pytest.raises(Overloaded) as refused:
            await call()
        assert refused.value.retry_after == 1
        release.set()
        await asyncio.gather(*tasks)
        await call()

    asyncio.run(run())
    assert clock.pauses == []


def test_a_call_that_fails_or_is_cancelled_ends_its_turn() -> None:
    async def run() -> None:
        pace = Pace(SHARE)

        async def fail() -> None:
            async with pace.turn():
                raise ValueError

        async def hang() -> None:
            async with pace.turn():
                await asyncio.Event().wait()

        for _ in range(MAX_RUNNING + MAX_WAITING):
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
