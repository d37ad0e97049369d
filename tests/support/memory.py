"""The anonymous memory of a process and of its descendants."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def anonymous_memory(pid: int) -> int:
    """Return the bytes of a process that no file backs; 0 where it has ended, or without Linux.

    Pages of mapped files do not count: the kernel drops them and reads them again.
    """
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    sizes = [line.split()[1] for line in status.splitlines() if line.startswith("RssAnon:")]
    return 1024 * int(sizes[0]) if sizes else 0  # a zombie has no such line


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
