"""The relevance of the ranking on judged queries."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import NamedTuple
from urllib.parse import quote

import pytest

from indexer.__main__ import main
from indexer.encoder.packaged import describe
from indexer.relevance import discounted_gain, evaluate
from service.conditions import EndpointFilters
from service.search.analysis import term_of, words_of
from service.snapshot.snapshot import Snapshot, open_snapshot
from tests.support.judged import RELEVANCE, group_by_tool, read
from tests.support.running import Json, endpoint, service, write_lines
from tests.support.searching import catalogue, identifier

EVERY = 5  # queries, of which one is asked
pytestmark = pytest.mark.skipif(
    not RELEVANCE.exists(), reason="the judged queries are not available"
)


CORPORA = ("stabletoolbench", "sealtools", "metatool")
LOSS = 0.002  # nDCG
PROBES = 120  # of each kind and corpus
PROBE_LOSS = 0.02  # mean reciprocal rank


class Catalogue(NamedTuple):
    """One corpus, searched by words and meaning, and by words alone."""

    documents: list[Json]
    hybrid: Snapshot
    lexical: Snapshot


@pytest.fixture(scope="module")
def catalogues(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Catalogue]:
    built = {}
    for corpus in CORPORA:
        documents = read(RELEVANCE / corpus / "corpus.jsonl")
        texts = [(d["name"], d["description"], d["category"]) for d in documents]
        folders = (tmp_path_factory.mktemp(f"{corpus}-{n}") for n in range(2))
        built[corpus] = Catalogue(
            documents,
            catalogue(next(folders), texts, semantic=True),
            catalogue(next(folders), texts),
        )
    return built


def test_meaning_improves_the_ranking_of_services_and_makes_no_set_worse(
    capsys: pytest.CaptureFixture[str],
) -> None:
    gains, ndcg = compare(capsys)
    assert min(gains.values()) >= -LOSS, gains
    assert sum(ndcg.values()) / len(CORPORA) >= 0.75, ndcg
    assert ndcg["metatool"] >= 0.68
    described = describe()["figures"]
    assert ndcg == {corpus: pytest.approx(described[corpus], abs=1e-4) for corpus in CORPORA}


def compare(capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the gain in nDCG@10 on each corpus by ranking by meaning, too, and its nDCG@10."""
    gains, ndcg = {}, {}
    for corpus in CORPORA:
        folder = RELEVANCE / corpus
        arguments = ["--corpus", str(folder / "corpus.jsonl"), "--no-semantic"]
        arguments += ["--queries", str(folder / "queries.jsonl"), "--json"]
        assert main(["evaluate", *arguments, "--compare", "encoder=static"]) == 0
        report = json.loads(capsys.readouterr().out)
        gains[corpus] = report["comparison"]["gain"]
        ndcg[corpus] = report["compared"]["ndcg@10"]
    return gains, ndcg


