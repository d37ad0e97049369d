"""The top k, totals and matches of impact lists, compared with sums over every document."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.search import top_k
from service.search.groups import Groups
from service.search.postings import (
    BLOCK_SIZE,
    FULL_WEIGHT,
    IMPACT_BITS,
    DenseList,
    DenseTerm,
    ImpactList,
    Integers,
    Mask,
    SparseList,
)
from service.search.top_k import (
    FIRST_BLOCKS,
    NO_ORDINALS,
    ORDINAL_MASK,
    SUM_BITS,
    Scorer,
    TopDocs,
    count_bits,
    intersect,
    pack,
    unpack,
)
from tests.support.running import examples

DOCUMENTS = 3 * BLOCK_SIZE
# Seeds, sizes and weights; few different impacts make many ties.
impacts = st.tuples(
    st.integers(0, 2**32), st.integers(1, DOCUMENTS), st.sampled_from((FULL_WEIGHT, 154, 1))
)
lists_of_impacts = st.lists(impacts, max_size=4)
ks = st.integers(0, 40) | st.sampled_from((DOCUMENTS, DOCUMENTS + 1, 10**6))
# Runs of documents of each group, then some more documents of random groups.
sizes = st.lists(st.sampled_from((0, 1, 1, 2, 3, 9, 64, 70)), min_size=1, max_size=24)
# Drawing each of their numbers by hypothesis would take as long as all else.
randoms = st.integers(0, 2**32).map(Random)
allowed = st.none() | randoms


@pytest.fixture(scope="module", autouse=True, params=[FIRST_BLOCKS, 1])
def first_blocks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let the best blocks raise the threshold in small catalogues, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(top_k, "FIRST_BLOCKS", request.param)
        yield


class Case(NamedTuple):
    """Impact lists, and the sum of each document in them, 0 for those in none."""

    lists: list[ImpactList]
    sums: Integers


def case(rare: list[tuple[int, int, int]], dense: list[tuple[int, int, int]], own: Groups) -> Case:
    case = Case([], np.zeros(DOCUMENTS, np.int64))
    for drawn, is_dense in ((rare, False), (dense, True)):
        for seed, count, weight in drawn:
            impacts = random_impacts(seed, count)
            found = impacts.nonzero()[0]
            weighted = np.maximum(1, impacts[found] * weight // FULL_WEIGHT)
            case.sums[found] += weighted
            sparse = SparseList(found << IMPACT_BITS | weighted)
            case.lists.append(dense_list(impacts, weight, own) if is_dense else sparse)
    return case


def random_impacts(seed: int, documents: int) -> Integers:
    """Return the impacts of all documents: random ones of some of them, and 0."""
    rng = np.random.default_rng(seed)
    impacts = np.zeros(DOCUMENTS, np.int64)
    impacts[rng.permutation(DOCUMENTS)[:documents]] = rng.integers(1, 4, documents)
    return impacts


def dense_list(impacts: Integers, weight: int, own: Groups) -> ImpactList:
    """Return a list with a dense column, as the indexer writes it."""
    blocks = impacts.astype(np.uint16).reshape(-1, BLOCK_SIZE)
    group_mask = np.zeros(own.count, np.bool_)
    group_mask[own.of_document[impacts > 0]] = True
    frequency = int(np.count_nonzero(impacts))
    maxima = blocks.max(axis=1).astype(np.int32)
    return DenseList(
        DenseTerm(blocks, maxima, pack(impacts > 0), pack(group_mask), frequency), weight
    )


def grouping(sizes: list[int], random: Random) -> Groups:
    """Return groups whose runs are documents in turn; the others are of random groups."""
    runs = [group for group, size in enumerate(sizes) for _ in range(size)][:DOCUMENTS]
    others = sorted(random.randrange(len(sizes)) for _ in range(DOCUMENTS - len(runs)))
    first = np.searchsorted(np.array(runs, np.int64), np.arange(len(sizes) + 1)).astype(np.int64)
    penalties = np.array([random.randint(0, 3) for _ in sizes], np.int64)
    return Groups(first, np.array(runs + others, np.int32), penalties)


def each_alone() -> Groups:
    """Return groups of one document each."""
    numbers = np.arange(DOCUMENTS + 1)
    return Groups(numbers, numbers[:-1].astype(np.int32), np.zeros(DOCUMENTS, np.int64))


def best_of_groups(sums: Integers, own: Groups, mask: Mask | None) -> list[int]:
    """Return the sort key of the best document of each group that is allowed, sorted."""
    groups = own.of_document
    documents = (sums > 0 if mask is None else (sums > 0) & mask[groups]).nonzero()[0]
    scores = sums[documents] - own.penalties[groups[documents]]
    keys = np.sort(documents - (scores << SUM_BITS))
    _, best = np.unique(groups[keys & ORDINAL_MASK], return_index=True)
    ordered: list[int] = np.sort(keys[best]).tolist()
    return ordered


def mask_of(units: int, random: Random | None) -> Mask | None:
    return None if random is None else np.array([random.random() < 0.4 for _ in range(units)])


@settings(max_examples=examples(400), deadline=None)
@given(lists_of_impacts, lists_of_impacts, ks, allowed)
def test_the_top_documents_and_their_count_are_exact(
    rare: list[tuple[int, int, int]],
    dense: list[tuple[int, int, int]],
    k: int,
    random: Random | None,
) -> None:
    own, mask = each_alone(), mask_of(DOCUMENTS, random)
    lists, sums = case(rare, dense, own)
    matches = Scorer(lists, DOCUMENTS, None, mask)
    expected = best_of_groups(sums, own, mask)
    assert_top(matches.top(k), expected, k)
    assert np.flatnonzero(unpack(matches.bits())).tolist() == sorted(
        key & ORDINAL_MASK for key in expected
    )


@settings(max_examples=examples(600), deadline=None)
@given(lists_of_impacts, lists_of_impacts, ks, sizes, randoms, allowed)
def test_the_top_groups_by_their_best_documents_are_exact(
    rare: list[tuple[int, int, int]],
    dense: list[tuple[int, int, int]],
    k: int,
    sizes: list[int],
    drawn: Random,
    random: Random | None,
) -> None:
    own, mask = grouping(sizes, drawn), mask_of(len(sizes), random)
    lists, sums = case(rare, dense, own)
    matches = Scorer(lists, len(sizes), own, mask)
    expected = best_of_groups(sums, own, mask)
    assert_top(matches.top(k), expected, k)
    found = np.unique(own.of_document[[key & ORDINAL_MASK for key in expected]])
    assert np.array_equal(unpack(matches.bits()).nonzero()[0], found)
    assert count_bits(matches.bits()) == len(expected)
    assert matches.top(0).total == len(expected)


@settings(max_examples=examples(300), deadline=None)
@given(
    st.lists(st.tuples(lists_of_impacts, lists_of_impacts), max_size=3),
    ks,
    sizes,
    randoms,
    allowed,
)
def test_the_top_groups_of_documents_that_have_every_word_are_exact(
    words: list[tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]]],
    k: int,
    sizes: list[int],
    drawn: Random,
    random: Random | None,
) -> None:
    own, mask = grouping(sizes, drawn), mask_of(len(sizes), random)
    cases = [case(rare, dense, own) for rare, dense in words]
    every = np.array([each.sums for each in cases], np.int64).reshape(-1, DOCUMENTS)
    sums = every.sum(axis=0) * (every > 0).all(axis=0)
    matches = Scorer(
        [each for own in cases for each in own.lists],
        len(sizes),
        own,
        mask,
        [each.lists for each in cases],
    )
    expected = best_of_groups(sums, own, mask)
    assert_top(matches.top(k), expected, k)
    assert count_bits(matches.bits()) == len(expected)
    allowed = np.ones(DOCUMENTS, np.bool_) if mask is None else mask[own.of_document]
    found = matches.impacts_at(np.arange(DOCUMENTS)).sum(axis=0) > 0
    assert np.count_nonzero(found) == np.count_nonzero(allowed & (sums > 0))


def assert_top(top: TopDocs, expected: list[int], k: int) -> None:
    assert top.total == len(expected)
    assert top.keys.tolist() == expected[:k]
    assert top.ordinals.tolist() == [key & ORDINAL_MASK for key in expected[:k]]


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.tuples(lists_of_impacts, lists_of_impacts), max_size=4))
def test_an_intersection_has_the_documents_of_every_word(
    words: list[tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]]],
) -> None:
    cases = [case(rare, dense, each_alone()) for rare, dense in words]
    every = [lists for lists, _ in cases if lists]
    if len(every) == len(cases):  # a word without lists is not satisfiable, which callers check
        sums = np.array([own for _, own in cases], np.int64).reshape(-1, DOCUMENTS)
        expected = np.flatnonzero((sums > 0).all(axis=0)) if cases else NO_ORDINALS
        assert np.array_equal(intersect(every), expected)


@pytest.mark.parametrize("dense_terms", [1, 2, 3])
@pytest.mark.parametrize("grouped", [False, True])
def test_few_blocks_are_summed_where_the_best_stand_together(
    dense_terms: int, grouped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The best blocks raise the threshold, so that others are skipped."""
    blocks = 40 * FIRST_BLOCKS
    documents = blocks * BLOCK_SIZE
    impacts = np.full(documents, 5, np.uint16)
    impacts[7 * BLOCK_SIZE : 8 * BLOCK_SIZE] = 900
    of_document = np.arange(documents, dtype=np.int32) // (2 if grouped else 1)
    count = int(of_document[-1]) + 1
    first = np.arange(count + 1) * (2 if grouped else 1)
    groups = Groups(first, of_document, np.zeros(count, np.int64))
    term = DenseTerm(
        impacts.reshape(-1, BLOCK_SIZE),
        impacts.reshape(-1, BLOCK_SIZE).max(axis=1).astype(np.int32),
        pack(impacts > 0),
        pack(np.ones(count, np.bool_)),
        documents,
    )
    summed: list[int] = []
    read: Callable[[DenseList, Integers], Integers] = DenseList.blocks

    def blocks_of(own: DenseList, numbers: Integers) -> Integers:
        summed.append(len(numbers))
        return read(own, numbers)

    monkeypatch.setattr(DenseList, "blocks", blocks_of)
    lists = [DenseList(term, 200)] * dense_terms
    top = Scorer(lists, count, groups if grouped else None).top(20)
    assert (top.total, len(top.keys)) == (count, 20)
    assert sum(summed) == dense_terms * max(top_k.FIRST_BLOCKS, 20)
