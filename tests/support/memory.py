"""The anonymous memory of a process and of its descendants."""

from __future__ import annotations

from pathlib import Path

from indexer.processes.resources import anonymous_memory


def tree_memory(pid: int) -> list[int]:
    """Return the bytes of a process, then of each of its descendants."""
    return [anonymous_memory(each) for each in _process_tree(pid)]


def _process_tree(pid: int) -> list[int]:
    """Return a process and its descendants, whichever of its threads started them."""
    members = [pid]
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = thread.read_text().split()
        except OSError:  # the thread has ended
            continue
        members += (member for child in children for member in _process_tree(int(child)))
    return members
