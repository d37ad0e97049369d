"""The numbers of one snapshot in another: which array holds which, and how they are mapped.

Patches depend on nothing here: a transform that does not fit makes them larger, not wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from service.errors import SnapshotDamaged
from service.publishing.transforms import (
    PLAIN,
    Difference,
    Gather,
    Renumber,
    Transform,
    pack_numbers,
)
from service.search.postings import IMPACT_BITS, read_header
from service.storage.memory_map import open_array

Numbers = npt.NDArray[np.int64]

SERVICES, ENDPOINTS, DOCUMENTS, OFFERS = "services", "endpoints", "documents", "offers"


class Numbering(NamedTuple):
    """The kind of the numbers of an array, or the string table that they are positions of."""

    kind: str
    shift: int = 0


NUMBERINGS = {
    "filters/*.ordinals.npy": Numbering(SERVICES),
    "filters/name.npy": Numbering(SERVICES),
    "filters/popularity.npy": Numbering(SERVICES),
    "filters/price.npy": Numbering(SERVICES),
    "ids.values.npy": Numbering(SERVICES),
    "postings/named.npy": Numbering(SERVICES),
    "postings/postings.npy": Numbering(DOCUMENTS, IMPACT_BITS),
    "postings/dense_champions.npy": Numbering(DOCUMENTS),
    "vectors/documents.npy": Numbering(DOCUMENTS),
    "endpoints/services.npy": Numbering(SERVICES),
    "endpoints/*.ordinals.npy": Numbering(ENDPOINTS),
    "endpoints/documents.npy": Numbering(DOCUMENTS),
    "endpoints/popularity.npy": Numbering(ENDPOINTS),
    "endpoints/price.npy": Numbering(ENDPOINTS),
    "endpoints/urls.values.npy": Numbering(ENDPOINTS),
    "offers/*.ordinals.npy": Numbering(ENDPOINTS),
    "offers/owners.npy": Numbering(ENDPOINTS),
    "offers/by_price.npy": Numbering(OFFERS),
    "offers/entries.npy": Numbering(OFFERS),
} | {
    f"{folder}{name}.npy": Numbering(f"{folder}{table}")
    for folder, table, names in (
        ("postings/", "words", ("one_deletion.values", "two_deletions.values")),
        ("postings/", "terms", ("word_terms", "corrections")),
        ("resources/", "strings", ("types", "networks", "schemes", "tags", "extensions")),
        ("offers/", "strings", ("networks", "schemes", "assets", "pay_to", "currencies")),
    )
    for name in names
}
"""The arrays of numbers, by the pattern of their paths."""
DIFFERENCES = ("*offsets.npy", "*starts.npy", "*bounds.npy")
"""The arrays of positions that increase."""
ROWS = "vectors/rows.npy"
"""The array of vectors, which stand in an order of their own."""


class Renumbering:
    """Maps the numbers of an earlier snapshot to those of a snapshot."""

    def __init__(self, base: Path, target: Path) -> None:
        self._base, self._target = base, target
        self._maps: dict[str, Numbers] = {}
        self._packed: dict[str, bytes] = {}

    def transform(self, path: str) -> Transform:
        """Return the transform after which a file is most like the earlier one."""
        try:
            return self._find(path)
        except (OSError, SnapshotDamaged, ValueError, IndexError):  # a patch needs none
            return PLAIN

    def _find(self, path: str) -> Transform:
        if not path.endswith(".npy"):
            return PLAIN
        array = open_array(self._target / path)
        if path == ROWS:
            numbers = self._rows(self._map(DOCUMENTS))
            return Gather(array.itemsize * array.shape[1], pack_numbers(numbers))
        if array.dtype.kind not in "iu" or array.itemsize not in {4, 8}:
            return PLAIN
        for pattern, (kind, shift) in NUMBERINGS.items():
            if fnmatchcase(path, pattern):
                return Renumber(array.itemsize, shift, self._pack(kind))
        if any(fnmatchcase(path, pattern) for pattern in DIFFERENCES):
            return Difference(array.itemsize, array.shape[1] if array.ndim > 1 else 1)
        return PLAIN

    def _pack(self, kind: str) -> bytes:
        if kind not in self._packed:
            self._packed[kind] = pack_numbers(self._map(kind))
        return self._packed[kind]

    def _map(self, kind: str) -> Numbers:
        """Return the new number of each earlier one, or -1."""
        if kind not in self._maps:
            derive: Callable[[], Numbers] | None = {
                SERVICES: self._services,
                ENDPOINTS: self._endpoints,
                DOCUMENTS: self._documents,
                OFFERS: self._offers,
            }.get(kind)
            self._maps[kind] = derive() if derive else self._strings(kind, ".utf8", 0)
        return self._maps[kind]

    def _services(self) -> Numbers:
        return self._strings("ids", ".json", 1)

    def _endpoints(self) -> Numbers:
        """Map endpoints by their service and place there."""
        return _map_parts(self._map(SERVICES), *self._arrays("endpoints/first.npy"))

    def _documents(self) -> Numbers:
        """Map documents: those that are endpoints, then the others by service and place there."""
        before, after = (_place_others(folder) for folder in (self._base, self._target))
        others = _map_parts(self._map(SERVICES), before.first, after.first)
        others[others >= 0] += after.endpoints
        return np.concatenate([self._map(ENDPOINTS)[: before.endpoints], others])

    def _offers(self) -> Numbers:
        before, after = self._arrays("offers/bounds.npy")
        return _map_parts(self._map(ENDPOINTS), before, after)

    def _strings(self, table: str, suffix: str, separator: int) -> Numbers:
        before, after = (
            _read_strings(folder, table, suffix, separator) for folder in (self._base, self._target)
        )
        numbers = {text: number for number, text in enumerate(after)}
        return np.fromiter((numbers.get(text, -1) for text in before), np.int64, len(before))

    def _rows(self, numbers: Numbers) -> Numbers:
        """Return the earlier row of each row of the vectors."""
        positions = open_array(self._base / "vectors/positions.npy")
        documents = open_array(self._target / "vectors/documents.npy")
        earlier = np.zeros(max(len(documents), numbers.max(initial=0) + 1), np.int64)
        is_kept = numbers[: len(positions)] >= 0
        earlier[numbers[: len(positions)][is_kept]] = np.flatnonzero(is_kept)
        return np.asarray(positions[earlier[documents]], np.int64)

    def _arrays(self, path: str) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        return open_array(self._base / path), open_array(self._target / path)


class _Others(NamedTuple):
    """The documents that are no endpoints: how many endpoints come before, the first by service."""

    endpoints: int
    first: Numbers


def _place_others(folder: Path) -> _Others:
    header = read_header(folder / "postings")
    services = open_array(folder / "endpoints/services.npy")[header.endpoints :]
    if not header.endpoints and header.documents == header.groups:
        services = np.arange(header.groups)
    first = np.searchsorted(services, np.arange(header.groups + 1))
    return _Others(header.endpoints, first.astype(np.int64))


def _map_parts(owners: Numbers, before: npt.NDArray[Any], after: npt.NDArray[Any]) -> Numbers:
    """Map the parts of owners that are mapped: each keeps its place within its owner."""
    counts = np.diff(before)
    new = np.repeat(owners, counts)
    places = np.arange(before[-1]) - np.repeat(before[:-1], counts)
    return np.where(new >= 0, np.append(after, 0)[new] + places, -1)


def _read_strings(folder: Path, table: str, suffix: str, separator: int) -> list[bytes]:
    offsets = open_array(folder / f"{table}.offsets.npy").tolist()
    content = (folder / f"{table}{suffix}").read_bytes()
    return [content[start : stop - separator] for start, stop in pairwise(offsets)]
