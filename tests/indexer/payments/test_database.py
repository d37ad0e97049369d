"""The database of payments: its place, its share of memory and CPUs, and builds without DuckDB."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from indexer.__main__ import main
from indexer.intake.findings import Findings
from indexer.options import SourceOptions
from indexer.payments.load import open_payments
from indexer.progress import Progress
from tests.support.running import PLAIN, ROOT, payment, service, write_lines
from tests.support.sources.payments import HEADER, hashes, row

NOW = datetime(2026, 6, 1, tzinfo=UTC)
GIB = 2**30


@pytest.mark.parametrize(
    ("jobs", "memory", "threads", "limit"),
    [(1, 8 * GIB, 1, "256.0 MiB"), (16, 8 * GIB, 2, "256.0 MiB"), (16, GIB // 2, 1, "128.0 MiB")],
)
def test_duckdb_takes_a_share_of_the_memory_and_of_the_cpus_of_a_build(
    jobs: int, memory: int, threads: int, limit: str, tmp_path: Path
) -> None:
    name = write_lines(tmp_path / "p.jsonl", [payment()])
    inputs = [SourceOptions(name=name, path=name)]
    with open_payments(
        tmp_path, inputs, Findings(None), NOW, Progress(), jobs=jobs, memory=memory
    ) as connection:
        assert connection is not None
        query = "SELECT current_setting('threads'), current_setting('memory_limit')"
        assert connection.execute(query).fetchone() == (threads, limit)


def test_payments_with_long_lines_load_in_the_least_memory(tmp_path: Path) -> None:
    name = tmp_path / "p.csv"
    rows = [f"{row(number)},{'x' * 10_000}" for number in range(7_000)]
    name.write_text("\n".join([f"{HEADER},memo", *rows, ""]))
    with open_payments(
        tmp_path,
        [SourceOptions(name="p", path=str(name))],
        Findings(None),
        NOW,
        Progress(),
        jobs=4,
        memory=1,
    ) as connection:
        assert connection is not None
        assert connection.execute("SELECT count(*) FROM payments").fetchone() == (7_000,)


def test_wildcards_in_the_name_of_the_artifacts_folder_are_literal(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "s.jsonl", [service()])
    name = write_lines(tmp_path / "p.jsonl", [payment()])
    neighbour = tmp_path / "out1" / "staging"
    neighbour.mkdir(parents=True)
    write_lines(neighbour / "payments-0", [payment(tx_hash="0x2"), payment(tx_hash="0x3")])
    artifacts = tmp_path / "out[1]"
    assert main(["build", source, "--transactions", name, "--out", str(artifacts), *PLAIN]) == 0
    assert hashes(artifacts) == {"0x01"}


@pytest.mark.parametrize("name", ["out?", os.fsdecode(b"out\xff")])
def test_an_artifacts_folder_that_duckdb_cannot_name_ends_the_build(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_lines(tmp_path / "s.jsonl", [service()])
    payments = write_lines(tmp_path / "p.jsonl", [payment()])
    out = str(tmp_path / name)
    assert main(["build", source, "--transactions", payments, "--out", out]) == 1
    assert "choose another --out" in capsys.readouterr().err


# The query would run for days. With a second thread, DuckDB may sleep until that one is done.
ENDLESS = """
import os, signal, sys, threading
from datetime import UTC, datetime
from pathlib import Path
from indexer.payments.load import open_payments
from indexer.options import SourceOptions
from indexer.progress import Progress
from indexer.intake.findings import Findings

folder = Path(sys.argv[1])
inputs = [SourceOptions(name="p", path=str(folder / "p.jsonl"))]
options = {"jobs": 1, "memory": 2**30}
try:
    now = datetime.now(UTC)
    with open_payments(folder, inputs, Findings(None), now, Progress(), **options) as connection:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        numbers = "FROM range(10000000) AS a, range(10000000) AS b"
        connection.execute(f"SELECT sum(a.range * b.range % 7) {numbers}").fetchall()
except KeyboardInterrupt:
    sys.exit(130)
"""


def test_ctrl_c_while_duckdb_works_is_a_keyboard_interrupt(tmp_path: Path) -> None:
    write_lines(tmp_path / "p.jsonl", [payment()])
    command = [sys.executable, "-c", ENDLESS, str(tmp_path)]
    finished = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert finished.returncode == 130, finished.stderr


def test_an_interrupted_load_is_a_keyboard_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise duckdb.InterruptException("INTERRUPT Error: Interrupted!")

    monkeypatch.setattr("indexer.payments.load.load_payments", interrupt)
    inputs = [SourceOptions(name="p", path=str(tmp_path / "p.csv"))]
    with (
        pytest.raises(KeyboardInterrupt),
        open_payments(tmp_path, inputs, Findings(None), NOW, Progress(), jobs=1, memory=GIB),
    ):
        pass
