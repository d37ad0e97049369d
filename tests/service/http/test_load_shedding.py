"""Slow requests take turns, so that others wait for one of them alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from service.app import create_app
from service.http.load_shedding import Turns
from service.settings import Settings

SLOW = ("/", "/endpoints", "/services/tidewatch-example", "/ecosystem", "/v1/services?limit=101")


@pytest.mark.parametrize("path", SLOW)
def test_a_fast_request_is_answered_before_the_slow_ones_that_came_first(
    path: str, sample: Path
) -> None:
    app = create_app(Settings(artifacts=str(sample), cache_bytes=0, max_lag=0))
    answered: list[str] = []

    async def visit() -> None:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://a.example") as client:

            async def get(target: str) -> None:
                await client.get(target)
                answered.append(target)

            await get("/healthz")
            await asyncio.gather(*(get(path) for _ in range(10)), get("/v1/services?limit=24"))

    asyncio.run(visit())
    assert answered.index("/v1/services?limit=24") < 4


def test_turns_are_taken_in_order_one_in_each_iteration_of_the_event_loop() -> None:
    turns, started = Turns(), list[tuple[int, int]]()
    iterations = 0

    async def wait(number: int) -> None:
        await turns.wait()
        started.append((iterations, number))

    async def run() -> None:
        nonlocal iterations
        tasks = [asyncio.create_task(wait(number)) for number in range(20)]
        tasks[7].cancel()
        await asyncio.sleep(0)
        tasks[9].cancel()
        while not all(task.done() for task in tasks):
            iterations += 1
            await asyncio.sleep(0)

    asyncio.run(run())
    assert [number for _, number in started] == [n for n in range(20) if n not in {7, 9}]
    assert len({iteration for iteration, _ in started}) == len(started)
