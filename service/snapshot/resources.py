"""Resources of x402 discovery feeds: listed as they came, and filtered by what they accept.

Values that filters compare exactly are numbers in a `StringTable`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
from msgspec import Raw, Struct, field
from msgspec.structs import astuple

from service.conditions import NO_RESOURCE_FILTERS, ResourceFilters, has_verdict
from service.filtering.facets import count_in_rows
from service.filtering.filters import in_order, page_of
from service.filtering.offers import UNKNOWN, Offers
from service.filtering.urls import Urls
from service.schema.discovery import Requirement, ToolFacts
from service.search.postings import Integers, Mask
from service.storage.container import open_arrays
from service.storage.string_table import StringTable
from service.storage.texts import Texts

TOOL_URL = "mcp://tool/"
MAX_PAGE = 8 * 2**20
"""Bytes of a page, which has fewer resources than asked for rather than more bytes."""


class CallFacts(Struct):
    """The facts of a listing that callers need."""

    example_url: str = field(name="exampleUrl", default="")
    tool: ToolFacts | None = None
    requires: list[Requirement] = []


class ListedCall(Struct):
    """The ways to pay that a feed lists, and the facts of the listing."""

    accepts: list[Raw] = []
    ratecard: CallFacts = field(default_factory=CallFacts)


class ResourcePage(Struct, frozen=True):
    """One page of resources.

    total: the exact count of all matches, and of the similar resources
    count: the number of resources of the page
    is_cut: whether MAX_PAGE left no room for more
    texts: slices of JSON to be joined by commas
    similar: the count of similar resources
    """

    total: int
    count: int
    is_cut: bool
    texts: Sequence[memoryview]
    similar: int = 0


class Resources:
    """The listed resources of a snapshot, in the order of services, then URL, method and tool.

    types: the number of the string, or -1
    entry_offsets: where the entries of `accepts` of each start, and the end
    networks, schemes: the number of the string of each entry, or -1
    extension_offsets, extensions: the keys of `extensions` of each, as numbers
    tag_offsets, tags: the tags of each, as numbers
    registration: whether each requires a registration or sign-in
    urls, url_starts: the URLs in lower case, a line each, and where each starts
    alive: 1 for one that is alive, -1 for a dead one, or 0
    beyond: how many resources of each service are beyond the bounds of its record
    """

    def __init__(self, folder: Path, offers: Offers) -> None:
        self.texts = Texts(open_arrays(folder / "texts.arrays"), "resources")
        self._strings = StringTable(open_arrays(folder / "strings.arrays"), "strings")
        self._arrays = arrays = open_arrays(folder / "resources.arrays")
        self._urls = Urls(arrays["urls"], arrays["url_starts"])
        self._offers = offers

    def __len__(self) -> int:
        return len(self.texts)

    def list(self, filters: ResourceFilters, limit: int, offset: int) -> ResourcePage:
        """Return one page of the resources that satisfy the filters, in their order."""
        matches = self.matches(filters)
        if matches is None:
            return self.page(len(self), range(len(self))[offset : offset + limit])
        ordinals = page_of(in_order(matches), limit, offset)
        return self.page(int(np.count_nonzero(matches)), ordinals.tolist())

    def beyond(self, service: int) -> int:
        """Return how many resources of a service are beyond the bounds of its record."""
        return int(self._arrays["beyond"][service])

    def page(self, total: int, ordinals: Sequence[int], similar: int = 0) -> ResourcePage:
        """Return a page of the first of these resources, which fit into MAX_PAGE."""
        count = self.texts.fitting(ordinals, MAX_PAGE)
        texts = self.texts.run(ordinals[:count])
        return ResourcePage(total, count, count < len(ordinals), texts, similar)

    def matches(self, filters: ResourceFilters) -> Mask | None:
        """Return which resources satisfy the filters, None for all."""
        if filters == NO_RESOURCE_FILTERS:
            return None
        return reduce(np.logical_and, self._conditions(filters), np.ones(len(self), np.bool_))

    def cost(self, filters: ResourceFilters) -> int:
        """Return how many numbers and bytes are looked at to find the matches."""
        pairs = zip(astuple(filters), astuple(NO_RESOURCE_FILTERS), strict=True)
        conditions: int = sum(value != default for value, default in pairs)
        return conditions * len(self) + (len(self._urls) if filters.url_substring else 0)

    def _conditions(self, filters: ResourceFilters) -> Iterator[Mask]:
        """Yield the resources that satisfy each condition alone."""
        if filters.type is not None:
            yield self._arrays["types"] == self._strings.find(filters.type, UNKNOWN)
        if filters.extensions:
            numbers = self._numbers(filters.extensions)
            yield self._count("extension", numbers) == len(numbers)
        if filters.tags:
            yield self._count("tag", self._numbers(filters.tags)) > 0
        if filters.registration is not None:
            yield self._arrays["registration"] == filters.registration
        if filters.url_substring is not None:
            yield self._urls.containing(filters.url_substring)
        if filters.alive is not None:
            yield has_verdict(self._arrays["alive"], filters.alive)
        if entries := [*self._entry_masks(filters)]:
            whole = reduce(np.logical_and, entries)
            yield count_in_rows(self._arrays["entry_offsets"], whole) > 0

    def _entry_masks(self, filters: ResourceFilters) -> Iterator[Mask]:
        """Yield the entries of `accepts` that satisfy each condition alone."""
        wanted = {"networks": filters.network, "schemes": filters.scheme}
        for name, value in wanted.items():
            if filters.is_verbatim and value is not None:
                yield self._arrays[name] == self._strings.find(value, UNKNOWN)
        if offers := filters.offers:
            yield self._offers.entry_mask(offers)
        if filters.max_usd_price is not None:
            yield self._offers.entries_up_to(filters.max_usd_price)

    def _count(self, name: str, numbers: Integers) -> npt.NDArray[np.integer]:
        """Return how many items of a list of each resource are any of these strings."""
        items = self._arrays[f"{name}s"]
        is_wanted = items == numbers[0] if len(numbers) == 1 else np.isin(items, numbers)
        return count_in_rows(self._arrays[f"{name}_offsets"], is_wanted)

    def _numbers(self, values: Sequence[str]) -> Integers:
        return np.unique([self._strings.find(value, UNKNOWN) for value in values])


def tool_of(url: str, facts: CallFacts) -> ToolFacts | None:
    """Return the MCP tool that an endpoint is, by its listing or by its identifier."""
    if facts.tool is not None or not url.startswith(TOOL_URL):
        return facts.tool
    return ToolFacts(name=unquote(url.removeprefix(TOOL_URL)), transport="streamable-http")
