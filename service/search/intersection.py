"""Services that have every word of a query, and the sums of impacts at a few services."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from service.search.top_k import IMPACT_BITS, IMPACT_MASK, NONE, ImpactList, Integers, merged


def common_ordinals(lists: Sequence[ImpactList]) -> Integers:
    """The ordinals that every list has, ascending; none without lists."""
    if not lists:
        return NONE
    shortest_first = sorted(lists, key=lambda each: len(each.postings))
    ordinals, sums, _ = merged(shortest_first[:1])
    common = ordinals.take(sums.nonzero()[0])
    for each in shortest_first[1:]:
        common = common.take(impacts_at(each, common).nonzero()[0])
    return common


def sums_at(lists: Sequence[ImpactList], ordinals: Integers) -> Integers:
    """The sums of the lists at a few ordinals."""
    sums = np.zeros(len(ordinals), np.int64)
    for each in lists:
        sums += impacts_at(each, ordinals)
    return sums


def impacts_at(each: ImpactList, ordinals: Integers) -> Integers:
    """The impacts of a list at a few ordinals, 0 where it has none."""
    if each.frequent is not None:
        return each.frequent.impacts.ravel().take(ordinals).astype(np.int64)
    if not each.distinct:
        known, impacts, _ = merged([each])
        places = np.searchsorted(known, ordinals)
        places[places == len(known)] = 0
        return np.where(known[places] == ordinals, impacts[places], 0)
    # The first posting of an ordinal or a later one: no posting has an impact of 0.
    places = np.searchsorted(each.postings, ordinals << IMPACT_BITS)
    places[places == len(each.postings)] = 0
    found = each.postings[places]
    return np.where(found >> IMPACT_BITS == ordinals, found & IMPACT_MASK, 0)
