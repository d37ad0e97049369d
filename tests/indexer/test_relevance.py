"""`python -m indexer evaluate`: nDCG and recall on judged queries."""

from __future__ import annotations

import json
from math import log2
from pathlib import Path
from typing import Any

import pytest

from indexer.__main__ import main
from indexer.relevance import evaluate
from tests.support.running import Json, run_indexer, write_lines
from tests.support.searching import catalogue, positions

CORPUS = [
    {"id": "w/1", "name": "Weather", "description": "Forecasts of the weather"},
    {"id": "m 2", "name": "Maps", "description": "Maps of weather and seas", "category": "Data"},
    {"id": "n", "name": "News"},
    {"id": "ü", "name": "Radar", "description": "Rain and weather seen by radar"},
]


TOWNS = [
    *("Rome", "Oslo", "Lima", "Cairo", "Quito", "Perth", "Kyoto", "Accra"),
    *("Turin", "Lyon", "Bern", "Riga", "Cork", "Pune", "Doha", "Leeds"),
]


def judge(folder: Path, queries: list[Json], *options: str, corpus: Any = None) -> int:
    source = write_lines(folder / "corpus.jsonl", CORPUS if corpus is None else corpus)
    query_file = write_lines(folder / "queries.jsonl", queries)
    return main(["evaluate", "--corpus", source, "--queries", query_file, *options])


def figures(
    capsys: pytest.CaptureFixture[str],
    folder: Path,
    queries: list[Json],
    *options: str,
    corpus: Any = None,
) -> Json:
    assert judge(folder, queries, "--json", *options, corpus=corpus) == 0
    report: Json = json.loads(capsys.readouterr().out)
    return report


@pytest.mark.parametrize(
    ("query", "relevant", "ndcg", "recall"),
    [
        ("maps", {"m 2": 1}, 1, 1),
        ("maps", {"n": 1}, 0, 0),
        ("weather", {"w/1": 1, "ü": 0}, 1, 1),
        ("weather", {"w/1": 3, "m 2": 1, "ü": 1}, 1, 1),
        ("maps", {"m 2": 1, "n": 1}, 1 / (1 + 1 / log2(3)), 0.5),
        ("maps", {"m 2": 1, "n": 2}, 1 / (3 + 1 / log2(3)), 0.5),
        ("!!!", {"n": 1}, 0, 0),
    ],
)
def test_ndcg_and_recall_equal_their_definitions(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    query: str,
    relevant: Json,
    ndcg: float,
    recall: float,
) -> None:
    report = figures(capsys, tmp_path, [{"query": query, "relevant": relevant}])
    assert report == {
        "queries": 1,
        "ndcg@10": pytest.approx(ndcg),
        "recall@24": pytest.approx(recall),
        "interval": [pytest.approx(ndcg)] * 2,
    }


