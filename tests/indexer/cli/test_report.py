"""What a build says: lines for a person, JSON for a script, bars on a terminal, or nothing."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.catalogue.outliers import FEWEST, MAGNITUDES, Outlier, find_outliers
from tests.support.artifacts import folder
from tests.support.reports import overlays, reported
from tests.support.running import (
    ROOT,
    Build,
    Json,
    endpoint,
    payment,
    run_indexer,
    service,
    write_lines,
)
from tests.support.x402 import resource

ESCAPE = "\x1b"
STAGES = {
    "compare with the last build",
    "read",
    "count the payments",
    "write the services",
    "index",
    "compile",
    "publish",
}


def priced(*prices: str, **fields: Any) -> list[Json]:
    """Services of one endpoint each."""
    return [
        service(f"p{number:02}", endpoints=[endpoint(price)]) | fields
        for number, price in enumerate(prices)
    ]


def outliers(records: Iterable[Json]) -> list[Outlier]:
    return find_outliers(json.dumps(record).encode() for record in records)


def test_a_person_is_told_what_came_of_every_source(
    tmp_path: Path,
    build: Build,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("indexer.progress.MIN_SECONDS", float("inf"))
    assert build([service("a"), service("b")]) == 0
    capsys.readouterr()
    broken = [service("c"), {"name": "x"}, service("d", endpoints=0)]
    found = [resource(), resource("http://plain.example/")]
    options = ("--max-rejects", "90%", *overlays(tmp_path, {"nope": None, "c": {"name": "C"}}))
    assert (
        build([service("a", name="New"), *broken], found, payments=[payment()], options=options)
        == 0
    )
    first, second, third = (
        tmp_path / name for name in ("source0.jsonl", "source1.jsonl", "payments.jsonl")
    )
    assert capsys.readouterr().out.splitlines()[:10] == [
        f"{first}: 4 records, 2 rejected",
        "  1 × $: Object missing required field `description`",
        "  1 × $.endpoints: Expected `array`, got `int`",
        f"{second}: 2 records, 0 rejected, 1 http resources",
        f"{third}: 1 records, 0 rejected",
        f"  rejected {first}:3: $: Object missing required field `description`",
        f"  rejected {first}:4: $.endpoints: Expected `array`, got `int`",
        f"  left out {second}:2: $.resource: is not encrypted",
        f"overlay for an unknown id: {tmp_path / 'overlay.json'}:1: nope",
        "since the last snapshot: 2 added, 1 changed, 1 removed",
    ]


def test_the_last_lines_say_what_is_served(
    artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    for verb in ("published", "nothing changed; still serving"):
        assert build([service("a")], payments=[payment()]) == 0
        *_, held, where = capsys.readouterr().out.splitlines()
        assert held.startswith("1 services, 1 endpoints, 1 payments; ")
        assert where == f"{verb} {artifacts}/snapshots/{folder(artifacts).name}"


def test_a_script_is_told_the_same_as_one_line_of_json(
    tmp_path: Path, artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--json", "--max-rejects", "50%", *overlays(tmp_path, {"nope": None}))
    assert build([service("a"), {"id": 7}], payments=[payment()], options=options) == 0
    said = capsys.readouterr()
    assert (said.out.count("\n"), said.err) == (1, "")
    report = json.loads(said.out)
    size = sum(path.stat().st_size for path in folder(artifacts).rglob("*") if path.is_file())
    manifest = (folder(artifacts) / "manifest.json").stat().st_size
    assert set(report.pop("stages")) == STAGES
    assert report.pop("seconds") > 0
    (reject,) = report.pop("firstRejects")
    assert (reject["id"], reject["position"], reject["fate"]) == (7, "line 2", "rejected")
    reason = "$.id: Expected `str`, got `int`"
    source, payments = str(tmp_path / "source0.jsonl"), str(tmp_path / "payments.jsonl")
    sources = report.pop("sources")
    assert {key: sources[0][key] for key in ("name", "records", "rejected", "reasons")} == {
        "name": source,
        "records": 2,
        "rejected": 1,
        "reasons": {reason: 1},
    }
    assert (sources[1]["name"], sources[1]["records"]) == (payments, 1)
    assert report == {
        "snapshot": folder(artifacts).name,
        "changed": True,
        "services": 1,
        "endpoints": 1,
        "payments": 1,
        "bytes": size - manifest,
        "changes": None,
        "suspiciousPrices": [],
        "unusedOverlays": [f"{tmp_path / 'overlay.json'}:1: nope"],
        "notes": [],
        "rejects": 1,
    }


def test_changes_are_counted_since_what_was_served(
    build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build([service("a"), service("b"), service("c")], options=("--quiet",)) == 0
    records = [service("b", name="B"), service("c"), service("d"), service("e")]
    assert build(records, options=("--json",)) == 0
    assert reported(capsys)["changes"] == {"added": 2, "changed": 1, "removed": 1}
    assert build(list(reversed(records)), options=("--json",)) == 0
    report = reported(capsys)
    assert (report["changed"], report["changes"]) == (
        False,
        {"added": 0, "changed": 0, "removed": 0},
    )


def test_the_quiet_say_nothing_but_errors(tmp_path: Path, artifacts: Path) -> None:
    source = write_lines(tmp_path / "source.jsonl", [service("a"), {}])
    said = run_indexer("build", source, "--out", artifacts, "--quiet", "--max-rejects", "50%")
    assert (said.returncode, said.stdout, said.stderr) == (0, "", "")
    said = run_indexer("build", source, "--out", artifacts, "--quiet")
    assert (said.returncode, said.stdout) == (3, "")
    assert said.stderr.startswith(f"error: {source}: 1 of 2 records are malformed")
    said = run_indexer("build", tmp_path / "none", "--out", artifacts, "--json")
    assert (said.returncode, said.stdout) == (1, "")
    assert said.stderr == f"error: {tmp_path / 'none'}: there is no such file\n"


def test_without_a_terminal_there_are_plain_lines_and_one_for_each_long_stage(
    build: Build, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.progress.MIN_SECONDS", 0.0)
    assert build([service("a")], payments=[payment()]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert ESCAPE not in said.out
    assert set(re.findall(r"^([a-z ]+): [0-9.]+ s$", said.out, re.MULTILINE)) == STAGES
    for option in ("--quiet", "--json"):
        assert build([service("b")], options=(option,)) == 0
        assert "compile:" not in capsys.readouterr().out


def test_a_terminal_shows_bars_and_a_pipe_beside_it_only_lines(
    tmp_path: Path, artifacts: Path
) -> None:
    records = [service(f"s{number:03}") for number in range(600)]
    source = write_lines(tmp_path / "source.jsonl", records)
    shown, printed = on_terminal(source, artifacts)
    assert "600/600" in shown
    assert all(name in shown for name in ("read", "write the services", "index", "compile"))
    assert f"{ESCAPE}[?25h" in shown[shown.rindex(f"{ESCAPE}[?25l") :]  # the cursor is back
    assert ESCAPE not in printed
    assert printed.splitlines()[-1].startswith("published ")
    for option in ("--quiet", "--json"):
        assert on_terminal(source, tmp_path / option, option)[0] == ""


def on_terminal(source: str, artifacts: Path, *options: str) -> tuple[str, str]:
    """What a build shows on a terminal, and what it prints into a pipe."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "indexer", "build", source, "--out", str(artifacts), *options]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=theirs, text=True, env=environment
    ) as process:
        os.close(theirs)
        shown = b"".join(iter(lambda: _read(ours), b""))
        os.close(ours)
        printed, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return shown.decode(), printed


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 2**16)
    except OSError:  # nobody is at the other end any more
        return b""


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-"])
def test_a_build_needs_nobody_to_talk_to(closed: str, tmp_path: Path, artifacts: Path) -> None:
    source = write_lines(tmp_path / "source.jsonl", [service("a")])
    command = f'exec "$0" -m indexer build "$1" --out "$2" {closed}'
    arguments = ["sh", "-c", command, sys.executable, source, str(artifacts)]
    finished = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stderr) == (0, "")
    assert run_indexer("verify", artifacts).returncode == 0


