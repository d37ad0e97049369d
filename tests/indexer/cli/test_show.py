"""`show` on the command line."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from indexer.__main__ import main
from service.snapshot.snapshot import open_snapshot
from tests.support.running import (
    Build,
    Json,
    endpoint,
    run_indexer,
    service,
    write_raw,
)


def test_a_service_is_shown_with_prices_parameters_and_a_command_for_each_endpoint(
    sample: Path,
) -> None:
    process = run_indexer("show", "tidewatch-example", "--artifacts", sample)
    assert (process.returncode, process.stderr) == (0, "")
    lines = process.stdout.splitlines()
    assert lines[0] == "Tidewatch"
    assert "id          tidewatch-example" in lines
    assert "price       0.001–0.004 USDC" in lines
    assert "endpoints   5" in lines
    at = lines.index("GET https://api.tidewatch.example/v1/stations")
    assert lines[at + 1 : at + 4] == [
        "  0.001 USDC · exact · Base",
        "  Tide stations near a point",
        "    lat  query number, required; Latitude, positive to the north; example 59.3293",
    ]
    assert lines[at + 7] == (
        "  curl -i 'https://api.tidewatch.example/v1/stations?lat=59.3293&lon=18.0686'"
    )
    assert sum(line.startswith("  curl ") for line in lines) == 5


def test_a_price_of_the_scheme_upto_is_a_ceiling(
    artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    upto: Json = {"amount": "0.5", "currency": "USDC", "scheme": "upto", "network": "Base"}
    metered = endpoint() | {"pricing": upto}
    records = [
        service("metered", endpoints=[metered, metered | {"pricing": upto | {"amount": "0.2"}}]),
        service("mixed", endpoints=[metered, endpoint("0.1")]),
    ]
    assert build(records) == 0
    capsys.readouterr()
    assert main(["show", "metered", "--artifacts", str(artifacts)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "price       at most 0.5 USDC" in lines
    assert "  at most 0.2 USDC · upto · Base" in lines
    assert main(["search", "--artifacts", str(artifacts)]) == 0
    output = capsys.readouterr().out
    assert "  at most 0.5 USDC  " in output
    assert "  0.1–0.5 USDC  " in output


def test_json_output_is_the_stored_record(
    tmp_path: Path, artifacts: Path, build: Build, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    record = service("one", name="Näme\u009b\u202e", extra=[1.10, 2**70])
    assert build(write_raw(tmp_path / "raw.json", record)) == 0
    capfdbinary.readouterr()
    assert main(["show", "one", "--artifacts", str(artifacts), "--json"]) == 0
    stored = open_snapshot(artifacts).find("one")
    assert stored is not None
    assert "Näme\u009b\u202e".encode() in stored
    assert capfdbinary.readouterr().out == stored + b"\n"


@pytest.mark.parametrize(
    ("mistaken", "near"),
    [
        ("tidewach-example", "tidewatch-example"),
        ("Tidewatch", "tidewatch-example"),
        ("api-SQUALLINE-example", "api-squallline-example"),
        ("surge warnings at the Tidewatch harbours, please", "tidewatch-example"),
        ("nivose_example", "nivose-example"),
    ],
)
def test_an_unknown_id_is_an_error_with_similar_ids(
    mistaken: str, near: str, sample: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", mistaken, "--artifacts", str(sample)]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(f"error: no service has the id `{mistaken}`; there is {near}")
    command = output.err.splitlines()[1].removeprefix("  for example: python -m indexer ")
    assert main(shlex.split(command)) == 0


@pytest.mark.parametrize("mistaken", ["zzzzqqqq", "..", "\x1b[", "\udcff", "", "x" * 5000])
def test_an_id_without_similar_ones_is_an_error_that_suggests_a_search(
    mistaken: str, sample: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", "--artifacts", str(sample), "--", mistaken]) == 1
    error, advice = capsys.readouterr().err.splitlines()
    assert error.startswith("error: no service has the id `")
    assert error.isprintable()
    assert len(error) < 300
    assert advice == f"  to find it: python -m indexer search --artifacts {sample}"
