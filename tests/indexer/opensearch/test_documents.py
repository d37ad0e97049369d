"""The documents of a cluster have the terms, and the values, that the snapshot has."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from indexer.opensearch.loading import read_documents
from service.arrays.container import open_arrays, writing_arrays
from service.arrays.texts import Texts, write_texts
from service.conditions import Filters
from service.opensearch.engine import DOCUMENTS, ORDINAL
from service.search.postings import FULL_WEIGHT, PostingLists
from service.snapshot.snapshot import Snapshot, open_snapshot
from tests.support.running import Json


@pytest.fixture(scope="module")
def snapshot(sample: Path) -> Snapshot:
    return open_snapshot(sample)


@pytest.fixture(scope="module")
def documents(snapshot: Snapshot, tmp_path_factory: pytest.TempPathFactory) -> list[Json]:
    folder = tmp_path_factory.mktemp("annotations")
    with writing_arrays(folder / "annotations.arrays") as writer:
        write_texts(writer, "annotations", [b""] * len(snapshot.services))
    return [
        *read_documents(
            snapshot,
            Texts(open_arrays(folder / "annotations.arrays"), "annotations"),
            snapshot.embedded.parser.header.config,
        )
    ]


def test_documents_have_the_terms_that_the_postings_have(
    snapshot: Snapshot, documents: list[Json]
) -> None:
    parser = snapshot.embedded.parser
    lists = PostingLists(snapshot.index)
    expected = defaultdict[int, set[str]](set)
    for term in range(parser.header.terms):
        (own,) = lists.of_terms([(term, FULL_WEIGHT)])
        for ordinal in own.ordinals.tolist():
            expected[ordinal].add(parser.term(term))
    found = {
        each[ORDINAL]: {term.partition("|")[0] for term in each["terms"].split()}
        for service in documents
        for each in service[DOCUMENTS]
    }
    assert found == expected


def test_values_are_the_numbers_of_facets_and_places_those_of_orders(
    snapshot: Snapshot, documents: list[Json]
) -> None:
    assert [each[ORDINAL] for each in documents] == [*range(len(snapshot.services))]
    for name, column in snapshot.filters.columns.items():
        for number, value in enumerate(map(column.values.__getitem__, range(len(column.values)))):
            having = [each[ORDINAL] for each in documents if number in each[name]]
            assert having == column.mask([value]).nonzero()[0].tolist()
    for sort in ("price", "name", "popularity"):
        listed = snapshot.list(limit=200, filters=Filters(sort=sort)).ordinals
        assert [*listed] == sorted(listed, key=lambda n: documents[n][f"by_{sort}"])
