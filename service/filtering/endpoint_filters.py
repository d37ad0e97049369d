"""Filters of endpoints: of their facets, and of the offers that each has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import Struct

from service.filtering.facets import ENDPOINT_KEYS, OFFER_FACETS, OFFER_KEYS, ServiceFacet
from service.filtering.filters import FilterIndex, Filters, page_of
from service.filtering.offers import NONE, Offers
from service.search.postings import Integers, Mask
from service.storage.container import open_arrays
from service.storage.layouts import ENDPOINT_FILTERS

EndpointSort = Literal["relevance", "price", "popularity"]


class EndpointFilters(Struct, frozen=True):
    """Conditions that an endpoint must all satisfy, the order, and the facets to count.

    `offers` are conditions that must hold together on one way to pay: any of several values of
    `network`, `scheme`, `asset` and `payTo`. `max_price` is compared with the cheapest offer that
    satisfies them, or with the price of the endpoint without such conditions. `max_usd_price` is
    compared with the offers that have a price in US dollars. `min_payers` is compared with
    the payers of an endpoint. `alive` is the verdict of probers, and `registration` is whether it
    requires a registration or a sign-in. `match_all` requires every word of a query. Of each
    service at most `per_service` endpoints are listed; 0 lists all.
    """

    offers: dict[str, list[str]] = {}
    facets: dict[str, list[str]] = {}
    services: list[str] = []
    enriched: bool | None = None
    max_price: float | None = None
    max_usd_price: float | None = None
    min_payers: int | None = None
    alive: bool | None = None
    registration: bool | None = None
    match_all: bool = False
    sort: EndpointSort = "relevance"
    per_service: int = 3
    counted: tuple[str, ...] = ()
    explain: bool = False

    @property
    def has_conditions(self) -> bool:
        """Whether any endpoint might be left out."""
        bounds = (self.max_price, self.max_usd_price, self.min_payers)
        verdicts = (self.enriched, self.alive, self.registration)
        given = (each is not None for each in (*bounds, *verdicts))
        return any((self.offers, self.facets, self.services, *given))


class Selection(NamedTuple):
    """The endpoints that satisfy filters, None for all, and the offers that do, None if unused."""

    mask: Mask | None
    offers: Mask | None


class EndpointFilterIndex(FilterIndex):
    """The filters and orders of endpoints, whose offers are filtered, too."""

    def __init__(self, path: Path, offers: Offers, services: ServiceFacet) -> None:
        keys = {name: OFFER_KEYS[name] for name in OFFER_FACETS} | {**ENDPOINT_KEYS}
        arrays = open_arrays(path, ENDPOINT_FILTERS)
        super().__init__(arrays, keys)
        self._registration: Mask = arrays["registration"]
        self.facets["service"] = services
        self._offers = offers

    def select(self, filters: EndpointFilters) -> Selection:
        """Return which endpoints satisfy the filters."""
        values, max_price = dict(filters.facets), filters.max_price
        if filters.services:
            values["service"] = filters.services
        offers: Mask | None = None
        masks: list[Mask] = []
        if filters.offers or filters.max_usd_price is not None:
            bounds, max_price = (filters.max_price, filters.max_usd_price), None
            is_facet = len(filters.offers) == 1 and filters.offers.keys() <= set(OFFER_FACETS)
            if is_facet and bounds == (None, None) and filters.sort != "price":
                values |= filters.offers
            else:
                wanted = self._offers.resolve(filters.offers)
                offers, endpoints = self._offers.select(wanted, *bounds)
                masks.append(endpoints)
        if filters.registration is not None:
            masks.append(self._registration == filters.registration)
        others = (filters.enriched, max_price, filters.min_payers, filters.alive)
        return Selection(self.mask(Filters(values, *others), masks), offers)

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
        if not filters.offers:
            return [NONE] * len(ordinals)
        wanted = self._offers.resolve(filters.offers)
        return [self._offers.cheapest(ordinal, wanted) for ordinal in ordinals]
