"""The segments of a build: found among the files of earlier builds, and chosen for merging."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from indexer.columns.record_columns import find_keys
from indexer.record_store import Keys, arrays_path
from indexer.segments.postings import GONE, Numbers
from indexer.segments.reuse import ReuseStore
from indexer.segments.segment import SegmentParameters, SelectedServices, read_segment
from service.errors import SnapshotDamaged
from service.snapshot.manifest import File, hash_file

LEVELS = (500, 4000)
"""Services from which a segment is on the next level; on the last one it is large enough."""
MERGE_FACTOR = 8
"""Segments of one level, but for the last, from which they are merged."""
MOST_SERVICES = 2 * LEVELS[-1]
"""Services of a segment at most, so that writing it takes a bounded memory."""
LARGE_SERVICE = 2**13
"""Bytes of a record, or of its share of a segment, beyond which it counts as several services."""
MAX_GONE = 0.2
"""Share of the services of a segment that are gone from which it is written again."""


class StoredSegment(NamedTuple):
    """A segment on disk: its path without the suffix, its keys, and its size and hash."""

    path: Path
    keys: Keys
    file: File


class SegmentCounts(NamedTuple):
    """Counts for the report: services indexed anew, segments, and segments that were merged."""

    indexed: int
    segments: int
    merged: int


class UsedSegment(NamedTuple):
    """A segment, and the ordinal of each of its services in the listing, or GONE (int32)."""

    stored: StoredSegment
    ordinals: Numbers

    @property
    def live(self) -> int:
        """How many of its services are in the listing."""
        return int(np.count_nonzero(self.ordinals != GONE))

    @property
    def weight(self) -> float:
        """How many services each of its services counts as."""
        return max(1.0, self.stored.file.bytes / len(self.ordinals) / LARGE_SERVICE)

    @property
    def size(self) -> float:
        """How many services those in the listing count as."""
        return self.live * self.weight


def find_segments(reuse: ReuseStore, origin: SegmentParameters) -> Iterator[StoredSegment]:
    """Yield the segments of this origin that earlier builds left, but for the damaged ones."""
    for path, file in reuse.segments():
        with suppress(SnapshotDamaged):
            segment = read_segment(path)
            if segment.origin == origin:
                yield StoredSegment(path, segment.keys, file)


def use_segments(stored: Iterable[StoredSegment], keys: Keys) -> list[UsedSegment]:
    """Return the segments in use: each key is taken from the first segment that has it.

    `keys` are distinct and in listing order.
    """
    is_missing = np.ones(len(keys) + 1, np.bool_)  # the last item is that of GONE
    used = []
    for each in stored:
        ordinals = find_keys(keys, each.keys)
        ordinals[~is_missing[ordinals]] = GONE
        is_missing[ordinals[ordinals != GONE]] = False
        if (ordinals != GONE).any():
            used.append(UsedSegment(each, ordinals))
    return used


def open_written(path: Path) -> StoredSegment:
    """Return a segment that this build wrote."""
    return StoredSegment(path, read_segment(path).keys, hash_file(arrays_path(path)))


def choose_merged(used: Sequence[UsedSegment]) -> list[UsedSegment]:
    """Return the segments to merge, so that they stay few and mostly live.

    A segment is written again when MAX_GONE of its services are gone. MERGE_FACTOR segments of one
    level are merged with all below, so that there are at most 7 on each but the last.
    """
    chosen = [each for each in used if each.live <= (1 - MAX_GONE) * len(each.ordinals)]
    others = [each for each in used if all(each is not one for one in chosen)]
    for level in range(len(LEVELS)):
        merged = sum(each.size for each in chosen)
        sizes = [*(each.size for each in others), *([merged] if merged else [])]
        if [_level(size) for size in sizes].count(level) >= MERGE_FACTOR:
            chosen += [each for each in others if _level(each.size) <= level]
            others = [each for each in others if _level(each.size) > level]
    return chosen


def selections(used: Sequence[UsedSegment]) -> list[list[SelectedServices]]:
    """Return the live services of segments, divided evenly to segments of bounded size."""
    rows = [np.flatnonzero(each.ordinals != GONE) for each in used]
    weights = np.concatenate(
        [np.full(len(own), each.weight) for own, each in zip(rows, used, strict=True)]
    )
    owners = np.repeat(np.arange(len(used)), [len(own) for own in rows])
    joined = np.concatenate(rows)
    return [
        [
            SelectedServices(used[owner].stored.path, joined[part][owners[part] == owner])
            for owner in np.unique(owners[part]).tolist()
        ]
        for part in divide(weights, ceil(weights.sum() / MOST_SERVICES))
    ]


def divide(weights: npt.NDArray[np.float64], parts: int) -> list[slice]:
    """Return slices of items with about the same sum of weights, at most so many."""
    ends = np.cumsum(weights)
    inner = np.searchsorted(ends, ends[-1] * np.arange(1, parts) / parts, side="right")
    bounds = np.unique(np.concatenate(([0], inner, [len(ends)])))
    return [slice(*each) for each in pairwise(bounds.tolist())]


def _level(size: float) -> int:
    return bisect_right(LEVELS, size)
