"""Crash safety: builds that are killed, or whose system calls fail, at each of these calls.

`tests/system/test_every_crash.py` tries what a power cut leaves of a publication.
"""

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
from itertools import product
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from indexer import __main__ as program
from indexer import build as pipeline
from indexer.derive.reuse import REUSE
from service.artifacts.publishing import DOWNLOADS, KEPT, WHOOSH
from service.snapshot.manifest import verify
from service.snapshot.publication import SNAPSHOTS, read_current
from service.snapshot.snapshot import open_snapshot
from tests.support.artifacts import snapshots
from tests.support.publishing import look_at_downloads
from tests.support.running import ROOT, SOAK, eventually, serve, service, write_lines

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(not SOAK, reason="thousands of builds, for `make soak`"),
]

TIMEOUT = 30
"""Seconds."""

KILL = "signal=SIGKILL"
ERRORS = ("error=ENOSPC", "error=EIO", "error=EACCES")
FAULTS = (KILL, *ERRORS)
CALLS = "%file,%desc"
"""Classes of system calls on files, for strace."""
UNCHANGED_SERVICES = 20
"""Services that all snapshots have, so that builds reuse their segments."""

ALLOCATION = "mmap"
"""A call that is excluded, as its number varies from run to run."""

SYNC = "fsync"
PUBLISHED = ("first", "second", "old")
FILES = {
    ".lock",
    "CURRENT",
    "last.json",
    SNAPSHOTS,
    DOWNLOADS,
    REUSE,
    WHOOSH,
    "sources",
    "sources.json",
}
PATHS = ("/v1/services", "/v1/search/services?q=one", "/v1/services/one", "/v1/ecosystem/overview")

Response = tuple[int, str, bytes]
"""Status, snapshot and body."""


class Call(NamedTuple):
    """A system call of a traced build: its name, and its number among the calls of that name."""

    name: str
    number: int
    line: str


class Outcome(NamedTuple):
    """The exit status of a build (negative for a signal) and its standard error."""

    status: int
    stderr: str


class Builds:
    """Runs builds in forks of a process that has imported the indexer, which saves time."""

    def __init__(self, folder: Path) -> None:
        self._stderr = folder / "stderr"
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.soak.test_crash", folder, self._stderr],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},  # threads do not survive a fork
        )

    def close(self) -> None:
        """Kill the process and its forks."""
        os.killpg(self._server.pid, signal.SIGKILL)
        self._server.communicate()

    def run(self, source: str, artifacts: Path) -> Outcome:
        """Build without faults."""
        self._start("", source, artifacts)
        return self._wait()

    def trace(self, function: str, source: str, artifacts: Path, *options: str) -> Outcome:
        """Build under strace from the start of a function."""
        pid = self._start(function, source, artifacts)
        with subprocess.Popen(
            ["strace", "-p", str(pid), *options],  # noqa: S607  # found on the path
            stderr=subprocess.PIPE,
            text=True,
        ) as strace:
            assert strace.stderr is not None
            attached = strace.stderr.readline()
            self._resume(pid)
            outcome = self._wait()
            strace.stderr.read()
        assert attached == f"strace: Process {pid} attached\n"
        return outcome

    def _start(self, function: str, source: str, artifacts: Path) -> int:
        assert self._server.stdin is not None
        self._server.stdin.write(f"{function}\t{source}\t{artifacts}\n".encode())
        return self._read_number()

    def _resume(self, pid: int) -> None:
        os.kill(pid, signal.SIGCONT)

    def _wait(self) -> Outcome:
        return Outcome(self._read_number(), self._stderr.read_text())

    def _read_number(self) -> int:
        assert self._server.stdout is not None
        assert select.select([self._server.stdout], [], [], TIMEOUT)[0], "the build hangs"
        return int(self._server.stdout.readline())


def fork_builds(folder: Path, stderr: Path) -> None:
    """Run as the server process of `Builds`.

    Build for each line of input, and print the process id and the exit status of the build. Builds
    without a function to stop at skip fsync.
    """
    source = write_lines(folder / "warm.jsonl", [service("warm")])
    assert program.main(["build", source, "--out", str(folder / "warm"), "--quiet"]) == 0
    for line in sys.stdin:
        function, source, artifacts = line.rstrip("\n").split("\t")
        pid = os.fork()
        if pid == 0:
            os.dup2(os.open(stderr, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), sys.stderr.fileno())
            if function:
                stop_at(function)
            else:
                pytest.MonkeyPatch().setattr(os, "fsync", lambda _: None)
            os._exit(program.main(["build", source, "--out", artifacts, "--quiet"]))
        if function:
            os.waitpid(pid, os.WUNTRACED)
        print(pid, flush=True)  # noqa: T201  # read by `Builds`
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)  # noqa: T201  # read by `Builds`


