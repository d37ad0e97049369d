"""The CPUs and the memory of a build, also inside a container.

`os.cpu_count()` and the size of the physical memory ignore the limits of a Linux control group
(cgroup), so that a build on two CPUs of a 64-core host would start 64 processes and be killed.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from indexer.errors import Misuse

ROOT = Path("/")
LIBC = ctypes.CDLL(None)
MIB, GIB = 2**20, 2**30

DUCKDB_MEMORY = GIB
"""Bytes that DuckDB gets at most; it spills to disk beyond them."""
LEAST_SHARE = 64 * MIB
"""Bytes that DuckDB gets at least; it does not work with much less."""
LEAST_MEMORY = 256 * MIB
"""Bytes that a build of a small catalogue needs: the interpreter, its libraries and DuckDB."""
MEMORY_PER_BYTE = 1
"""Bytes that a build needs for each byte of its sources."""
DEFAULT_MEMORY = GIB
"""Bytes that a build uses at most without `--memory`, where its sources need no more."""
WORKER_MEMORY = 96 * MIB
"""Bytes that a worker takes, its interpreter and its largest task together."""

GC_THRESHOLDS = (100_000, 50, 100)
"""For `gc.set_threshold`: a build makes few reference cycles, and to search for them at the default
thresholds takes a sixth of its time."""


def available_cpus(root: Path = ROOT) -> int:
    """Return how many CPUs this process may use.

    The lesser of its affinity and the CPU quota of its cgroup, rounded up. `root` is
    the root of the file system that describes the cgroups.
    """
    cpus = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    quotas = (_cpu_quota(folder) for folder in _cgroups("cpu", root))
    return max(1, math.ceil(min([cpus, *quotas])))


def available_memory(root: Path = ROOT) -> int:
    """Return how many bytes of memory this process may use: the physical memory or its cgroup's."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = (_memory_limit(folder) for folder in _cgroups("memory", root))
    return int(min([physical, *limits]))


def plan_memory(memory: int | None, size: int) -> int:
    """Return the bytes that a build of `size` bytes of sources may use: `memory`, or the default.

    Raises Misuse where `memory` is less than the build needs.
    """
    least = LEAST_MEMORY + MEMORY_PER_BYTE * size
    if memory is None:
        return max(least, min(DEFAULT_MEMORY, available_memory() // 2))
    if memory < least:
        needed = math.ceil(least / MIB)
        raise Misuse(
            f"--memory {memory / MIB:.4g}M is less than the {needed}M that a build of these "
            "sources needs"
        )
    return memory


def duckdb_memory(memory: int) -> int:
    """Return the bytes for DuckDB (`memory_limit`) in a build that may use `memory` bytes."""
    return max(LEAST_SHARE, min(DUCKDB_MEMORY, memory // 4))


def worker_count(jobs: int, memory: int) -> int:
    """Return how many workers fit: at most `jobs`, and at most half of the memory."""
    return max(1, min(jobs, memory // 2 // WORKER_MEMORY))


def release_memory() -> None:
    """Return free memory to the system: the allocator of glibc keeps it for this process."""
    with suppress(AttributeError):  # another C library
        LIBC.malloc_trim(0)


def _cgroups(controller: str, root: Path) -> Iterator[Path]:
    """Yield the folder of this process's cgroup and of each cgroup above it: all limits apply.

    cgroup v2 has one hierarchy, v1 one for each controller. In a container that sees the path of
    the host, only the mount point exists, which then is the container's own cgroup.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:  # no Linux
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        mount = root / "sys/fs/cgroup"
        if controllers:
            mount /= controller
        if not controllers or controller in controllers.split(","):
            group = Path(path.lstrip("/"))
            yield from (mount / parent for parent in (group, *group.parents))


def _cpu_quota(cgroup: Path) -> float:
    for names in (["cpu.max"], ["cpu.cfs_quota_us", "cpu.cfs_period_us"]):  # v2, v1
        quota, *period = _words(cgroup, names)
        if quota.isdecimal():
            return int(quota) / int(*period)
    return math.inf


def _memory_limit(cgroup: Path) -> float:
    limits = [*_words(cgroup, ["memory.max"]), *_words(cgroup, ["memory.limit_in_bytes"])]
    return min((int(limit) for limit in limits if limit.isdecimal()), default=math.inf)


def _words(cgroup: Path, names: list[str]) -> list[str]:
    try:
        return " ".join((cgroup / name).read_text() for name in names).split()
    except OSError:  # this hierarchy has no such limit
        return ["none"]
