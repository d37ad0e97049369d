"""The difference between two snapshots: services added, changed and removed, in order of id."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from service.search.postings import Mask
from service.storage.container import open_arrays
from service.storage.layouts import RECORD_STORE, RECORDS
from service.storage.record_store import Records, RecordStore

COMPARED_FILES = ("records.json", "records.arrays", "ids.arrays")
"""The files of a snapshot that are read to compare it."""
ABSENT = -1
"""The ordinal of a service that a snapshot does not have."""
CHUNK = 2**18
"""Bytes of each file that are compared at a time, so that both fit into the cache of a CPU."""
PREFIX = 32
"""Bytes of each id that its key has; padding to the longest id could take 100 MB."""
RANK = 4
"""Bytes of a key that order the ids with the same prefix."""
QUOTE = b'"'[0]

Ordinals: TypeAlias = npt.NDArray[np.int64]
IdKeys: TypeAlias = npt.NDArray[np.bytes_]


class Difference(NamedTuple):
    """The services that differ, in order of id: the ordinal of each in the old and new snapshot.

    An added service has the old ordinal ABSENT, a removed one the new ordinal ABSENT.
    """

    old: Ordinals
    new: Ordinals


class ChangesPage(NamedTuple):
    """The stored JSON of added and changed services and of the ids of removed ones.

    stop: the number of changes up to the end of the page
    before: the changed services as the old snapshot has them
    """

    added: list[memoryview]
    changed: list[memoryview]
    removed: list[memoryview]
    stop: int
    before: list[memoryview]


class Changes:
    """All changes from one snapshot to another, read page by page.

    The stored JSON stays mapped, also when the snapshots are removed from the disk.
    """

    def __init__(self, old: Path, new: Path) -> None:
        self._records, self._old_ids = Records(new), RecordStore(old, "ids")
        self._old_records = Records(old)
        self._old, self._new = difference = compare_services(old, new)
        self.total = len(difference.new)

    def page(self, start: int, limit: int, size: int) -> ChangesPage:
        """Return up to `limit` changes of at most `size` bytes of JSON, at least one.

        Both versions of a changed service count.
        """
        page = ChangesPage([], [], [], min(start + limit, self.total), [])
        old, new = (each[start : page.stop].tolist() for each in (self._old, self._new))
        for number, (before, after) in enumerate(zip(old, new, strict=True)):
            is_removed = after == ABSENT
            text = self._old_ids.view(before) if is_removed else self._records.view(after)
            is_changed = ABSENT not in (before, after)
            earlier = self._old_records.view(before) if is_changed else None
            size -= len(text) + len(earlier or b"")
            if size < 0 and number:
                return page._replace(stop=start + number)
            if is_removed:
                page.removed.append(text)
            else:
                (page.added if before == ABSENT else page.changed).append(text)
            if earlier is not None:
                page.before.append(earlier)
        return page


def compare_services(old: Path, new: Path) -> Difference:
    """Compare the services of two snapshot folders by their stored bytes.

    Hashes only save the comparison of services that differ: equal ones may be a collision. Raises
    OSError, ValueError or SnapshotUnavailable for files that are absent or damaged.
    """
    with ExitStack() as stack:
        all_keys = _make_keys(_Ids.read(old), _Ids.read(new))
        before, after = (
            stack.enter_context(_Services(folder, keys))
            for folder, keys in zip((old, new), all_keys, strict=True)
        )
        positions, is_common = _find(before.sorted_keys, after.sorted_keys)
        common_old, common_new = before.order[positions[is_common]], after.order[is_common]
        is_changed = before.tags[common_old] != after.tags[common_new]
        is_changed |= before.sizes[common_old] != after.sizes[common_new]
        alike = np.flatnonzero(~is_changed)
        is_changed[alike] = _differ(before, after, common_old[alike], common_new[alike])
    is_listed = ~is_common
    is_listed[is_common] = is_changed
    is_removed = np.ones(len(before.order), np.bool_)
    is_removed[positions[is_common]] = False
    old_ordinals = np.full(len(after.order), ABSENT)
    old_ordinals[is_common] = common_old
    places = np.searchsorted(after.sorted_keys[is_listed], before.sorted_keys[is_removed])
    return Difference(
        np.insert(old_ordinals[is_listed], places, before.order[is_removed]),
        np.insert(after.order[is_listed], places, ABSENT),
    )


class _Services:
    """The services of a snapshot folder: keys of their ids in order, hashes, sizes, stored bytes.

    The bytes are read and not mapped: pages of a mapping would count as memory of the process.
    """

    def __init__(self, folder: Path, keys: IdKeys) -> None:
        self.order = np.argsort(keys, kind="stable")
        self.sorted_keys = keys[self.order]
        arrays = open_arrays(folder / "records", RECORDS)
        self.tags, self.offsets = arrays["tags"], arrays["offsets"]
        self.sizes = np.diff(self.offsets)
        if len(keys) != len(self.sizes):
            raise ValueError(f"{folder} has {len(keys)} ids and {len(self.sizes)} records")
        self._file = (folder / "records.json").open("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def chunks(self, start: int, stop: int) -> Iterator[bytes]:
        """Yield the stored bytes of the services from `start` up to `stop`, joined by commas."""
        position, end = int(self.offsets[start]), int(self.offsets[stop]) - 1
        while position < end:
            size = min(CHUNK, end - position)
            chunk = os.pread(self._file.fileno(), size, position)
            if len(chunk) != size:
                raise ValueError(f"{self._file.name} ends before its last record")
            yield chunk
            position += size


def _differ(before: _Services, after: _Services, old: Ordinals, new: Ordinals) -> Mask:
    """Return which of these services differ, whose hashes and sizes are equal.

    Services that follow each other in both snapshots are compared together.
    """
    differ = np.zeros(len(new), np.bool_)
    in_order = np.argsort(new)
    old, new = old[in_order], new[in_order]
    breaks = np.flatnonzero((np.diff(old) != 1) | (np.diff(new) != 1)) + 1
    bounds = [0, *breaks.tolist(), len(new)] if len(new) else []

    def is_equal(first: int, stop: int) -> bool:
        count, start, other = stop - first, int(old[first]), int(new[first])
        chunks = before.chunks(start, start + count), after.chunks(other, other + count)
        return all(map(bytes.__eq__, *chunks))

    for first, stop in pairwise(bounds):
        if not is_equal(first, stop):
            for place in range(first, stop):
                differ[in_order[place]] = not is_equal(place, place + 1)
    return differ


def _find(old: IdKeys, new: IdKeys) -> tuple[Ordinals, Mask]:
    """Return where each new key stands in the sorted old keys, and whether it is there."""
    if not len(old):
        return np.zeros(len(new), np.int64), np.zeros(len(new), np.bool_)
    positions = np.minimum(np.searchsorted(old, new), len(old) - 1)
    return positions, old[positions] == new


class _Ids(NamedTuple):
    """The ids of a snapshot in listing order: their bytes, where each starts, and its size."""

    text: npt.NDArray[np.uint8]
    starts: Ordinals
    sizes: Ordinals

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the ids of a snapshot folder, each in quotes, joined by commas."""
        arrays = open_arrays(folder / "ids", RECORD_STORE)
        text, offsets = arrays["texts"], arrays["offsets"]
        sizes = np.diff(offsets) - len(b'"",')
        is_whole = sizes.min(initial=0) >= 0 and offsets[-1] <= len(text) + 1
        if not is_whole or (text[[offsets[:-1], offsets[1:] - 2]] != QUOTE).any():
            raise ValueError(f"the offsets of {folder / 'ids'} do not fit its ids")
        return cls(text, offsets[:-1] + 1, sizes)

    def rests(self) -> dict[int, bytes]:
        """Return the bytes of long ids after their prefix, by ordinal."""
        bounds = {
            ordinal: (int(self.starts[ordinal]), int(self.sizes[ordinal]))
            for ordinal in np.flatnonzero(self.sizes > PREFIX).tolist()
        }
        return {
            ordinal: self.text[start + PREFIX : start + size].tobytes()
            for ordinal, (start, size) in bounds.items()
        }


def _make_keys(*snapshots: _Ids) -> list[IdKeys]:
    """Return arrays of keys that sort and compare as the ids of these snapshots do.

    A key is the prefix of an id, and the rank of its rest among the rests of all ids, 0 for none.
    """
    all_rests = [ids.rests() for ids in snapshots]
    ordered = sorted({rest for rests in all_rests for rest in rests.values()})
    ranks = {rest: rank for rank, rest in enumerate(ordered, 1)}
    keys = []
    for ids, rests in zip(snapshots, all_rests, strict=True):
        windows = sliding_window_view(np.append(ids.text, np.zeros(PREFIX, np.uint8)), PREFIX)
        key = np.zeros((len(ids.sizes), PREFIX + RANK), np.uint8)
        key[:, :PREFIX] = windows[ids.starts]
        key[:, :PREFIX][np.arange(PREFIX) >= ids.sizes[:, None]] = 0
        rank = np.array([ranks[rest] for rest in rests.values()], f">u{RANK}")
        key[list(rests), PREFIX:] = rank.view(np.uint8).reshape(-1, RANK)
        keys.append(key.view(f"S{PREFIX + RANK}").ravel())
    return keys
