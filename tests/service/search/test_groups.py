"""Groups of documents, compared with brute force."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from service.search.groups import Groups, Ranked, is_among_first, list_groups
from service.search.top_k import pack
from tests.support.running import examples

sizes = st.lists(st.sampled_from((0, 1, 2, 3, 4, 5, 9, 63, 64, 65, 130, 200)), max_size=24)
most = st.sampled_from((1, 2, 3, 5, 64, 70))
randoms = st.integers(0, 2**32).map(Random)


def groups_of(sizes: list[int], others: list[int]) -> Groups:
    """Return groups of so many documents each, and of others behind all runs."""
    first = np.cumsum([0, *sizes])
    runs = np.repeat(np.arange(len(sizes)), sizes)
    of_document = np.concatenate((runs, np.sort(np.array(others, np.int64)))).astype(np.int32)
    return Groups(first, of_document, np.zeros(len(sizes), np.int64))


def draw_others(sizes: list[int], random: Random, count: int) -> list[int]:
    """Draw the groups of further documents."""
    return [random.randrange(len(sizes)) for _ in range(count)] if sizes else []


@settings(max_examples=examples(200), deadline=None)
@given(sizes, randoms, st.integers(0, 70))
def test_the_documents_of_a_group_are_its_run_and_others(
    sizes: list[int], random: Random, others: int
) -> None:
    groups = groups_of(sizes, draw_others(sizes, random, others))
    assert groups.count == len(sizes)
    own = groups.of_document.tolist()
    for group in range(len(sizes)):
        expected = [document for document, owner in enumerate(own) if owner == group]
        assert groups.documents_of(group).tolist() == expected
    is_split = any(size and group in own[sum(sizes) :] for group, size in enumerate(sizes))
    assert groups.is_split == is_split


@settings(max_examples=examples(200), deadline=None)
@given(sizes, st.integers(0, 70), randoms, st.floats(0, 1), most)
def test_documents_of_a_run_that_are_not_listed_are_counted(
    sizes: list[int], others: int, random: Random, share: float, most: int
) -> None:
    groups = groups_of(sizes, draw_others(sizes, random, others))
    flags = np.array([random.random() < share for _ in groups.of_document], np.bool_)
    flags[sum(sizes) :] = False  # endpoints alone are listed by service
    counts = Counter(groups.of_document[flags].tolist())
    excess = sum(max(0, count - most) for count in counts.values())
    assert groups.count_excess(pack(flags), most) == excess
    listed = is_among_first(groups.of_document[flags], most)
    assert listed.sum() == flags.sum() - excess


@settings(max_examples=examples(200), deadline=None)
@given(sizes, randoms, most, st.integers(1, 9), st.integers(0, 60))
def test_a_page_has_the_first_of_each_group_in_the_order_of_the_ranking(
    sizes: list[int], random: Random, most: int, limit: int, offset: int
) -> None:
    groups, ranking = groups_of(sizes, []), [*range(sum(sizes))]
    random.shuffle(ranking)
    seen: Counter[int] = Counter()
    listed = []
    for document in ranking:
        seen[int(groups.of_document[document])] += 1
        if seen[int(groups.of_document[document])] <= most:
            listed.append(document)
    ordinals = np.array(ranking, np.int64)

    def first(k: int) -> Ranked:
        return Ranked(len(ranking), ordinals[:k])

    page = list_groups(first, groups, most, offset + limit)
    assert page.tolist() == listed[: offset + limit]
