"""Progress: what a build is at, as bars on a terminal and as lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

Advance = Callable[[int], None]
Item = TypeVar("Item")

LONG = 1.0
"""Seconds from which on a stage is worth a line."""


class Stages:
    """The stages of a build, and the seconds that each took, by name."""

    def __init__(self, *, quiet: bool = True) -> None:
        self.seconds: dict[str, float] = {}
        self._quiet = quiet

    @contextmanager
    def stage(
        self, name: str, total: int | None = None, *, in_bytes: bool = False
    ) -> Iterator[Advance]:
        """Time a stage and show how far it is; the body calls what it gets with its steps."""
        started = time.monotonic()
        on_terminal = sys.stderr is not None and sys.stderr.isatty()  # a service may have closed it
        if self._quiet or not on_terminal:
            yield _unseen
        else:
            from indexer.cli.bar import show_bar  # noqa: PLC0415  # only terminals need what it needs

            with show_bar(name, total, sys.stderr, in_bytes=in_bytes) as advance:
                yield advance
        taken = time.monotonic() - started
        self.seconds[name] = self.seconds.get(name, 0.0) + taken
        if taken >= LONG and not self._quiet and not on_terminal:
            with suppress(OSError):  # a build does not fail for want of a reader
                print(f"{name}: {taken:.1f} s", flush=True)  # noqa: T201  # a line for a person


def counted(items: Iterable[Item], advance: Advance, at_once: int = 1) -> Iterator[Item]:
    """The items, of which so many at once are told of as steps."""
    for number, item in enumerate(items, 1):
        yield item
        if number % at_once == 0:
            advance(at_once)


def _unseen(_: int) -> None:
    pass
