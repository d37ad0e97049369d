"""The relevance of the ranking on judged queries."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import NamedTuple
from urllib.parse import quote

import pytest

from indexer.__main__ import main
from indexer.encoder.packaged import describe
from indexer.options import RankingOptions
from indexer.relevance import (
    CorpusDocument,
    build_corpus,
    discounted_gain,
    evaluate,
    judge,
    read_corpus,
    read_queries,
)
from service.conditions import EndpointFilters
from service.search.analysis import term_of, words_of
from service.snapshot.snapshot import Snapshot, open_snapshot
from tests.support.judged import RELEVANCE, group_by_tool, read
from tests.support.running import Json, build_snapshot_alone, endpoint, service
from tests.support.searching import positions

EVERY = 5  # queries, of which one is asked
pytestmark = pytest.mark.skipif(
    not RELEVANCE.exists(), reason="the judged queries are not available"
)


CORPORA = ("stabletoolbench", "sealtools", "metatool")
LOSS = 0.002  # nDCG
PROBES = 120  # of each kind and corpus
PROBE_LOSS = 0.02  # mean reciprocal rank


class Catalogue(NamedTuple):
    """One corpus, searched by words and meaning, and by words alone.

    `words` has those of each document, and `owners` how many documents have each term.
    """

    documents: list[CorpusDocument]
    words: list[list[str]]
    owners: Counter[str]
    hybrid: Snapshot
    lexical: Snapshot


@pytest.fixture(scope="module")
def catalogues() -> Iterator[dict[str, Catalogue]]:
    with ExitStack() as stack:
        catalogues = {}
        for corpus in CORPORA:
            documents = read_corpus(str(RELEVANCE / corpus / "corpus.jsonl"))
            words = [
                [word.text for word in words_of(f"{d.name} {d.description}") if not word.redundant]
                for d in documents
            ]
            owners = Counter(term for own in words for term in {*map(term_of, own)})
            snapshots = (
                stack.enter_context(build_corpus(documents, RankingOptions(is_semantic)))
                for is_semantic in (True, False)
            )
            catalogues[corpus] = Catalogue(documents, words, owners, *snapshots)
        yield catalogues


def test_meaning_improves_the_ranking_of_services_and_makes_no_set_worse(
    catalogues: dict[str, Catalogue],
) -> None:
    gains, ndcg = {}, {}
    for corpus, catalogue in catalogues.items():
        asked = read_queries(str(RELEVANCE / corpus / "queries.jsonl"), catalogue.documents)
        after, before = (
            fmean(judgement.ndcg for judgement in judge(snapshot, catalogue.documents, asked))
            for snapshot in (catalogue.hybrid, catalogue.lexical)
        )
        gains[corpus], ndcg[corpus] = after - before, after
    assert min(gains.values()) >= -LOSS, gains
    assert sum(ndcg.values()) / len(CORPORA) >= 0.75, ndcg
    assert ndcg["metatool"] >= 0.68
    described = describe()["figures"]
    assert ndcg == {corpus: pytest.approx(described[corpus], abs=1e-4) for corpus in CORPORA}


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
    own = catalogues[corpus]
    probes = list(islice(make_probes(own, kind), PROBES))
    if kind != "cjk":  # no document has Chinese words: the snapshots must agree
        assert len(probes) > PROBES / 4
    loss = [
        reciprocal_rank(own.lexical, query, wanted) - reciprocal_rank(own.hybrid, query, wanted)
        for query, wanted in probes
    ]
    assert sum(loss) / max(len(loss), 1) <= PROBE_LOSS


def make_probes(catalogue: Catalogue, kind: str) -> Iterator[tuple[str, int]]:
    """Yield queries, and the one document that each is about."""
    rng = random.Random(kind)  # noqa: S311  # the same probes in every run
    documents, owners = catalogue.documents, catalogue.owners
    for number in rng.sample(range(len(documents)), len(documents)):
        own = [word for word in catalogue.words[number] if word.isalpha() and len(word) > 3]
        rare = [word for word in own if owners[term_of(word)] == 1]
        frequent = [word for word in own if 3 < owners[term_of(word)] < len(documents) / 10]
        if kind == "name":
            yield documents[number].name, number
        elif kind == "identifier":
            yield documents[number].name.replace(" ", "_").lower(), number
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
    found = positions(snapshot, query, 10)
    return 1 / (1 + found.index(wanted)) if wanted in found else 0


@pytest.mark.parametrize(
    ("corpus", "minimum"), [("stabletoolbench", 0.69), ("sealtools", 0.85), ("metatool", 0.65)]
)
def test_ndcg_of_endpoints_reaches_its_minimum_with_one_configuration(
    tmp_path: Path, corpus: str, minimum: float
) -> None:
    folder = RELEVANCE / corpus
    services = as_services(folder / "corpus.jsonl")
    snapshot = open_snapshot(build_snapshot_alone(tmp_path, services, semantic=True))
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
