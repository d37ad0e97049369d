"""The documents of a cluster have exactly the compiled postings."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import indexer.opensearch.documents as documents_module
from indexer.__main__ import main
from indexer.opensearch.documents import (
    Documents,
    EndpointDocuments,
    service_documents,
)
from service.filtering.facets import SERVICE_FACETS
from service.opensearch.indexes import DELIMITER, SERVICE, SIBLINGS, TERMS, facet_field
from service.search.postings import BLOCK_SIZE, IMPACT_BITS, IMPACT_MASK, PostingLists
from service.snapshot.snapshot import Snapshot, open_snapshot
from tests.support.running import SEEDS
from tests.support.searching import compiled

WORDS = ["tides", "harbour", "weather", "map", "price", "of", "gold"]
texts = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
catalogues = st.lists(st.tuples(texts, texts, texts), max_size=150)


def expected(postings: Path, terms: int) -> dict[int, dict[int, int]]:
    """Return the impacts of each document by the numbers of their terms."""
    lists, impacts = PostingLists(postings), defaultdict[int, dict[int, int]](dict)
    for term in range(terms):
        rare, dense, _ = lists.of_term(term)
        if dense is not None:
            column = dense.impacts.reshape(-1, BLOCK_SIZE).ravel()
            rare = column.nonzero()[0] << IMPACT_BITS | column[column.nonzero()[0]]
        for posting in rare.tolist():
            impacts[posting >> IMPACT_BITS][term] = posting & IMPACT_MASK
    return impacts


def loaded(documents: Documents) -> dict[int, dict[int, int]]:
    """Return the impacts of each document as its tokens have them."""
    impacts = {}
    for ordinals in documents.passes:
        for document in documents.read(ordinals):
            tokens = [token.split(DELIMITER) for token in document.fields[TERMS].split()]
            impacts[int(document.id)] = {int(term): int(impact) for term, impact in tokens}
            assert len(tokens) == len(impacts[int(document.id)])
    return impacts


@given(catalogue=catalogues)
def test_tokens_are_the_impacts_of_each_document(catalogue: list[tuple[str, str, str]]) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents_module, "PASS", 40)
        compiled(Path(name), catalogue)
        documents = Documents(Path(name, "postings"), {})
        assert documents.count == len(catalogue)
        terms = len(np.load(Path(name, "postings", "document_frequencies.npy")))
        impacts = loaded(documents)
        assert sorted(impacts) == list(range(len(catalogue)))
        assert {n: each for n, each in impacts.items() if each} == expected(
            Path(name, "postings"), terms
        )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    artifacts = tmp_path_factory.mktemp("documents")
    sources = [str(SEEDS / name) for name in ("services.jsonl", "resources.jsonl")]
    assert main(["build", *sources, "--no-downloads", "--out", str(artifacts)]) == 0
    return artifacts


def test_values_of_facets_are_those_that_filters_have(folder: Path) -> None:
    snapshot = open_snapshot(folder)
    documents = service_documents(snapshot.folder)
    counts: dict[str, dict[int, int]] = {name: defaultdict(int) for name in SERVICE_FACETS}
    for ordinals in documents.passes:
        for document in documents.read(ordinals):
            for name in SERVICE_FACETS:
                for number in document.fields.get(facet_field(name), ()):
                    counts[name][number] += 1
    for name, facet in snapshot.filters.facets.items():
        assert counts[name] == dict(enumerate(facet.counts(None).tolist()))


def test_endpoints_of_a_service_have_its_routing(folder: Path) -> None:
    snapshot = open_snapshot(folder)
    documents = EndpointDocuments(snapshot.folder)
    seen: dict[str, list[int]] = defaultdict(list)
    for ordinals in documents.passes:
        for document in documents.read(ordinals):
            assert document.routing == str(document.fields[SERVICE])
            if SIBLINGS in document.fields:
                seen[document.routing].append(int(document.id))
                assert document.fields[SIBLINGS] == count_endpoints(snapshot, document.routing)
    assert sum(map(len, seen.values())) == len(snapshot.endpoints)
    for service, ordinals_of_service in seen.items():
        assert ordinals_of_service == [*snapshot.endpoints.of_service(int(service))]


def count_endpoints(snapshot: Snapshot, service: str) -> int:
    return len(snapshot.endpoints.of_service(int(service)))
