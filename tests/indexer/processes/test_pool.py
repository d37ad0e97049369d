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

from indexer.errors import IndexerError, InvalidRecord, LeftOut, SourceError
from indexer.processes.pool import Pool, wait_for
from indexer.processes.resources import WORKER_MEMORY
from tests.support.artifacts import ids, snapshots
from tests.support.memory import anonymous_memory
from tests.support.running import PLAIN, ROOT, Build, service, write_lines
from tests.support.stuck_build import WORKERS
from tests.support.workers import (
    RUNNING,
    double,
    end_itself,
    fail,
    fail_with_full_disk,
    free,
    kill_itself,
    kill_itself_while_sending,
    meet,
    never_end,
    never_end_or_fail,
    process_id,
    several_cpus,
)

TIMEOUT = 60
"""Seconds."""
NEW_IDS = list("abcdef")
"""More records than workers, so that calls wait for a worker when the build is interrupted."""

ENDED = r"ended before its work was done; is there enough memory for it\?"
PLENTY = 2**40
"""Bytes of memory that do not limit the number of workers."""


def map_in_workers(function: Callable[..., Any], *tasks: tuple[Any, ...]) -> list[Any]:
    with Pool(2, PLENTY) as pool:
        return map_in(pool, function, *tasks)


def map_in(pool: Pool, function: Callable[..., Any], *tasks: tuple[Any, ...]) -> list[Any]:
    return pool.map(function, tasks, ignore, [1] * len(tasks))


def ignore(_: int) -> None:
    """Take no notice of progress."""


