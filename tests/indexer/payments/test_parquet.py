"""Parquet files: the same answers as from text, for every type of column."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.running import Build, Json, payment, service, write_lines
from tests.support.sources.payments import load, write_parquet

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


@pytest.fixture(scope="module")
def loaded_texts(tmp_path_factory: pytest.TempPathFactory) -> list[Json]:
    """The payments of `rows` from JSON lines."""
    folder = tmp_path_factory.mktemp("texts")
    loaded = load(folder, write_lines(folder / "p.jsonl", rows()))
    assert len(loaded.payments) == 8
    return loaded.payments


@pytest.mark.parametrize("case", TYPES)
def test_typed_columns_give_the_same_payments_as_texts(
    case: str, tmp_path: Path, loaded_texts: list[Json]
) -> None:
    name = write_parquet(tmp_path / "p.parquet", rows(), TYPES[case])
    assert load(tmp_path, name).payments == loaded_texts


def test_dollars_as_a_double_are_exact(tmp_path: Path) -> None:
    row = payment()
    del row["amount"], row["decimals"]
    dollars = [0.1, 0.000001, 0.123457, 12.5, 3.0, 999999.999999]
    rows = [row | {"amount_usdc": each, "tx_hash": str(each)} for each in dollars]
    double = "* REPLACE (amount_usdc::DOUBLE AS amount_usdc)"
    loaded = load(tmp_path, write_parquet(tmp_path / "p.parquet", rows, double))
    assert loaded.dollars() == dollars


def test_a_double_beyond_53_bits_is_the_whole_number_that_it_is(tmp_path: Path) -> None:
    row = payment(amount=2 * 10**19, decimals=18)
    double = "* REPLACE (amount::DOUBLE AS amount)"
    assert load(tmp_path, write_parquet(tmp_path / "p", [row], double)).dollars() == [20.0]


def test_bad_rows_are_rejected_by_their_number_and_failed_ones_left_out(tmp_path: Path) -> None:
    bad = rows()
    bad[2]["amount"] = -1
    bad[4]["success"] = False
    bad[5]["success"] = None
    bad[6]["log_index"] = 1
    bad[6]["tx_hash"] = bad[0]["tx_hash"]
    bad[7]["block_timestamp"] = None
    name = write_parquet(tmp_path / "p.parquet", bad)
    earlier = write_parquet(tmp_path / "o.parquet", [payment(tx_hash="0x1")] * 3)
    loaded = load(tmp_path, earlier, name)
    assert [(reject["position"], reject["path"], reject["id"]) for reject in loaded.rejects] == [
        ("row 3", "$.amount", bad[2]["tx_hash"]),
        ("row 8", "$.block_timestamp", bad[7]["tx_hash"]),
    ]
    tally = loaded.tallies[1]
    assert (tally.records, tally.published, tally.malformed) == (8, 3, 2)
    assert tally.left_out == {"failed payments": 2, "duplicate payments": 1}
    assert len(loaded.payments) == 4


def test_parquet_from_a_pipe_is_read(tmp_path: Path) -> None:
    name = write_parquet(tmp_path / "p.parquet", rows())
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["/bin/sh", "-c", f"cat '{name}' > '{pipe}'"]):
        assert len(load(tmp_path, pipe).payments) == 8


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
