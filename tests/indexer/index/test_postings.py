"""Compiling by ranges of terms gives the same bytes, however the terms are divided."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.index import postings
from service.arrays.container import open_arrays
from service.search.config import SEARCH_CONFIG
from tests.support.artifacts import folder
from tests.support.running import Json, build_snapshot_alone, endpoint, examples, service
from tests.support.searching import WORDS, Service, compiled
from tests.support.sources.x402 import resource

texts = st.lists(st.sampled_from(WORDS[:9]), max_size=6).map(" ".join)
paths = st.lists(st.tuples(texts, texts), max_size=3)
services = st.lists(st.builds(Service, texts, texts, texts, paths, paths), max_size=9)


def contents(compiled_folder: Path) -> bytes:
    return (compiled_folder / "index.arrays").read_bytes()


@settings(max_examples=examples(25), deadline=None)
@given(services, st.sampled_from([1, 2, 30]))
def test_any_division_of_the_terms_gives_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, given_services: list[Service], size: int
) -> None:
    whole, divided = (tmp_path_factory.mktemp("compiled") for _ in range(2))
    compiled(whole, given_services)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("indexer.index.postings.RANGE", size)
        compiled(divided, given_services)
    assert contents(divided) == contents(whole)


def test_a_range_has_few_postings_or_one_term(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The numbers of a term, a document and a posting of a range are one of 64 bits."""
    size = 30
    ranges: list[tuple[int, int]] = []

    def note(bounds: list[int]) -> list[tuple[int, int]]:
        ranges.extend(pairwise(bounds))
        return ranges

    monkeypatch.setattr(postings, "RANGE", size)
    monkeypatch.setattr(postings, "pairwise", note)
    compiled(tmp_path, [Service("", f"common {word} x{word} other") for word in WORDS[:40]])
    counts = open_arrays(tmp_path / "index.arrays")["document_frequencies"]
    assert np.count_nonzero(counts > size) == 2
    compiled_together = [counts[slice(*each)] for each in ranges]
    assert sorted(len(each) for each in compiled_together if each.max() > size) == [1, 1]
    assert all(each.sum() < 2 * size for each in compiled_together if len(each) > 1)
    assert np.concatenate(compiled_together).tolist() == counts.tolist()


def described(count: int, text: str, *, is_feed: bool) -> list[Json]:
    """Return a service of so many endpoints, or their resources, of which one text describes all.

    The text describes the first resource of a feed, and it the service.
    """
    urls = [f"https://api.one.example/v1/{number}" for number in range(count)]
    if not is_feed:
        named = [endpoint() | {"url": each, "description": "short"} for each in urls]
        return [service(description=text, endpoints=named)]
    return [resource(each, description=text if each == urls[0] else "short") for each in urls]


@pytest.mark.parametrize(("is_feed", "most"), [(True, 25_000), (False, 200_000)])
def test_a_long_description_of_one_listing_is_repeated_for_no_other(
    tmp_path: Path, *, is_feed: bool, most: int
) -> None:
    letters = str.maketrans("0123456789", "bcdfghjklm")
    words = [f"{number:05}".translate(letters) for number in range(33_000)]
    sizes = []
    for count in (50, 100):
        given_records = described(count, " ".join(words), is_feed=is_feed)
        artifacts = build_snapshot_alone(tmp_path, given_records)
        sizes.append(len(contents(folder(artifacts))))
    first, second = sizes
    assert second - first <= most


def test_frequent_and_rare_terms_of_a_large_catalogue_are_what_is_counted(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    given_services = [
        Service(
            WORDS[n % 50],
            "common " + " ".join(rng.choice(WORDS, 3)),
            endpoints=[("common", WORDS[n % 3]), ("path", "common")],
        )
        for n in range(2000)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("indexer.index.postings.RANGE", 2000)
        index = compiled(tmp_path, given_services)
    arrays = open_arrays(tmp_path / "index.arrays")
    of_documents, rows = arrays["document_frequencies"], arrays["rows"]
    counted = np.diff(arrays["offsets"])
    dense = np.flatnonzero(rows >= 0)
    assert rows[dense].tolist() == list(range(len(dense)))
    counted[dense] = np.bitwise_count(arrays["bits"]).sum(axis=1)
    assert counted.tolist() == of_documents.tolist()
    assert (dense == np.flatnonzero(of_documents > 4000 * SEARCH_CONFIG.dense_share)).all()
    (common,) = index.parser.parse("common").expansions
    assert of_documents[common.terms[0][0]] == 4000
