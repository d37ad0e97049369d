"""CSV and JSON lines: which lines are payments, and how rejected lines are numbered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from indexer.payments.files import MAX_LINES, MAX_ROW
from indexer.payments.readers import BUFFER
from tests.support.running import Build, payment, service, write_lines
from tests.support.sources.payments import (
    HEADER,
    load,
    overview,
    row,
    write_csv,
    write_rows,
)


def test_an_unclosed_quote_publishes_nothing_and_names_its_line(
    tmp_path: Path, artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [row(number) for number in range(1000)]
    rows[200:200] = [row(5000, sender='"0xa')]
    assert build([service()], payments=write_rows(tmp_path / "p.csv", rows)) == 3
    error = capsys.readouterr().err
    assert "801 of 1,001 records are malformed" in error
    assert "p.csv:row 202: $: has a quote that is never closed" in error
    assert not (artifacts / "CURRENT").exists()


def test_a_quote_that_another_line_closes_takes_the_lines_between_them_alone(
    tmp_path: Path,
) -> None:
    rows = [row(number) for number in range(12)]
    rows[3] = row(3, sender='"0xa')
    rows[6] = row(6, log_index='1"')
    rows[8] = row(8, sender='"0xa"b')
    rows[9] = row(9, log_index="x")
    loaded = load(tmp_path, write_rows(tmp_path / "p.csv", rows))
    assert loaded.refused() == [
        ("row 5", "is no row of CSV: Expected Number of Columns: 8 Found: 3"),
        ("row 7", "is no row of CSV: Value with unterminated quote found."),
        ("row 8", "is not a whole number"),
    ]
    assert loaded.hashes() == [f"0x{number}" for number in (0, 1, 2, 7, 10, 11)]
    (tally,) = loaded.tallies
    assert (tally.records, tally.malformed, tally.published) == (12, 6, 6)


def test_a_quoted_value_may_have_several_lines(tmp_path: Path) -> None:
    memo = f'"pay me\n{row(666)},\n\n{row(667)},x"'
    rows = [row(1) + ",", f"{row(2)},{memo}", row(3) + ",", row(4, log_index="x") + ","]
    name = tmp_path / "p.csv"
    name.write_text("\n".join([HEADER + ",memo", *rows, ""]))
    loaded = load(tmp_path, name)
    assert loaded.hashes() == ["0x1", "0x2", "0x3"]
    assert loaded.refused() == [("row 5", "is not a whole number")]
    assert loaded.tallies[0].records == 4


# The end of a hostile value, and whether it is well-formed.
ENDINGS = {
    "closed": ('"', True),
    "text behind the quote": ('"x', False),
    "a value too many": ('",more', False),
    "not UTF-8": ('\udcff"', True),  # nobody reads the column
    "never closed": ("", False),
}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("size", [50_000, 700_000, 3_000_000, 9_000_000])
def test_lines_of_a_quoted_value_across_read_buffers_are_not_payments(
    ending: str, size: int, tmp_path: Path
) -> None:
    """With parallel reading DuckDB would return lines of some of these values as rows."""
    end, is_row = ENDINGS[ending]
    memo = "x" * (size // 40)
    forged = "\n".join(f"{row(number)},{memo}" for number in range(1_000_000, 1_000_040))
    rows = [f"{row(number)},{'x' * 10_000}" for number in range(900)]
    before = BUFFER // len(rows[0]) - 3  # the last rows of a read buffer
    rows[before] = f'{row(before)},"{forged}{end}'
    name = tmp_path / "p.csv"
    text = "\n".join([f"{HEADER},memo", *rows, ""])
    name.write_bytes(text.encode("utf-8", "surrogateescape"))
    loaded = load(tmp_path, name)
    assert {*loaded.hashes()} <= {f"0x{number}" for number in range(900)}
    is_accepted = is_row and size < MAX_ROW
    kept = before if ending == "never closed" else 899 + is_accepted
    (tally,) = loaded.tallies
    assert (len(loaded.payments), tally.published) == (kept, kept)
    assert (tally.malformed == 0) == is_accepted


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_line_that_is_too_long_is_rejected_alone(form: str, tmp_path: Path) -> None:
    rows = [payment(log_index=number, provider="") for number in range(3)]
    rows[1]["provider"] = "x" * 3_000_000
    name = (write_csv if form == "csv" else write_lines)(tmp_path / f"p.{form}", rows)
    loaded = load(tmp_path, name)
    assert (len(loaded.payments), len(loaded.rejects)) == (2, 1)
    assert loaded.positions() == ["row 3" if form == "csv" else "row 2"]
    assert f"{MAX_ROW:,} bytes" in loaded.rejects[0]["reason"]


def test_a_stray_quote_takes_few_lines_and_each_of_more_counts_as_malformed(
    tmp_path: Path,
) -> None:
    for lines, expected in ((MAX_LINES, 2), (MAX_LINES + 1, 1)):
        rows = [row(1) + ",", *[row(number) + "," for number in range(2, lines + 2)]]
        rows[1] += '"'
        rows[-1] += '"'
        name = tmp_path / "p.csv"
        name.write_text("\n".join([f"{HEADER},memo", *rows, ""]))
        loaded = load(tmp_path, name)
        assert len(loaded.payments) == expected
        assert loaded.tallies[0].malformed == (lines if expected == 1 else 0)


def test_a_long_line_of_a_quoted_value_opens_no_other(tmp_path: Path) -> None:
    memo = f'"{"x" * 3_000_000}\n{row(666)},\n"'
    name = tmp_path / "p.csv"
    rows = [row(1) + ",", f"{row(2)},{memo}", row(3) + ","]
    name.write_text("\n".join([HEADER + ",memo", *rows, ""]))
    assert load(tmp_path, name).hashes() == ["0x1", "0x3"]


def test_quoted_values_hold_commas_and_quotes(tmp_path: Path) -> None:
    name = tmp_path / "p.csv"
    quoted = ",".join(f'"{value}"' for value in row(1).split(","))
    provider = '"a ""b"", c"'
    rows = [f"{row(0)},{provider}", f'{quoted},""', f"{row(2)},plain", f"{quoted},{provider},more"]
    name.write_text("\n".join([HEADER + ",provider", *rows]))
    loaded = load(tmp_path, name)
    assert loaded.refused() == [
        ("row 5", "is no row of CSV: Expected Number of Columns: 9 Found: 10")
    ]
    providers = [payment["texts"]["provider"] for payment in loaded.payments]
    assert loaded.hashes() == ["0x0", "0x1", "0x2"]
    assert providers == ['a "b", c', None, "plain"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_rows_are_numbered_from_the_header_without_blank_lines(end: str, tmp_path: Path) -> None:
    name = tmp_path / "p.csv"
    lines = ["\ufeff", HEADER, "", row(1), " \t", "too,few", "", row(2), "", row(3, log_index="x")]
    name.write_bytes(end.join(lines).encode())
    loaded = load(tmp_path, name)
    assert loaded.refused() == [
        ("row 3", "is no row of CSV: Expected Number of Columns: 8 Found: 2"),
        ("row 5", "is not a whole number"),
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
    positions = [int(position.removeprefix("row ")) for position in loaded.positions()]
    assert positions == list(range(3, 12_003))
    assert "not utf-8" in loaded.rejects[-1]["reason"]


def test_json_lines_that_are_not_objects_are_rejected(tmp_path: Path) -> None:
    name = tmp_path / "p.jsonl"
    good = json.dumps(payment())
    name.write_text(f"{good}\n\nnope\n[1]\n{good[:-5]}\n7\n")
    loaded = load(tmp_path, name)
    assert loaded.positions() == ["row 2", "row 3", "row 4", "row 5"]
    (reason,) = {reason for _, reason in loaded.refused()}
    assert reason.startswith("is not a JSON object")


def test_a_header_alone_gives_no_payments(tmp_path: Path, artifacts: Path, build: Build) -> None:
    name = tmp_path / "p.csv"
    name.write_text("chain,block_time,from_addr,to_addr,amount_usdc\n")
    assert build([service()], payments=name) == 0
    assert overview(artifacts)["total_transactions"] == 0
