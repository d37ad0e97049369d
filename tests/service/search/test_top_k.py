"""The page and the total that impact lists sum up to, beside sums over every service."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from service.search.top_k import BLOCK, IMPACT_BITS, Accumulator, DenseTerm, ImpactList, best

SERVICES = 3 * BLOCK
# Seeds and sizes. Few impacts make many sums equal, so that the order of equals is seen.
impacts = st.tuples(st.integers(0, 2**32), st.integers(1, SERVICES))


@given(
    rare=st.lists(impacts, max_size=4),
    frequent=st.lists(impacts, max_size=3),
    first=st.integers(0, 40) | st.just(SERVICES + 1),
    kept=st.none() | st.sets(st.integers(0, SERVICES - 1)),
)
def test_the_page_is_the_best_and_the_total_exact(
    rare: list[tuple[int, int]],
    frequent: list[tuple[int, int]],
    first: int,
    kept: set[int] | None,
) -> None:
    rare_impacts = [made(*each) for each in rare]
    frequent_impacts = [made(*each) for each in frequent]
    sums = dict.fromkeys(range(SERVICES), 0)
    for each in (*rare_impacts, *frequent_impacts):
        for ordinal, impact in each.items():
            sums[ordinal] += impact
    matches = [o for o in sums if sums[o] and (kept is None or o in kept)]
    matches.sort(key=lambda ordinal: (-sums[ordinal], ordinal))
    keep = None if kept is None else np.isin(np.arange(SERVICES), list(kept))
    lists = [*map(rare_list, rare_impacts), *map(frequent_list, frequent_impacts)]
    ranked = Accumulator(SERVICES).rank(lists, first, keep)
    assert ranked.total == len(matches)
    assert ranked.ordinals.tolist() == matches[:first]


def made(seed: int, services: int) -> dict[int, int]:
    """Impacts of so many services."""
    random = Random(seed)  # noqa: S311  # nothing is kept secret
    return {o: random.randint(1, 3) for o in random.sample(range(SERVICES), services)}


def rare_list(given: dict[int, int]) -> ImpactList:
    """A list without blocks."""
    return ImpactList(
        np.array([ordinal << IMPACT_BITS | given[ordinal] for ordinal in sorted(given)], np.int64)
    )


def frequent_list(given: dict[int, int]) -> ImpactList:
    """The same with blocks, as the indexer writes them."""
    column = np.zeros(SERVICES, np.uint16)
    column[list(given)] = list(given.values())
    blocks = column.reshape(-1, BLOCK)
    bits = np.packbits(blocks > 0, axis=1, bitorder="little").view(np.uint64).ravel()
    ordinals = np.flatnonzero(column)
    champions = best(ordinals, column[ordinals].astype(np.int64), len(ordinals))
    frequent = DenseTerm(blocks, blocks.max(axis=1).astype(np.int32), bits, champions, len(given))
    return ImpactList(rare_list(given).postings, frequent)
