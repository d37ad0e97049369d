"""Collapsing: at most so many documents of each group are listed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from service.search.postings import Integers, Mask

MARGIN = 4
"""Documents that are ranked for each one that is to be listed."""

Groups = npt.NDArray[np.int32]
"""The group of each document; documents of a group have consecutive ordinals."""


def collapsed_page(
    ranked: Callable[[int], Integers], groups: Groups, most: int, limit: int, offset: int
) -> Integers:
    """Return one page of a ranking with at most `most` documents of each group.

    `ranked` returns the first k documents, fewer only if there are no more.
    """
    k = MARGIN * (offset + limit)
    while True:
        ordinals = ranked(k)
        listed = ordinals[is_among_first(groups[ordinals], most)]
        if len(listed) >= offset + limit or len(ordinals) < k:
            return listed[offset : offset + limit]
        k *= MARGIN


def is_among_first(groups: Groups, most: int) -> Mask:
    """Return for each item whether fewer than `most` earlier items are of its group."""
    order = np.argsort(groups, kind="stable")
    kept = np.ones(len(groups), np.bool_)
    kept[order[most:]] = groups[order[most:]] != groups[order[:-most]]
    return kept


def count_collapsed(ordinals: Integers, groups: Groups, most: int) -> int:
    """Return how many of these documents, in ascending order, are listed."""
    own = groups.take(ordinals)
    return min(most, len(own)) + int(np.count_nonzero(own[most:] != own[:-most]))