@pytest.mark.parametrize(
    ("corpus", "auroc", "warned"),
    [("metatool", 0.745, 0.35), ("stabletoolbench", 0.758, 0.25), ("sealtools", 0.875, 0.5)],
)
def test_a_quarter_of_unanswerable_queries_is_warned_of_and_few_that_are_answered(
    capsys: pytest.CaptureFixture[str], corpus: str, auroc: float, warned: float
) -> None:
    folder = RELEVANCE / corpus
    arguments = ["--corpus", str(folder / "corpus.jsonl"), "--unanswerable", "--json"]
    assert main(["evaluate", *arguments, "--queries", str(folder / "queries.jsonl")]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["auroc"] >= auroc
    assert report["falseWarnings"] <= 0.05
    assert report["warned"] >= warned


def test_services_are_found_by_what_their_endpoints_do(tmp_path: Path) -> None:
    judgements = evaluate(*group_by_tool(RELEVANCE / "stabletoolbench", tmp_path))
    assert len(judgements) == 765
    assert fmean([judgement.ndcg for judgement in judgements]) >= 0.82


@pytest.mark.parametrize(
    "kind", ["rare word", "request", "rare and frequent", "name", "identifier", "misspelt", "cjk"]
)
@pytest.mark.parametrize("corpus", CORPORA)
def test_queries_that_words_answer_are_answered_as_well(
    catalogues: dict[str, Catalogue], corpus: str, kind: str
) -> None:
    documents, hybrid, lexical = catalogues[corpus]
    probes = list(islice(make_probes(documents, kind), PROBES))
    if kind != "cjk":  # no document has Chinese words: the snapshots must agree
        assert len(probes) > PROBES / 4
    loss = [
        reciprocal_rank(lexical, query, wanted) - reciprocal_rank(hybrid, query, wanted)
        for query, wanted in probes
    ]
    assert sum(loss) / max(len(loss), 1) <= PROBE_LOSS


def make_probes(documents: list[Json], kind: str) -> Iterator[tuple[str, int]]:
    """Yield queries, and the one document that each is about."""
    rng = random.Random(kind)  # noqa: S311  # the same probes in every run
    texts = [
        [word.text for word in words_of(f"{d['name']} {d['description']}") if not word.redundant]
        for d in documents
    ]
    owners = Counter(term for text in texts for term in {term_of(word) for word in text})
    for number in rng.sample(range(len(documents)), len(documents)):
        own = [word for word in texts[number] if word.isalpha() and len(word) > 3]
        rare = [word for word in own if owners[term_of(word)] == 1]
        frequent = [word for word in own if 3 < owners[term_of(word)] < len(documents) / 10]
        if kind == "name":
            yield documents[number]["name"], number
        elif kind == "identifier":
            yield documents[number]["name"].replace(" ", "_").lower(), number
        elif not rare:
            continue
        elif kind == "rare word":
            yield rng.choice(rare), number
        elif kind == "request":
            yield f"I need an API for {rng.choice(rare)} data please", number
        elif kind == "rare and frequent" and frequent:
            yield f"{rng.choice(frequent)} {rng.choice(rare)}", number
        elif kind == "misspelt" and len(word := rng.choice(rare)) > 6:
            cut = rng.randrange(2, len(word) - 2)
            yield word[:cut] + word[cut + 1] + word[cut] + word[cut + 2 :], number
        elif kind == "cjk":
            yield f"请查询 {rng.choice(rare)} 的数据", number


def reciprocal_rank(snapshot: Snapshot, query: str, wanted: int) -> float:
    ids = snapshot.search(query, limit=10).ids
    return 1 / (1 + ids.index(identifier(wanted))) if identifier(wanted) in ids else 0


@pytest.mark.parametrize(
    ("corpus", "minimum"), [("stabletoolbench", 0.69), ("sealtools", 0.85), ("metatool", 0.65)]
)
def test_ndcg_of_endpoints_reaches_its_minimum_with_one_configuration(
    tmp_path: Path, corpus: str, minimum: float
) -> None:
    folder = RELEVANCE / corpus
    source = write_lines(tmp_path / "services.jsonl", as_services(folder / "corpus.jsonl"))
    artifacts = tmp_path / "artifacts"
    assert main(["build", source, "--out", str(artifacts), "--quiet"]) == 0
    snapshot = open_snapshot(artifacts)
    gains = []
    for judged in read(folder / "queries.jsonl")[::EVERY]:
        filters = EndpointFilters(per_service=0)
        hits = snapshot.search_endpoints(judged["query"], 10, 0, filters)
        found = (
            json.loads(b"".join(snapshot.endpoints.item(n, -1)))["x-id"] for n in hits.ordinals
        )
        wanted = judged["relevant"]
        ideal = discounted_gain(sorted(wanted.values(), reverse=True)[:10])
        gains.append(discounted_gain([wanted.get(name, 0) for name in found]) / ideal)
    assert sum(gains) / len(gains) >= minimum


def as_services(corpus: Path) -> list[Json]:
    """Return a service for each tool, with its documents as endpoints, named by their path."""
    tools: dict[tuple[str, str], list[Json]] = defaultdict(list)
    for document in read(corpus):
        parts = document["id"].split("/", 2)
        tool, operation = parts[1:] if len(parts) == 3 else ("-", document["name"])
        url = f"https://tool.example/{quote(operation, safe='')}"
        described = {"url": url, "description": document["description"], "x-id": document["id"]}
        tools[tool, document["category"]].append(endpoint() | described)
    return [
        service(f"tool-{number:05}", name=tool, category=category, endpoints=endpoints)
        for number, ((tool, category), endpoints) in enumerate(tools.items())
    ]
