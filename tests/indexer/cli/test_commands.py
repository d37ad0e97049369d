"""Search and show on the command line: what people and scripts read of what is published."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from indexer.__main__ import main
from indexer.cli.table import COLUMNS
from indexer.text import JOINERS, escape_json, shorten
from service.snapshot.snapshot import open_snapshot
from tests.support.running import ROOT, Build, Json, endpoint, run_indexer, service

HOSTILE = "\x1b[31mred\x9b2J\x07\r\nnext\u202egnp.exe\u2066\u2028[bold]x[/] :smile: <b>\x00end"
STYLE = re.compile(r"\x1b\[[0-9;]*m")
CARRIED = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def parameter(name: str, example: Any, group: str = "query", **fields: Any) -> Json:
    return {"name": name, "group": group, "type": "string", "example": example} | fields


def on_terminal(columns: int, *arguments: str, **environment: str) -> str:
    """What `python -m indexer` shows on a terminal of so many columns."""
    variables = {"COLUMNS": str(columns), "TERM": "xterm-256color"} | environment
    ours, theirs = pty.openpty()
    with ThreadPoolExecutor() as pool:  # a terminal holds a few KB that nobody has read
        shown = pool.submit(_read, ours)
        with (
            patch.dict(os.environ, variables),
            open(theirs, "w", encoding="utf-8") as out,  # noqa: PTH123  # it is no path
            redirect_stdout(out),
        ):
            assert main([*arguments]) == 0
        return shown.result().replace("\r\n", "\n")


def _read(terminal: int) -> str:
    found = b""
    with suppress(OSError), open(terminal, "rb", buffering=0) as file:
        while part := file.read(65536):  # until nobody has it open to write
            found += part
    return found.decode()


def test_results_are_a_table_with_a_line_for_each_in_order_of_rank(sample: Path) -> None:
    said = run_indexer("search", "weather", "--limit", 9, "--artifacts", sample)
    assert (said.returncode, said.stderr) == (0, "")
    head, *rows, blank, total, details = said.stdout.splitlines()
    assert head.split() == [*COLUMNS]
    cells = [re.split(" {2,}", row.lstrip()) for row in rows]
    assert [
        *("Tidewatch", "tidewatch-example", "Weather", "Base, Arbitrum"),
        *("0.001–0.004 USDC", "yes", "12,115"),
    ] in [row[1:] for row in cells]
    hits = open_snapshot(sample).search("weather", limit=9)
    assert [row[2] for row in cells] == hits.ids
    assert [row[0] for row in cells] == [*"123456789"]
    assert blank == ""
    assert total == f"1–9 of {hits.total} services; --offset 9 has the next"
    assert details == f"details: python -m indexer show {hits.ids[0]} --artifacts {sample}"


def test_the_readme_shows_what_a_newcomer_sees(
    sample: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "artifacts").symlink_to(sample)
    monkeypatch.chdir(tmp_path)
    readme = (ROOT / "README.md").read_text()
    found = re.search(
        r"^\$ python -m indexer (search .+)\n((?:[^$].*\n|\n)+)\$", readme, re.MULTILINE
    )
    assert found
    assert main(shlex.split(found[1])) == 0
    assert capsys.readouterr().out == found[2]


def test_a_pipe_gets_whole_lines_however_narrow_the_terminal_is(sample: Path) -> None:
    environment = os.environ | {"COLUMNS": "40"}
    said = run_indexer("search", "weather", "--artifacts", sample, env=environment)
    assert "weathervane-history-example" in said.stdout
    assert "…" not in said.stdout
    assert min(len(line) for line in said.stdout.splitlines()[:10]) > 100


QUERIES = [
    ("tide harbour", [], {"q": "tide harbour"}),
    ("weather", ["--limit", "500", "--offset", "2"], {"q": "weather", "limit": 500, "offset": 2}),
    (
        "data",
        ["--category", "data", "--category", "Search", "--network", "eip155:8453"],
        {"q": "data", "category": ["data", "Search"], "network": "eip155:8453"},
    ),
    ("", ["--max-price", "0.002", "--sort", "price"], {"maxPrice": "0.002", "sort": "price"}),
    ("zzzzqqqq", [], {"q": "zzzzqqqq"}),
    ("naïve 空読み +&%=#", [], {"q": "naïve 空読み +&%=#"}),
]


@pytest.mark.parametrize(("words", "options", "params"), QUERIES)
def test_a_script_gets_the_bytes_that_the_service_answers(
    words: str,
    options: list[str],
    params: dict[str, Any],
    sample: Path,
    client: httpx.Client,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    command = ["search", *words.split(), *options, "--artifacts", str(sample), "--json"]
    assert main(command) == 0
    path = "/v1/search/services" if words else "/v1/services"
    answered = client.get(path, params={"limit": 10} | params)
    assert capfdbinary.readouterr().out == answered.content + b"\n"


def write_raw(path: Path, record: Json) -> str:
    """Write a record with every letter as it is, but for those that JSON has to escape."""
    path.write_text(json.dumps(record, ensure_ascii=False))
    return str(path)


def test_a_record_is_shown_to_a_script_as_it_is_stored(
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


def hostile() -> Json:
    """A record that says something hostile wherever it may say anything."""
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
            }
        ],
    )


@pytest.mark.parametrize("columns", [40, 80, 5000])
def test_no_record_commands_the_terminal(
    columns: int, tmp_path: Path, artifacts: Path, build: Build
) -> None:
    record = hostile()
    assert build(write_raw(tmp_path / "raw.json", record)) == 0
    there = ("--artifacts", str(artifacts))
    for command in (("search", "find"), ("search", HOSTILE), ("show", "hostile")):
        shown = STYLE.sub("", on_terminal(columns, *command, *there))
        assert not CARRIED.search(shown), command
        assert "x[/]:smile:<b>" in "".join(shown.split())
    for asking in (("search", "find", "--json"), ("show", "hostile", "--json")):
        shown = on_terminal(columns, *asking, *there)
        assert not CARRIED.search(shown)
        found = json.loads(shown)
        (found,) = found.get("services", [found])
        assert found == record


@given(st.text())
def test_plain_text_is_one_printable_line(text: str) -> None:
    line = shorten(text)
    assert all(letter.isprintable() or letter in JOINERS for letter in line)


@given(st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner, max_size=3)))
def test_json_on_a_terminal_means_the_same_and_is_one_printable_line(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=1)
    shown = escape_json(text)
    assert shown.isprintable()
    assert json.loads(shown) == value


@pytest.mark.parametrize(
    ("count", "options", "said"),
    [
        (1, [], "1 service"),
        (2, [], "2 services"),
        (3, ["--limit", "2"], "1–2 of 3 services; --offset 2 has the next"),
        (3, ["--offset", "2"], "3–3 of 3 services"),
    ],
)
def test_the_services_are_counted_below(
    count: int,
    options: list[str],
    said: str,
    artifacts: Path,
    build: Build,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert build([service(f"id-{n}") for n in range(count)]) == 0
    capsys.readouterr()
    assert main(["search", *options, "--artifacts", str(artifacts)]) == 0
    assert capsys.readouterr().out.splitlines()[-2] == said


def test_wide_letters_are_aligned(artifacts: Path, build: Build) -> None:
    names = ["one word", "空読み word", "🌊 word", "ｗide word", "e\u0301 word"]
    records = [service(f"id-{n}", name=name) for n, name in enumerate(names)]
    assert build(records) == 0
    said = run_indexer("search", "word", "--artifacts", artifacts)
    rows = said.stdout.splitlines()[1:6]
    assert len({cell_len(row.partition("id-")[0]) for row in rows}) == 1
    assert len({cell_len(row) for row in rows}) == 1


@pytest.mark.parametrize("columns", [20, 40, 80])
def test_a_narrow_terminal_is_kept_to(columns: int, sample: Path) -> None:
    shown = on_terminal(columns, "search", "weather", "--artifacts", str(sample))
    lines = STYLE.sub("", shown).splitlines()
    results = lines[: lines.index("")]
    assert max(map(cell_len, results)) <= columns
    together = "".join("".join(results).split())
    for name in open_snapshot(sample).search("weather", limit=10).ids:
        assert name in together


def test_colours_are_for_terminals_that_want_them(sample: Path) -> None:
    command = ("search", "weather", "--artifacts", str(sample))
    assert "\x1b[32m" in on_terminal(200, *command)
    assert "\x1b[32m" not in on_terminal(200, *command, NO_COLOR="1")


@pytest.mark.parametrize("command", [("show", "one"), ("diff", ".", ".")])
def test_a_reader_who_has_seen_enough_is_no_failure(
    command: tuple[str, ...], artifacts: Path, build: Build
) -> None:
    assert build([service("one", name="weather", endpoints=[endpoint()] * 600)]) == 0
    if command[0] == "diff":
        command = ("diff", str(artifacts), str(artifacts))
    reader, writer = os.pipe()
    os.close(reader)
    words = [sys.executable, "-m", "indexer", *command, "--artifacts", str(artifacts)]
    with os.fdopen(writer, "wb") as out:
        finished = subprocess.run(
            words, cwd=ROOT, stdout=out, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (finished.returncode, finished.stderr) == (0, "")


def test_a_full_disk_is_a_failure(sample: Path) -> None:
    command = [sys.executable, "-m", "indexer", "search", "tide", "--artifacts", str(sample)]
    with Path("/dev/full").open("wb") as out:
        finished = subprocess.run(
            command, cwd=ROOT, stdout=out, stderr=subprocess.PIPE, text=True, check=False
        )
    assert finished.returncode == 1
    assert finished.stderr.startswith("warning: ")
    assert finished.stderr.count("\n") == 1


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_closed_output_is_no_failure(options: list[str], sample: Path) -> None:
    command = [sys.executable, "-m", "indexer", "search", "tide", "--artifacts", str(sample)]
    finished = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *command, *options],  # noqa: S607  # any will do
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (finished.returncode, finished.stderr) == (0, "")


def test_a_card_has_prices_parameters_and_a_command_for_each_endpoint(sample: Path) -> None:
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
def test_an_unknown_id_is_an_error_that_names_what_is_near(
    mistaken: str, near: str, sample: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", mistaken, "--artifacts", str(sample)]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"error: no service has the id `{mistaken}`; there is {near}")
    command = said.err.splitlines()[1].removeprefix("  for example: python -m indexer ")
    assert main(shlex.split(command)) == 0


@pytest.mark.parametrize("mistaken", ["zzzzqqqq", "..", "\x1b[", "\udcff", "", "x" * 5000])
def test_an_id_like_no_other_is_an_error_that_says_how_to_search(
    mistaken: str, sample: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", "--artifacts", str(sample), "--", mistaken]) == 1
    said, advice = capsys.readouterr().err.splitlines()
    assert said.startswith("error: no service has the id `")
    assert said.isprintable()
    assert len(said) < 300
    assert advice == f"  to find it: python -m indexer search --artifacts {sample}"


def test_nothing_found_is_said_with_what_to_try(
    sample: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = ["--artifacts", str(sample)]
    assert main(["search", "zzzzqqqq", *there]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "there is no service for 'zzzzqqqq'",
        f"try other words, or list all: python -m indexer search --artifacts {sample}",
    ]
    narrowed = ["--category", "Nonsense", "--max-price", "9"]
    assert main(["search", "weather", *narrowed, *there]) == 0
    total = open_snapshot(sample).search("weather").total
    assert capsys.readouterr().out.splitlines() == [
        "there is no service for 'weather'",
        f"without --category and --max-price there are {total}",
    ]
    assert main(["search", "weather", "--offset", "5000", *there]) == 0
    out = capsys.readouterr().out
    assert out == f"there are {total} services, of which --offset passes over all\n"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["x", "--limit", "0"], "--limit must be an integer of at least 1"),
        (["x", "--offset=-1"], "--offset must be an integer of at least 0"),
        (["x", "--max-price", "cheap"], "--max-price must be a decimal such as 0.05, from 0"),
        (["x", "--sort", "size"], "--sort must be one of: relevance, popularity, price, name"),
        ([""], "QUERY is required: the words to search for"),
        (["x" * 2001], "QUERY has 2001 characters; at most 2000 are searched"),
    ],
)
def test_what_the_service_would_refuse_is_refused_by_the_name_it_has_here(
    options: list[str], reason: str, sample: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["search", *options, "--artifacts", str(sample)]) == 2
    assert capsys.readouterr().err == f"error: {reason}\n"


@pytest.mark.parametrize("command", [["search", "x"], ["show", "x"]])
def test_where_nothing_is_published_it_is_said_how_to_build(
    command: list[str], artifacts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--artifacts", str(artifacts)]) == 1
    said = capsys.readouterr().err
    assert f"python -m indexer build SOURCE --out {artifacts}" in said


def test_a_catalogue_of_none_is_listed_too(
    tmp_path: Path, artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "none.json"
    source.write_text('{"services":[]}')
    assert build(str(source)) == 0
    capsys.readouterr()
    assert main(["search", "--artifacts", str(artifacts)]) == 0
    assert capsys.readouterr().out == "there is no service\n"


def test_without_what_draws_scripts_are_answered_all_the_same(
    sample: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    command = ["search", "tide", "--artifacts", str(sample)]
    assert main(command) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "ratecard[indexer]" in said.err
    assert main([*command, "--json"]) == 0
