"""Indexing in parts: even, bounded, and the same whatever the number of workers."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.__main__ import main
from indexer.columns.record_columns import open_columns
from indexer.processes.pool import Pool
from indexer.processes.resources import GIB
from indexer.record_store import write_records
from indexer.segments import indexing
from indexer.segments.indexing import index_in_parts, part_count, write_annotations
from indexer.segments.segment import read_segment
from indexer.segments.store import LARGE_SERVICE, LEVELS, MERGE_FACTOR, MOST_SERVICES, divide
from service.snapshot.snapshot import open_snapshot
from tests.support.artifacts import folder, segments
from tests.support.running import PLAIN, Build, service
from tests.support.searching import ORIGIN, WORDS
from tests.support.workers import several_cpus


@given(st.integers(1, 3_000_000), st.integers(1, 64))
def test_parts_are_bounded_and_need_no_merge(services: int, workers: int) -> None:
    parts = part_count(services, workers)
    assert services / parts <= MOST_SERVICES
    assert parts < MERGE_FACTOR or services / parts >= LEVELS[-1]


@pytest.mark.parametrize(("services", "parts"), [(2000, 1), (20_000, 4), (40_000, 8)])
def test_four_workers_have_as_many_parts_each(services: int, parts: int) -> None:
    assert part_count(services, 4) == parts


@given(st.lists(st.floats(1, 100), min_size=1, max_size=50), st.integers(1, 9))
def test_items_are_divided_by_weight(weights: list[float], parts: int) -> None:
    slices = divide(np.array(weights), parts)
    assert [item for part in slices for item in weights[part]] == weights
    assert len(slices) <= parts
    most = sum(weights) / parts + max(weights)
    assert all(0 < sum(weights[part]) <= most * (1 + 1e-9) for part in slices)


def index(folder: Path, texts: list[bytes], jobs: int) -> list[indexing.Indexed]:
    """Store and index services in a folder."""
    keys = write_records(folder, texts)
    ordinals = np.arange(len(texts))
    with Pool(jobs, 64 * GIB) as pool:
        annotated = write_annotations(folder / "annotations", [b""] * len(texts))
        return index_in_parts(
            folder, folder, ordinals, keys, annotated, keys[:0], ORIGIN, None, pool, print
        )


def text_of(number: int, description: str = "") -> bytes:
    record = {"id": f"s{number}", "name": f"name{number}", "description": description}
    return msgspec.json.encode(record | {"endpoints": []})


@pytest.mark.parametrize("jobs", [1, 2])
def test_services_are_indexed_in_bounded_parts(
    tmp_path: Path, jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "MOST_SERVICES", 4)
    texts = [text_of(number) for number in range(9)]
    indexed = index(tmp_path, texts, jobs)
    segments = [read_segment(part.segment) for part in indexed if part.segment is not None]
    assert [len(each.keys) for each in segments] == [3, 3, 3]
    names = [set(each.services.fields["name"].terms.texts()) for each in segments]
    assert [b"name3" in each for each in names] == [False, True, False]
    columns = [open_columns(part.columns) for part in indexed]
    ids = [service_id for each in columns for service_id in each.service_runs["id"].strings()]
    assert ids == [f"s{number}" for number in range(9)]


def test_large_services_have_parts_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "MOST_SERVICES", 10)
    large = "word " * 2 * LARGE_SERVICE  # which counts as ten services
    texts = [text_of(number, large if number == 4 else "") for number in range(9)]
    segments = [part.segment for part in index(tmp_path, texts, 1)]
    assert [len(read_segment(each).keys) for each in segments if each] == [4, 5]


def test_builds_with_and_without_parts_publish_the_same_files(
    tmp_path: Path, build: Build, artifacts: Path
) -> None:
    records = [
        service(f"s{n}", name=" ".join(WORDS[n % 7 : n % 11]) or "none", description=WORDS[n % 30])
        for n in range(50)
    ]
    assert build(records) == 0
    artifacts.rename(tmp_path / "one")
    with several_cpus(2):
        assert build(records) == 0
    one, parts = folder(tmp_path / "one"), folder(artifacts)
    assert len(segments(parts.parents[1])) == 2
    assert one.name == parts.name
    assert (parts / "index.arrays").read_bytes() == (one / "index.arrays").read_bytes()
    assert main(["verify", str(artifacts)]) == 0
    assert open_snapshot(artifacts).search(WORDS[3]).total > 0


def test_a_large_catalogue_is_indexed_by_all_cpus(
    artifacts: Path, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = 250
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr("indexer.build.SMALL", 0)
    monkeypatch.setattr(indexing, "SMALLEST_PART", part)
    records = [service(f"s{n:04}", endpoints=[]) for n in range(2 * part)]
    assert build(records[:-1], options=PLAIN) == 0
    assert len(segments(artifacts)) == 1
    assert build(records, options=(*PLAIN, "--from-scratch")) == 0
    assert len(segments(artifacts)) == 2
    hits = open_snapshot(artifacts).search("one", limit=2, offset=part - 1)
    assert (hits.total, hits.ids) == (2 * part, ["s0249", "s0250"])
