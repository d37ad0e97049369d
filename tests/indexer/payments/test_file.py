"""Payment files as they come: which lines become rows, and what ends a build."""

from __future__ import annotations

import gzip
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from indexer.__main__ import main
from service.snapshot.snapshot import open_snapshot
from tests.support.payments import ALL, items, overview, write_csv
from tests.support.running import ROOT, Build, payment, run_indexer, service, write_lines

HEADER = "chain,block_timestamp,sender,recipient,amount,decimals,tx_hash,log_index"
UNCLOSED = "has a quote that its line does not close"


def row(number: int, sender: str = "0xa", log_index: str = "1") -> str:
    return f"base,2026-05-07T10:16:51Z,{sender},0xb,10000,6,0x{number},{log_index}"


def write_rows(path: Path, rows: list[str], end: str = "\n") -> str:
    path.write_bytes(end.join([HEADER, *rows, ""]).encode())
    return str(path)


def build_listing(build: Build, payments: object, listed: Path) -> list[tuple[str, str]]:
    """Build with these payments; the position and reason of every reject."""
    options = (*ALL, "--rejects", str(listed))
    assert build([service()], payments=payments, options=options) == 0
    rejects = [json.loads(line) for line in listed.read_text().splitlines()]
    return [(reject["position"], reject["reason"]) for reject in rejects]


def served(artifacts: Path) -> set[str]:
    return {item["tx_hash"] for item in items(artifacts)}


