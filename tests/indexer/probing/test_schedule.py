"""The order of requests, on a clock that only sleeping moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from indexer.probing.schedule import take_turns

Step = tuple[float, int]
"""When a step began, and the visit that it belongs to."""


def run(visits: Sequence[Sequence[tuple[float, float]]]) -> tuple[list[Step], float]:
    """Run visits of steps that take some seconds and ask for a pause; return steps and the end."""
    time = 0.0
    steps: list[Step] = []

    async def sleep(seconds: float) -> None:
        nonlocal time
        assert seconds > 0
        time += seconds

    async def visit(number: int) -> AsyncIterator[float]:
        nonlocal time
        for taken, pause in visits[number]:
            steps.append((time, number))
            time += taken
            yield pause

    asyncio.run(take_turns([visit(number) for number in range(len(visits))], lambda: time, sleep))
    return steps, time


times = st.integers(0, 20).map(float)
visits = st.lists(st.lists(st.tuples(times, times), max_size=5), max_size=5)


@given(visits)
def test_every_step_is_taken_and_none_before_the_pause_after_the_last_one_of_its_visit(
    visits: list[list[tuple[float, float]]],
) -> None:
    steps, _ = run(visits)
    for number, planned in enumerate(visits):
        starts = [start for start, visit in steps if visit == number]
        assert len(starts) == len(planned)
        for (start, following), (taken, pause) in zip(pairwise(starts), planned, strict=False):
            assert following >= start + taken + pause


def test_others_fill_the_pauses_of_a_long_visit() -> None:
    long, short = [(0.1, 1.0)] * 10, [(0.1, 1.0)]
    steps, end = run([long, *[short] * 50])
    assert [start for start, visit in steps if visit == 0][-1] < 11.1
    assert end < 13


def test_few_visits_are_under_way_at_a_time() -> None:
    steps, _ = run([[(0.5, 1.0)] * 3] * 100)
    under_way: dict[int, int] = {}
    for _, visit in steps:
        under_way[visit] = under_way.get(visit, 0) + 1
        assert sum(count < 3 for count in under_way.values()) <= 4