def submit(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of a call in a worker."""
    with Pool(2, PLENTY) as pool:
        return wait_for(pool.submit(function, *arguments))


@pytest.mark.parametrize("jobs", [1, 3])
def test_results_are_in_the_order_of_the_tasks_and_steps_are_counted(jobs: int) -> None:
    steps: list[int] = []
    with Pool(jobs, PLENTY) as pool:
        assert pool.map(double, [(3,), (1,), (2,)], steps.append, [3, 1, 2]) == [6, 2, 4]
        assert steps == [3, 1, 2]
        tasks = [(-number,) for number in range(20)]
        assert pool.map(abs, tasks, ignore, range(20)) == [*range(20)]


def test_tasks_run_side_by_side_in_processes_that_further_calls_use(tmp_path: Path) -> None:
    with Pool(2, PLENTY) as pool:
        ids = map_in(pool, meet, (tmp_path, "one", "other"), (tmp_path, "other", "one"))
        assert len({*ids, os.getpid()}) == 3
        assert all(wait_for(pool.submit(process_id)) in ids for _ in range(4))
    assert children().isdisjoint(map(str, ids))


def test_no_process_starts_before_it_is_needed() -> None:
    before = children()
    with Pool(3, PLENTY) as pool:
        assert map_in(pool, process_id, ()) == [os.getpid()]
        assert children() == before
        one = wait_for(pool.submit(process_id))
        assert wait_for(pool.submit(process_id)) == one
        assert str(one) in children()
    assert str(one) not in children()


def test_a_worker_returns_what_it_no_longer_uses() -> None:
    with Pool(2, 4 * WORKER_MEMORY) as pool:
        worker = wait_for(pool.submit(process_id))
        before = anonymous_memory(worker)
        assert wait_for(pool.submit(free, 2 * WORKER_MEMORY)) == worker
        assert anonymous_memory(worker) < before + WORKER_MEMORY // 4


def test_with_one_worker_calls_run_in_this_process() -> None:
    with Pool(1, PLENTY) as pool:
        assert wait_for(pool.submit(process_id)) == os.getpid()
        assert map_in(pool, process_id, (), ()) == [os.getpid()] * 2
        failed = pool.submit(fail_with_full_disk)
        with pytest.raises(OSError, match="No space left"):
            wait_for(failed)


ERRORS: list[BaseException] = [
    OSError(28, "No space left on device", "postings"),
    InvalidRecord("$.name", "is missing"),
    LeftOut("denied", "$.resource", "is denied"),
    SourceError("feed.json: is cut short"),
    EOFError("the file ends"),
    SystemExit(3),
    KeyboardInterrupt(),
]


def test_an_exception_of_a_worker_is_raised_as_it_is_and_the_worker_goes_on() -> None:
    with Pool(2, PLENTY) as pool:
        before = wait_for(pool.submit(process_id))
        for error in ERRORS:
            with pytest.raises(type(error)) as raised:
                wait_for(pool.submit(fail, error))
            assert str(raised.value) == str(error)
            assert vars(raised.value).items() >= vars(error).items()
            assert "in fail" in str(raised.value.__cause__)
        assert wait_for(pool.submit(process_id)) == before


@pytest.mark.parametrize("end", [kill_itself, kill_itself_while_sending])
def test_a_killed_worker_is_an_error_with_advice(end: Callable[..., Any]) -> None:
    with pytest.raises(IndexerError, match=ENDED):
        submit(end)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGTERM, 0, -3])
def test_a_worker_that_ends_otherwise_is_an_error_too(number: int) -> None:
    with pytest.raises(IndexerError, match=ENDED):
        submit(end_itself, number)


def test_a_failure_does_not_wait_for_the_other_workers() -> None:
    with pytest.raises(OSError, match="No space left"):
        map_in_workers(never_end_or_fail, (True,), (False,))


@pytest.mark.parametrize("closed", ["2>&-", "<&- 2>&-", "<&- >&- 2>&-"])
def test_workers_answer_where_standard_streams_are_closed(closed: str) -> None:
    program = (
        "from indexer.processes.pool import Pool, wait_for\n"
        "with Pool(2, 2**40) as pool:\n"
        "    assert wait_for(pool.submit(print, 'must not corrupt the result')) is None\n"
        "    assert wait_for(pool.submit(abs, -2)) == 2\n"
    )
    arguments = ["sh", "-c", f'exec "$0" -c "$1" {closed}', sys.executable, program]
    assert subprocess.run(arguments, cwd=ROOT, check=False, timeout=TIMEOUT).returncode == 0


def test_a_script_without_a_main_guard_runs_once(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "print('started', flush=True)\n"
        "from indexer.processes.pool import Pool\n"
        "with Pool(2, 2**40) as pool:\n"
        "    print(pool.map(abs, [(-1,), (-2,)], lambda _: None, [1, 1]))\n"
    )
    ran = subprocess.run(
        [sys.executable, script],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
        text=True,
        timeout=TIMEOUT,
    )
    assert (ran.stdout, ran.returncode) == ("started\n[1, 2]\n", 0), ran.stderr


ENDS: dict[str, tuple[Callable[..., Any], str]] = {
    "killed": (kill_itself, "ended before its work was done; is there enough memory for it?"),
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
    monkeypatch.setattr("indexer.derive.deriving.derive_part", function)
    with several_cpus(2):
        assert build([service("a"), service("b")], options=PLAIN) == 1
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
    monkeypatch.setattr("indexer.indexing.write_vectors", never_end)
    monkeypatch.setattr("indexer.indexing.compile_postings", fail)
    with several_cpus(2):
        assert build([service("a"), service("b")]) == 1
    assert children() == before
    assert snapshots(artifacts) == set()


def children() -> set[str]:
    """Return the ids of the child processes of this one."""
    tasks = Path("/proc/self/task").glob("*/children")
    return {child for task in tasks for child in task.read_text().split()}


@contextmanager
def stuck_build(stage: str, source: str, artifacts: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a build in its own session, with two workers of a stage that never end.

    All processes inherit its standard error, which is closed when all of them have ended.
    """
    program = [sys.executable, "-m", "tests.support.stuck_build"]
    with subprocess.Popen(
        [*program, stage, "build", source, "--out", str(artifacts), "--quiet", *PLAIN],
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


def terminate(process: subprocess.Popen[str]) -> None:
    process.terminate()


def press_ctrl_c(process: subprocess.Popen[str]) -> None:
    """Send the signal to the process group, as a terminal does."""
    os.killpg(process.pid, signal.SIGINT)


def interrupt_another_thread(process: subprocess.Popen[str]) -> None:
    """Deliver the signal to a thread other than the main one, as the kernel may."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


SIGNALS = {kill: signal.SIGKILL, terminate: signal.SIGTERM}
"""The signals that the build does not handle: the system ends its workers."""


@pytest.mark.parametrize(
    ("stage", "end"),
    [
        ("read", kill),
        ("read", press_ctrl_c),
        ("read", interrupt_another_thread),
        ("derive", terminate),
        ("derive", interrupt_another_thread),
    ],
)
def test_an_interrupted_build_leaves_no_process_and_the_next_build_succeeds(
    stage: str,
    end: Callable[[subprocess.Popen[str]], None],
    tmp_path: Path,
    artifacts: Path,
    build: Build,
) -> None:
    assert build([service("before")], options=PLAIN) == 0
    source = write_lines(tmp_path / "new.jsonl", [service(each) for each in NEW_IDS])
    with stuck_build(stage, source, artifacts) as process:
        end(process)
        _, reported = process.communicate(timeout=TIMEOUT)
    if end in SIGNALS:
        assert process.returncode == -SIGNALS[end]
        assert "Traceback" not in reported
    else:
        assert (process.returncode, reported) == (128 + signal.SIGINT, "error: interrupted\n")
    assert ids(artifacts) == ["before"]
    assert build(source, options=PLAIN) == 0
    assert ids(artifacts) == NEW_IDS
    assert not (artifacts / "staging").exists()
