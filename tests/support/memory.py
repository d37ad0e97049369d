"""The anonymous memory of a process and of its descendants."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from indexer.processes.resources import anonymous_memory


def tree_memory(pid: int) -> list[int]:
    """Return the bytes of a process, then of each of its descendants."""
    return [anonymous_memory(each) for each in _process_tree(pid)]


def _process_tree(pid: int) -> list[int]:
    """Return a process and its descendants, whichever of its threads started them.

    A child that has not yet executed its own program shares the memory of its parent, and is none.
    """
    members = [pid]
    with suppress(OSError):  # a thread or a process has ended
        program = _command_line(pid)
        for thread in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in map(int, thread.read_text().split()):
                if _command_line(child) != program:
                    members += _process_tree(child)
    return members


def _command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()
