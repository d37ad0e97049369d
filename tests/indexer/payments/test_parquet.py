"""Parquet files: the same answers as from text, for every type of column."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.running import Build, Json, payment, run_indexer, service, write_lines
from tests.support.sources.payments import ANY_REJECTS, items, load, overview, write_parquet

# Column types that writers of Parquet choose.
TYPES = {
    "as a writer infers them": "*",
    "texts": "COLUMNS(*)::VARCHAR",
    "doubles": "* REPLACE (amount::DOUBLE AS amount, decimals::DOUBLE AS decimals)",
    "large numbers": "* REPLACE (amount::DECIMAL(38, 0) AS amount, decimals::UHUGEINT AS decimals)",
    "times with a zone": "* REPLACE (block_timestamp::TIMESTAMPTZ AS block_timestamp)",
    "times without": "* REPLACE (block_timestamp::TIMESTAMP_NS AS block_timestamp)",
    "bytes": "* REPLACE (unhex(tx_hash[3:]) AS tx_hash, unhex(sender[3:]) AS sender)",
    "decimals with places": "* REPLACE (amount::DECIMAL(38, 2) AS amount)",
    "whole doubles": "* REPLACE (epoch_ms(block_timestamp::TIMESTAMP)::DOUBLE AS block_timestamp)",
    "milliseconds": "* REPLACE (epoch_ms(block_timestamp::TIMESTAMP) AS block_timestamp)",
    "success as a double": "* REPLACE (success::DOUBLE AS success)",
    "texts as bytes": "* REPLACE (encode(chain) AS chain, encode(recipient) AS recipient)",
}


def rows() -> list[Json]:
    return [
        payment(
            tx_hash=f"0x{number:064x}",
            block_timestamp=f"2026-05-07T10:16:51.{number:03d}Z",
            sender=f"0x{number:040x}",
            amount=number * 1000,
            log_index=number,
            success=True,
        )
        for number in range(1, 9)
    ]


@pytest.mark.parametrize("case", TYPES)
def test_typed_columns_give_the_same_answers_as_texts(
    case: str, tmp_path: Path, artifacts: Path, build: Build
) -> None:
    assert build([service()], payments=rows()) == 0
    answers = (items(artifacts), overview(artifacts))
    assert len(answers[0]) == 8
    name = write_parquet(tmp_path / "p.parquet", rows(), TYPES[case])
    assert build([service()], payments=name) == 0
    assert (items(artifacts), overview(artifacts)) == answers


@pytest.mark.parametrize("dollars", [0.1, 0.000001, 0.123457, 12.5, 3.0, 999999.999999])
def test_dollars_as_a_double_are_exact(
    dollars: float, tmp_path: Path, artifacts: Path, build: Build
) -> None:
    row = payment(amount_usdc=dollars)
    del row["amount"], row["decimals"]
    double = "* REPLACE (amount_usdc::DOUBLE AS amount_usdc)"
    name = write_parquet(tmp_path / "p.parquet", [row], double)
    assert build([service()], payments=name) == 0
    assert overview(artifacts)["total_amount"] == round(dollars * 10**6)


def test_dollars_as_decimals_or_sums_of_doubles_are_exact(tmp_path: Path) -> None:
    row = payment(a="100.00", b=0.1 + 0.2)
    del row["amount"], row["decimals"]
    name = write_parquet(tmp_path / "p.parquet", [row], "*, a::DECIMAL(38, 2) AS value_usd")
    assert load(tmp_path, name).dollars() == [100.0]
    name = write_parquet(tmp_path / "q.parquet", [row], "*, b::DOUBLE AS value_usd")
    assert load(tmp_path, name).dollars() == [0.3]


def test_a_double_beyond_53_bits_is_the_whole_number_that_it_is(tmp_path: Path) -> None:
    row = payment(amount=2 * 10**19, decimals=18)
    double = "* REPLACE (amount::DOUBLE AS amount)"
    assert load(tmp_path, write_parquet(tmp_path / "p", [row], double)).dollars() == [20.0]


def test_unix_seconds_are_times(tmp_path: Path) -> None:
    row = payment(block_timestamp=1_777_112_211)
    for kind in ("BIGINT", "DOUBLE", "DECIMAL(20, 2)", "VARCHAR"):
        select = f"* REPLACE (block_timestamp::{kind} AS block_timestamp)"
        (loaded,) = load(tmp_path, write_parquet(tmp_path / "p", [row], select)).payments
        assert loaded["paid_at"] == 1_777_112_211_000


def test_bad_rows_are_rejected_by_their_number_and_failed_ones_left_out(
    tmp_path: Path, artifacts: Path
) -> None:
    bad = rows()
    bad[2]["amount"] = -1
    bad[4]["success"] = False
    bad[5]["success"] = None
    bad[6]["log_index"] = 1
    bad[6]["tx_hash"] = bad[0]["tx_hash"]
    bad[7]["block_timestamp"] = None
    name = write_parquet(tmp_path / "p.parquet", bad)
    earlier = write_parquet(tmp_path / "o.parquet", [payment(tx_hash="0x1")] * 3)
    listed = tmp_path / "rejects.jsonl"
    source = write_lines(tmp_path / "s.jsonl", [service()])
    arguments = (
        "--transactions",
        earlier,
        name,
        "--rejects",
        listed,
        "--out",
        artifacts,
        *ANY_REJECTS,
    )
    finished = run_indexer("build", source, *arguments)
    assert finished.returncode == 0, finished.stderr
    rejects = [json.loads(line) for line in listed.read_text().splitlines()]
    assert [(reject["position"], reject["path"], reject["id"]) for reject in rejects] == [
        ("row 3", "$.amount", bad[2]["tx_hash"]),
        ("row 8", "$.block_timestamp", bad[7]["tx_hash"]),
    ]
    assert f"{name}: 8 records: 3 published, 3 left out, 2 rejected\n" in finished.stdout
    assert "  left out: 2 × failed payments\n" in finished.stdout
    assert "  left out: 1 × duplicate payments\n" in finished.stdout
    assert overview(artifacts)["total_transactions"] == 4


def test_parquet_from_a_pipe_is_read(tmp_path: Path, artifacts: Path) -> None:
    source = write_lines(tmp_path / "s.jsonl", [service()])
    name = write_parquet(tmp_path / "p.parquet", rows())
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["/bin/sh", "-c", f"cat '{name}' > '{pipe}'"]):
        finished = run_indexer("build", source, "--transactions", pipe, "--out", artifacts)
    assert finished.returncode == 0, finished.stderr
    assert overview(artifacts)["total_transactions"] == 8


def test_a_table_without_rows_gives_no_payments(
    tmp_path: Path, artifacts: Path, build: Build
) -> None:
    name = write_parquet(tmp_path / "p.parquet", rows(), condition="false")
    assert build([service()], payments=name) == 0
    assert overview(artifacts)["total_transactions"] == 0


@pytest.mark.parametrize("stop", [4, 200, -1])
def test_parquet_that_is_cut_short_ends_the_build(
    stop: int, tmp_path: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    name = Path(write_parquet(tmp_path / "p.parquet", rows()))
    name.write_bytes(name.read_bytes()[:stop])
    assert build([service()], payments=name) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"error: {name}: the Parquet data is damaged or cut short")
    assert "staging" not in error


def test_parquet_without_a_column_names_it(
    tmp_path: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    name = write_parquet(tmp_path / "p.parquet", rows(), "* EXCLUDE (sender)")
    assert build([service()], payments=name) == 1
    assert "there is no column sender or from_addr" in capsys.readouterr().err
