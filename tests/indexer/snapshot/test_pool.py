"""An index in parts: the same as in one, and nothing left of it when a process ends early."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.__main__ import main
from indexer.build import PARALLEL_BYTES
from indexer.errors import IndexerError
from indexer.snapshot import whoosh_index as textindex
from indexer.snapshot.pool import Worker
from indexer.snapshot.postings import compile_postings
from indexer.snapshot.whoosh_index import index_part
from service.snapshot.snapshot import open_snapshot
from tests.support.artifacts import folder, snapshots
from tests.support.reports import ids
from tests.support.running import ROOT, Build, endpoint, service, write_lines
from tests.support.searching import IDENTIFIERS, WORDS

PARTS = 3
AT_WORK = "at work"
LIMIT = 60
"""Seconds after which a test takes it that what it waits for never comes."""

texts = st.lists(st.sampled_from([*WORDS[:9], *IDENTIFIERS[:2], "the", "é"]), max_size=9).map(
    " ".join
)
documents = st.lists(st.tuples(texts.map("x{}".format), texts, texts), min_size=1, max_size=12)


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Index in parts however few the services and the cores."""
    monkeypatch.setattr("indexer.build.available_cpus", lambda: PARTS)
    monkeypatch.setattr("indexer.snapshot.whoosh_index.SMALLEST_PART", 1)
    monkeypatch.setattr("indexer.build.PARALLEL_BYTES", 1)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@settings(max_examples=15, deadline=None)
@given(documents, st.data())
def test_parts_compile_to_the_bytes_of_one(
    documents: list[tuple[str, str, str]], data: st.DataObject
) -> None:
    cuts = data.draw(st.sets(st.integers(1, len(documents)), max_size=3))
    bounds = sorted({0, *cuts, len(documents)})
    names, prior = [name for name, _, _ in documents], np.linspace(0, 1, len(documents))
    with tempfile.TemporaryDirectory() as name:
        parts = [
            index_part(Path(name) / str(start), documents[start:stop], start)
            for start, stop in pairwise(bounds)
        ]
        compile_postings(parts, names, prior, Path(name) / "parts")
        whole = index_part(Path(name) / "whole", documents)
        compile_postings([whole], names, prior, Path(name) / "one")
        assert contents(Path(name) / "parts") == contents(Path(name) / "one")


