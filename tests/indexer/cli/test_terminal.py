"""Standard output of the commands: a terminal, a pipe, a full disk, or closed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from indexer.__main__ import main
from tests.support.clients.terminals import STYLE, into_closed_pipe, on_terminal, onto_full_disk
from tests.support.running import (
    ROOT,
    Build,
    Json,
    endpoint,
    run_fork,
    service,
    write_raw,
)

HOSTILE = "\x1b[31mred\x9b2J\x07\r\nnext\u202egnp.exe\u2066\u2028[bold]x[/] :smile: <b>\x00end"
CARRIED = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def parameter(name: str, example: Any, group: str = "query", **fields: Any) -> Json:
    return {"name": name, "group": group, "type": "string", "example": example} | fields


def hostile() -> Json:
    """Return a record with hostile text in every field."""
    amounts = dict.fromkeys(("minAmount", "maxAmount", "avgCostPerTransaction"), "1")
    url = f"https://one.example/{HOSTILE}/{{id}}"
    return service(
        "hostile",
        name=f"find {HOSTILE}",
        description=HOSTILE,
        category=HOSTILE,
        provider=HOSTILE,
        providerUrl=HOSTILE,
        domain="one.example",
        networks=[HOSTILE],
        tags=[HOSTILE],
        priceSummary=amounts | {"avgCostBasis": "exact", "currency": HOSTILE},
        endpoints=[
            endpoint("1", HOSTILE, scheme=HOSTILE, network=HOSTILE)
            | {"url": url, "method": HOSTILE, "description": HOSTILE}
            | {
                "parameters": [
                    parameter(HOSTILE, HOSTILE, default=HOSTILE, enumValues=[HOSTILE]),
                    parameter("id", HOSTILE, "path", description=HOSTILE),
                    parameter(HOSTILE, {HOSTILE: [HOSTILE]}, "body"),
                ]
            },
            endpoint("1")
            | {"url": "https://one.example/form", "bodyType": "application/x-www-form-urlencoded"}
            | {"method": "POST", "parameters": [parameter("text", HOSTILE, "body")]},
        ],
    )


@pytest.mark.parametrize("columns", [40, 80, 5000])
def test_text_of_records_is_sanitised_for_terminals(
    columns: int, tmp_path: Path, artifacts: Path, build: Build
) -> None:
    record = hostile()
    assert build(write_raw(tmp_path / "raw.json", record)) == 0
    options = ("--artifacts", str(artifacts))
    for command in (("search", "find"), ("search", HOSTILE), ("show", "hostile")):
        output = STYLE.sub("", on_terminal(columns, *command, *options))
        assert not CARRIED.search(output), command
        assert "x[/]:smile:<b>" in "".join(output.split())
    for command in (("search", "find"), ("show", "hostile")):
        output = on_terminal(columns, *command, "--json", *options)
        assert not CARRIED.search(output)
        result = json.loads(output)
        (service,) = result.get("services", [result])
        assert service == record


@pytest.mark.parametrize("command", [("show", "one"), ("diff", ".", ".")])
def test_a_closed_pipe_is_not_an_error(
    command: tuple[str, ...], artifacts: Path, build: Build
) -> None:
    assert build([service("one", name="weather", endpoints=[endpoint()] * 600)]) == 0
    if command[0] == "diff":
        command = ("diff", str(artifacts), str(artifacts))
    finished = run_fork(into_closed_pipe, *command, "--artifacts", artifacts)
    assert (finished.returncode, finished.stderr) == (0, "")


def test_a_full_disk_is_an_error(sample: Path) -> None:
    finished = run_fork(onto_full_disk, "search", "tide", "--artifacts", sample)
    assert finished.returncode == 1
    assert finished.stderr.startswith("warning: ")
    assert finished.stderr.count("\n") == 1


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_closed_standard_output_is_not_an_error(options: list[str], sample: Path) -> None:
    command = [sys.executable, "-m", "indexer", "search", "tide", "--artifacts", str(sample)]
    finished = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *command, *options],  # noqa: S607  # any shell
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (finished.returncode, finished.stderr) == (0, "")


@pytest.mark.parametrize("command", [["search", "x"], ["show", "x"]])
def test_without_a_snapshot_the_error_has_the_command_to_run(
    command: list[str], artifacts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--artifacts", str(artifacts)]) == 1
    error = capsys.readouterr().err
    assert f"ratecard build SOURCE --out {artifacts}" in error