def test_the_gain_is_discounted_by_rank(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    documents = [(str(d["name"]), str(d.get("description", "")), "") for d in CORPUS]
    second = positions(catalogue(tmp_path, documents, semantic=True), "weather")[1]
    capsys.readouterr()
    query = {"query": "weather", "relevant": {CORPUS[second]["id"]: 1}}
    assert figures(capsys, tmp_path, [query])["ndcg@10"] == pytest.approx(1 / log2(3))


def test_ndcg_is_cut_at_10_and_recall_at_24(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    corpus = [{"id": str(n), "name": "same", "description": "thing"} for n in range(40)]
    queries = [{"query": "thing", "relevant": {str(n): 1}} for n in (9, 10, 23, 24)]
    assert judge(tmp_path, queries, "--json", "--worst", "4", corpus=corpus) == 0
    worst = json.loads(capsys.readouterr().out)["worst"]
    by_id = {next(iter(each["wanted"])): each for each in worst}
    assert [by_id[n]["ndcg@10"] > 0 for n in ("9", "10", "23", "24")] == [True, *[False] * 3]
    assert [by_id[n]["recall@24"] for n in ("9", "10", "23", "24")] == [1, 1, 1, 0]
    assert by_id["24"]["returned"] == [str(n) for n in range(24)]


def test_the_worst_queries_are_reported_with_returned_and_relevant_ids(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    queries = [
        {"query": "maps", "relevant": {"m 2": 1}},
        {"query": "news", "relevant": {"w/1": 1}},
        {"query": "qqqqqqqqqq", "relevant": {"ü": 2, "n": 1}},
    ]  # the first is answered rightly
    report = figures(capsys, tmp_path, queries, "--worst", "3")
    assert report["queries"] == 3
    assert [(each["query"], each["returned"], each["wanted"]) for each in report["worst"]] == [
        ("news", ["n"], {"w/1": 1}),
        ("qqqqqqqqqq", [], {"ü": 2, "n": 1}),
    ]
    assert judge(tmp_path, queries, "--worst", "1") == 0
    output = capsys.readouterr().out
    assert "news" in output
    assert "w/1" in output
    assert "qqqq" not in output


def test_queries_without_relevant_documents_do_not_count(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    queries = [
        {"query": "maps", "relevant": {"m 2": 1}},
        {"query": "maps", "relevant": {"n": 1}},
        {"query": "maps", "relevant": {}},
        {"query": "maps", "relevant": {"m 2": 0}},
    ]
    report = figures(capsys, tmp_path, queries)
    assert report.pop("interval") == [0, 1]
    assert report == {"queries": 2, "ndcg@10": 0.5, "recall@24": 0.5}


def test_the_default_output_is_a_table_of_the_same_figures(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    queries = [{"query": "maps", "relevant": {"m 2": 1}}, {"query": "x", "relevant": {"n": 1}}]
    assert judge(tmp_path, queries) == 0
    header, row = capsys.readouterr().out.splitlines()
    assert header.split("   ") == ["queries", "nDCG@10", "95 % of resamples", "recall@24"]
    assert row.split() == ["2", "0.5000", "0.0000", "to", "1.0000", "0.5000"]


def test_a_second_ranking_is_compared_query_by_query(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    corpus = [
        {"id": "a", "name": "Clearance", "description": "AML screening of addresses"},
        {"id": "b", "name": "Tally", "description": "Counts of wallets and cards"},
    ]
    queries = [
        {"query": "is it under sanctions, fraud detection", "relevant": {"a": 1}},
        {"query": "tally", "relevant": {"b": 1}},
    ]
    options = ("--no-semantic", "--compare", "encoder=static", "--compare", "least_similarity=0.1")
    assert judge(tmp_path, queries, "--json", *options, corpus=corpus) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["ndcg@10"], report["compared"]["ndcg@10"]) == (0.5, 1)
    comparison = report["comparison"]
    assert (comparison["gain"], comparison["better"], comparison["worse"]) == (0.5, 1, 0)
    change = {"query": queries[0]["query"], "before": 0, "after": 1}
    assert (comparison["most_better"], comparison["most_worse"]) == ([change], [])
    assert judge(tmp_path, queries, *options, corpus=corpus) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines[1:3]] == ["0.5000", "1.0000"]
    assert lines[-1] == "  0.0000 → 1.0000  is it under sanctions, fraud detection"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("similarity_weight=nan", "similarity_weight=nan: Expected `float` >= 0.0"),
        ("saturation=much", "saturation=much: Expected `float`"),
        ("reranked=-1", "reranked=-1: Expected `int` >= 0"),
        (
            "encoder=mine",
            "'encoder=mine' is no change of the ranking; write encoder= with one of none, ",
        ),
        ("saturation", "saturation=: Expected `float`"),
    ],
)
def test_a_change_of_no_parameter_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, change: str, message: str
) -> None:
    queries = [{"query": "maps", "relevant": {"m 2": 1}}]
    assert judge(tmp_path, queries, "--compare", change) == 2
    assert message in capsys.readouterr().err


def test_names_are_optional_and_unknown_fields_are_ignored(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    corpus = [{"id": "a", "name": "", "description": "maps", "url": "https://x.example"}]
    queries = [{"query": "maps", "relevant": {"a": 1}, "source": "test"}]
    assert judge(tmp_path, queries, "--json", corpus=corpus) == 0
    assert json.loads(capsys.readouterr().out)["ndcg@10"] == 1


def test_a_service_is_judged_by_its_endpoints_and_counted_once(tmp_path: Path) -> None:
    corpus = [
        {"id": "n", "name": "News", "endpoints": [{"path": "headlines"}]},
        {
            "id": "w",
            "name": "Weather",
            "domain": "sky.example",
            "endpoints": [
                {"url": "https://a.sky.example/v1/forecast", "method": "GET"},
                {"path": "/v1/Sea Level/{port}", "description": "Tides"},
                {"path": "Tides?", "parameters": [{"name": "harbour"}], "tags": ["boats"]},
            ],
        },
    ]
    source = write_lines(tmp_path / "corpus.jsonl", corpus)
    words = ("forecast", "level port", "tides", "harbour", "boats")
    asked = [{"query": word, "relevant": {"w": 1}} for word in words]
    judgements = evaluate(source, write_lines(tmp_path / "queries.jsonl", asked))
    assert [judgement.returned[:1] for judgement in judgements] == [["w"]] * len(words)
    assert all(judgement.returned.count("w") == 1 for judgement in judgements)


@pytest.mark.parametrize(
    ("endpoint", "message"),
    [
        ({"description": "x"}, "$.endpoints[1]: Object needs either `url` or `path`"),
        ({"url": "https://a.example", "path": "x"}, "$.endpoints[1]: Object needs either"),
        ({"path": 5}, "$.endpoints[1].path: Expected `str`, got `int`"),
        ({"path": "x", "tags": [None]}, "$.endpoints[1].tags[0]: Expected `str`, got `null`"),
        (
            {"path": "x", "parameters": [{}]},
            "$.endpoints[1].parameters[0]: Object missing required field `name`",
        ),
    ],
)
def test_an_invalid_endpoint_is_an_error_with_its_line_and_json_path(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, endpoint: Json, message: str
) -> None:
    document = {"id": "a", "name": "A", "endpoints": [{"path": "x"}, endpoint]}
    queries = [{"query": "maps", "relevant": {"n": 1}}]
    assert judge(tmp_path, queries, corpus=[*CORPUS, document]) == 1
    output = capsys.readouterr()
    assert f"corpus.jsonl:5: {message}" in output.err
    assert output.out == ""


@pytest.mark.parametrize(
    ("corpus", "queries", "message"),
    [
        ([{"name": "x"}], [{"query": "x", "relevant": {"x": 1}}], "corpus.jsonl:1: "),
        (CORPUS, [{"query": "maps", "relevant": {"m 2": 1}}, {"query": 5}], "queries.jsonl:2: "),
        (CORPUS, [{"query": "maps", "relevant": {"m 2": "very"}}], "queries.jsonl:1: "),
        (
            CORPUS,
            [{"query": "maps", "relevant": {"m 2": 1, "rial": 1, "zz": 0}}],
            "queries.jsonl:1: the corpus has no 'rial'; give ids of documents",
        ),
        (CORPUS, [{"query": "maps", "relevant": {"m 2": -1}}], "queries.jsonl:1: $.relevant"),
        (CORPUS, [{"query": "maps", "relevant": {}}], "queries.jsonl: "),
        (CORPUS, [], "queries.jsonl: "),
    ],
)
def test_invalid_documents_and_queries_are_errors_with_file_and_line(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    corpus: list[Json],
    queries: list[Json],
    message: str,
) -> None:
    assert judge(tmp_path, queries, corpus=corpus) != 0
    output = capsys.readouterr()
    assert message in output.err
    assert output.out == ""


def test_documents_that_share_an_id_are_not_judged_twice(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    corpus = [{"id": "a", "name": "maps"}, {"id": "a", "name": "maps"}]
    status = judge(tmp_path, [{"query": "maps", "relevant": {"a": 1}}], "--json", corpus=corpus)
    output = capsys.readouterr()
    if status == 0:
        report = json.loads(output.out)
        assert (report["ndcg@10"], report["recall@24"]) == (1, 1)
    else:
        assert "corpus.jsonl" in output.err


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    missing = tmp_path / "missing.jsonl"
    run = run_indexer("evaluate", "--corpus", missing, "--queries", missing)
    assert run.returncode != 0
    assert "missing.jsonl" in run.stderr
    assert "Traceback" not in run.stderr


SUBJECTS = [f"{kind} of {place}" for kind in ("maps", "tides", "rain") for place in TOWNS]
TOWN_CORPUS = [
    {"id": subject, "name": subject.title(), "description": f"Everything about {subject}, daily"}
    for subject in SUBJECTS
]
TOWN_QUERIES = [{"query": subject, "relevant": {subject: 1}} for subject in SUBJECTS]


def test_warnings_are_judged_with_half_of_the_documents_the_same_in_every_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    runs = [
        figures(capsys, tmp_path, TOWN_QUERIES, "--unanswerable", corpus=TOWN_CORPUS)
        for _ in range(2)
    ]
    assert runs[0] == runs[1]
    report = runs[0]
    # Each half of two splits: a query is answerable in one half, and unanswerable in the other.
    assert report["answerable"] == report["unanswerable"] == 2 * len(SUBJECTS)
    assert report["auroc"] > 0.9
    assert report["falseWarnings"] == 0
    assert judge(tmp_path, TOWN_QUERIES, "--unanswerable", corpus=TOWN_CORPUS) == 0
    header, row = capsys.readouterr().out.splitlines()
    assert header.split("   ")[0] == "answerable"
    assert row.split()[:2] == [str(report["answerable"]), str(report["unanswerable"])]


def test_warnings_need_queries_of_both_kinds(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    wrong = [{"query": "maps of Oslo", "relevant": {"maps of Rome": 1}}]
    assert judge(tmp_path, wrong, "--unanswerable", corpus=TOWN_CORPUS) == 1
    assert "answers no query rightly" in capsys.readouterr().err
    queries = [{"query": "maps", "relevant": {"m 2": 1}}]
    assert judge(tmp_path, queries, "--unanswerable") == 1
    assert "needs 20 descriptions of at least 3 words" in capsys.readouterr().err
    options = ("--unanswerable", "--worst", "2")
    assert judge(tmp_path, [{"query": "maps", "relevant": {"m 2": 1}}], *options) == 2
    assert "--unanswerable goes with neither" in capsys.readouterr().err


@pytest.mark.parametrize("grade", [-1, 5000])
def test_a_grade_that_is_none_is_an_error_with_its_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, grade: int
) -> None:
    assert judge(tmp_path, [{"query": "maps", "relevant": {CORPUS[0]["id"]: grade}}]) == 1
    assert "queries.jsonl:1: $.relevant" in capsys.readouterr().err
