"""Filters of endpoints: of their facets, and of the offers that each has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from service.conditions import EndpointConditions, EndpointFilters
from service.filtering.facets import ServiceFacet
from service.filtering.filters import FilterIndex, page_of
from service.filtering.offers import NONE, Offers
from service.search.postings import Integers, Mask
from service.storage.container import open_arrays
from service.storage.layouts import ENDPOINT_FILTERS


class Selection(NamedTuple):
    """The endpoints that satisfy filters, None for all, and the offers that do, None if unused."""

    mask: Mask | None
    offers: Mask | None


class EndpointFilterIndex(FilterIndex):
    """The filters and orders of endpoints, whose offers are filtered, too."""

    def __init__(self, path: Path, offers: Offers, services: ServiceFacet) -> None:
        super().__init__(open_arrays(path, ENDPOINT_FILTERS), EndpointConditions)
        self.facets["service"] = services
        self._offers = offers

    def select(self, filters: EndpointFilters) -> Selection:
        """Return which endpoints satisfy the filters."""
        given, wanted = filters.given(), filters.offers
        bounds = filters.max_price, filters.max_usd_price
        is_facet = len(wanted) == 1 and wanted.keys() <= self.facets.keys()
        if filters.max_usd_price is None and (
            not wanted or (is_facet and filters.max_price is None and filters.sort != "price")
        ):
            return Selection(self.mask(given), None)
        offers, endpoints = self._offers.select(self._offers.resolve(wanted), *bounds)
        others = [
            pair for pair in given if not pair[0].column.of_offer and pair[0].field != "max_price"
        ]
        return Selection(self.mask(others, endpoints), offers)

    def page(
        self,
        matches: Mask | None,
        sort: str,
        limit: int,
        offset: int = 0,
        offers: Mask | None = None,
    ) -> Integers:
        """Return one page of the matches in an order, or of all endpoints when None.

        With `offers`, an endpoint is ordered by the price of its cheapest offer among them.
        """
        if sort == "price" and matches is not None and offers is not None:
            return page_of(self._offers.by_price(offers, matches), limit, offset)
        return super().page(matches, sort, limit, offset)

    def cheapest_offers(self, ordinals: Sequence[int], filters: EndpointFilters) -> list[int]:
        """Return the cheapest offers that satisfy the filters, NONE without filters of offers."""
        if not (offers := filters.offers):
            return [NONE] * len(ordinals)
        wanted = self._offers.resolve(offers)
        return [self._offers.cheapest(ordinal, wanted) for ordinal in ordinals]
