"""Payment files before they are parsed: names, pipes, compression, damage, and disk space."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from duckdb import DuckDBPyConnection

from indexer.errors import SourceError
from indexer.intake.findings import Findings
from indexer.options import SourceOptions
from indexer.payments.load import check_payment_files, load_payments
from service.arrays.files import zstd
from service.snapshot.snapshot import open_snapshot
from tests.support.running import Build, largest_file, payment, service, write_lines
from tests.support.sources.payments import (
    ANY_REJECTS,
    HEADER,
    hashes,
    open_database,
    overview,
    row,
    write_csv,
    write_parquet,
)

NOW = datetime(2026, 6, 1, tzinfo=UTC)


class WatchedConnection:
    """A connection that calls `watch` with each query before it runs."""

    def __init__(self, connection: DuckDBPyConnection, watch: Callable[[str], None]) -> None:
        self._connection = connection
        self._watch = watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, query: str, *parameters: object) -> DuckDBPyConnection:
        self._watch(query)
        return self._connection.execute(query, *parameters)


def load_watched(names: list[str], staging: Path, watch: Callable[[str], None]) -> int:
    """Load payment files, watching each query; returns the number of payments."""
    staging.mkdir()
    with open_database() as connection:
        watched = cast("DuckDBPyConnection", WatchedConnection(connection, watch))
        inputs = [SourceOptions(name=name, path=name) for name in names]
        load_payments(watched, inputs, staging, Findings(None), NOW)
        ((count,),) = connection.execute("SELECT count(*) FROM payments").fetchall()
    return int(count)


def copies(staging: Path) -> list[str]:
    return [path.name for path in staging.iterdir() if not path.is_symlink()]


def test_at_most_one_payment_file_is_decompressed_at_a_time(tmp_path: Path) -> None:
    names = []
    for part in range(4):
        name = tmp_path / f"{part}.csv.gz"
        rows = [row(10 * part + number) for number in range(9)] + [row(1, log_index="x")]
        name.write_bytes(gzip.compress("\n".join([HEADER, *rows]).encode()))
        names.append(str(name))
    staging = tmp_path / "staging"
    counts = set()
    assert load_watched(names, staging, lambda _: counts.add(len(copies(staging)))) == 36
    assert counts == {0, 1}
    assert [*staging.iterdir()] == []


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_file_that_changes_while_it_is_read_ends_the_build(form: str, tmp_path: Path) -> None:
    rows = [payment(log_index=number) for number in range(3)]
    name = (write_csv if form == "csv" else write_lines)(tmp_path / f"p.{form}", rows)

    def append(query: str) -> None:
        if query.startswith("INSERT INTO rows"):
            with Path(name).open("a") as file:
                file.write("\n")

    with pytest.raises(SourceError, match="changed while it was read; build again"):
        load_watched([name], tmp_path / "staging", append)


LITERAL = {
    "q[12].jsonl": "q1.jsonl",
    "*.jsonl": "other.jsonl",
    "a{x}.jsonl": "ax.jsonl",
    "a{}b.csv": "ab.csv",
    "it's.jsonl": "its.jsonl",
    "?.jsonl": "x.jsonl",
    os.fsdecode(b"\xff.jsonl"): "y.jsonl",
}
"""Names, each with a neighbour that it would stand for, if it is a pattern as well."""


def test_wildcards_in_the_name_of_an_existing_file_are_literal(
    tmp_path: Path, artifacts: Path, build: Build
) -> None:
    folder = tmp_path / "payments"
    folder.mkdir()
    for number, (name, neighbour) in enumerate(LITERAL.items()):
        write_lines(folder / neighbour, [payment(tx_hash=f"{number} of a neighbour")])
        write_lines(folder / name, [payment(tx_hash=f"{number}"), payment(amount=-1)])
    options = ("--transactions", *(str(folder / name) for name in LITERAL), *ANY_REJECTS)
    assert build([service()], options=options) == 0
    assert hashes(artifacts) == {*map(str, range(len(LITERAL)))}


def test_a_pattern_gives_each_matching_file_once(
    tmp_path: Path, artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    row = payment()
    del row["tx_hash"]  # so that reading a file twice would count its payment twice
    names = []
    for name in ("b.jsonl", "a.jsonl", "c.csv"):
        (tmp_path / "in" / name[0]).mkdir(parents=True)
        names.append(write_lines(tmp_path / "in" / name[0] / name, [row]))
    patterns = [str(tmp_path / "in" / each) for each in ("*/[ab].jsonl", "**/a.*")]
    options = ("--transactions", *patterns, names[0])
    assert build([service()], options=options) == 0
    assert overview(artifacts)["total_transactions"] == 2
    files = [line.split()[-1] for line in capsys.readouterr().out.splitlines() if "/in/" in line]
    assert files == [names[1], names[0]]


def test_a_pattern_without_matches_ends_the_build(
    tmp_path: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    pattern = tmp_path / "*.parquet"
    assert build([service()], payments=pattern) == 1
    assert f"error: {pattern}: there is no such file, and none matches" in capsys.readouterr().err


def test_payments_are_read_from_pipes(tmp_path: Path, artifacts: Path, build: Build) -> None:
    pipes = []
    for form, write in (("csv", write_csv), ("jsonl", write_lines)):
        rows = [payment(tx_hash=f"{form} {number}") for number in range(9_000)]
        name = write(tmp_path / f"p.{form}", rows)
        pipes.append(f"{name}.pipe")
        os.mkfifo(pipes[-1])
    copying = " & ".join(f"cat '{pipe[:-5]}' > '{pipe}'" for pipe in pipes)
    with subprocess.Popen(["/bin/sh", "-c", copying], start_new_session=True) as process:
        try:
            assert build([service()], options=("--transactions", *pipes)) == 0
        finally:  # a writer waits for a reader where the build has failed
            os.killpg(process.pid, signal.SIGKILL)
    assert overview(artifacts)["total_transactions"] == 18_000


def test_gzip_data_that_is_cut_short_ends_the_build(
    tmp_path: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [payment(tx_hash=f"0x{n}") for n in range(50_000)]
    text = Path(write_csv(tmp_path / "p.csv", rows)).read_bytes()
    name = tmp_path / "p.csv.gz"
    name.write_bytes(gzip.compress(text)[:-9])
    assert build([service()], payments=name) == 1
    assert "cut short" in capsys.readouterr().err


@pytest.mark.parametrize("limit", [20_000, 200_000])
@pytest.mark.parametrize("compressed", [False, True])
def test_a_full_disk_is_not_blamed_on_a_payment_file(
    compressed: bool,
    limit: int,
    tmp_path: Path,
    artifacts: Path,
    build: Build,
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = [tmp_path / f"p{part}.jsonl" for part in range(8)]
    for part, name in enumerate(names):  # some 70 KB each
        write_lines(name, [payment(tx_hash=f"0x{part}{number}") for number in range(500)])
        if compressed:
            name.write_bytes(gzip.compress(name.read_bytes()))
    options = ("--transactions", *map(str, names))
    with largest_file(limit):
        assert build([service()], options=options) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert not error.startswith(f"error: {tmp_path}/p")
    assert "Traceback" not in error
    assert not (artifacts / "CURRENT").exists()


UNREADABLE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty"),
    "no column for the sender": (
        b"chain,block_time,to_addr,amount_usdc\n",
        "there is no column for sender among chain, block_time",
    ),
    "no amount": (b"chain,block_time,from_addr,to_addr\n", "no column for amount or dollars among"),
    "no decimals": (
        b"chain,block_time,from_addr,to_addr,amount\n",
        "there is no column for decimals or dollars among",
    ),
    "an unknown unit": (
        b"timestamp,tx_hash,from,to,value,chain\n",
        'columns = {decimals = "NAME"} (or, if value is in US dollars, dollars = "value")',
    ),
    "units of an unknown token": (
        b"chain,time,from,to,TokenValue,TokenSymbol,Contract\n",
        '{token_address = "Contract"} (or, if TokenValue is in US dollars, dollars = "TokenValue")',
    ),
    "semicolons": (
        b"chain;time;from\nbase;1;0xa\n",
        "are separated by ';'; separate them by commas",
    ),
    "tabs": (b"chain\ttime\tfrom\n", "are separated by '\\t'; separate them by commas"),
    "no chain": (
        b"block_time,payer,merchant,value_usd\n",
        'or give the network of all rows: chain = "base"',
    ),
    "an array": (b"[" + b"1," * 999 + b"1]", "is a JSON array"),
    "blank": (b"\n \n\r\n", "is empty"),
    "an unclosed quote in the header": (
        b'chain,"block_time\n',
        "has a quote that its line does not close",
    ),
    "a header with an endless name": (b"a" * 200_000 + b"\n", "is no CSV header"),
    "an endless header": (b"a,b" * 2**23, "the first line is longer than"),
    "many columns": (b"column," * 9_000 + b"\n", "column, …"),
    "escapes in the header": (b"chain,\x1b]0;owned\x07\n", "among chain, \\x1b]0;owned\\x07"),
    "truncated zstd": (zstd.compress(b"chain,block_time\n")[:-3], "cut short"),
    "UTF-16": ("chain,block_time\n".encode("utf-16"), "is UTF-16; save it as UTF-8"),
    "truncated gzip": (gzip.compress(b"chain,block_time\n")[:15], "cut short"),
    "Parquet in gzip": (gzip.compress(b"PAR1"), "is compressed Parquet"),
}


def test_an_unreadable_payment_file_ends_the_build_and_keeps_the_published_snapshot(
    tmp_path: Path, artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build([service("kept")]) == 0
    capsys.readouterr()
    name = tmp_path / "p.csv"
    for case, (content, message) in UNREADABLE.items():
        name.write_bytes(content)
        assert build([service("new")], payments=name) == 1, case
        error = capsys.readouterr().err
        assert error.startswith(f"error: {name}"), case
        assert message in error, case
        assert open_snapshot(artifacts).find("kept") is not None, case


@pytest.mark.parametrize(
    ("path", "message"), [("none.csv", "there is no such file"), (".", "cannot be read: Is a dir")]
)
def test_a_missing_payment_file_is_found_by_the_check(
    path: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(SourceError, match=f"^ours: {message}"):
        check_payment_files([SourceOptions(name="ours", path=str(tmp_path / path))])


def test_only_the_beginning_of_a_payment_file_is_checked(tmp_path: Path) -> None:
    rows = [payment(tx_hash=f"0x{number}") for number in range(50_000)]
    whole = gzip.compress(Path(write_csv(tmp_path / "p.csv", rows)).read_bytes())
    name = tmp_path / "p*.csv.gz"
    name.write_bytes(whole[:-9])
    parquet = write_parquet(tmp_path / "[p]", [payment()])
    good = write_lines(tmp_path / "p.jsonl", [payment(), 7])
    check_payment_files(
        [SourceOptions(name="ours", path=path) for path in (str(name), parquet, good)]
    )


def test_a_pipe_of_payments_is_not_read_by_the_check(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)  # opening it would wait for a writer
    check_payment_files([SourceOptions(name="ours", path=str(pipe))])


def test_gzip_data_with_a_wrong_checksum_ends_the_build(
    tmp_path: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    compressed = bytearray(gzip.compress(json.dumps(payment()).encode()))
    compressed[-8] ^= 1
    name = tmp_path / "p.jsonl.gz"
    name.write_bytes(compressed)
    assert build([service()], payments=name) == 1
    assert f"{name}: the compressed data is damaged" in capsys.readouterr().err
