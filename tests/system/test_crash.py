"""Faults in a build: killing it, and failing its system calls, while it publishes."""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

import httpx
import numpy as np
import pytest

from indexer import __main__ as program
from indexer import build as pipeline
from indexer.snapshot.publish import KEPT, list_files
from service.snapshot.manifest import verify
from service.snapshot.publication import HISTORY, SNAPSHOTS, read_current
from service.snapshot.snapshot import open_snapshot
from tests.support.artifacts import snapshots
from tests.support.running import ROOT, SOAK, eventually, run_indexer, serve, service, write_lines

LIMIT = 30
"""Seconds until a wait fails."""

KILLED = "signal=SIGKILL"
FAILED = ("error=ENOSPC", "error=EIO", "error=EACCES")
FAULTS = (KILLED, *FAILED)
WRITES = 20
CALLS = "%file,%desc"
"""System calls on files."""

MEMORY = "mmap"
"""Allocations, whose number varies."""

SYNC = "fsync"
PUBLISHED = ("first", "second", "old")
LASTING = {".lock", "CURRENT", "history.json", "last.json", SNAPSHOTS}
PATHS = ("/v1/services", "/v1/search/services?q=one", "/v1/services/one", "/v1/ecosystem/overview")

Answer = tuple[int, str, bytes]


class Call(NamedTuple):
    """A system call of a traced build: its name, and how many of that name there are up to it."""

    name: str
    number: int
    line: str


class Ended(NamedTuple):
    """How a build ended: its exit status, or minus a signal, and its standard error."""

    status: int
    stderr: str


class Builds:
    """Runs builds in forks of a process that has built before, which saves the imports."""

    def __init__(self, folder: Path) -> None:
        self._stderr = folder / "stderr"
        self._forking = subprocess.Popen(
            [sys.executable, "-m", "tests.system.test_crash", folder, self._stderr],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},  # a fork has one thread
        )

    def close(self) -> None:
        """Kill the process and its forks."""
        os.killpg(self._forking.pid, signal.SIGKILL)
        self._forking.communicate()

    def run(self, source: str, artifacts: Path) -> Ended:
        """Build undisturbed."""
        self._start("", source, artifacts)
        return self._end()

    @contextmanager
    def stopped(self, begin: str, source: str, artifacts: Path) -> Iterator[int]:
        """Yield the id of a build that is stopped where a function of the program begins."""
        pid = self._start(begin, source, artifacts)
        yield pid
        self._go_on(pid)
        assert self._end() == Ended(0, "")

    def trace(self, begin: str, source: str, artifacts: Path, *options: str) -> Ended:
        """Build under strace from where a function of the program begins."""
        pid = self._start(begin, source, artifacts)
        with subprocess.Popen(
            ["strace", "-p", str(pid), *options],  # noqa: S607  # wherever it is
            stderr=subprocess.PIPE,
            text=True,
        ) as strace:
            assert strace.stderr is not None
            attached = strace.stderr.readline()
            self._go_on(pid)
            ended = self._end()
            strace.stderr.read()
        assert attached == f"strace: Process {pid} attached\n"
        return ended

    def _start(self, begin: str, source: str, artifacts: Path) -> int:
        assert self._forking.stdin is not None
        self._forking.stdin.write(f"{begin}\t{source}\t{artifacts}\n".encode())
        return self._answer()

    def _go_on(self, pid: int) -> None:
        os.kill(pid, signal.SIGCONT)

    def _end(self) -> Ended:
        return Ended(self._answer(), self._stderr.read_text())

    def _answer(self) -> int:
        assert self._forking.stdout is not None
        assert select.select([self._forking.stdout], [], [], LIMIT)[0], "the build hangs"
        return int(self._forking.stdout.readline())


def fork_builds(folder: Path, stderr: Path) -> None:
    """Run as the process of `Builds`: build for each line of input, write its id and its status.

    A build that is not traced does not wait for the disk.
    """
    source = write_lines(folder / "warm.jsonl", [service("warm")])
    assert program.main(["build", source, "--out", str(folder / "warm"), "--quiet"]) == 0
    for line in sys.stdin:
        begin, source, artifacts = line.rstrip("\n").split("\t")
        pid = os.fork()
        if pid == 0:
            os.dup2(os.open(stderr, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), sys.stderr.fileno())
            if begin:
                stop_at(begin)
            else:
                pytest.MonkeyPatch().setattr(os, "fsync", lambda _: None)
            os._exit(program.main(["build", source, "--out", artifacts, "--quiet"]))
        if begin:
            os.waitpid(pid, os.WUNTRACED)
        print(pid, flush=True)  # noqa: T201  # this and the next line are the answer
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)  # noqa: T201  # see above