def stop_at(name: str) -> None:
    """Stop this process (SIGSTOP) at the start of a function of `indexer.build`."""
    function = getattr(pipeline, name)

    def stop_and_call(*arguments: object) -> object:
        os.kill(os.getpid(), signal.SIGSTOP)
        return function(*arguments)

    setattr(pipeline, name, stop_and_call)


class FaultInjector:
    """Injects faults into builds of artifacts that a service serves.

    The snapshots `first`, `second` and `old` are published in this order. Faulty builds publish
    `new`; a build without faults publishes `new` or `other` afterwards. Each of them reuses
    what those before left, and has the files of a build from nothing.
    """

    def __init__(self, folder: Path, builds: Builds) -> None:
        self.artifacts = folder / "artifacts"
        self._builds = builds
        self._copy = folder / "copy"
        self._sources = {name: source(folder, name) for name in (*PUBLISHED, "new", "other")}
        roots = {name: folder / "from nothing" / name for name in self._sources}
        self._ids = {name: self._publish(name, root) for name, root in roots.items()}
        self._hashes = {self._ids[name]: served_hashes(root) for name, root in roots.items()}
        with serve(roots["new"]) as client:
            self._expected = {self._ids["new"]: dict(fetch_all(client))}
        for name in PUBLISHED:
            assert self._publish(name, self.artifacts) == self._ids[name]
        self._pristine = folder / "pristine"
        link(self.artifacts, self._pristine)
        self._served = {self._ids["old"]}  # snapshots that CURRENT has named

    def use(self, client: httpx.Client) -> None:
        """Use this client from now on; expect its present responses."""
        self._client = client
        self._expected[self._ids["old"]] = dict(fetch_all(client))

    def calls(self, function: str, traced: str, *options: str) -> list[Call]:
        """Return the system calls of a build of `new` from a function on; options are of strace."""
        link(self.artifacts, self._copy)
        trace = self._copy.with_name("trace")
        options = ("-e", f"trace={traced}", "-o", str(trace), *options)
        outcome = self._builds.trace(function, self._sources["new"], self._copy, *options)
        assert outcome == Outcome(0, "")
        numbers: Counter[str] = Counter()
        calls = []
        for name, line in re.findall(r"^(\w+)\((.*)", trace.read_text(), re.MULTILINE):
            numbers[name] += 1
            calls.append(Call(name, numbers[name], line))
        return [call for call in calls if call.name != ALLOCATION]

    def inject(self, function: str, call: Call, fault: str, *others: str) -> None:
        """Build `new` with a fault at a system call; check the artifacts and the next builds.

        `others` are more options of strace that inject faults.
        """
        print(function, call, fault)  # noqa: T201  # shown when the test fails
        options = ["-o", os.devnull, "-e", f"trace={call.name},{SYNC}"]
        options += ["-e", f"inject={call.name}:{fault}:when={call.number}"]
        if call.name != SYNC:  # skip fsync
            options += ["-e", f"inject={SYNC}:retval=0"]
        options += others
        outcome = self._builds.trace(function, self._sources["new"], self.artifacts, *options)
        served, _ = read_current(self.artifacts)
        history = [*PUBLISHED, "new"] if served == self._ids["new"] else [*PUBLISHED]
        self._served.add(served)
        self._check_served(served, self._ids[history[-1]])
        self._check_outcome(outcome, fault, history[-1])
        if (self.artifacts / SNAPSHOTS / self._ids["new"]).exists():
            history = [*PUBLISHED, "new"]  # kept, also where CURRENT does not name it yet
        link(self.artifacts, self._copy)
        next_name = "new" if call.number % 2 else "other"
        before = [name for name in history if name != next_name][-1]
        self._check_next_build(next_name, history, self._copy)
        assert program.main(["rollback", str(self._copy)]) == 0
        assert read_current(self._copy)[0] == self._ids[before]
        self._check_next_build("old", history, self.artifacts)
        self._reset()

    def settle(self) -> None:
        """Wait until the service serves `old` again."""
        expected = self._expected[self._ids["old"]]
        eventually(lambda: dict(fetch_all(self._client)) == expected, TIMEOUT)
        self._served = {self._ids["old"]}

    def _publish(self, name: str, artifacts: Path) -> str:
        assert self._builds.run(self._sources[name], artifacts) == Outcome(0, "")
        return read_current(artifacts)[0]

    def _check_served(self, served: str, expected: str) -> None:
        assert served == expected
        verify(self.artifacts / SNAPSHOTS / served)
        assert open_snapshot(self.artifacts).id == served
        for path, response in fetch_all(self._client):
            assert response[1] in self._served
            assert response == self._expected[response[1]][path]

    def _check_outcome(self, outcome: Outcome, fault: str, served: str) -> None:
        """Check that a build reports its fault in one line, with what is served."""
        if fault == KILL:
            assert outcome == Outcome(-signal.SIGKILL, "")
        elif served == "old":
            assert outcome.status == 1
            assert re.fullmatch(r"error: .+; what was published before stays\n", outcome.stderr)
        elif outcome.status:
            assert re.fullmatch(
                rf"error: (.+; )?{self._ids['new']} is served, .+\n", outcome.stderr
            )
        else:
            assert re.fullmatch(r"(warning: .+\n)?", outcome.stderr)

    def _check_next_build(self, name: str, history: Sequence[str], artifacts: Path) -> None:
        """Check that a build publishes, and that only the last three publications remain.

        A build that was killed after it replaced CURRENT has left a snapshot without downloads.
        """
        assert self._publish(name, artifacts) == self._ids[name]
        published = [*(earlier for earlier in history if earlier != name), name]
        assert snapshots(artifacts) == {self._ids[recent] for recent in published[-KEPT:]}
        assert served_hashes(artifacts) == self._hashes[self._ids[name]]
        assert {path.name for path in artifacts.iterdir()} == FILES
        assert look_at_downloads(artifacts) == self._ids[name]
        left = {path.name.partition(".")[0] for path in (artifacts / DOWNLOADS).iterdir()}
        assert left - {"current"} <= snapshots(artifacts)
        for snapshot_id in snapshots(artifacts):
            verify(artifacts / SNAPSHOTS / snapshot_id)

    def _reset(self) -> None:
        """Restore the snapshots and their downloads; `old` is served already."""
        roots = self._pristine / SNAPSHOTS, self.artifacts / SNAPSHOTS
        expected, present = ({path.name for path in root.iterdir()} for root in roots)
        for snapshot_id in present - expected:
            shutil.rmtree(roots[1] / snapshot_id)
        for snapshot_id in expected - present:
            link(*(root / snapshot_id for root in roots))
        link(self._pristine / DOWNLOADS, self.artifacts / DOWNLOADS)


