"""The CPUs and the memory available to a build, with and without limits of a container."""

from __future__ import annotations

import mmap
import os
import re
from pathlib import Path

import pytest

from indexer.errors import Misuse
from indexer.processes.resources import (
    GIB,
    LEAST_MEMORY,
    LEAST_SHARE,
    MIB,
    WORKER_MEMORY,
    available_cpus,
    available_memory,
    duckdb_memory,
    plan_memory,
    worker_count,
)
from tests.support.memory import anonymous_memory

CPUS = len(os.sched_getaffinity(0))
MEMORY = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
V1 = "3:memory:/app\n2:cpu,cpuacct:/app\n1:name=systemd:/app\n0::/app\n"


def make_root(folder: Path, groups: str, files: dict[str, str]) -> Path:
    """Create a root folder with `/proc/self/cgroup` and files below `/sys/fs/cgroup`."""
    contents = {"proc/self/cgroup": groups}
    contents |= {f"sys/fs/cgroup/{name}": content for name, content in files.items()}
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


@pytest.mark.parametrize(
    ("groups", "files"),
    [
        ("0::/\n", {"cpu.max": "50000 100000\n"}),
        ("0::/app/build\n", {"app/cpu.max": "100000 100000\n", "app/build/cpu.max": "max 100000"}),
        ("0::/not/mounted/here\n", {"cpu.max": "90000 100000"}),
        (V1, {"cpu/app/cpu.cfs_quota_us": "40000\n", "cpu/app/cpu.cfs_period_us": "100000\n"}),
        (V1, {"cpu/cpu.cfs_quota_us": "100000\n", "cpu/cpu.cfs_period_us": "100000\n"}),
    ],
)
def test_a_cpu_quota_is_rounded_up_to_whole_cpus(
    tmp_path: Path, groups: str, files: dict[str, str]
) -> None:
    assert available_cpus(make_root(tmp_path, groups, files)) == 1


@pytest.mark.parametrize(
    ("groups", "files"),
    [
        ("0::/\n", {"cpu.max": "max 100000\n", "memory.max": "max\n"}),
        ("0::/\n", {"cpu.max": "6400000 100000\n", "memory.max": f"{2**60}\n"}),
        ("0::/\n", {}),
        (V1, {"cpu/app/cpu.cfs_quota_us": "-1\n", "cpu/app/cpu.cfs_period_us": "100000\n"}),
        (V1, {"memory/app/memory.limit_in_bytes": "9223372036854771712\n"}),
        ("", {}),
    ],
)
def test_without_a_limit_the_whole_machine_is_available(
    tmp_path: Path, groups: str, files: dict[str, str]
) -> None:
    root = make_root(tmp_path, groups, files)
    assert (available_cpus(root), available_memory(root)) == (CPUS, MEMORY)


def test_without_cgroups_the_whole_machine_is_available(tmp_path: Path) -> None:
    assert (available_cpus(tmp_path), available_memory(tmp_path)) == (CPUS, MEMORY)


def test_cpus_outside_the_affinity_of_the_process_do_not_count(tmp_path: Path) -> None:
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        assert available_cpus(tmp_path) == 1
    finally:
        os.sched_setaffinity(0, allowed)


@pytest.mark.parametrize(
    ("groups", "files"),
    [
        ("0::/\n", {"memory.max": f"{100 * MIB}\n"}),
        ("0::/app/build\n", {"app/memory.max": f"{100 * MIB}", "app/build/memory.max": "max"}),
        (V1, {"memory/app/memory.limit_in_bytes": f"{100 * MIB}\n"}),
        (V1, {"memory/memory.limit_in_bytes": f"{100 * MIB}\n"}),
    ],
)
def test_a_memory_limit_is_respected(tmp_path: Path, groups: str, files: dict[str, str]) -> None:
    assert available_memory(make_root(tmp_path, groups, files)) == 100 * MIB


def test_duckdb_uses_a_quarter_of_a_small_memory() -> None:
    assert duckdb_memory(64 * GIB) == GIB
    assert duckdb_memory(GIB) == 256 * MIB
    assert duckdb_memory(MIB) == LEAST_SHARE


def test_workers_are_limited_by_the_cpus_and_by_half_of_the_memory() -> None:
    assert worker_count(8, 64 * GIB) == 8
    assert worker_count(8, 8 * WORKER_MEMORY) == 4
    assert worker_count(8, WORKER_MEMORY) == 1


def test_a_build_takes_the_memory_that_it_is_given_if_that_is_enough() -> None:
    assert plan_memory(LEAST_MEMORY, 0) == LEAST_MEMORY
    assert plan_memory(9 * GIB, GIB) == 9 * GIB
    assert plan_memory(700 * MIB, 330 * MIB) == 700 * MIB


@pytest.mark.parametrize(
    ("memory", "size", "message"),
    [
        (64 * MIB, 0, "--memory 64M is less than the 256M that"),
        (GIB // 2, GIB, "--memory 512M is less than the 1280M that"),
        (100_000, 1, "--memory 0.09537M is less than the 257M that"),
    ],
)
def test_too_little_memory_is_refused_with_what_is_needed(
    memory: int, size: int, message: str
) -> None:
    with pytest.raises(Misuse, match=message) as raised:
        plan_memory(memory, size)
    needed = re.search(r"(\d+)M that", str(raised.value))
    assert needed is not None
    assert plan_memory(int(needed[1]) * MIB, size)


def test_the_default_is_bounded_by_a_gigabyte_and_by_half_of_what_is_available(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for available, memory in ((64 * GIB, GIB), (GIB, GIB // 2), (MIB, LEAST_MEMORY)):
        monkeypatch.setattr(
            "indexer.processes.resources.available_memory", lambda given=available: given
        )
        assert plan_memory(None, 0) == memory
        assert plan_memory(None, 3 * GIB) == LEAST_MEMORY + 3 * GIB


def test_the_memory_of_a_process_grows_with_its_objects_and_not_with_mapped_files(
    tmp_path: Path,
) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(64 * MIB))
    before = anonymous_memory(os.getpid())
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert not any(mapped[:: mmap.PAGESIZE])
        assert anonymous_memory(os.getpid()) < before + 32 * MIB
    # Pages of their own: a text may take those that the process has freed.
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    with mmap.mmap(-1, 64 * MIB, flags=private) as held:
        for page in range(0, len(held), mmap.PAGESIZE):
            held[page] = 1
        assert anonymous_memory(os.getpid()) > before + len(held) // 2
    assert anonymous_memory(2**30) == 0
