"""Deriving in parts: bounded, and the same whatever the parts and the number of workers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from indexer.__main__ import main
from indexer.derive import deriving
from indexer.derive.deriving import LARGE_SERVICE, PART, divide
from indexer.derive.extraction import NumberedStrings, TextWriter, Tokens
from service.search.analysis import term_of, words_of
from service.snapshot.snapshot import open_snapshot
from tests.support.artifacts import folder
from tests.support.running import PLAIN, Build, service
from tests.support.searching import WORDS
from tests.support.workers import several_cpus


@given(st.lists(st.integers(1, 50 * LARGE_SERVICE), max_size=60), st.integers(1, 9))
def test_services_are_divided_by_work(sizes: list[int], workers: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deriving, "PART", 20)
        patch.setattr(deriving, "SMALLEST_PART", 5)
        parts = divide(np.arange(len(sizes)), np.array(sizes, np.int64), workers)
    assert [ordinal for part in parts for ordinal in part.tolist()] == [*range(len(sizes))]
    work = [max(1, size / LARGE_SERVICE) for size in sizes]
    largest = max(work, default=0)
    assert all(sum(work[ordinal] for ordinal in part) <= 20 + largest for part in parts)


@pytest.mark.parametrize(("services", "parts"), [(0, 1), (400, 1), (600, 2), (9 * PART + 1, 10)])
def test_a_part_is_worth_a_call_and_its_memory_is_bounded(services: int, parts: int) -> None:
    assert len(divide(np.arange(services), np.ones(services, np.int64), 2)) == parts


@given(st.text(max_size=40))
@example("ж" * 70_000)
def test_indexing_and_queries_produce_the_same_terms(text: str) -> None:
    strings = NumberedStrings()
    texts = TextWriter(("name",), Tokens(strings), None)
    texts.add((text,))
    entries = strings.table().strings()
    tokens = [entries[number] for number in texts.tokens()["name"].items.tolist()]
    words = [word.text for word in words_of(text)]
    assert Counter(tokens) == Counter(f"{word} {term_of(word)}" for word in words)


def contents(snapshot: Path) -> dict[str, bytes]:
    files = (path for path in snapshot.rglob("*") if path.is_file())
    return {path.name: path.read_bytes() for path in files if path.name != "manifest.json"}


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
    assert one.name == parts.name
    assert contents(one) == contents(parts)
    assert main(["verify", str(artifacts)]) == 0
    assert open_snapshot(artifacts).search(WORDS[3]).total > 0


def test_a_large_catalogue_is_derived_by_all_cpus(
    artifacts: Path, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr("indexer.build.SMALL", 0)
    monkeypatch.setattr(deriving, "PART", 100)
    records = [service(f"s{n:04}", endpoints=[]) for n in range(500)]
    assert build(records, options=PLAIN) == 0
    hits = open_snapshot(artifacts).search("one", limit=2, offset=249)
    assert (hits.total, hits.ids) == (500, ["s0249", "s0250"])
