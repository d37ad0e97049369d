"""Collapsing groups, compared with brute force."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from service.search.collapsing import Groups
from service.search.postings import block_count
from service.search.top_k import TopK
from tests.support.running import examples

sizes = st.lists(st.sampled_from((0, 1, 2, 3, 4, 5, 9, 63, 64, 65, 130, 200)), max_size=24)
most = st.sampled_from((1, 2, 3, 5, 64, 70))


def groups_of(sizes: list[int], others: int) -> Groups:
    first = np.cumsum([0, *sizes])
    owners = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    return Groups(first, np.concatenate((owners, np.zeros(others, np.int32))))


@settings(max_examples=examples(200), deadline=None)
@given(sizes, st.integers(0, 70), st.randoms(use_true_random=False), st.floats(0, 1), most)
def test_what_is_not_listed_is_counted(
    sizes: list[int], others: int, rng: np.random.RandomState, share: float, most: int
) -> None:
    groups, documents = groups_of(sizes, others), sum(sizes)
    flags = np.zeros(block_count(documents + others) * 64, np.bool_)
    flags[:documents] = [rng.random() < share for _ in range(documents)]
    bounds = pairwise(np.cumsum([0, *sizes]).tolist())
    excess = sum(max(0, int(flags[start:stop].sum()) - most) for start, stop in bounds)
    bits = np.packbits(flags, bitorder="little").view(np.uint64)
    assert groups.count_excess(bits, most) == excess
    assert groups.count_listed(np.flatnonzero(flags), most) == flags.sum() - excess


@settings(max_examples=examples(200), deadline=None)
@given(sizes, st.randoms(use_true_random=False), most, st.integers(1, 9), st.integers(0, 60))
def test_a_page_has_the_first_of_each_group_in_the_order_of_the_ranking(
    sizes: list[int], rng: np.random.RandomState, most: int, limit: int, offset: int
) -> None:
    groups, ranking = groups_of(sizes, 0), list(range(sum(sizes)))
    rng.shuffle(ranking)
    seen: Counter[int] = Counter()
    listed = []
    for document in ranking:
        seen[int(groups.of_document[document])] += 1
        if seen[int(groups.of_document[document])] <= most:
            listed.append(document)
    ordinals = np.array(ranking, np.int64)
    page = groups.page(lambda k: TopK(len(ranking), ordinals[:k]), most, limit, offset)
    assert page.total == len(ranking)
    assert page.ordinals.tolist() == listed[offset : offset + limit]
