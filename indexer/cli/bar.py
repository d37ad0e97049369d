"""A bar on a terminal: how far a stage is, how fast, and how long it still takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text

STEPS = 500
"""A bar is told of so many steps at once, since telling it of each takes longer than most do."""


@contextmanager
def show_bar(
    name: str, total: int | None, terminal: TextIO, *, in_bytes: bool
) -> Iterator[Callable[[int], None]]:
    """Show a bar while the body runs, which calls what it gets with the steps that it took."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description:<22}", markup=False),
        BarColumn(),
        *(
            (DownloadColumn(), TransferSpeedColumn())
            if in_bytes
            else (MofNCompleteColumn(), _Rate())
        ),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(file=terminal)) as progress:
        task = progress.add_task(name, total=total)
        waiting = 0

        def advance(steps: int) -> None:
            nonlocal waiting
            waiting += steps
            if waiting >= STEPS:
                progress.advance(task, waiting)
                waiting = 0

        yield advance
        progress.advance(task, waiting)
        if total is None:
            progress.update(task, total=progress.tasks[task].completed)


class _Rate(ProgressColumn):
    """Steps a second."""

    def render(self, task: Task) -> Text:
        """The rate, once there is one."""
        speed = task.finished_speed or task.speed
        return Text("" if not speed else f"{speed:,.0f}/s")
