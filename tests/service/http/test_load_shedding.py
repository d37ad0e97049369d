"""The lag of an event loop, measured while somebody asks for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from service.errors import Overloaded
from service.http.load_shedding import INTERVAL, LoadShedder


class Loop:
    """An event loop with a clock that the test sets."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[Callable[[], None]] = []

    def call_later(self, delay: float, callback: Callable[..., None], *arguments: object) -> None:
        assert delay == INTERVAL
        self.timers.append(lambda: callback(*arguments))

    def pass_time(self, seconds: float) -> None:
        """Run the timers that there are, after some seconds."""
        self.now += seconds
        timers, self.timers = self.timers, []
        for timer in timers:
            timer()


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    loop = Loop()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: loop)
    monkeypatch.setattr(time, "monotonic", lambda: loop.now)
    return loop


def test_a_timer_runs_only_while_somebody_asks(loop: Loop) -> None:
    shedder = LoadShedder(1.0)
    for _ in range(3):
        shedder.check()
        for _ in range(5):
            loop.pass_time(INTERVAL)
            shedder.check()
            assert len(loop.timers) == 1
        loop.pass_time(INTERVAL)
        loop.pass_time(INTERVAL)
        assert loop.timers == []
        loop.pass_time(60)


def test_a_loop_that_lags_sheds_until_it_does_not(loop: Loop) -> None:
    shedder = LoadShedder(1.0)
    shedder.check()
    loop.now += INTERVAL + 1.1  # the timer is overdue
    with pytest.raises(Overloaded):
        shedder.check()
    loop.pass_time(0)
    with pytest.raises(Overloaded):
        shedder.check()
    loop.pass_time(INTERVAL)
    shedder.check()


def test_a_lag_of_which_nobody_asked_is_measured_to_its_end(loop: Loop) -> None:
    shedder = LoadShedder(1.0)
    shedder.check()
    loop.pass_time(5)
    with pytest.raises(Overloaded):
        shedder.check()
    for _ in range(3):
        loop.pass_time(INTERVAL)
    assert loop.timers == []
    shedder.check()
