"""The anonymous memory of a process and of its descendants, as Linux counts it.

Mapped files are not counted: the kernel drops their pages and reads them again.
"""

from __future__ import annotations

from pathlib import Path


def tree_memory(pid: int) -> list[int]:
    """Return the bytes of a process, then of each of its descendants."""
    return [_anonymous_bytes(each) for each in _process_tree(pid)]


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


def _anonymous_bytes(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:  # the process has ended
        return 0
    lines = [line.split() for line in status.splitlines() if line.startswith("RssAnon:")]
    return 1024 * int(lines[0][1]) if lines else 0  # a zombie has no such line
