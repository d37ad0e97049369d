"""The CPUs and the memory available to a build, with and without limits of a container."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from indexer.processes.resources import (
    GIB,
    LEAST_MEMORY,
    MIB,
    available_cpus,
    available_memory,
    duckdb_memory,
    whoosh_memory,
    worker_count,
)

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


def test_duckdb_and_whoosh_each_use_a_quarter_of_a_small_memory() -> None:
    assert duckdb_memory(64 * GIB) == GIB
    assert whoosh_memory(64 * GIB, parts=8) == 256 * MIB
    assert duckdb_memory(GIB) == 256 * MIB
    assert whoosh_memory(GIB, parts=2) == 128 * MIB
    assert duckdb_memory(MIB) == whoosh_memory(MIB, parts=9) == LEAST_MEMORY


def test_cpus_and_memory_limit_the_number_of_workers() -> None:
    assert worker_count(8, 64 * GIB) == 8
    assert worker_count(8, 4 * GIB) == 4
    assert worker_count(8, GIB // 2) == 1
