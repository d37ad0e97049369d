"""States of files and folders, by which a change is told without reading."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

SETTLED_AFTER = 2 * 10**9
"""Nanoseconds after which a further change of a file has another time on every file system."""

FileState: TypeAlias = tuple[int, int, int]
"""The inode, the size and the time in nanoseconds."""
ABSENT: FileState = (0, 0, 0)
"""The state of a file that cannot be read."""


def state_of(path: Path) -> FileState:
    """Return the state of a file, which changes when the file is written or replaced."""
    try:
        state = path.stat()
    except OSError:
        return ABSENT
    return state.st_ino, state.st_size, state.st_mtime_ns


def states_below(folder: Path) -> dict[Path, FileState]:
    """Return the states of all files and folders below a folder."""
    return {path: state_of(path) for path in folder.rglob("*")}


def are_settled(states: Iterable[FileState], now: int) -> bool:
    """Return whether a change after `now`, in nanoseconds, is certain to change the states."""
    return all(abs(now - modified) > SETTLED_AFTER for _, _, modified in states)
