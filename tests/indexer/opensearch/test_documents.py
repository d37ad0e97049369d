"""The documents of a cluster have exactly the compiled postings."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

import indexer.opensearch.documents as documents_module
from indexer.__main__ import main
from indexer.opensearch.documents import ClusterDocuments, remove_postings
from service.opensearch.index import DELIMITER, GROUP, ORDINAL, SERVICE, TERMS
from service.search.postings import FULL_WEIGHT, PostingLists
from service.snapshot.snapshot import Snapshot, open_snapshot
from tests.support.running import SEEDS


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    sources = [str(SEEDS / name) for name in ("services.jsonl", "resources.jsonl")]
    assert main(["build", *sources, "--no-downloads", "--out", str(tmp_path)]) == 0
    return open_snapshot(tmp_path)


def tokens_of(folder: Path) -> dict[int, dict[str, int]]:
    """Return the tokens of each document, with their impacts."""
    documents, tokens = ClusterDocuments(folder), {}
    for ordinals in documents.passes:
        for document in documents.read(ordinals):
            pairs = [token.split(DELIMITER) for token in document[TERMS].split()]
            tokens[document[ORDINAL]] = {token: int(impact) for token, impact in pairs}
            assert len(pairs) == len(tokens[document[ORDINAL]])
    assert len(tokens) == documents.count
    return tokens


def test_tokens_are_the_impacts_of_each_document(
    snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents_module, "PASS", 5000)
    header = snapshot.parser.header
    lists = PostingLists(snapshot.folder / "postings" / "postings")
    expected = defaultdict[int, dict[str, int]](dict)
    for term in range(header.terms):
        (own,) = lists.of_word([(term, FULL_WEIGHT)])
        impacts = own.impacts_at(own.ordinals).tolist()
        for ordinal, impact in zip(own.ordinals.tolist(), impacts, strict=True):
            expected[ordinal][str(term)] = impact
    assert len(ClusterDocuments(snapshot.folder).passes) > 1
    tokens = tokens_of(snapshot.folder)
    assert [*tokens] == [*range(header.documents)]
    for ordinal, own_tokens in tokens.items():
        assert own_tokens.pop(GROUP) > 0
        assert own_tokens == expected[ordinal]


def test_documents_have_their_service_and_what_its_penalty_leaves(snapshot: Snapshot) -> None:
    groups = snapshot.groups
    assert groups is not None
    penalties = groups.penalties.astype(np.int64)
    assert penalties.max() > 0
    tokens = tokens_of(snapshot.folder)
    documents = ClusterDocuments(snapshot.folder)
    for ordinals in documents.passes:
        for document in documents.read(ordinals):
            ordinal = document[ORDINAL]
            assert document[SERVICE] == groups.of_document[ordinal]
            left = penalties.max() - penalties[document[SERVICE]] + 1
            assert tokens[ordinal][GROUP] == left


def test_postings_alone_are_removed(snapshot: Snapshot) -> None:
    folder = snapshot.folder / "postings"
    before = {path.name for path in folder.iterdir()}
    remove_postings(snapshot.folder)
    removed = before - {path.name for path in folder.iterdir()}
    assert removed == {"postings.arrays"}
