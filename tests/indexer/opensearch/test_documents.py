"""The documents of a cluster have the terms, and the values, that the snapshot has."""

from __future__ import annotations

from collections import defaultdict

import pytest

from indexer.__main__ import main
from indexer.opensearch.documents import ClusterDocuments
from service.conditions import Filters
from service.opensearch.clauses import DOCUMENTS, ORDINAL
from service.search.postings import FULL_WEIGHT, PostingLists
from service.snapshot.snapshot import Snapshot, open_snapshot
from service.storage.container import open_arrays, writing_arrays
from service.storage.texts import Texts, write_texts
from tests.support.running import SEEDS, Json


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    out = tmp_path_factory.mktemp("documents")
    source = str(SEEDS / "services.jsonl")
    assert main(["build", source, "--no-downloads", "--out", str(out)]) == 0
    return open_snapshot(out)


@pytest.fixture(scope="module")
def documents(snapshot: Snapshot, tmp_path_factory: pytest.TempPathFactory) -> list[Json]:
    folder = tmp_path_factory.mktemp("annotations")
    with writing_arrays(folder / "annotations.arrays") as writer:
        write_texts(writer, "annotations", [b""] * len(snapshot.services))
    return [
        *ClusterDocuments(
            snapshot, Texts(open_arrays(folder / "annotations.arrays"), "annotations")
        ).read()
    ]


def test_documents_have_the_terms_that_the_postings_have(
    snapshot: Snapshot, documents: list[Json]
) -> None:
    parser = snapshot.embedded.parser
    lists = PostingLists(snapshot.index)
    expected = defaultdict[int, set[str]](set)
    for term in range(parser.header.terms):
        (own,) = lists.of_word([(term, FULL_WEIGHT)])
        for ordinal in own.ordinals.tolist():
            expected[ordinal].add(parser.term(term))
    found = {
        each[ORDINAL]: {
            term
            for name, text in each.items()
            if name.startswith("weight_")
            for term in text.split()
        }
        for service in documents
        for each in service[DOCUMENTS]
    }
    assert found == expected


def test_values_are_the_numbers_of_facets_and_places_those_of_orders(
    snapshot: Snapshot, documents: list[Json]
) -> None:
    assert [each[ORDINAL] for each in documents] == [*range(len(snapshot.services))]
    for name, facet in snapshot.filters.facets.items():
        for number in range(len(facet)):
            having = [each[ORDINAL] for each in documents if number in each[name]]
            assert having == facet.mask([facet.value(number)]).nonzero()[0].tolist()
    for sort in ("price", "name", "popularity"):
        listed = snapshot.list(limit=200, filters=Filters(sort=sort)).ordinals
        assert [*listed] == sorted(listed, key=lambda n: documents[n][f"by_{sort}"])
