"""Worker processes: their results, their failures, and their end with the build."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest

from indexer.errors import IndexerError
from indexer.processes.pool import start_workers
from tests.support.artifacts import ids, snapshots
from tests.support.running import ROOT, Build, service, write_lines
from tests.support.stuck_build import FUNCTIONS, WORKERS
from tests.support.workers import (
    RUNNING,
    double,
    fail_with_full_disk,
    kill_itself,
    kill_itself_while_sending,
    never_end,
    never_end_or_fail,
    process_id,
    several_cpus,
)

TIMEOUT = 60
"""Seconds."""
NEW_IDS = list("abcdef")
"""More records than workers, so that calls wait for a worker when the build is interrupted."""


def run(function: Callable[..., Any], *tasks: tuple[Any, ...]) -> tuple[list[Any], int]:
    """Return the results of workers, and the sum of the steps that they reported."""
    steps: list[int] = []
    with start_workers(function, tasks, steps.append) as results:
        return results(), sum(steps)


def test_results_are_in_the_order_of_the_tasks_and_steps_are_counted() -> None:
    assert run(double, (3,), (1,), (2,)) == ([6, 2, 4], 6)


def test_each_task_runs_in_its_own_process() -> None:
    (one, other), _ = run(process_id, (), ())
    assert len({one, other, os.getpid()}) == 3


def test_an_exception_of_a_worker_is_raised() -> None:
    with pytest.raises(OSError, match="No space left") as raised:
        run(fail_with_full_disk, ())
    assert raised.value.filename == "postings"


@pytest.mark.parametrize("end", [kill_itself, kill_itself_while_sending])
def test_a_killed_worker_is_an_error_with_advice(end: Callable[..., Any]) -> None:
    message = r"a process of this build was ended \(-\d+\); is there enough memory for it\?"
    with pytest.raises(IndexerError, match=message):
        run(end, (), ())


def test_a_failure_does_not_wait_for_the_other_workers() -> None:
    with pytest.raises(OSError, match="No space left"):
        run(never_end_or_fail, (True,), (False,))


ENDS: dict[str, tuple[Callable[..., Any], str]] = {
    "killed": (kill_itself, "a process of this build was ended (-9); is there enough memory"),
    "out of room": (
        fail_with_full_disk,
        "postings: No space left on device; what was published before",
    ),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_worker_that_ends_early_fails_the_build_with_an_error(
    end: str,
    artifacts: Path,
    build: Build,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    function, message = ENDS[end]
    monkeypatch.setattr("indexer.segments.indexing.index_services", function)
    with several_cpus(3):
        assert build([service("a"), service("b"), service("c")]) == 1
    reported = capsys.readouterr().err
    assert message in reported
    assert "Traceback" not in reported
    assert snapshots(artifacts) == set()
    assert sorted(path.name for path in artifacts.iterdir()) == [".lock", "snapshots"]


def test_a_failing_build_ends_its_workers(
    artifacts: Path, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> NoReturn:
        raise OSError(28, "No space left on device")

    before = children()
    monkeypatch.setattr("indexer.indexing._write_vectors", never_end)
    monkeypatch.setattr("indexer.indexing.write_filters", fail)
    with several_cpus(2):
        assert build([service("a"), service("b")]) == 1
    assert children() == before
    assert snapshots(artifacts) == set()


def children() -> set[str]:
    """Return the ids of the child processes of this one."""
    tasks = Path("/proc/self/task").glob("*/children")
    return {child for task in tasks for child in task.read_text().split()}


def test_workers_do_not_run_the_program_that_builds(tmp_path: Path, artifacts: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import os, sys\n"
        "from indexer.__main__ import main\n"
        "from indexer.segments import indexing\n"
        "os.sched_getaffinity = lambda _: {0, 1}\n"
        "indexing.SMALLEST_PART = 1\n"
        "print('the program runs')\n"
        "main(sys.argv[1:])\n"
    )
    source = write_lines(tmp_path / "source.jsonl", [service("a"), service("b")])
    process = subprocess.run(
        [sys.executable, program, "build", source, "--out", artifacts, "--quiet"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout == "the program runs\n"
    assert ids(artifacts) == ["a", "b"]


@contextmanager
def stuck_build(stage: str, source: str, artifacts: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a build in its own session, with two workers of a stage that never end.

    All processes inherit its standard error, which is closed when all of them have ended.
    """
    program = [sys.executable, "-m", "tests.support.stuck_build"]
    with subprocess.Popen(
        [*program, stage, "build", source, "--out", str(artifacts)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert process.stderr is not None
            lines = [process.stderr.readline() for _ in range(WORKERS)]
            assert lines == [f"{RUNNING}\n"] * WORKERS
            yield process
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()


def press_ctrl_c(process: subprocess.Popen[str]) -> None:
    """Send the signal to the process group, as a terminal does."""
    os.killpg(process.pid, signal.SIGINT)


def interrupt_another_thread(process: subprocess.Popen[str]) -> None:
    """Deliver the signal to a thread other than the main one, as the kernel may."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


@pytest.mark.parametrize("stage", FUNCTIONS)
@pytest.mark.parametrize("end", [kill, press_ctrl_c, interrupt_another_thread])
def test_an_interrupted_build_leaves_no_process_and_the_next_build_succeeds(
    end: Callable[[subprocess.Popen[str]], None],
    stage: str,
    tmp_path: Path,
    artifacts: Path,
    build: Build,
) -> None:
    assert build([service("before")]) == 0
    source = write_lines(tmp_path / "new.jsonl", [service(each) for each in NEW_IDS])
    with stuck_build(stage, source, artifacts) as process:
        end(process)
        _, reported = process.communicate(timeout=TIMEOUT)
    if end is kill:
        assert (process.returncode, reported) == (-signal.SIGKILL, "")
    else:
        assert (process.returncode, reported) == (128 + signal.SIGINT, "error: interrupted\n")
    assert ids(artifacts) == ["before"]
    assert build(source) == 0
    assert ids(artifacts) == NEW_IDS
    assert not (artifacts / "staging").exists()