def fetch_all(client: httpx.Client) -> Iterator[tuple[str, Response]]:
    """Yield paths with their responses."""
    for path in PATHS:
        response = client.get(path)
        yield path, (response.status_code, response.headers["ratecard-snapshot"], response.content)


def link(folder: Path, copy: Path) -> None:
    """Copy a folder with hard links, as its files are never modified."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy, copy_function=os.link)


def source(folder: Path, name: str) -> str:
    others = [service(f"other-{number}") for number in range(UNCHANGED_SERVICES)]
    return write_lines(folder / f"{name}.jsonl", [service("one", name=f"One {name}"), *others])


def served_hashes(artifacts: Path) -> dict[str, str]:
    """Return the hashes of the files of the published snapshot."""
    files = verify(artifacts / SNAPSHOTS / read_current(artifacts).id).files
    return {name: file.sha256 for name, file in files.items()}


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builds]:
    builds = Builds(tmp_path_factory.mktemp("builds"))
    yield builds
    builds.close()


@pytest.fixture(scope="module")
def injector(builds: Builds, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultInjector]:
    try:
        command = ["strace", "-o", os.devnull, "true"]
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        reason = f"faults are injected by strace, which cannot be run: {error}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    injector = FaultInjector(tmp_path_factory.mktemp("injector"), builds)
    with serve(injector.artifacts, "--max-lag", "0") as client:  # no load shedding
        injector.use(client)
        yield injector


def test_a_fault_while_writing_changes_nothing(injector: FaultInjector) -> None:
    calls = injector.calls("read_overlays", f"write,{SYNC}")
    first_sync = [call.name for call in calls].index(SYNC)
    for call, fault in product(calls[:first_sync], FAULTS):
        injector.inject("read_overlays", call, fault)


def test_a_fault_while_making_downloads_loses_nothing(injector: FaultInjector) -> None:
    calls = injector.calls("_make_downloads", CALLS)
    lines = [DOWNLOADS in call.line for call in calls]
    for call, fault in product(calls[: len(lines) - lines[::-1].index(True)], FAULTS):
        injector.inject("_make_downloads", call, fault)
    injector.settle()


def test_a_fault_while_publishing_loses_nothing(injector: FaultInjector) -> None:
    calls = injector.calls("publish", CALLS)
    assert len([call for call in calls if call.name.startswith("rename")]) >= 4
    for call, fault in product(calls, FAULTS):
        injector.inject("publish", call, fault)
    injector.settle()


if __name__ == "__main__":
    fork_builds(*map(Path, sys.argv[1:]))
