"""`python -m indexer evaluate`: measures of relevance."""

from __future__ import annotations

import json
from math import log2
from pathlib import Path
from typing import Any

import pytest

from indexer.__main__ import main
from tests.support.running import Json, run_indexer, write_lines
from tests.support.searching import catalogue, positions

CORPUS = [
    {"id": "w/1", "name": "Weather", "description": "Forecasts of the weather"},
    {"id": "m 2", "name": "Maps", "description": "Maps of weather and seas", "category": "Data"},
    {"id": "n", "name": "News"},
    {"id": "ü", "name": "Radar", "description": "Rain and weather seen by radar"},
]


def judge(folder: Path, queries: list[Json], *options: str, corpus: Any = None) -> int:
    source = write_lines(folder / "corpus.jsonl", CORPUS if corpus is None else corpus)
    judged = write_lines(folder / "queries.jsonl", queries)
    return main(["evaluate", "--corpus", source, "--queries", judged, *options])


def figures(
    capsys: pytest.CaptureFixture[str], folder: Path, queries: list[Json], *options: str
) -> Json:
    assert judge(folder, queries, "--json", *options) == 0
    answer: Json = json.loads(capsys.readouterr().out)
    return answer


@pytest.mark.parametrize(
    ("query", "relevant", "ndcg", "recall"),
    [
        ("maps", {"m 2": 1}, 1, 1),
        ("maps", {"n": 1}, 0, 0),
        ("weather", {"w/1": 1, "ü": 0}, 1, 1),
        ("weather", {"w/1": 3, "m 2": 1, "ü": 1}, 1, 1),
        ("maps", {"m 2": 1, "n": 1}, 1 / (1 + 1 / log2(3)), 0.5),
        ("maps", {"m 2": 1, "n": 2}, 1 / (3 + 1 / log2(3)), 0.5),
        ("maps", {"m 2": 2, "not in the corpus": 2}, 1 / (1 + 1 / log2(3)), 0.5),
        ("!!!", {"n": 1}, 0, 0),
    ],
)
def test_ndcg_and_recall_are_those_of_their_definitions(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    query: str,
    relevant: Json,
    ndcg: float,
    recall: float,
) -> None:
    answer = figures(capsys, tmp_path, [{"query": query, "relevant": relevant}])
    assert answer == {
        "queries": 1,
        "ndcg@10": pytest.approx(ndcg),
        "recall@24": pytest.approx(recall),
    }


