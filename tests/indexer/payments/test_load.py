"""Payments: which rows count, are rejected, are left out, or are duplicates."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from service.snapshot.snapshot import open_snapshot
from tests.support.running import Build, Json, payment, run_indexer, service, write_lines
from tests.support.sources.payments import (
    ANY_REJECTS,
    hashes,
    items,
    list_rejects,
    overview,
    read_rejects,
    row,
    write_csv,
    write_rows,
)


def test_a_payment_is_served_with_every_field_of_transaction(artifacts: Path, build: Build) -> None:
    whole = payment(
        id="p1",
        log_index=7,
        address="0xAb",
        transaction_from="0xCd",
        provider="one.example",
        facilitator_id="f",
        token_address="0xEf",
        sender="0xAA",
        recipient="SoLaNa",
        amount=20_000_000_000_000_000_000,
        decimals=18,
        ignored=[1],
    )
    assert build([service()], payments=[whole]) == 0
    del whole["ignored"]
    lowered = {"address": "0xab", "transaction_from": "0xcd", "token_address": "0xef"}
    assert items(artifacts) == [whole | lowered | {"sender": "0xaa"}]
    assert overview(artifacts)["total_amount"] == 20_000_000


def test_csv_and_json_lines_in_either_shape_give_the_same_answers(
    tmp_path: Path, artifacts: Path, build: Build
) -> None:
    ours = [payment(tx_hash=f"0x{n}", amount=n * 1000, success="true") for n in range(1, 9)]
    theirs = [
        {
            "network": row["chain"],
            "block_time": "2026-05-07 10:16:51.000Z",
            "tx_hash": row["tx_hash"].upper().replace("0X", "0x"),
            "from_addr": "0xA",
            "to_addr": "0xB",
            "amount_usdc": row["amount"] / 10**6,
            "success": True,
            "unknown": 'a "quoted", text',
        }
        for row in ours
    ]
    answers = []
    files = [
        write_lines(tmp_path / "ours.jsonl", ours),
        write_csv(tmp_path / "ours.csv", ours),
        write_lines(tmp_path / "theirs.jsonl", theirs),
        write_csv(tmp_path / "theirs.csv", theirs),
    ]
    for name in list(files):
        compressed = Path(name + ".zipped")
        compressed.write_bytes(gzip.compress(Path(name).read_bytes()))
        files.append(str(compressed))
    for name in files:
        assert build([service()], payments=name) == 0
        answers.append((items(artifacts), overview(artifacts)))
    assert len(answers[0][0]) == 8
    assert all(answer == answers[0] for answer in answers)


def test_duplicates_are_found_across_files(tmp_path: Path, artifacts: Path) -> None:
    source = write_lines(tmp_path / "s.jsonl", [service()])
    one = write_lines(tmp_path / "1.jsonl", [payment(log_index=1), payment(log_index=2)])
    two = write_lines(tmp_path / "2.jsonl", [payment(log_index=2), payment(log_index=3)])
    finished = run_indexer("build", source, "--transactions", one, two, "--out", artifacts)
    assert finished.returncode == 0, finished.stderr
    assert overview(artifacts)["total_transactions"] == 3
    assert f"{two}: 2 records, 0 rejected, 1 duplicate payments" in finished.stdout


def test_transactions_may_be_given_more_than_once(tmp_path: Path, artifacts: Path) -> None:
    source = write_lines(tmp_path / "s.jsonl", [service()])
    one = write_lines(tmp_path / "1.jsonl", [payment(log_index=1)])
    two = write_lines(tmp_path / "2.jsonl", [payment(log_index=2)])
    options = ("--transactions", one, "--transactions", two)
    finished = run_indexer("build", source, *options, "--out", artifacts)
    assert finished.returncode == 0, finished.stderr
    assert overview(artifacts)["total_transactions"] == 2


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ({}, True),
        ({"tx_hash": "0xAB", "sender": "0xA"}, True),
        ({"chain": "BASE"}, True),
        ({"chain": "polygon"}, False),
        ({"tx_hash": "0xac"}, False),
        ({"sender": "0xc"}, False),
        ({"recipient": "0xc"}, False),
        ({"amount": 1}, False),
        ({"log_index": 1}, False),
    ],
)
def test_without_log_index_a_duplicate_agrees_in_parties_and_amount(
    other: Json, same: bool, artifacts: Path, build: Build
) -> None:
    first = payment(tx_hash="0xab")
    assert build([service()], payments=[first, first | other]) == 0
    assert overview(artifacts)["total_transactions"] == (1 if same else 2)


def test_with_log_index_a_duplicate_agrees_in_chain_hash_and_index_alone(
    artifacts: Path, build: Build
) -> None:
    rows = [payment(log_index=1), payment(log_index=1, amount=5), payment(log_index=2)]
    assert build([service()], payments=rows) == 0
    assert [item["amount"] for item in items(artifacts)] == [10_000, 10_000]


def test_without_tx_hash_nothing_is_a_duplicate_and_ids_are_stable(
    artifacts: Path, build: Build
) -> None:
    anonymous = payment()
    del anonymous["tx_hash"]
    rows = [anonymous, anonymous, anonymous | {"amount": 5}]
    assert build([service()], payments=rows) == 0
    first = items(artifacts)
    assert len({item["id"] for item in first}) == 3
    assert all(item["tx_hash"] == "" for item in first)
    assert build([service()], payments=rows[::-1]) == 0
    assert items(artifacts) == first


def test_payments_that_share_an_id_are_served_with_unique_ids(
    artifacts: Path, build: Build
) -> None:
    one, two = payment(id="p", log_index=1), payment(id="p", log_index=2)
    other = payment(id="q", log_index=3)
    alike = payment(id="p", tx_hash="")
    assert build([service()], payments=[one, two, other, alike, alike]) == 0
    ids = [item["id"] for item in items(artifacts)]
    assert len(set(ids)) == 5
    assert sorted(payment_id[:2] for payment_id in ids) == ["p-", "p-", "p-", "p-", "q"]
    assert build([service()], payments=[alike, other, two, alike, one]) == 0
    assert [item["id"] for item in items(artifacts)] == ids


def test_failed_payments_are_left_out(
    tmp_path: Path, artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    def rows(values: tuple[object, ...]) -> list[Json]:
        return [payment(tx_hash=f"0x{n}", success=value) for n, value in enumerate(values)]

    lines = rows((True, False, None, "", "null", "no", 0))
    assert build([service()], payments=[*lines, payment(tx_hash="0x7")]) == 0
    assert overview(artifacts)["total_transactions"] == 2
    assert "8 records, 0 rejected, 6 failed payments" in capsys.readouterr().out
    table = [row | {"amount": "?"} for row in rows(("false", "no", "", "null", "0"))]
    table.append(payment(tx_hash="0x5", success="true"))
    assert build([service()], payments=write_csv(tmp_path / "p.csv", table)) == 0
    assert overview(artifacts)["total_transactions"] == 1
    assert "6 records, 0 rejected, 5 failed payments" in capsys.readouterr().out


def test_rejects_are_numbered_within_their_file(tmp_path: Path, artifacts: Path) -> None:
    source = write_lines(tmp_path / "s.jsonl", [service()])
    for part in range(3):
        rows = [row(10 * part + number) for number in range(9)]
        rows[part] = row(99, log_index="x")
        rows[4 + part] = row(99, sender='"0xa')  # never closed, not by the next file either
        write_rows(tmp_path / f"{part}.csv", rows)
    listed = tmp_path / "rejects.jsonl"
    arguments = ("--transactions", tmp_path / "*.csv", "--rejects", listed, "--out", artifacts)
    finished = run_indexer("build", source, *arguments, *ANY_REJECTS)
    assert finished.returncode == 0, finished.stderr
    rejects = [json.loads(line) for line in listed.read_text().splitlines()]
    assert [(Path(reject["source"]).name, reject["position"]) for reject in rejects] == [
        *[("0.csv", f"line {line}") for line in (2, 6, 7, 8, 9, 10)],
        *[("1.csv", f"line {line}") for line in (3, 7, 8, 9, 10)],
        *[("2.csv", f"line {line}") for line in (4, 8, 9, 10)],
    ]
    assert hashes(artifacts) == {f"0x{n}" for n in (1, 2, 3, 10, 12, 13, 14, 20, 21, 23, 24, 25)}


def test_rows_keep_their_order_with_several_threads(
    tmp_path: Path, artifacts: Path, build: Build
) -> None:
    count = 250_000  # more than two row groups of DuckDB, and two of its read buffers
    rows = [row(number) for number in range(count)]
    for number in range(0, count, 25_000):
        rows[number] = row(number, log_index="x")
    copies = [f"polygon,{row(number)[5:]}" for number in range(1, count, 50_000)]
    rows[2::50_000] = [copy.replace(",10000,", ",7,") for copy in copies]
    rows += copies
    name = write_rows(tmp_path / "p.csv", rows)
    rejects = list_rejects(build, name, tmp_path / "rejects.jsonl")
    assert [position for position, _ in rejects] == [
        f"line {number + 2}" for number in range(0, count, 25_000)
    ]
    totals = overview(artifacts)
    assert totals["total_transactions"] == count - 10
    assert totals["total_amount"] == (count - 15) * 10_000 + 5 * 7


FUTURE = datetime.now(UTC) + timedelta(hours=2)
BAD_ROWS: dict[str, tuple[Json, str, str]] = {
    "no chain": ({"chain": ""}, "chain", "is missing"),
    "no time": ({"block_timestamp": None}, "block_timestamp", "is missing"),
    "no such time": (
        {"block_timestamp": "2026-02-30 00:00:00"},
        "block_timestamp",
        "is not a date",
    ),
    "a date only": ({"block_timestamp": "2026-02-03"}, "block_timestamp", "is not a date"),
    "a number as time": ({"block_timestamp": "1767970767"}, "block_timestamp", "is not a date"),
    "infinity as time": ({"block_timestamp": "infinity"}, "block_timestamp", "is not a date"),
    "the far past": ({"block_timestamp": "1969-12-31T23:59:59Z"}, "block_timestamp", "1970"),
    "the future": ({"block_timestamp": FUTURE.isoformat()}, "block_timestamp", "in the future"),
    "no sender": ({"sender": ""}, "sender", "is missing"),
    "no recipient": ({"recipient": None}, "recipient", "is missing"),
    "no amount": ({"amount": None}, "amount", "is missing"),
    "a negative amount": ({"amount": -1}, "amount", "is not a whole number"),
    "a fractional amount": ({"amount": "1.5"}, "amount", "is not a whole number"),
    "an amount with exponent": ({"amount": "1e6"}, "amount", "is not a whole number"),
    "a NaN amount": ({"amount": "NaN"}, "amount", "is not a whole number"),
    "an endless amount": ({"amount": "9" * 60}, "amount", "is not a whole number"),
    "a fortune": ({"amount": 10**19}, "amount", "is over 10^12 US dollars"),
    "no decimals": ({"decimals": None}, "decimals", "is missing"),
    "negative decimals": ({"decimals": -6}, "decimals", "from 0 to 18"),
    "19 decimals": ({"decimals": 19}, "decimals", "from 0 to 18"),
    "a log index of words": ({"log_index": "first"}, "log_index", "is not a whole number"),
}


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_each_bad_row_is_rejected_with_its_line_column_and_reason(
    form: str, tmp_path: Path, artifacts: Path, build: Build
) -> None:
    good = payment(log_index=1)
    rows = [good]
    for number, (change, _, _) in enumerate(BAD_ROWS.values()):
        rows += [
            good | change | {"tx_hash": f"0xBad{number}"},
            good | {"tx_hash": f"0x{number}"},
        ]
    name = (write_csv if form == "csv" else write_lines)(tmp_path / f"payments.{form}", rows)
    rejects = read_rejects(build, name, tmp_path / "rejects.jsonl")
    first = 3 if form == "csv" else 2
    assert [(reject["source"], reject["position"], reject["id"]) for reject in rejects] == [
        (name, f"line {first + 2 * number}", f"0xbad{number}") for number in range(len(BAD_ROWS))
    ]
    for reject, (case, (_, column, reason)) in zip(rejects, BAD_ROWS.items(), strict=True):
        assert reject["path"] == f"$.{column}", case
        assert reason in reject["reason"], case
    assert overview(artifacts)["total_transactions"] == 1 + len(BAD_ROWS)


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_fault_is_reported_under_the_column_name_of_the_file(
    form: str, tmp_path: Path, build: Build
) -> None:
    row = payment()
    row = {"network": row.pop("chain"), "value_usd": "0.01"} | row
    del row["amount"], row["decimals"]
    bad = [row | {"tx_hash": f"0x{d}", "value_usd": d} for d in ("", "1000000000001", "-1")]
    rows = [row, *bad, row | {"network": ""}]
    name = (write_csv if form == "csv" else write_lines)(tmp_path / f"p.{form}", rows)
    rejects = read_rejects(build, name, tmp_path / "rejects.jsonl")
    assert [reject["path"] for reject in rejects] == [*["$.value_usd"] * 3, "$.network"]


def test_an_invalid_amount_in_dollars_is_rejected(
    tmp_path: Path, artifacts: Path, build: Build
) -> None:
    row = payment()
    del row["amount"], row["decimals"]
    invalid = ("-1", "1e-2", "0.0000001", "NaN", "1,5", "9" * 21)
    rows = [row | {"amount_usdc": "0.0100000"}]
    rows += [row | {"tx_hash": f"0x{n}", "amount_usdc": d} for n, d in enumerate(invalid)]
    name = write_csv(tmp_path / "p.csv", rows)
    rejects = read_rejects(build, name, tmp_path / "rejects.jsonl")
    assert [reject["path"] for reject in rejects] == ["$.amount_usdc"] * len(invalid)
    assert overview(artifacts)["total_amount"] == 10_000


def test_too_many_bad_rows_publish_nothing(artifacts: Path, build: Build) -> None:
    assert build([service()], payments=[payment()]) == 0
    assert build([service("other")], payments=[payment(), payment(amount=-1)]) == 3
    assert open_snapshot(artifacts).find("one") is not None
