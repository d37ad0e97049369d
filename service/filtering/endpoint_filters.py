"""Filters of endpoints: of their facets, and of the offers that each has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from service.conditions import EndpointConditions, EndpointFilters
from service.filtering.facets import ServiceFacet
from service.filtering.filters import FilterIndex, page_of
from service.filtering.offers import NONE, Offers
from service.search.groups import Groups, ListedPage, Ranked, list_groups
from service.search.postings import Integers, Mask, block_count
from service.search.top_k import NO_ORDINALS, pack
from service.storage.container import open_arrays


class Selection(NamedTuple):
    """The endpoints that satisfy filters, None for all, and the offers that do, None if unused."""

    mask: Mask | None
    offers: Mask | None


class EndpointFilterIndex(FilterIndex):
    """The filters and orders of endpoints, whose offers are filtered, too."""

    def __init__(self, path: Path, offers: Offers, services: ServiceFacet, groups: Groups) -> None:
        super().__init__(open_arrays(path), EndpointConditions)
        self.facets["service"] = services
        self._offers, self._groups = offers, groups

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

    def listing(
        self,
        matches: Mask,
        filters: EndpointFilters,
        limit: int,
        offset: int,
        offers: Mask | None,
    ) -> ListedPage:
        """Return one page of the matches in their order, with the limit for each service."""
        groups, per_service = self._groups, filters.per_service
        total = listed = int(np.count_nonzero(matches))

        def first(k: int) -> Ranked:
            return Ranked(total, self.page(matches, filters.sort, k, 0, offers))

        if per_service:
            bits = pack(matches, block_count(len(groups.of_document)))
            listed -= groups.count_excess(bits, per_service)
        if offset >= listed:
            page = NO_ORDINALS
        elif per_service:
            page = list_groups(first, groups, per_service, offset + limit)[offset:]
        else:
            page = self.page(matches, filters.sort, limit, offset, offers)
        return ListedPage(total, listed, page)

    def cheapest_offers(self, ordinals: Sequence[int], filters: EndpointFilters) -> list[int]:
        """Return the cheapest offers that satisfy the filters, NONE without filters of offers."""
        if not (offers := filters.offers):
            return [NONE] * len(ordinals)
        wanted = self._offers.resolve(offers)
        return [self._offers.cheapest(ordinal, wanted) for ordinal in ordinals]
