"""`search` on the command line."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Any

import httpx
import pytest
from rich.cells import cell_len

from indexer.__main__ import main
from service.conditions import EndpointFilters
from service.engines.engine import NOTHING_FITS
from service.snapshot.snapshot import open_snapshot
from tests.support.clients.terminals import STYLE, on_terminal
from tests.support.running import ROOT, Build, run_indexer, run_process, service
from tests.support.searching import rank_endpoints


def test_results_are_a_table_in_order_of_rank(sample: Path) -> None:
    process = run_indexer("search", "weather", "--limit", 9, "--artifacts", sample)
    assert (process.returncode, process.stderr) == (0, "")
    head, *rows, blank, total, details = process.stdout.splitlines()
    assert " ".join(head.split()) == "# name id category networks price curated calls/30d"
    cells = [re.split(" {2,}", row.lstrip()) for row in rows]
    assert [
        *("SkyQuilt Forecast", "skyquilt-example", "Weather", "Base, Solana"),
        *("0.0005–0.02 USDC", "yes", "10,328"),
    ] in [row[1:] for row in cells]
    hits = open_snapshot(sample).search("weather", limit=9)
    assert [row[2] for row in cells] == hits.ids
    assert [row[0] for row in cells] == [*"123456789"]
    assert blank == ""
    counts = f"{hits.matches} matches, {hits.similar} similar; fit {hits.fit}"
    assert total == f"1–9 of {hits.total} services: {counts}; --offset 9 has the next"
    assert details == f"details: python -m indexer show {hits.ids[0]} --artifacts {sample}"


def test_the_search_in_the_readme_is_its_real_output(
    sample: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "artifacts").symlink_to(sample)
    monkeypatch.chdir(tmp_path)
    readme = (ROOT / "README.md").read_text()
    example = re.search(r"^\$ ratecard (search .+)\n((?:[^$].*\n|\n)+)\$", readme, re.MULTILINE)
    assert example
    assert main(shlex.split(example[1]), "ratecard") == 0
    assert capsys.readouterr().out == example[2]


def test_lines_for_a_pipe_are_not_truncated(sample: Path) -> None:
    environment = os.environ | {"COLUMNS": "40"}
    process = run_process("indexer", "search", "weather", "--artifacts", sample, env=environment)
    assert "weathervane-history-example" in process.stdout
    assert "…" not in process.stdout
    assert min(len(line) for line in process.stdout.splitlines()[:10]) > 100


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
def test_json_output_equals_the_response_of_the_service(
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


@pytest.mark.parametrize(
    ("count", "options", "summary"),
    [
        (1, [], "1 service"),
        (2, [], "2 services"),
        (3, ["--limit", "2"], "1–2 of 3 services; --offset 2 has the next"),
        (3, ["--offset", "2"], "3–3 of 3 services"),
    ],
)
def test_the_total_is_below_the_table(
    count: int,
    options: list[str],
    summary: str,
    artifacts: Path,
    build: Build,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert build([service(f"id-{n}") for n in range(count)]) == 0
    capsys.readouterr()
    assert main(["search", *options, "--artifacts", str(artifacts)]) == 0
    assert capsys.readouterr().out.splitlines()[-2] == summary


def test_wide_letters_are_aligned(artifacts: Path, build: Build) -> None:
    names = ["one word", "空読み word", "🌊 word", "ｗide word", "e\u0301 word"]
    records = [service(f"id-{n}", name=name) for n, name in enumerate(names)]
    assert build(records) == 0
    process = run_indexer("search", "word", "--artifacts", artifacts)
    rows = process.stdout.splitlines()[1:6]
    assert len({cell_len(row.partition("id-")[0]) for row in rows}) == 1
    assert len({cell_len(row) for row in rows}) == 1


@pytest.mark.parametrize("columns", [20, 40, 80])
def test_results_fit_a_narrow_terminal(columns: int, sample: Path) -> None:
    screen = on_terminal(columns, "search", "weather", "--artifacts", str(sample))
    lines = STYLE.sub("", screen).splitlines()
    results = lines[: lines.index("")]
    assert max(map(cell_len, results)) <= columns
    together = "".join("".join(results).split())
    for name in open_snapshot(sample).search("weather", limit=10).ids:
        assert name in together


def test_no_color_disables_colours(sample: Path) -> None:
    command = ("search", "weather", "--artifacts", str(sample))
    assert "\x1b[32m" in on_terminal(200, *command)
    assert "\x1b[32m" not in on_terminal(200, *command, NO_COLOR="1")


def test_without_results_the_output_suggests_a_command(
    sample: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out_options = ["--artifacts", str(sample)]
    assert main(["search", "zzzzqqqq", *out_options]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "there is no service for 'zzzzqqqq'",
        f"try other words, or list all: python -m indexer search --artifacts {sample}",
        NOTHING_FITS,
    ]
    narrowed = ["--category", "Nonsense", "--max-price", "9"]
    assert main(["search", "weather", *narrowed, *out_options]) == 0
    total = open_snapshot(sample).search("weather").total
    assert capsys.readouterr().out.splitlines() == [
        "there is no service for 'weather'",
        f"without --category and --max-price there are {total}",
    ]
    assert main(["search", "weather", "--offset", "5000", *out_options]) == 0
    out = capsys.readouterr().out
    assert out == f"there are {total} services, and --offset skips them all\n"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["x", "--limit", "0"], "--limit must be an integer of at least 1"),
        (["x", "--offset=-1"], "--offset must be an integer of at least 0"),
        (["x", "--max-price", "cheap"], "--max-price must be a decimal such as 0.05, from 0"),
        (["x", "--sort", "size"], "--sort must be one of: name, popularity, price, relevance"),
        ([""], "QUERY is required. The words to search for, without operators."),
        (["x" * 2001], "QUERY must be of 1 to 2,000 characters"),
    ],
)
def test_invalid_parameters_are_errors_that_name_the_option(
    options: list[str], reason: str, sample: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["search", *options, "--artifacts", str(sample)]) == 2
    assert capsys.readouterr().err == f"error: {reason}\n"


def test_an_empty_catalogue_is_listed(
    tmp_path: Path, artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "none.json"
    source.write_text('{"services":[]}')
    assert build(str(source)) == 0
    capsys.readouterr()
    assert main(["search", "--artifacts", str(artifacts)]) == 0
    assert capsys.readouterr().out == "there is no service\n"


def test_endpoints_are_a_table_in_order_of_rank(sample: Path) -> None:
    process = run_indexer("search", "tide tables", "--endpoints", "--artifacts", sample)
    assert (process.returncode, process.stderr) == (0, "")
    head, *rows, blank, total, details = process.stdout.splitlines()
    assert " ".join(head.split()) == "# method url service price network"
    hits = rank_endpoints(open_snapshot(sample), "tide tables", 10, 0, EndpointFilters())
    cells = [re.split(" {2,}", row.strip()) for row in rows]
    assert len(cells) == len(hits.ordinals)
    assert cells[0][:3] == ["1", "GET", "https://api.tidewatch.example/v1/tides/:station"]
    assert blank == ""
    counts = r"1–10 of [0-9]+ endpoints \(at most 3 of a service; [0-9]+ in all\)"
    assert re.fullmatch(f"{counts}; fit {hits.fit}; --offset 10 has the next", total)
    assert details == f"details: python -m indexer show {cells[0][3]} --artifacts {sample}"


def test_json_of_endpoints_equals_the_response_of_the_service(
    sample: Path, client: httpx.Client
) -> None:
    options = ("--endpoints", "--network", "base", "--max-price", "0.01", "--sort", "price")
    process = run_indexer("search", "weather", *options, "--json", "--artifacts", sample)
    parameters = {"q": "weather", "network": "base", "maxPrice": "0.01", "sort": "price"}
    parameters |= {"limit": "10"}
    assert process.stdout.strip() == client.get("/v1/search/endpoints", params=parameters).text


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ([], "--endpoints needs words, --category, --network or --max-price"),
        (["x", "--sort", "name"], "--sort must be one of: popularity, price, relevance"),
    ],
)
def test_a_search_for_endpoints_needs_something_to_search_for(
    options: list[str], reason: str, sample: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["search", "--endpoints", *options, "--artifacts", str(sample)]) == 2
    assert capsys.readouterr().err == f"error: {reason}\n"


def test_without_endpoints_the_output_says_so(
    sample: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["search", "qqqqqqqq", "--endpoints", "--artifacts", str(sample)]) == 0
    output = capsys.readouterr().out
    assert output.startswith("there is no endpoint for 'qqqqqqqq'\n")
    past = ["search", "weather", "--endpoints", "--offset", "9999", "--artifacts", str(sample)]
    assert main(past) == 0
    assert "--offset skips them all" in capsys.readouterr().out