def stop_at(begin: str) -> None:
    """Stop this process (SIGSTOP) where a function of the program begins."""
    really_begin = getattr(pipeline, begin)

    def stop_and_begin(*arguments: object) -> object:
        os.kill(os.getpid(), signal.SIGSTOP)
        return really_begin(*arguments)

    setattr(pipeline, begin, stop_and_begin)


class World:
    """Artifacts that a service serves, and builds that suffer faults in them.

    The snapshots `first`, `second` and `old` were published there in this order. Builds try to
    publish `new`; `other` may come next.
    """

    def __init__(self, folder: Path, builds: Builds) -> None:
        self.artifacts = folder / "artifacts"
        self._builds = builds
        self._elsewhere = folder / "elsewhere"
        self._sources = {name: source(folder, name) for name in (*PUBLISHED, "new", "other")}
        self._ids = {name: self._publish(name, self._elsewhere) for name in ("other", "new")}
        with serve(self._elsewhere) as client:
            self._right = {self._ids["new"]: dict(answers(client))}
        self._ids |= {name: self._publish(name, self.artifacts) for name in PUBLISHED}
        self._pristine = folder / "pristine"
        link(self.artifacts, self._pristine)
        self._served = {self._ids["old"]}  # snapshots that CURRENT named

    def meet(self, client: httpx.Client) -> None:
        """Use this client from now on; its answers now are the right ones."""
        self._client = client
        self._right[self._ids["old"]] = dict(answers(client))

    def calls(self, begin: str, traced: str) -> list[Call]:
        """Return the system calls of an undisturbed build of `new`, from a function on."""
        link(self.artifacts, self._elsewhere)
        trace = self._elsewhere.with_name("trace")
        options = ("-e", f"trace={traced}", "-o", str(trace))
        ended = self._builds.trace(begin, self._sources["new"], self._elsewhere, *options)
        assert ended == Ended(0, "")
        numbers: Counter[str] = Counter()
        calls = []
        for name, rest in re.findall(r"^(\w+)\((.*)", trace.read_text(), re.MULTILINE):
            numbers[name] += 1
            calls.append(Call(name, numbers[name], rest))
        return [call for call in calls if call.name != MEMORY]

    def suffer(self, begin: str, call: Call, fault: str) -> None:
        """Build `new` with a fault at a system call; check what is left, and the next builds."""
        print(begin, call, fault)  # noqa: T201  # shown when the test fails
        options = ["-o", os.devnull, "-e", f"trace={call.name},{SYNC}"]
        options += ["-e", f"inject={call.name}:{fault}:when={call.number}"]
        if call.name != SYNC:  # the syncs need not wait for the disk
            options += ["-e", f"inject={SYNC}:retval=0"]
        ended = self._builds.trace(begin, self._sources["new"], self.artifacts, *options)
        served, _ = read_current(self.artifacts)
        history = [*PUBLISHED, "new"] if served == self._ids["new"] else [*PUBLISHED]
        self._served.add(served)
        self._check_served(served, self._ids[history[-1]])
        self._check_end(ended, fault, history[-1])
        link(self.artifacts, self._elsewhere)
        following = "new" if call.number % 2 else "other"
        before = [name for name in history if name != following][-1]
        self._check_next_build(following, history, self._elsewhere)
        assert program.main(["rollback", str(self._elsewhere)]) == 0
        assert read_current(self._elsewhere)[0] == self._ids[before]
        self._check_next_build("old", history, self.artifacts)
        self._reset()

    def settle(self) -> None:
        """Wait until the service serves `old` again."""
        right = self._right[self._ids["old"]]
        eventually(lambda: dict(answers(self._client)) == right, LIMIT)
        self._served = {self._ids["old"]}

    def _publish(self, name: str, artifacts: Path) -> str:
        assert self._builds.run(self._sources[name], artifacts) == Ended(0, "")
        return read_current(artifacts)[0]

    def _check_served(self, served: str, expected: str) -> None:
        assert served == expected
        verify(self.artifacts / SNAPSHOTS / served)
        assert open_snapshot(self.artifacts).id == served
        for path, answer in answers(self._client):
            assert answer[1] in self._served
            assert answer == self._right[answer[1]][path]

    def _check_end(self, ended: Ended, fault: str, served: str) -> None:
        """Check that a build reports a fault in one line, and whether it published."""
        if fault == KILLED:
            assert ended == Ended(-signal.SIGKILL, "")
        elif served == "old":
            assert ended.status == 1
            assert re.fullmatch(r"error: .+; what was published before stays\n", ended.stderr)
        elif ended.status:
            assert re.fullmatch(rf"error: .+; {self._ids['new']} is served, [^;]+\n", ended.stderr)
        else:
            assert re.fullmatch(r"(warning: .+\n)?", ended.stderr)

    def _check_next_build(self, name: str, history: Sequence[str], artifacts: Path) -> None:
        """Check that a build publishes, and leaves the last three publications and nothing else."""
        assert self._publish(name, artifacts) == self._ids[name]
        published = [*(earlier for earlier in history if earlier != name), name]
        assert snapshots(artifacts) == {self._ids[kept] for kept in published[-KEPT:]}
        assert {path.name for path in artifacts.iterdir()} == LASTING
        for snapshot_id in snapshots(artifacts):
            verify(artifacts / SNAPSHOTS / snapshot_id)

    def _reset(self) -> None:
        """Restore the snapshots and the history; `old` is served already."""
        present, expected = snapshots(self.artifacts), snapshots(self._pristine)
        for snapshot_id in present - expected:
            shutil.rmtree(self.artifacts / SNAPSHOTS / snapshot_id)
        for snapshot_id in expected - present:
            link(*(root / SNAPSHOTS / snapshot_id for root in (self._pristine, self.artifacts)))
        (self.artifacts / HISTORY).unlink()
        os.link(self._pristine / HISTORY, self.artifacts / HISTORY)


