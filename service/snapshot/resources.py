"""Resources of x402 discovery feeds: listed as they came, and filtered by what they accept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from msgspec import Raw, Struct, field

from service.arrays.container import open_arrays
from service.arrays.texts import Texts
from service.conditions import RESOURCE_COLUMNS, ResourceConditions
from service.filtering.offers import Offers
from service.filtering.table import Table
from service.schema.discovery import Requirement, ToolFacts
from service.search.postings import Mask

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
    facts: as those of `Answer`
    """

    total: int
    count: int
    is_cut: bool
    texts: Sequence[memoryview]
    facts: dict[str, Any]


class Resources:
    """The listed resources of a snapshot."""

    def __init__(self, path: Path, offers: Offers) -> None:
        arrays = open_arrays(path)
        self.texts = Texts(arrays, "resources")
        self._table = Table(arrays, len(self.texts), RESOURCE_COLUMNS.values())
        self._offers = offers

    def __len__(self) -> int:
        return len(self.texts)

    def list(self, filters: ResourceConditions, limit: int, offset: int) -> ResourcePage:
        """Return one page of the resources that satisfy the filters, in their order."""
        matches = self.matches(filters)
        if matches is None:
            return self.page(len(self), range(len(self))[offset : offset + limit])
        ordinals = self._table.page(matches, "relevance", limit, offset)
        return self.page(int(np.count_nonzero(matches)), ordinals.tolist())

    def beyond(self, service: int) -> int:
        """Return how many resources of a service are beyond the bounds of its record."""
        return int(self._table.arrays["beyond"][service])

    def page(self, total: int, ordinals: Sequence[int], **facts: Any) -> ResourcePage:
        """Return a page of the first of these resources, which fit into MAX_PAGE."""
        count = self.texts.fitting(ordinals, MAX_PAGE)
        texts = self.texts.run(ordinals[:count])
        return ResourcePage(total, count, count < len(ordinals), texts, facts)

    def matches(self, filters: ResourceConditions) -> Mask | None:
        """Return which resources satisfy the filters, None for all."""
        given = filters.given()
        own = [pair for pair in given if not pair[0].column.of_offer]
        of_offer = [pair for pair in given if pair[0].column.of_offer]
        if not of_offer:
            return self._table.mask(own)
        return self._table.among(self._offers.select("resource", of_offer, len(self))[1], own)

    def cost(self, filters: ResourceConditions) -> int:
        """Return how many numbers and bytes are looked at to find the matches."""
        return self._offers.cost(filters) + self._table.cost(filters)


def tool_of(url: str, facts: CallFacts) -> ToolFacts | None:
    """Return the MCP tool that an endpoint is, by its listing or by its identifier."""
    if facts.tool is not None or not url.startswith(TOOL_URL):
        return facts.tool
    return ToolFacts(name=unquote(url.removeprefix(TOOL_URL)), transport="streamable-http")
