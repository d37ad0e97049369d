"""CSV and JSON lines: which lines are payments, and how rejected lines are numbered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.running import Build, payment, service, write_lines
from tests.support.sources.payments import (
    HEADER,
    load,
    overview,
    row,
    write_csv,
    write_rows,
)

UNCLOSED = "has a quote that its line does not close"


def test_an_unclosed_quote_publishes_nothing_and_names_its_line(
    tmp_path: Path, artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [row(number) for number in range(1000)]
    rows[200:200] = [row(5000, sender='"0xa')]
    assert build([service()], payments=write_rows(tmp_path / "p.csv", rows)) == 3
    error = capsys.readouterr().err
    assert "801 of 1,001 records are malformed" in error
    assert f"p.csv:202: $: {UNCLOSED}" in error
    assert "p.csv:203: $: is within a quoted value that starts on line 202" in error
    assert not (artifacts / "CURRENT").exists()


def test_only_rows_between_two_stray_quotes_are_rejected(tmp_path: Path) -> None:
    rows = [row(number) for number in range(12)]
    rows[3] = row(3, sender='"0xa')
    rows[6] = row(6, log_index='1"')
    rows[8] = row(8, sender='0x"a"')
    name = write_rows(tmp_path / "p.csv", rows)
    within = "is within a quoted value that starts on line 5"
    loaded = load(tmp_path, name)
    assert loaded.refused() == [
        ("line 5", UNCLOSED),
        ("line 6", within),
        ("line 7", within),
        ("line 8", UNCLOSED),
        ("line 10", "has a quote within a value that is not in quotes"),
    ]
    assert loaded.hashes() == [f"0x{number}" for number in (0, 1, 2, 7, 9, 10, 11)]


@pytest.mark.parametrize("undecodable", ["", "\udcff"])
def test_lines_of_a_quoted_value_are_not_payments(undecodable: str, tmp_path: Path) -> None:
    memo = f'"pay{undecodable} me\n{row(666)},\n{row(667)},x{undecodable}"'
    text = "\n".join([HEADER + ",memo", row(1) + ",", f"{row(2)},{memo}", row(3) + ",", ""])
    name = tmp_path / "p.csv"
    name.write_bytes(text.encode("utf-8", "surrogateescape"))
    loaded = load(tmp_path, name)
    assert loaded.positions() == ["line 3", "line 4", "line 5"]
    assert loaded.hashes() == ["0x1", "0x3"]


def test_lines_of_a_quoted_value_across_read_buffers_are_not_payments(tmp_path: Path) -> None:
    # DuckDB's CSV parser would return lines of this value as rows: its first buffer of 32 MB ends
    # within the value.
    filler = "x" * 100_000
    forged = "\n".join(f"{row(number)},x" for number in range(1_000_000, 1_020_000))
    rows = [f"{row(number)},{filler}" for number in range(400)]
    rows[316] = f'{row(316)},"{forged}"'
    name = tmp_path / "p.csv"
    name.write_text("\n".join([f"{HEADER},memo", *rows, ""]))
    loaded = load(tmp_path, name)
    assert (len(loaded.rejects), len(loaded.payments)) == (20_000, 399)


def test_quoted_values_hold_commas_and_quotes(tmp_path: Path) -> None:
    name = tmp_path / "p.csv"
    quoted = ",".join(f'"{value}"' for value in row(1).split(","))
    provider = '"a ""b"", c"'
    rows = [f"{row(0)},{provider}", f'{quoted},""', f"{row(2)},plain", f"{quoted},{provider},more"]
    name.write_text("\n".join([HEADER + ",provider", *rows]))
    loaded = load(tmp_path, name)
    assert loaded.refused() == [("line 5", "has 10 of the 9 values of the header")]
    providers = [payment["texts"]["provider"] for payment in loaded.payments]
    assert loaded.hashes() == ["0x0", "0x1", "0x2"]
    assert providers == ['a "b", c', None, "plain"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_numbered_as_in_an_editor(end: str, tmp_path: Path) -> None:
    name = tmp_path / "p.csv"
    lines = ["\ufeff", HEADER, "", row(1), " \t", "too,few", "", row(2), "", row(3, log_index="x")]
    name.write_bytes(end.join(lines).encode())
    loaded = load(tmp_path, name)
    assert loaded.refused() == [
        ("line 6", "has 2 of the 8 values of the header"),
        ("line 10", "is not a whole number"),
    ]
    assert loaded.hashes() == ["0x1", "0x2"]


def test_line_ends_are_found_across_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = write_rows(tmp_path / "p.csv", [row(number) for number in range(40)], end="\r\n")
    for chunk in (1, 7, 64):
        monkeypatch.setattr("indexer.payments.files.CHUNK", chunk)
        loaded = load(tmp_path, name)
        assert (len(loaded.rejects), len(loaded.payments)) == (0, 40)


def test_more_than_ten_thousand_rejected_lines_are_numbered(tmp_path: Path) -> None:
    name = tmp_path / "p.csv"
    pair = f"{row(1, log_index='x')}\n0x\udcff\n".encode("utf-8", "surrogateescape")
    name.write_bytes(f"{HEADER}\n{row(1)}\n".encode() + pair * 6_000)
    loaded = load(tmp_path, name)
    positions = [int(position.removeprefix("line ")) for position in loaded.positions()]
    assert positions == list(range(3, 12_003))
    assert loaded.rejects[-1]["reason"] == "is not plain UTF-8 text"


def test_a_line_longer_than_a_record_is_rejected_alone(tmp_path: Path) -> None:
    name = tmp_path / "p.jsonl"
    good = json.dumps(payment(amount=7))
    name.write_text(f'{json.dumps(payment())}\n{"x" * 50_000_000}\n{good[:-1]}, "log_index": 1}}\n')
    loaded = load(tmp_path, name)
    assert loaded.refused() == [("line 2", "is longer than the 16,777,216 bytes of a record")]
    assert len(loaded.payments) == 2


def test_lines_with_wrong_values_or_bytes_are_rejected_and_counted(tmp_path: Path) -> None:
    table = tmp_path / "p.csv"
    write_csv(table, [payment(tx_hash=f"0x{n}") for n in range(3)])
    lines = table.read_bytes().splitlines()
    lines[2:2] = [b"too,few", b"0x9,\xff,0xa,0xb,1,6,base", lines[1] + b",more"]
    lines.append(lines[1].replace(b",6,", b",six,"))
    table.write_bytes(b"\n".join(lines))
    loaded = load(tmp_path, table)
    assert loaded.positions() == ["line 3", "line 4", "line 5", "line 8"]
    assert len(loaded.payments) == 3


def test_json_lines_that_are_not_objects_are_rejected(tmp_path: Path) -> None:
    name = tmp_path / "p.jsonl"
    good = json.dumps(payment())
    name.write_text(f"{good}\n\nnope\n[1]\n{good[:-5]}\n7\n")
    loaded = load(tmp_path, name)
    assert loaded.positions() == ["line 3", "line 4", "line 5", "line 6"]
    assert {reason for _, reason in loaded.refused()} == {"is not a JSON object"}


def test_json_lines_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    name = Path(write_lines(tmp_path / "p.jsonl", [payment(log_index=0), payment(log_index=1)]))
    name.write_bytes(b"\xef\xbb\xbf" + name.read_bytes())
    assert len(load(tmp_path, name).payments) == 2


def test_a_header_alone_gives_no_payments(tmp_path: Path, artifacts: Path, build: Build) -> None:
    name = tmp_path / "p.csv"
    name.write_text("chain,block_time,from_addr,to_addr,amount_usdc\n")
    assert build([service()], payments=name) == 0
    assert overview(artifacts)["total_transactions"] == 0