def answers(client: httpx.Client) -> Iterator[tuple[str, Answer]]:
    """Yield some paths, each with the status, snapshot and body of its response."""
    for path in PATHS:
        response = client.get(path)
        yield path, (response.status_code, response.headers["ratecard-snapshot"], response.content)


def link(folder: Path, copy: Path) -> None:
    """Copy a folder whose files are never written to again."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy, copy_function=os.link)


def source(folder: Path, name: str) -> str:
    return write_lines(folder / f"{name}.jsonl", [service("one", name=f"One {name}")])


def sample(calls: Sequence[Call], number: int) -> list[Call]:
    """Return `number` of the calls, evenly spread."""
    return [calls[len(calls) * each // number] for each in range(number)]


def faults(calls: Sequence[Call], some: Sequence[Call]) -> Iterator[tuple[Call, str]]:
    """Yield each fault at each call in a soak; otherwise a kill and one failure at some of them."""
    failed = cycle(FAILED)
    for call in calls if SOAK else some:
        for fault in FAULTS if SOAK else (KILLED, next(failed)):
            yield call, fault


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builds]:
    builds = Builds(tmp_path_factory.mktemp("builds"))
    yield builds
    builds.close()


@pytest.fixture(scope="module")
def world(builds: Builds, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    try:
        command = ["strace", "-o", os.devnull, "true"]
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        missing = f"faults are injected by strace, which cannot be run: {error}"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    world = World(tmp_path_factory.mktemp("world"), builds)
    with serve(world.artifacts, "--max-lag", "0") as client:  # however busy this machine is
        world.meet(client)
        yield world


@pytest.mark.soak
def test_a_fault_while_the_snapshot_is_written_changes_nothing(world: World) -> None:
    calls = world.calls("build_within", f"write,{SYNC}")
    written = [call.name for call in calls].index(SYNC)
    writes = sample(calls[:written], WRITES)
    for call, fault in faults(writes, sample(writes, 4)):
        world.suffer("build_within", call, fault)


@pytest.mark.soak
def test_a_fault_while_the_snapshot_is_published_loses_nothing(world: World) -> None:
    calls = world.calls("publish", CALLS)
    renames = [call for call in calls if call.name.startswith("rename")]
    assert len(renames) >= 4
    last_sync = [call for call in calls if call.name == SYNC][-1]
    some = {*renames, last_sync, *sample(calls, 5)}
    for call, fault in faults(calls, sorted(some, key=calls.index)):
        world.suffer("publish", call, fault)
    world.settle()


def test_an_array_that_a_full_disk_cut_short_is_not_published(tmp_path: Path) -> None:
    array = tmp_path / "array.npy"
    np.save(array, np.arange(3))
    assert list_files(tmp_path)
    array.write_bytes(array.read_bytes()[:-1])
    with pytest.raises(OSError, match="was not written whole") as raised:
        list_files(tmp_path)
    assert raised.value.filename == str(array)


def test_a_second_build_at_the_same_time_is_refused_in_words(
    builds: Builds, tmp_path: Path
) -> None:
    old, new, other = (source(tmp_path, name) for name in ("old", "new", "other"))
    artifacts = tmp_path / "artifacts"
    assert builds.run(old, artifacts) == Ended(0, "")
    with builds.stopped("publish", new, artifacts):
        for command in (("build", other, "--out", artifacts), ("rollback", artifacts)):
            refused = run_indexer(*command)
            assert refused.returncode == 1
            assert refused.stderr == (
                f"error: another build is at work in {artifacts}; try again when it ends\n"
            )
    service = open_snapshot(artifacts).find("one")
    assert service is not None
    assert b"One new" in service


if __name__ == "__main__":
    fork_builds(*map(Path, sys.argv[1:]))
