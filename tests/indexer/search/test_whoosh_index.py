"""The Whoosh index: its terms, and its parts, which compile to the same postings."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from whoosh import index

from indexer.__main__ import main
from indexer.errors import IndexerError
from indexer.record_store import write_record_store
from indexer.resources import GIB, MIB
from indexer.search import spans
from indexer.search.postings import compile_postings
from indexer.search.spans import indexing
from indexer.search.whoosh_index import Terms, index_part
from service.search.analysis import term_of, words_of
from service.snapshot.snapshot import open_snapshot
from tests.support.artifacts import folder
from tests.support.running import Build, examples, service, write_lines
from tests.support.searching import IDENTIFIERS, WORDS
from tests.support.workers import several_cpus

texts = st.lists(st.sampled_from([*WORDS[:9], *IDENTIFIERS[:2], "the", "é"]), max_size=9).map(
    " ".join
)
documents = st.lists(st.tuples(texts.map("x{}".format), texts, texts), min_size=1, max_size=12)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@given(st.text(max_size=40))
def test_indexing_and_queries_produce_the_same_terms(text: str) -> None:
    terms = Counter(term_of(word.text).encode() for word in words_of(text))
    indexed = [(term, count, weight) for term, count, weight, _ in Terms().index(text)]
    assert indexed == [(term, count, float(count)) for term, count in terms.items()]


def test_a_word_as_long_as_a_document_is_indexed(tmp_path: Path) -> None:
    word = "ж" * 70_000
    index_part(tmp_path, [(word, word, ""), ("other", "", "")])
    with index.open_dir(str(tmp_path)).reader() as reader:
        assert reader.doc_frequency("name", word) == 1


def test_an_index_with_a_missing_document_is_not_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index_part(tmp_path / "other", [("one", "", "")])
    other = index.open_dir(str(tmp_path / "other"), readonly=True)
    monkeypatch.setattr(index, "open_dir", lambda *_, **__: other)
    with pytest.raises(IndexerError, match="has 1 documents, not 2; build again"):
        index_part(tmp_path / "part", [("one", "", ""), ("two", "", "")])


@settings(max_examples=examples(15), deadline=None)
@given(documents, st.data())
def test_parts_compile_to_the_same_bytes_as_one_index(
    documents: list[tuple[str, str, str]], data: st.DataObject
) -> None:
    cuts = data.draw(st.sets(st.integers(1, len(documents)), max_size=3))
    bounds = sorted({0, *cuts, len(documents)})
    names, prior = [name for name, _, _ in documents], np.linspace(0, 1, len(documents))
    with tempfile.TemporaryDirectory() as name:
        parts = [
            index_part(Path(name) / str(start), documents[start:stop], start)
            for start, stop in pairwise(bounds)
        ]
        compile_postings(parts, names, prior, Path(name) / "parts")
        whole = index_part(Path(name) / "whole", documents)
        compile_postings([whole], names, prior, Path(name) / "one")
        assert contents(Path(name) / "parts") == contents(Path(name) / "one")


def test_builds_with_and_without_parts_publish_the_same_files(
    tmp_path: Path, build: Build, artifacts: Path
) -> None:
    records = [
        service(f"s{n}", name=" ".join(WORDS[n % 7 : n % 11]) or "none", description=WORDS[n % 30])
        for n in range(100)
    ]
    assert build(records) == 0
    artifacts.rename(tmp_path / "one")
    with several_cpus(3):
        assert build(records) == 0
    one, parts = folder(tmp_path / "one"), folder(artifacts)
    assert sorted(path.name for path in (parts / "whoosh").iterdir()) == ["0", "1", "2"]
    assert one.name == parts.name
    assert contents(parts / "postings") == contents(one / "postings")
    assert main(["verify", str(artifacts)]) == 0
    assert open_snapshot(artifacts).search(WORDS[3]).total > 0


def test_a_large_catalogue_is_indexed_by_all_cpus(
    tmp_path: Path, artifacts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    count = 2 * spans.SMALLEST_PART
    records = [service(f"s{n:04}", endpoints=[]) for n in range(count)]
    source = write_lines(tmp_path / "source.jsonl", records)
    assert main(["build", source, "--out", str(artifacts), "--quiet"]) == 0
    assert len(list((folder(artifacts) / "whoosh").iterdir())) == 2
    hits = open_snapshot(artifacts).search("one", limit=2, offset=spans.SMALLEST_PART - 1)
    assert (hits.total, hits.ids) == (count, ["s2499", "s2500"])


@pytest.mark.parametrize(
    ("jobs", "memory", "parts"), [(1, 64 * GIB, 1), (2, 64 * GIB, 2), (9, 2 * GIB, 2), (9, MIB, 1)]
)
def test_jobs_and_memory_limit_the_number_of_parts(
    tmp_path: Path, jobs: int, memory: int, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.search.spans.SMALLEST_PART", 1)
    names = [f"name{number}" for number in range(9)]
    records = (b'{"name":"%b","description":"","endpoints":[]}' % name.encode() for name in names)
    count = write_record_store(tmp_path, "records", records)
    pid = os.getpid()
    with indexing(tmp_path, tmp_path, count, print, jobs=jobs, memory=memory) as results:
        indexed = results()
    assert os.getpid() == pid
    assert [span.services.start for span in indexed] == [
        count * part // parts for part in range(parts)
    ]
    terms = {term.decode() for span in indexed for term in span.services.fields["name"].terms}
    assert terms >= set(names)
