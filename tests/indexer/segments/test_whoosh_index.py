"""The Whoosh index: its terms, and its parts, which compile to the same postings."""

from __future__ import annotations

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
from indexer.processes.resources import GIB, MIB
from indexer.record_store import run_of, write_records
from indexer.search.parts import place_documents, segment_parts
from indexer.search.postings import compile_postings
from indexer.segments import indexing
from indexer.segments.indexing import Resources, index_in_parts
from indexer.segments.segment import WHOOSH, read_segment
from indexer.segments.store import TEXTS
from indexer.segments.whoosh_index import Terms
from service.search.analysis import term_of, words_of
from service.snapshot.manifest import SEGMENTS
from service.snapshot.snapshot import open_snapshot
from tests.support.artifacts import folder
from tests.support.running import Build, examples, service, write_lines
from tests.support.searching import IDENTIFIERS, ORIGIN, WORDS, one_process, write_segment
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


def test_an_index_with_a_missing_document_is_not_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_segment(tmp_path / "other", [("one", "", "")])
    other = index.open_dir(str(tmp_path / "other" / WHOOSH), readonly=True)
    monkeypatch.setattr(index, "open_dir", lambda *_, **__: other)
    with pytest.raises(IndexerError, match="has 1 documents, not 2; build again"):
        write_segment(tmp_path / "segment", [("one", "", ""), ("two", "", "")])


@settings(max_examples=examples(15), deadline=None)
@given(documents, st.data())
def test_segments_compile_to_the_same_bytes_as_one(
    documents: list[tuple[str, str, str]], data: st.DataObject
) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(documents)), max_size=3))
    bounds = sorted([0, *cuts, len(documents)])
    names, prior = [name for name, _, _ in documents], np.linspace(0, 1, len(documents))
    with tempfile.TemporaryDirectory() as name:
        ordinals = np.arange(len(documents), dtype=np.int32)
        placed = place_documents(np.zeros_like(ordinals), np.zeros_like(ordinals))
        for target, stops in (("parts", bounds), ("one", [0, len(documents)])):
            parts = (
                part
                for number, (start, stop) in enumerate(pairwise(stops))
                for part in segment_parts(
                    write_segment(Path(name) / f"{target} {number}", documents[start:stop]),
                    ordinals[start:stop],
                    placed,
                )
            )
            runs = Path(name) / f"{target} runs"
            compile_postings(parts, names, prior, placed, Path(name) / target, runs, one_process())
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
    assert len(list((parts / SEGMENTS / TEXTS).iterdir())) == 3
    assert one.name == parts.name
    assert contents(parts / "postings") == contents(one / "postings")
    assert main(["verify", str(artifacts)]) == 0
    assert open_snapshot(artifacts).search(WORDS[3]).total > 0


def test_a_large_catalogue_is_indexed_by_all_cpus(
    tmp_path: Path, artifacts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    count = 2 * indexing.SMALLEST_PART
    records = [service(f"s{n:04}", endpoints=[]) for n in range(count)]
    source = write_lines(tmp_path / "source.jsonl", records)
    assert main(["build", source, "--out", str(artifacts), "--quiet"]) == 0
    assert len(list((folder(artifacts) / SEGMENTS / TEXTS).iterdir())) == 2
    hits = open_snapshot(artifacts).search("one", limit=2, offset=indexing.SMALLEST_PART - 1)
    assert (hits.total, hits.ids) == (count, ["s2499", "s2500"])


@pytest.mark.parametrize(
    ("jobs", "memory", "parts"), [(1, 64 * GIB, 1), (2, 64 * GIB, 2), (9, 2 * GIB, 2), (9, MIB, 1)]
)
def test_jobs_and_memory_limit_the_number_of_parts(
    tmp_path: Path, jobs: int, memory: int, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.segments.indexing.SMALLEST_PART", 1)
    names = [f"name{number}" for number in range(9)]
    records = (
        b'{"id":"%b","name":"%b","description":"","endpoints":[]}' % (name.encode(), name.encode())
        for name in names
    )
    keys, _ = write_records(tmp_path, map(run_of, records))
    resources = Resources(jobs, memory)
    indexed = index_in_parts(
        tmp_path / "segments",
        tmp_path,
        np.arange(len(keys)),
        np.zeros_like(keys),
        set(),
        ORIGIN,
        None,
        resources,
        print,
    )
    assert len(indexed) == parts
    segments = [read_segment(part.segment) for part in indexed if part.segment is not None]
    terms = {term.decode() for each in segments for term in each.services.fields["name"].terms}
    assert terms >= set(names)
