"""The top k and the total of impact lists, beside plain sums over every service."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from service.search.postings import BLOCK_SIZE, IMPACT_BITS, DenseTerm, ImpactList
from service.search.top_k import Accumulator, top_k

SERVICES = 3 * BLOCK_SIZE
# Seeds and sizes; few different impacts make many ties.
impacts = st.tuples(st.integers(0, 2**32), st.integers(1, SERVICES))


@settings(deadline=None)
@given(
    rare=st.lists(impacts, max_size=4),
    dense=st.lists(impacts, max_size=3),
    k=st.integers(0, 40) | st.just(SERVICES + 1),
    allowed=st.none() | st.sets(st.integers(0, SERVICES - 1)),
)
def test_the_top_k_and_the_total_are_exact(
    rare: list[tuple[int, int]],
    dense: list[tuple[int, int]],
    k: int,
    allowed: set[int] | None,
) -> None:
    rare_impacts = [random_impacts(*each) for each in rare]
    dense_impacts = [random_impacts(*each) for each in dense]
    sums = dict.fromkeys(range(SERVICES), 0)
    for each in (*rare_impacts, *dense_impacts):
        for ordinal, impact in each.items():
            sums[ordinal] += impact
    matches = [o for o in sums if sums[o] and (allowed is None or o in allowed)]
    matches.sort(key=lambda ordinal: (-sums[ordinal], ordinal))
    mask = None if allowed is None else np.isin(np.arange(SERVICES), list(allowed))
    lists = [*map(rare_list, rare_impacts), *map(dense_list, dense_impacts)]
    top = Accumulator(SERVICES).rank(lists, k, mask)
    assert top.total == len(matches)
    assert top.ordinals.tolist() == matches[:k]


def random_impacts(seed: int, services: int) -> dict[int, int]:
    """Draw the impacts of some services."""
    random = Random(seed)  # noqa: S311  # no secret
    return {o: random.randint(1, 3) for o in random.sample(range(SERVICES), services)}


def rare_list(given: dict[int, int]) -> ImpactList:
    """Return a list without a dense column."""
    return ImpactList(
        np.array([ordinal << IMPACT_BITS | given[ordinal] for ordinal in sorted(given)], np.int64)
    )


def dense_list(given: dict[int, int]) -> ImpactList:
    """Return a list with a dense column, as the indexer writes it."""
    column = np.zeros(SERVICES, np.uint16)
    column[list(given)] = list(given.values())
    blocks = column.reshape(-1, BLOCK_SIZE)
    bits = np.packbits(blocks > 0, axis=1, bitorder="little").view(np.uint64).ravel()
    ordinals = np.flatnonzero(column)
    champions = top_k(ordinals, column[ordinals].astype(np.int64), len(ordinals))
    dense = DenseTerm(blocks, blocks.max(axis=1).astype(np.int32), bits, champions, len(given))
    return ImpactList(rare_list(given).postings, dense)
