"""The segments of a build: those of earlier snapshots, and which of them are merged.

A snapshot has its segments in its folder; snapshots that share one have hard links to its files.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from indexer.record_store import KEY_SIZE, Keys
from indexer.segments.kept import Kept, KeptFolder
from indexer.segments.postings import GONE, Numbers
from indexer.segments.segment import (
    Origin,
    Selection,
    address_of,
    read_header,
    read_keys,
)
from service.snapshot.manifest import SEGMENTS, File

TEXTS = "texts"
"""The folder that holds a folder for each segment, named by its address."""
MERGE_FACTOR = 8
"""Segments of one level from which they are merged; each level has so many times the services."""
LEVEL_BASE = 500  # services
MAX_GONE = 0.2
"""Share of the services of a segment that are gone from which it is written again."""


class StoredSegment(NamedTuple):
    """A segment on disk; `files` describes its files if they are in the manifest of a snapshot."""

    address: str
    folder: Path
    keys: Keys
    files: Mapping[str, File]


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


def find_segments(kept: Kept, origin: Origin) -> Iterator[StoredSegment]:
    """Yield the segments of earlier snapshots, but for those that are damaged.

    A segment of another origin is passed over.
    """
    seen: set[str] = set()
    for path, files in kept.folders(TEXTS):
        by_address: dict[str, dict[str, File]] = {}
        for name, file in files.items():
            address, _, own = name.partition("/")
            by_address.setdefault(address, {})[own] = file
        for address in sorted(by_address.keys() - seen):
            stored = _open_kept(KeptFolder(path / address, by_address[address]), origin)
            if stored is not None:
                seen.add(address)
                yield stored


def use_segments(stored: Iterable[StoredSegment], keys: Keys) -> list[UsedSegment]:
    """Return the segments that have services with these keys, of which each is used once.

    `keys` are distinct and in listing order.
    """
    missing = dict(zip(split_keys(keys), range(len(keys)), strict=True))
    used = []
    for each in stored:
        ordinals = np.array(
            [missing.pop(key, GONE) for key in split_keys(each.keys)], np.int32
        ).reshape(len(each.keys))
        if (ordinals != GONE).any():
            used.append(UsedSegment(each, ordinals))
    return used


def split_keys(keys: Keys) -> list[bytes]:
    """Return the keys as bytes."""
    joined = keys.tobytes()
    return [joined[start : start + KEY_SIZE] for start in range(0, len(joined), KEY_SIZE)]


def open_written(folder: Path) -> StoredSegment:
    """Return a segment that this build wrote."""
    return StoredSegment(read_header(folder).address, folder, read_keys(folder), {})


def choose_merged(used: Sequence[UsedSegment]) -> list[UsedSegment]:
    """Return the segments to merge, so that they stay few and mostly live.

    A segment is written again when MAX_GONE of its services are gone. MERGE_FACTOR segments of one
    level are merged with all below; a level has MERGE_FACTOR times the services of the one below.
    So there are at most 7 segments on each of the 2 + log8(n / 500) levels of n services.
    """
    chosen = [each for each in used if each.live <= (1 - MAX_GONE) * len(each.ordinals)]
    others = [each for each in used if all(each is not one for one in chosen)]
    while True:
        merged = sum(each.live for each in chosen)
        sizes = [(each.live, each) for each in others]
        levels = [_level(size) for size, _ in sizes] + ([_level(merged)] if merged else [])
        full = [level for level in set(levels) if levels.count(level) >= MERGE_FACTOR]
        if not full:
            break
        lowest = min(full)
        chosen += [each for size, each in sizes if _level(size) <= lowest]
        others = [each for size, each in sizes if _level(size) > lowest]
    return chosen


def merged_parts(merged: Sequence[UsedSegment], most: int) -> int:
    """Return into how many segments others are merged, each on the level of one of all."""
    live = sum(each.live for each in merged)
    return max(part for part in range(1, most + 1) if _level(live // part) == _level(live))


def selections(used: Sequence[UsedSegment], parts: int) -> list[list[Selection]]:
    """Return the live services of segments, divided evenly."""
    live = [
        (each.stored.folder, np.flatnonzero(each.ordinals != GONE).astype(np.int64))
        for each in used
    ]
    total = sum(len(rows) for _, rows in live)
    bounds = [total * part // parts for part in range(parts + 1)]
    divided: list[list[Selection]] = []
    for start, stop in pairwise(bounds):
        part, position = [], 0
        for folder, rows in live:
            own = rows[max(start - position, 0) : max(stop - position, 0)]
            if len(own):
                part.append(Selection(folder, own))
            position += len(rows)
        divided.append(part)
    return divided


def link_segments(built: Path, used: Sequence[UsedSegment]) -> dict[str, File]:
    """Link segments into the folder of a snapshot; returns what is known of their files.

    Files are copied where the file system has no hard links.
    """
    known: dict[str, File] = {}
    for stored, _ in used:
        folder = built / SEGMENTS / TEXTS / stored.address
        names = [path.relative_to(stored.folder) for path in _files(stored.folder)]
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(stored.folder / name, folder / name)
            except OSError:
                shutil.copyfile(stored.folder / name, folder / name)
        known |= {
            f"{SEGMENTS}/{TEXTS}/{stored.address}/{name}": file
            for name, file in stored.files.items()
        }
    return known


def _open_kept(folder: KeptFolder, origin: Origin) -> StoredSegment | None:
    """Return a segment that is whole and was made as this build would make it, or None."""
    try:
        if read_header(folder.path).origin != origin or not folder.is_whole():
            return None
        keys = read_keys(folder.path)
        address = address_of(keys, origin)
    except (OSError, ValueError, msgspec.MsgspecError):
        return None
    if address != folder.path.name:
        return None
    return StoredSegment(address, folder.path, keys, folder.files)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _level(services: int) -> int:
    level, limit = 0, LEVEL_BASE
    while services >= limit:
        level, limit = level + 1, limit * MERGE_FACTOR
    return level
