"""Resources of x402 discovery feeds, listed as they came and filtered by what they accept.

`texts` is a `RecordStore` of the resources: services in listing order, then URL, method and tool.
`strings` is a `StringTable` of all values that a filter may ask for; the arrays hold their numbers,
or NONE. `types.npy` is int32[resources]. `entries.offsets.npy`, int64[resources + 1], says where
the entries of `accepts` of each resource begin in `networks.npy`, `schemes.npy` and `pay_to.npy`,
int32[entries]; `extensions.offsets.npy` where its keys begin in `extensions.npy`, int32.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from service.storage.memory_map import open_array
from service.storage.record_store import RecordStore
from service.storage.string_table import StringTable

NONE = -1
MAX_PAGE = 8 * 2**20
"""Bytes of a page, which has fewer resources than asked for rather than more bytes."""

Ordinals: TypeAlias = npt.NDArray[np.int64]


class ResourceFilters(Struct, frozen=True):
    """Conditions that a resource must all satisfy; None is no condition.

    `network`, `scheme` and `pay_to` must hold together on one entry of `accepts`. `pay_to` is
    compared regardless of case; `extension` is a key of `extensions`.
    """

    type: str | None = None
    network: str | None = None
    scheme: str | None = None
    pay_to: str | None = None
    extension: str | None = None


NO_RESOURCE_FILTERS = ResourceFilters()


class ResourcePage(Struct, frozen=True):
    """One page: the exact count of all matches, and slices of JSON to be joined by commas.

    `count` is the number of resources; `is_cut` says that MAX_PAGE left no room for more.
    """

    total: int
    count: int
    is_cut: bool
    texts: Sequence[memoryview]


class Resources:
    """The listed resources of a snapshot."""

    def __init__(self, folder: Path) -> None:
        self._texts = RecordStore(folder, "texts")
        self._strings = StringTable(folder / "strings")
        self._types = open_array(folder / "types.npy")
        self._entries = open_array(folder / "entries.offsets.npy")
        self._columns = {
            name: open_array(folder / f"{name}.npy") for name in ("networks", "schemes", "pay_to")
        }
        self._extensions = open_array(folder / "extensions.offsets.npy")
        self._keys = open_array(folder / "extensions.npy")

    def __len__(self) -> int:
        return len(self._texts)

    def list(self, filters: ResourceFilters, limit: int, offset: int) -> ResourcePage:
        """Return one page of the resources that satisfy the filters, in their order."""
        page: Sequence[int]
        if filters == NO_RESOURCE_FILTERS:
            total = len(self)
            page = range(total)[offset : offset + limit]
        else:
            matches = self._matches(filters)
            total, page = len(matches), matches[offset : offset + limit].tolist()
        count = self._texts.fitting(page, MAX_PAGE)
        return ResourcePage(total, count, count < len(page), self._texts.run(page[:count]))

    def _matches(self, filters: ResourceFilters) -> Ordinals:
        """Return the ordinals of the resources that satisfy the filters, in ascending order."""
        parts = list(self._conditions(filters))
        matches, *others = sorted(parts, key=len)
        for other in others:
            matches = np.intersect1d(matches, other, assume_unique=True)
        return matches

    def _conditions(self, filters: ResourceFilters) -> Iterator[Ordinals]:
        """Yield the resources that satisfy each condition alone."""
        if filters.type is not None:
            yield np.flatnonzero(self._types == self._number(filters.type))
        if filters.extension is not None:
            has_key = self._keys == self._number(filters.extension)
            yield _owners(self._extensions, has_key)
        pay_to = None if filters.pay_to is None else filters.pay_to.casefold()
        wanted = {"networks": filters.network, "schemes": filters.scheme, "pay_to": pay_to}
        masks = [
            self._columns[name] == self._number(value)
            for name, value in wanted.items()
            if value is not None
        ]
        if masks:
            yield _owners(self._entries, np.logical_and.reduce(masks))

    def _number(self, value: str) -> int:
        """Return the number of a string, or one that no resource has."""
        number = self._strings.find(value)
        return number if number >= 0 else NONE - 1


def _owners(offsets: Ordinals, mask: npt.NDArray[np.bool_]) -> Ordinals:
    """Return the rows that have an element which is set, in ascending order.

    offsets: where the elements of each row begin in the mask
    """
    owners = np.searchsorted(offsets, np.flatnonzero(mask), side="right") - 1
    return owners[np.diff(owners, prepend=-1) > 0]
