"""`show` on the command line."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from indexer.__main__ import main
from service.snapshot.snapshot import open_snapshot
from tests.support.running import (
    Build,
    run_indexer,
    service,
    write_raw,
)


def test_a_service_is_shown_with_prices_parameters_and_a_command_for_each_endpoint(
    sample: Path,
) -> None:
    said = run_indexer("show", "tidewatch-example", "--artifacts", sample)
    assert (said.returncode, said.stderr) == (0, "")
    lines = said.stdout.splitlines()
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


def test_json_of_a_service_is_the_record_as_it_is_stored(
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
def test_an_unknown_id_is_an_error_that_names_similar_ones(
    mistaken: str, near: str, sample: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", mistaken, "--artifacts", str(sample)]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"error: no service has the id `{mistaken}`; there is {near}")
    command = said.err.splitlines()[1].removeprefix("  for example: python -m indexer ")
    assert main(shlex.split(command)) == 0


@pytest.mark.parametrize("mistaken", ["zzzzqqqq", "..", "\x1b[", "\udcff", "", "x" * 5000])
def test_an_id_that_resembles_no_other_is_an_error_that_says_how_to_search(
    mistaken: str, sample: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", "--artifacts", str(sample), "--", mistaken]) == 1
    said, advice = capsys.readouterr().err.splitlines()
    assert said.startswith("error: no service has the id `")
    assert said.isprintable()
    assert len(said) < 300
    assert advice == f"  to find it: python -m indexer search --artifacts {sample}"