def test_a_quote_that_is_never_closed_publishes_nothing_and_names_its_line(
    tmp_path: Path, artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [row(number) for number in range(1000)]
    rows[200:200] = [row(5000, sender='"0xa')]
    assert build([service()], payments=write_rows(tmp_path / "p.csv", rows)) == 3
    said = capsys.readouterr().err
    assert "801 of 1,001 records are malformed" in said
    assert f"p.csv:202: $: {UNCLOSED}" in said
    assert "p.csv:203: $: is within a quoted value that starts on line 202" in said
    assert not (artifacts / "CURRENT").exists()


def test_rows_between_two_stray_quotes_are_rejected_each_and_none_beyond(
    tmp_path: Path, artifacts: Path, build: Build
) -> None:
    rows = [row(number) for number in range(12)]
    rows[3] = row(3, sender='"0xa')
    rows[6] = row(6, log_index='1"')
    rows[8] = row(8, sender='0x"a"')
    name = write_rows(tmp_path / "p.csv", rows)
    within = "is within a quoted value that starts on line 5"
    assert build_listing(build, name, tmp_path / "rejects.jsonl") == [
        ("line 5", UNCLOSED),
        ("line 6", within),
        ("line 7", within),
        ("line 8", UNCLOSED),
        ("line 10", "has a quote within a value that is not in quotes"),
    ]
    assert served(artifacts) == {f"0x{number}" for number in (0, 1, 2, 7, 9, 10, 11)}


@pytest.mark.parametrize("bad", ["", "\udcff"])
def test_what_stands_in_a_value_of_several_lines_is_no_payment(
    bad: str, tmp_path: Path, artifacts: Path, build: Build
) -> None:
    memo = f'"pay{bad} me\n{row(666)},\n{row(667)},x{bad}"'
    text = "\n".join([HEADER + ",memo", row(1) + ",", f"{row(2)},{memo}", row(3) + ",", ""])
    name = tmp_path / "p.csv"
    name.write_bytes(text.encode("utf-8", "surrogateescape"))
    rejects = build_listing(build, name, tmp_path / "rejects.jsonl")
    assert [position for position, _ in rejects] == ["line 3", "line 4", "line 5"]
    assert served(artifacts) == {"0x1", "0x3"}


def test_values_in_quotes_hold_commas_and_quotes(
    tmp_path: Path, artifacts: Path, build: Build
) -> None:
    name = tmp_path / "p.csv"
    quoted = ",".join(f'"{value}"' for value in row(1).split(","))
    provider = '"a ""b"", c"'
    rows = [f"{row(0)},{provider}", f'{quoted},""', f"{row(2)},plain", f"{quoted},{provider},more"]
    name.write_text("\n".join([HEADER + ",provider", *rows]))
    rejects = build_listing(build, name, tmp_path / "rejects.jsonl")
    assert rejects == [("line 5", "has 10 of the 9 values of the header")]
    found = {item["tx_hash"]: item.get("provider") for item in items(artifacts)}
    assert found == {"0x0": 'a "b", c', "0x1": None, "0x2": "plain"}


@pytest.mark.parametrize(
    ("name", "neighbour"),
    [
        ("q[12].jsonl", "q1.jsonl"),
        ("*.jsonl", "other.jsonl"),
        ("a{x}.jsonl", "ax.jsonl"),
        ("a{}b.csv", "ab.csv"),
        ("it's.jsonl", "its.jsonl"),
        ("?.jsonl", "x.jsonl"),
        (os.fsdecode(b"\xff.jsonl"), "x.jsonl"),
    ],
)
def test_the_name_of_a_payment_file_is_a_name_and_no_pattern(
    name: str, neighbour: str, tmp_path: Path, artifacts: Path, build: Build
) -> None:
    folder = tmp_path / "payments"
    folder.mkdir()
    write_lines(folder / neighbour, [payment(tx_hash="0x2")])
    write_lines(folder / name, [payment(tx_hash="0x1"), payment(amount=-1)])
    assert build([service()], payments=folder / name, options=ALL) == 0
    assert served(artifacts) == {"0x1"}


def test_a_pattern_stands_for_the_files_that_match_it_each_once(
    tmp_path: Path, artifacts: Path
) -> None:
    source = write_lines(tmp_path / "s.jsonl", [service()])
    row = payment()
    del row["tx_hash"]  # so that it would count twice
    names = []
    for name in ("b.jsonl", "a.jsonl", "c.csv"):
        (tmp_path / "in" / name[0]).mkdir(parents=True)
        names.append(write_lines(tmp_path / "in" / name[0] / name, [row]))
    patterns = (tmp_path / "in" / "*" / "[ab].jsonl", tmp_path / "in" / "**" / "a.*", names[0])
    finished = run_indexer("build", source, "--transactions", *patterns, "--out", artifacts)
    assert finished.returncode == 0, finished.stderr
    assert overview(artifacts)["total_transactions"] == 2
    read = [line.strip() for line in finished.stdout.splitlines() if "/in/" in line]
    assert [line.partition(":")[0] for line in read] == [names[1], names[0]]


def test_a_pattern_that_nothing_matches_ends_the_build(
    tmp_path: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    pattern = tmp_path / "*.parquet"
    assert build([service()], payments=pattern) == 1
    assert f"error: {pattern}: there is no such file, and none matches" in capsys.readouterr().err


def test_rows_of_many_files_are_told_by_file_and_line(tmp_path: Path, artifacts: Path) -> None:
    source = write_lines(tmp_path / "s.jsonl", [service()])
    for part in range(3):
        rows = [row(10 * part + number) for number in range(9)]
        rows[part] = row(99, log_index="x")
        rows[4 + part] = row(99, sender='"0xa')  # closed by nothing: not by the next file either
        write_rows(tmp_path / f"{part}.csv", rows)
    listed = tmp_path / "rejects.jsonl"
    arguments = ("--transactions", tmp_path / "*.csv", "--rejects", listed, "--out", artifacts)
    finished = run_indexer("build", source, *arguments, *ALL)
    assert finished.returncode == 0, finished.stderr
    rejects = [json.loads(line) for line in listed.read_text().splitlines()]
    found = [(Path(reject["source"]).name, reject["position"]) for reject in rejects]
    assert found == [
        *[("0.csv", f"line {line}") for line in (2, 6, 7, 8, 9, 10)],
        *[("1.csv", f"line {line}") for line in (3, 7, 8, 9, 10)],
        *[("2.csv", f"line {line}") for line in (4, 8, 9, 10)],
    ]
    assert served(artifacts) == {f"0x{n}" for n in (1, 2, 3, 10, 12, 13, 14, 20, 21, 23, 24, 25)}


def test_rows_keep_their_order_where_several_threads_read_them(
    tmp_path: Path, artifacts: Path, build: Build
) -> None:
    count = 250_000  # more than a thread takes at a time
    rows = [row(number) for number in range(count)]
    for number in range(0, count, 25_000):
        rows[number] = row(number, log_index="x")
    again = [f"polygon,{row(number)[5:]}" for number in range(1, count, 50_000)]
    rows[2::50_000] = [other.replace(",10000,", ",7,") for other in again]
    rows += again
    name = write_rows(tmp_path / "p.csv", rows)
    rejects = build_listing(build, name, tmp_path / "rejects.jsonl")
    assert [position for position, _ in rejects] == [
        f"line {number + 2}" for number in range(0, count, 25_000)
    ]
    found = overview(artifacts)
    assert found["total_transactions"] == count - 10
    assert found["total_amount"] == (count - 15) * 10_000 + 5 * 7


def test_the_name_of_the_artifacts_folder_is_no_pattern_either(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "s.jsonl", [service()])
    name = write_lines(tmp_path / "p.jsonl", [payment()])
    neighbour = tmp_path / "out1" / "staging"
    neighbour.mkdir(parents=True)
    write_lines(neighbour / "payments-0", [payment(tx_hash="0x2"), payment(tx_hash="0x3")])
    artifacts = tmp_path / "out[1]"
    finished = run_indexer("build", source, "--transactions", name, "--out", artifacts)
    assert finished.returncode == 0, finished.stderr
    assert served(artifacts) == {"0x01"}


@pytest.mark.parametrize("name", ["out?", os.fsdecode(b"out\xff")])
def test_an_artifacts_folder_that_duckdb_cannot_name_ends_the_build(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_lines(tmp_path / "s.jsonl", [service()])
    payments = write_lines(tmp_path / "p.jsonl", [payment()])
    out = str(tmp_path / name)
    assert main(["build", source, "--transactions", payments, "--out", out]) == 1
    assert "choose another --out" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_payments_from_a_pipe_are_all_read(form: str, tmp_path: Path, artifacts: Path) -> None:
    source = write_lines(tmp_path / "s.jsonl", [service()])
    rows = [payment(tx_hash=f"0x{number}") for number in range(9_000)]
    name = (write_csv if form == "csv" else write_lines)(tmp_path / f"p.{form}", rows)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["/bin/sh", "-c", f"cat '{name}' > '{pipe}'"]):
        finished = run_indexer("build", source, "--transactions", pipe, "--out", artifacts)
    assert finished.returncode == 0, finished.stderr
    assert overview(artifacts)["total_transactions"] == 9_000


def test_compressed_payments_with_a_wrong_checksum_end_the_build(
    tmp_path: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    compressed = bytearray(gzip.compress(json.dumps(payment()).encode()))
    compressed[-8] ^= 1
    name = tmp_path / "p.jsonl.gz"
    name.write_bytes(compressed)
    assert build([service()], payments=name) == 1
    assert f"{name}: the gzip data is damaged" in capsys.readouterr().err


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_numbered_as_an_editor_does(
    end: str, tmp_path: Path, artifacts: Path, build: Build
) -> None:
    name = tmp_path / "p.csv"
    lines = ["\ufeff", HEADER, "", row(1), " \t", "too,few", "", row(2), "", row(3, log_index="x")]
    name.write_bytes(end.join(lines).encode())
    rejects = build_listing(build, name, tmp_path / "rejects.jsonl")
    assert rejects == [
        ("line 6", "has 2 of the 8 values of the header"),
        ("line 10", "is not a whole number"),
    ]
    assert served(artifacts) == {"0x1", "0x2"}


def test_line_ends_are_found_wherever_a_chunk_ends(
    tmp_path: Path, artifacts: Path, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = write_rows(tmp_path / "p.csv", [row(number) for number in range(40)], end="\r\n")
    for chunk in (1, 7, 64):
        monkeypatch.setattr("indexer.payments.lines.CHUNK", chunk)
        assert build_listing(build, name, tmp_path / "rejects.jsonl") == []
        assert len(served(artifacts)) == 40


def test_many_bad_lines_of_many_kinds_are_placed_quickly(tmp_path: Path, build: Build) -> None:
    name = tmp_path / "p.csv"
    pair = f"{row(1, log_index='x')}\n0x\udcff\n".encode("utf-8", "surrogateescape")
    name.write_bytes(f"{HEADER}\n{row(1)}\n".encode() + pair * 20_000)
    rejects = build_listing(build, name, tmp_path / "rejects.jsonl")
    positions = [int(position.removeprefix("line ")) for position, _ in rejects]
    assert positions == list(range(3, 40_003))
    assert rejects[-1][1] == "is not plain UTF-8 text"


def test_a_line_beyond_measure_is_rejected_and_the_others_kept(
    tmp_path: Path, artifacts: Path, build: Build
) -> None:
    name = tmp_path / "p.jsonl"
    good = json.dumps(payment())
    name.write_text(f'{good}\n{"x" * 50_000_000}\n{good[:-1]}, "log_index": 1}}\n')
    rejects = build_listing(build, name, tmp_path / "rejects.jsonl")
    assert rejects == [("line 2", "is longer than the 16,777,216 bytes of a record")]
    assert overview(artifacts)["total_transactions"] == 2


@pytest.mark.parametrize("limit", [20_000, 200_000])
def test_without_room_to_work_in_the_payment_file_is_not_blamed(
    limit: int, tmp_path: Path, artifacts: Path
) -> None:
    source = write_lines(tmp_path / "s.jsonl", [service()])
    names = [tmp_path / f"p{part}.jsonl" for part in range(8)]
    for part, name in enumerate(names):  # some 70 KB each
        write_lines(name, [payment(tx_hash=f"0x{part}{number}") for number in range(500)])
    finished = run_indexer(
        *("build", source, "--transactions", *names, "--out", artifacts),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert finished.returncode == 1
    assert finished.stderr.startswith("error: ")
    assert not finished.stderr.startswith(f"error: {tmp_path}/p")
    assert "Traceback" not in finished.stderr
    assert not (artifacts / "CURRENT").exists()


def test_payments_without_duckdb_name_the_extra_to_install(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "s.jsonl", [service()])
    name = write_lines(tmp_path / "p.jsonl", [payment()])
    arguments = ["build", source, "--transactions", name, "--out", str(tmp_path / "artifacts")]
    program = (
        "import sys; sys.modules['duckdb'] = None; from indexer.__main__ import main; "
        f"sys.exit(main({arguments!r}))"
    )
    command = [sys.executable, "-c", program]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert finished.returncode == 1
    assert "ratecard[indexer]" in finished.stderr
    assert "Traceback" not in finished.stderr


def test_lines_that_are_no_rows_are_rejected_and_counted(
    tmp_path: Path, artifacts: Path, build: Build
) -> None:
    table = tmp_path / "p.csv"
    write_csv(table, [payment(tx_hash=f"0x{n}") for n in range(3)])
    lines = table.read_bytes().splitlines()
    lines[2:2] = [b"too,few", b"0x9,\xff,0xa,0xb,1,6,base", lines[1] + b",more"]
    lines.append(lines[1].replace(b",6,", b",six,"))
    table.write_bytes(b"\n".join(lines))
    listed = tmp_path / "rejects.jsonl"
    assert build([service()], payments=table, options=(*ALL, "--rejects", str(listed))) == 0
    rejects = [json.loads(line) for line in listed.read_text().splitlines()]
    assert sorted(reject["position"] for reject in rejects) == [
        "line 3",
        "line 4",
        "line 5",
        "line 8",
    ]
    assert overview(artifacts)["total_transactions"] == 3


def test_json_lines_that_are_no_objects_are_rejected(tmp_path: Path, build: Build) -> None:
    rows = tmp_path / "p.jsonl"
    good = json.dumps(payment())
    rows.write_text(f"{good}\n\nnope\n[1]\n{good[:-5]}\n7\n")
    listed = tmp_path / "rejects.jsonl"
    assert build([service()], payments=rows, options=(*ALL, "--rejects", str(listed))) == 0
    rejects = [json.loads(line) for line in listed.read_text().splitlines()]
    assert [reject["position"] for reject in rejects] == ["line 3", "line 4", "line 5", "line 6"]
    assert {reject["reason"] for reject in rejects} == {"is not a JSON object"}


UNREADABLE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty"),
    "no column for the sender": (
        b"chain,block_time,to_addr,amount_usdc\n",
        "there is no column sender or from_addr or from_address among chain, block_time",
    ),
    "no amount": (b"chain,block_time,from_addr,to_addr\n", "amount or amount_usdc or value_usd"),
    "no decimals": (b"chain,block_time,from_addr,to_addr,amount\n", "decimals"),
    "an array": (b"[" + b"1," * 999 + b"1]", "is a JSON array"),
    "blank": (b"\n \n\r\n", "is empty"),
    "a header without end": (b'chain,"block_time\n', "has a quote that its line does not close"),
    "an endless header": (b"a" * 200_000 + b"\n", "is no CSV header"),
    "a header of an endless line": (b"a,b" * 2**23, "the first line is longer than"),
    "many columns": (b"column," * 9_000 + b"\n", "column, …"),
    "zstd": (b"\x28\xb5\x2f\xfd" + bytes(99), "give <(zstd -dc "),
    "truncated gzip": (gzip.compress(b"chain,block_time\n")[:15], "cut short"),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_an_unreadable_payment_file_ends_the_build_and_keeps_what_was_published(
    case: str, tmp_path: Path, artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build([service("kept")]) == 0
    content, message = UNREADABLE[case]
    name = tmp_path / "p.csv"
    name.write_bytes(content)
    assert build([service("new")], payments=name) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"error: {name}")
    assert message in said
    assert open_snapshot(artifacts).find("kept") is not None


def test_a_truncated_compressed_payment_file_ends_the_build(
    tmp_path: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [payment(tx_hash=f"0x{n}") for n in range(50_000)]
    text = Path(write_csv(tmp_path / "p.csv", rows)).read_bytes()
    name = tmp_path / "p.csv.gz"
    name.write_bytes(gzip.compress(text)[:-9])
    assert build([service()], payments=name) == 1
    assert "cut short" in capsys.readouterr().err


def test_a_header_alone_is_a_history_without_payments(
    tmp_path: Path, artifacts: Path, build: Build
) -> None:
    name = tmp_path / "p.csv"
    name.write_text("chain,block_time,from_addr,to_addr,amount_usdc\n")
    assert build([service()], payments=name) == 0
    assert overview(artifacts)["total_transactions"] == 0
