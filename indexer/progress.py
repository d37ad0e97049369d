"""Progress of a build: the seconds of each stage, as bars on a terminal and as lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from importlib.util import find_spec
from io import TextIOBase
from typing import TYPE_CHECKING, TextIO, TypeVar, cast

if TYPE_CHECKING:  # rich is an optional dependency
    from rich.progress import Progress as Bar

Advance = Callable[[int], None]
T = TypeVar("T")

MIN_SECONDS = 1.0
"""A stage that takes less has no line."""
REFRESH_SECONDS = 0.1
"""Between two updates of a bar: each takes a lock, which would slow down short steps."""


class Progress:
    """Times the stages of a build, and shows them on a terminal unless it is quiet.

    Elsewhere, as in the log of an operator, a verbose build alone has lines.

    `seconds` has the time of each stage that ended, by name.
    """

    def __init__(self, *, quiet: bool = True, verbose: bool = False) -> None:
        self.seconds: dict[str, float] = {}
        is_shown = not quiet and sys.stderr is not None  # None where it is closed
        is_terminal = is_shown and sys.stderr.isatty()
        self._draws = is_terminal and find_spec("rich") is not None
        self._prints = is_shown and (is_terminal or verbose) and not self._draws

    @contextmanager
    def stage(
        self, name: str, total: int | None = None, *, in_bytes: bool = False
    ) -> Iterator[Stage]:
        """Time the body, which reports its steps to the stage."""
        started = time.monotonic()
        bar = _draw_bar(name, total, in_bytes=in_bytes) if self._draws else nullcontext(Stage())
        with bar as stage:
            yield stage
        taken = time.monotonic() - started
        self.seconds[name] = self.seconds.get(name, 0.0) + taken
        if taken >= MIN_SECONDS and self._prints:
            with suppress(OSError):  # a closed pipe does not end the build
                print(f"{name}: {taken:.1f} s", file=sys.stderr, flush=True)  # noqa: T201  # for a person


class Stage:
    """How far one stage is; without a bar, reports go nowhere."""

    def __init__(self, bar: Bar | None = None) -> None:
        self._bar = bar
        self._completed = 0
        self._due = 0.0

    def advance(self, steps: int, note: str = "") -> None:
        """Report further steps, and a note."""
        self._completed += steps
        if self._bar is not None and time.monotonic() >= self._due:
            self._bar.update(self._bar.task_ids[0], completed=self._completed, note=note)
            self._due = time.monotonic() + REFRESH_SECONDS

    def finish(self) -> None:
        """Draw the last report; a total that was never known is what was reached."""
        if self._bar is not None:
            (task,) = self._bar.tasks
            total = self._completed if task.total is None else task.total
            self._bar.update(task.id, completed=self._completed, total=total)


def track(items: Iterable[T], advance: Advance) -> Iterator[T]:
    """Yield the items, reporting each as a step."""
    for item in items:
        yield item
        advance(1)


class _Terminal(TextIOBase):
    """A stream to a terminal that a person may close: the build goes on."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


@contextmanager
def _draw_bar(name: str, total: int | None, *, in_bytes: bool) -> Iterator[Stage]:
    from rich import progress  # noqa: PLC0415  # an optional dependency
    from rich.console import Console  # noqa: PLC0415  # the same

    counts: tuple[progress.ProgressColumn, ...] = (
        progress.MofNCompleteColumn(),
        progress.TextColumn("{task.fields[note]}", markup=False),
    )
    if in_bytes:
        counts = (progress.DownloadColumn(), progress.TransferSpeedColumn())
    with progress.Progress(
        progress.SpinnerColumn(),
        progress.TextColumn("{task.description:<22}", markup=False),
        progress.BarColumn(),
        *counts,
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
        console=Console(file=cast("TextIO", _Terminal(sys.stderr)), force_terminal=True),
    ) as bar:
        bar.add_task(name, total=total, note="")
        stage = Stage(bar)
        yield stage
        stage.finish()