def test_a_build_in_parts_publishes_what_one_in_one_does(
    tmp_path: Path, build: Build, artifacts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [
        service(f"s{n}", name=" ".join(WORDS[n % 7 : n % 11]) or "none", description=WORDS[n % 30])
        for n in range(100)
    ]
    assert build(records) == 0
    artifacts.rename(tmp_path / "one")
    monkeypatch.setattr("indexer.build.available_cpus", lambda: PARTS)
    monkeypatch.setattr("indexer.snapshot.whoosh_index.SMALLEST_PART", 1)
    monkeypatch.setattr("indexer.build.PARALLEL_BYTES", 1)
    assert build(records) == 0
    one, parts = folder(tmp_path / "one"), folder(artifacts)
    assert sorted(path.name for path in (parts / "whoosh").iterdir()) == ["0", "1", "2"]
    assert one.name == parts.name
    assert contents(parts / "postings") == contents(one / "postings")
    assert main(["verify", str(artifacts)]) == 0
    assert open_snapshot(artifacts).search(WORDS[3]).total > 0


def test_a_catalogue_that_is_large_enough_is_indexed_by_all_cores(
    tmp_path: Path, artifacts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.build.available_cpus", lambda: 2)
    long = "x" * (PARALLEL_BYTES // (2 * textindex.SMALLEST_PART))
    count = 2 * textindex.SMALLEST_PART
    records = [service(f"s{n:04}", endpoints=[], provider=long) for n in range(count)]
    source = write_lines(tmp_path / "source.jsonl", records)
    assert main(["build", source, "--out", str(artifacts), "--quiet"]) == 0
    assert len(list((folder(artifacts) / "whoosh").iterdir())) == 2
    hits = open_snapshot(artifacts).search("one", limit=2, offset=textindex.SMALLEST_PART - 1)
    assert (hits.total, hits.ids) == (len(records), ["s2499", "s2500"])


def killed(*_: Any) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def without_room(*_: Any) -> NoReturn:
    raise OSError(28, "No space left on device", "postings")


def half_said(*_: Any) -> bytes:
    """More than a pipe holds: nobody has all of it before it is read."""
    return bytes(2**24)


def stuck(*_: Any) -> None:
    """Say that there is a process at work, which never ends by itself."""
    os.write(2, f"{AT_WORK}\n".encode())
    signal.pause()


ENDS: dict[str, tuple[Callable[..., Any], str]] = {
    "killed": (killed, "a process of this build was ended (-9); is there enough memory"),
    "out of room": (without_room, "postings: No space left on device; what was published before"),
}


@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize("end", ENDS)
def test_a_worker_that_ends_early_ends_the_build_in_words(
    end: str,
    artifacts: Path,
    build: Build,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    function, message = ENDS[end]
    monkeypatch.setattr("indexer.build.index_span", function)
    assert build([service("a"), service("b")]) == 1
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said
    assert snapshots(artifacts) == set()
    assert sorted(path.name for path in artifacts.iterdir()) == [".lock", "snapshots"]


def test_a_worker_that_is_killed_while_it_answers_was_ended() -> None:
    worker = Worker(half_said)
    worker.give()
    assert worker.pipe.poll(LIMIT)
    worker._process.kill()  # noqa: SLF001  # who kills a process has it from elsewhere
    with pytest.raises(IndexerError, match="was ended"):
        worker.answer()


@pytest.mark.usefixtures("in_parts")
def test_a_failure_of_the_build_itself_ends_its_workers(
    artifacts: Path, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers: list[Worker] = []

    class Watched(Worker):
        def __init__(self, function: Callable[..., object]) -> None:
            super().__init__(function)
            workers.append(self)

    def fail(*_: Any) -> NoReturn:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("indexer.snapshot.pool.Worker", Watched)
    monkeypatch.setattr("indexer.build.index_span", stuck)
    monkeypatch.setattr("indexer.build.write_filters", fail)
    assert build([service("a"), service("b")]) == 1
    assert len(workers) == PARTS
    assert not any(worker._process.poll() is None for worker in workers)  # noqa: SLF001  # as it says
    assert snapshots(artifacts) == set()


STUCK = """
import os, sys
from indexer import __main__, build
from indexer.snapshot import whoosh_index
from tests.indexer.snapshot import test_pool

if __name__ == "__main__":
    build.available_cpus = lambda: 2
    whoosh_index.SMALLEST_PART = 1
    build.PARALLEL_BYTES = 1
    build.index_span = test_pool.stuck
    sys.exit(__main__.main(sys.argv[1:]))
"""


@contextmanager
def at_work(source: str, artifacts: Path) -> Iterator[subprocess.Popen[str]]:
    """A build in a session of its own, whose two workers are at work and never done.

    They and whatever else it starts hold its standard error: what is read of that to its end is
    read when all of them have ended.
    """
    command = [sys.executable, "-c", STUCK, "build", source, "--out", str(artifacts)]
    with subprocess.Popen(
        command, cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert process.stderr is not None
            assert [process.stderr.readline() for _ in range(2)] == [f"{AT_WORK}\n"] * 2
            yield process
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_a_build_that_is_ended_leaves_no_process_and_nothing_in_the_way(
    end: signal.Signals, tmp_path: Path, artifacts: Path, build: Build
) -> None:
    assert build([service("before")]) == 0
    source = write_lines(
        tmp_path / "new.jsonl", [service("a"), service("b", endpoints=[endpoint()])]
    )
    with at_work(source, artifacts) as process:
        if end == signal.SIGINT:
            os.killpg(process.pid, end)  # as a terminal does for Ctrl-C
        else:
            process.send_signal(end)
        _, said = process.communicate(timeout=LIMIT)
        assert process.returncode == (128 + end if end == signal.SIGINT else -end)
    assert said == ("error: interrupted\n" if end == signal.SIGINT else "")
    assert ids(artifacts) == ["before"]
    assert build(source) == 0
    assert ids(artifacts) == ["a", "b"]
    assert not (artifacts / "staging").exists()