def test_text_of_a_source_commands_no_terminal_and_stays_on_its_line(
    tmp_path: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = f"{ESCAPE}[2J\nall is well\u202e"
    records = priced(*["0.01"] * FEWEST, "1000", category=evil)
    for record in records:
        record["endpoints"][0]["pricing"]["currency"] = evil
    records.append(service("bad", endpoints=[endpoint() | {"parameters": [{"group": evil}]}]))
    records.append(service(evil))
    options = ("--max-rejects", "50%", *overlays(tmp_path, {evil: {"name": "x"}}))
    assert build(records, options=options) == 0
    said = capsys.readouterr().out
    assert all(letter.isprintable() or letter == "\n" for letter in said)
    assert not any(line.startswith("all is well") for line in said.splitlines())
    assert said.count("suspicious price: ") == said.count("overlay for an unknown id: ") == 1


def test_prices_far_from_what_is_usual_are_pointed_out_and_kept(
    build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    records = priced(*["0.01"] * FEWEST, "20", "0.000001", category="Data")
    assert build(records, options=("--json",)) == 0
    report = reported(capsys)
    assert [(each["id"], each["price"], each["usual"]) for each in report["suspiciousPrices"]] == [
        ("p11", 0.000001, 0.01),
        ("p10", 20, 0.01),
    ]
    assert report["services"] == len(records)
    assert build(records[::-1]) == 0
    said = capsys.readouterr().out
    assert "suspicious price: p10: 20 USDC, where 0.01 is usual in Data" in said


def test_only_the_first_of_many_suspicions_are_printed(
    build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build(priced(*["0.01"] * 30, *["5000"] * 9)) == 0
    said = capsys.readouterr().out
    assert said.count("suspicious price: ") == 5
    assert "  and 4 more; --json lists them all\n" in said


CENTS = priced(*["0.01"] * FEWEST)


def beside(*endpoints: Json, **fields: Any) -> list[Json]:
    """Enough services of a cent, and one of these endpoints."""
    return [*CENTS, service("x", endpoints=list(endpoints), **fields)]


SUSPICIONS: dict[str, tuple[list[Json], list[str]]] = {
    "too few to compare": (priced(*["0.01"] * (FEWEST - 2), "1000"), []),
    "just not far enough": (beside(endpoint("9.99")), []),
    "just far enough": (beside(endpoint("10")), ["x"]),
    "one of many": (beside(*[endpoint()] * 9, endpoint("100")), ["x"]),
    "another category": (beside(endpoint("900"), category="Media"), []),
    "a category in other letters": (
        [*priced(*["0.01"] * FEWEST, category="data"), *priced("900", category="DATA")],
        ["p00"],
    ),
    "another currency": (beside(endpoint("900", "JPY")), []),
    "nothing": (beside(endpoint("0")), []),
    "no fixed price": (beside(endpoint("")), []),
    "play money": (beside(endpoint(), endpoint("900", network="base-sepolia")), []),
    "a bound": (beside(endpoint("", maxAmount="900")), ["x"]),
    "as large and small as amounts can be": (
        priced(*["9" * 100] * FEWEST, f"0.{'0' * 97}1", "1"),
        ["p10", "p11"],
    ),
    "no service": ([], []),
}


@pytest.mark.parametrize("case", SUSPICIONS)
def test_a_price_is_suspicious_only_where_it_can_be_compared(case: str) -> None:
    records, expected = SUSPICIONS[case]
    found = outliers(records)
    assert [each.id for each in found] == expected
    assert all(0 < each.usual < float("inf") for each in found)


amounts = st.from_regex(r"[0-9]{1,30}(\.[0-9]{1,30})?", fullmatch=True)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(amounts, amounts), max_size=3 * FEWEST))
def test_no_amounts_keep_prices_from_being_compared(prices: list[tuple[str, str]]) -> None:
    records = [
        service(f"s{number}", endpoints=[endpoint(low), endpoint(high)])
        for number, (low, high) in enumerate(prices)
    ]
    for each in outliers(records):
        ratio = max(each.price / each.usual, each.usual / each.price)
        assert ratio > 10**MAGNITUDES * 0.99