def test_a_document_at_the_second_rank_gains_less(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    known = [(str(d["name"]), str(d.get("description", "")), "") for d in CORPUS]
    second = positions(catalogue(tmp_path, known), "weather")[1]
    capsys.readouterr()
    judged = {"query": "weather", "relevant": {CORPUS[second]["id"]: 1}}
    assert figures(capsys, tmp_path, [judged])["ndcg@10"] == pytest.approx(1 / log2(3))


def test_ndcg_is_over_the_first_10_and_recall_over_the_first_24(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    corpus = [{"id": str(n), "name": "same", "description": "thing"} for n in range(40)]
    queries = [{"query": "thing", "relevant": {str(n): 1}} for n in (9, 10, 23, 24)]
    assert judge(tmp_path, queries, "--json", "--worst", "4", corpus=corpus) == 0
    worst = json.loads(capsys.readouterr().out)["worst"]
    measured = {next(iter(each["wanted"])): each for each in worst}
    assert [measured[n]["ndcg@10"] > 0 for n in ("9", "10", "23", "24")] == [True, *[False] * 3]
    assert [measured[n]["recall@24"] for n in ("9", "10", "23", "24")] == [1, 1, 1, 0]
    assert measured["24"]["returned"] == [str(n) for n in range(24)]


def test_the_worst_queries_are_shown_with_what_was_returned_and_wanted(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    queries = [
        {"query": "maps", "relevant": {"m 2": 1}},
        {"query": "news", "relevant": {"w/1": 1}},
        {"query": "qqqqqqqqqq", "relevant": {"ü": 2, "n": 1}},
    ]
    answer = figures(capsys, tmp_path, queries, "--worst", "2")
    assert answer["queries"] == 3
    assert [(each["query"], each["returned"], each["wanted"]) for each in answer["worst"]] == [
        ("news", ["n"], {"w/1": 1}),
        ("qqqqqqqqqq", [], {"ü": 2, "n": 1}),
    ]
    assert judge(tmp_path, queries, "--worst", "1") == 0
    shown = capsys.readouterr().out
    assert "news" in shown
    assert "w/1" in shown
    assert "qqqq" not in shown


def test_means_are_over_the_queries_to_which_something_is_relevant(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    queries = [
        {"query": "maps", "relevant": {"m 2": 1}},
        {"query": "maps", "relevant": {"n": 1}},
        {"query": "maps", "relevant": {}},
        {"query": "maps", "relevant": {"m 2": 0}},
    ]
    answer = figures(capsys, tmp_path, queries)
    assert answer == {"queries": 2, "ndcg@10": 0.5, "recall@24": 0.5}


def test_a_person_gets_a_table_of_the_same_figures(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    queries = [{"query": "maps", "relevant": {"m 2": 1}}, {"query": "x", "relevant": {"n": 1}}]
    assert judge(tmp_path, queries) == 0
    header, row = capsys.readouterr().out.splitlines()
    assert header.split() == ["queries", "nDCG@10", "recall@24"]
    assert [float(text) for text in row.split()] == [2, 0.5, 0.5]


def test_documents_need_no_name_and_records_may_say_more(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    corpus = [{"id": "a", "name": "", "description": "maps", "url": "https://x.example"}]
    queries = [{"query": "maps", "relevant": {"a": 1}, "source": "test"}]
    assert judge(tmp_path, queries, "--json", corpus=corpus) == 0
    assert json.loads(capsys.readouterr().out)["ndcg@10"] == 1


@pytest.mark.parametrize(
    ("corpus", "queries", "said"),
    [
        ([{"name": "x"}], [{"query": "x", "relevant": {"x": 1}}], "corpus.jsonl:1: "),
        (CORPUS, [{"query": "maps", "relevant": {"m 2": 1}}, {"query": 5}], "queries.jsonl:2: "),
        (CORPUS, [{"query": "maps", "relevant": {"m 2": "very"}}], "queries.jsonl:1: "),
        (CORPUS, [{"query": "maps", "relevant": {}}], "queries.jsonl: "),
        (CORPUS, [], "queries.jsonl: "),
    ],
)
def test_invalid_documents_and_queries_are_errors_with_file_and_line(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    corpus: list[Json],
    queries: list[Json],
    said: str,
) -> None:
    assert judge(tmp_path, queries, corpus=corpus) != 0
    output = capsys.readouterr()
    assert said in output.err
    assert output.out == ""


def test_documents_that_share_an_id_are_not_judged_twice(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    corpus = [{"id": "a", "name": "maps"}, {"id": "a", "name": "maps"}]
    status = judge(tmp_path, [{"query": "maps", "relevant": {"a": 1}}], "--json", corpus=corpus)
    output = capsys.readouterr()
    if status == 0:
        answer = json.loads(output.out)
        assert (answer["ndcg@10"], answer["recall@24"]) == (1, 1)
    else:
        assert "corpus.jsonl" in output.err


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    missing = tmp_path / "missing.jsonl"
    run = run_indexer("evaluate", "--corpus", missing, "--queries", missing)
    assert run.returncode != 0
    assert "missing.jsonl" in run.stderr
    assert "Traceback" not in run.stderr


def test_the_module_runs_as_a_program(tmp_path: Path) -> None:
    corpus = write_lines(tmp_path / "corpus.jsonl", CORPUS)
    queries = write_lines(tmp_path / "queries.jsonl", [{"query": "maps", "relevant": {"m 2": 1}}])
    run = run_indexer("evaluate", "--corpus", corpus, "--queries", queries, "--json")
    assert (run.returncode, run.stderr) == (0, "")
    assert json.loads(run.stdout) == {"queries": 1, "ndcg@10": 1, "recall@24": 1}
