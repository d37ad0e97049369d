"""Resources of x402 discovery feeds, listed as they came and filtered by what they accept.

`texts` is a `RecordStore` of the resources: services in listing order, then URL, method and tool.
`strings` is a `StringTable` of the values that filters compare exactly; the arrays hold their
numbers, or NONE. `types.npy` is int32[resources]. `entries.offsets.npy`, int64[resources + 1], says
where the entries of `accepts` of each resource begin in `networks.npy` and `schemes.npy`,
int32[entries], and in `service.filtering.offers`; `extensions.offsets.npy` and
`tags.offsets.npy` where its keys and tags begin in `extensions.npy` and `tags.npy`, int32.
`urls.txt` has the URLs in lower case, a line each, and `urls.starts.npy`, int64[resources], where
each begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from service.filtering.offers import NONE, Offers
from service.search.postings import Mask
from service.storage.memory_map import open_array, open_bytes
from service.storage.record_store import RecordStore
from service.storage.string_table import StringTable

HEAD = 16
"""Bytes of a part of a URL that are compared with all URLs at once."""
MAX_PAGE = 8 * 2**20
"""Bytes of a page, which has fewer resources than asked for rather than more bytes."""

Ordinals: TypeAlias = npt.NDArray[np.int64]


class ResourceFilters(Struct, frozen=True):
    """Conditions that a resource must all satisfy; None and empty ones are no conditions.

    The conditions on entries of `accepts` must hold together on one of them: `network` and
    `scheme`, compared as they are given, `offers`, compared by their keys, and `max_usd_price`.
    `extensions` must all be keys of
    `extensions`, one of `tags` a tag, and `url_part` a part of the URL in any case.
    """

    type: str | None = None
    network: str | None = None
    scheme: str | None = None
    extensions: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    url_part: str | None = None
    offers: dict[str, list[str]] = {}
    max_usd_price: float | None = None


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

    def __init__(self, folder: Path, offers: Offers) -> None:
        self.texts = RecordStore(folder, "texts")
        self._strings = StringTable(folder / "strings")
        self._types = open_array(folder / "types.npy")
        self._entries = open_array(folder / "entries.offsets.npy")
        self._columns = {
            name: open_array(folder / f"{name}.npy") for name in ("networks", "schemes")
        }
        self._lists = {
            name: (open_array(folder / f"{name}.offsets.npy"), open_array(folder / f"{name}.npy"))
            for name in ("extensions", "tags")
        }
        self._urls = open_bytes(folder / "urls.txt")
        self._url_starts = open_array(folder / "urls.starts.npy")
        self._offers = offers

    def __len__(self) -> int:
        return len(self.texts)

    def list(self, filters: ResourceFilters, limit: int, offset: int) -> ResourcePage:
        """Return one page of the resources that satisfy the filters, in their order."""
        matches = self.matches(filters)
        if matches is None:
            return self.page(len(self), range(len(self))[offset : offset + limit])
        return self.page(len(matches), matches[offset : offset + limit].tolist())

    def page(self, total: int, ordinals: Sequence[int]) -> ResourcePage:
        """Return a page of these resources, as far as they fit."""
        count = self.texts.fitting(ordinals, MAX_PAGE)
        return ResourcePage(total, count, count < len(ordinals), self.texts.run(ordinals[:count]))

    def matches(self, filters: ResourceFilters) -> Ordinals | None:
        """Return which resources satisfy the filters, in ascending order; None for all."""
        matches: Ordinals | None = None
        for part in self._conditions(filters):
            matches = part if matches is None else np.intersect1d(matches, part, assume_unique=True)
            if not len(matches):
                break
        return matches

    def _conditions(self, filters: ResourceFilters) -> Iterator[Ordinals]:
        """Yield the resources that satisfy each condition alone."""
        if filters.type is not None:
            yield np.flatnonzero(self._types == self._number(filters.type))
        for key in filters.extensions:
            yield self._with("extensions", [key])
        if filters.tags:
            yield self._with("tags", filters.tags)
        if filters.url_part is not None:
            yield self._with_url_part(filters.url_part)
        masks = list(self._entry_masks(filters))
        if masks:
            yield _owners(self._entries, np.logical_and.reduce(masks))

    def _entry_masks(self, filters: ResourceFilters) -> Iterator[Mask]:
        """Yield the entries of `accepts` that satisfy each condition alone."""
        wanted = {"networks": filters.network, "schemes": filters.scheme}
        for name, value in wanted.items():
            if value is not None:
                yield self._columns[name] == self._number(value)
        if filters.offers:
            yield self._offers.entry_mask(filters.offers)
        if filters.max_usd_price is not None:
            yield self._offers.entries_up_to(filters.max_usd_price)

    def _with(self, name: str, values: Sequence[str]) -> Ordinals:
        """Return the resources that have any of the values in a list."""
        offsets, numbers = self._lists[name]
        wanted = [self._number(value) for value in values]
        return _owners(
            offsets, numbers == wanted[0] if len(wanted) == 1 else np.isin(numbers, wanted)
        )

    def _with_url_part(self, part: str) -> Ordinals:
        """Return the resources whose URL has a part: found by its head, then compared whole."""
        wanted, text = part.lower().encode(), np.frombuffer(self._urls, np.uint8)
        if b"\n" in wanted or len(wanted) > len(text):
            return np.empty(0, np.int64)
        hits = np.flatnonzero(text[: len(text) - len(wanted) + 1] == wanted[0])
        for place, byte in enumerate(wanted[1:HEAD], 1):
            hits = hits[text[hits + place] == byte]
        owners = np.searchsorted(self._url_starts, hits, side="right") - 1
        owners = owners[np.diff(owners, prepend=-1) > 0]
        if len(wanted) <= HEAD:
            return owners
        stops = np.append(self._url_starts, len(text))
        spans = zip(self._url_starts[owners].tolist(), stops[owners + 1].tolist(), strict=True)
        return owners[[self._urls.find(wanted, *span) >= 0 for span in spans]]

    def _number(self, value: str) -> int:
        """Return the number of a string, or one that no resource has."""
        number = self._strings.find(value)
        return number if number >= 0 else NONE - 1


def _owners(offsets: Ordinals, mask: Mask) -> Ordinals:
    """Return the rows that have an element which is set, in ascending order.

    offsets: where the elements of each row begin in the mask
    """
    owners = np.searchsorted(offsets, np.flatnonzero(mask), side="right") - 1
    return owners[np.diff(owners, prepend=-1) > 0]
