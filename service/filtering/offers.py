"""The table of offers, the ways to pay, and that of the endpoints that are filtered by them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from service.arrays.container import Arrays
from service.arrays.texts import IdTable
from service.conditions import (
    CURRENCY,
    OFFER_COLUMNS,
    OFFER_NETWORK,
    PAYEE,
    PRICE,
    Conditions,
    EndpointConditions,
    EndpointFilters,
    Given,
    text_columns,
)
from service.filtering.table import ALL, RowNumbers, Table, TextColumn
from service.search.groups import Groups, ListedPage, Ranked, is_among_first, list_groups
from service.search.postings import Integers, Mask, block_count
from service.search.top_k import NO_ORDINALS, pack

NONE = -1
"""The number of an absent row."""


class Selection(NamedTuple):
    """The endpoints that satisfy filters, None for all, and the offers that do, None if unused."""

    mask: Mask | None
    offers: Mask | None


class OfferTerms(NamedTuple):
    """The terms of an offer: NaN and empty texts where unknown, network and scheme as keys."""

    usd_price: float
    price: float
    currency: str
    network: str
    scheme: str


class Offers(Table):
    """The ways to pay, in the order of endpoints (NONE first), then prices (NaN last).

    price, usd_price: in units of the currency and in US dollars, NaN where unknown
    shadowed: whether an offer is on a test network where its endpoint has others
    endpoint, resource: its rows in those tables, or NONE
    start, stop: where the entry of `accepts` stands in the texts of the resources, NONE without one
    """

    def __init__(self, arrays: Arrays) -> None:
        super().__init__(arrays, len(arrays["price"]), (*OFFER_COLUMNS.values(), CURRENCY))

    def select(self, owner: str, given: Sequence[Given], owners: int) -> tuple[Mask, Mask]:
        """Return which offers satisfy conditions, and which endpoints or resources have any."""
        mask = self._counted(given, counts_all=owner != "endpoint")
        own = np.zeros(owners + 1, np.bool_)  # the last is NONE
        own[self.arrays[owner][mask]] = True
        return mask, own[:-1]

    def cheapest(self, endpoint: int, given: Sequence[Given]) -> int:
        """Return the cheapest offer of an endpoint that satisfies conditions, or NONE."""
        rows = self.of_endpoint(endpoint)
        mask = self._counted(given, slice(rows.start, rows.stop))
        return rows[int(mask.argmax())] if mask.any() else NONE

    def cheapest_terms(self, endpoint: int, filters: EndpointFilters) -> OfferTerms | None:
        """Return the terms of the offer that satisfies the filters for the fewest US dollars.

        Where none has a price in US dollars, return the terms of the offer that `cheapest` returns.
        """
        given, rows = texts_of_offers(filters), self.of_endpoint(endpoint)
        span = slice(rows.start, rows.stop)
        prices = self.arrays["usd_price"][span]
        prices = np.where(self.among(~np.isnan(prices), given, span), prices, np.nan)
        is_known = not np.isnan(prices).all()
        offer = rows[int(np.nanargmin(prices))] if is_known else self.cheapest(endpoint, given)
        if offer == NONE:
            return None
        terms = (self._text(name, offer) for name in ("network", "scheme"))
        return OfferTerms(float(self.arrays["usd_price"][offer]), *self.price(offer), *terms)

    def price(self, offer: int) -> tuple[float, str]:
        """Return the price of an offer, NaN where none is known, and its currency."""
        return float(self.arrays["price"][offer]), self._text("currency", offer)

    def span(self, offer: int) -> tuple[int, int] | None:
        """Return where the entry of `accepts` stands in the stored resources, if there is one."""
        start = int(self.arrays["start"][offer])
        return None if start < 0 else (start, int(self.arrays["stop"][offer]))

    def payees(self, endpoint: int) -> set[str]:
        """Return the addresses that an endpoint names to be paid."""
        return {self._text(PAYEE.name, each) for each in self.of_endpoint(endpoint)} - {""}

    def of_endpoint(self, endpoint: int) -> range:
        """Return the offers of an endpoint, cheapest first."""
        owners = self.arrays["endpoint"]
        wanted = np.array([endpoint, endpoint + 1], owners.dtype)
        return range(*np.searchsorted(owners, wanted).tolist())

    def _counted(
        self, given: Sequence[Given], rows: RowNumbers = ALL, *, counts_all: bool = False
    ) -> Mask:
        """Return which offers satisfy conditions.

        Of endpoints, those on test networks count only where there are no others, unless `network`
        is among the conditions.
        """
        counts_all |= any(each.column is OFFER_NETWORK for each, _ in given)
        return self.among(~self.arrays["shadowed"][rows] | counts_all, given, rows)

    def _text(self, name: str, offer: int) -> str:
        column = self.columns[name]
        return "".join(column.key(column.values[number]) for number in column.of_row(offer))


class EndpointTable(Table):
    """The endpoints, whose offers are filtered, too."""

    def __init__(self, arrays: Arrays, offers: Offers, ids: IdTable, groups: Groups) -> None:
        columns = text_columns(EndpointConditions) | OFFER_COLUMNS
        super().__init__(arrays, len(arrays["price"]), columns.values())
        self._offers, self._groups = offers, groups
        self.columns["service"] = TextColumn(ids, str, groups.of_document[: len(self)])

    def select(self, filters: EndpointFilters) -> Selection:
        """Return which endpoints satisfy the filters.

        Where a condition is one of offers, a bound of prices is, too.
        """
        given = filters.given()
        of_offer = [pair for pair in given if pair[0].column.of_offer]
        prices = [pair for pair in given if pair[0].column is PRICE]
        names = [each.column.name for each, _ in of_offer]
        is_own = len(names) == 1 and names[0] in self.columns and filters.sort != "price"
        if not names or (is_own and not prices):  # endpoints have the values of one facet
            return Selection(self.mask(given), None)
        of_offer += prices
        offers, endpoints = self._offers.select("endpoint", of_offer, len(self))
        others = (pair for pair in given if pair not in of_offer)
        return Selection(self.among(endpoints, others), offers)

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
        if sort != "price" or offers is None or matches is None:
            return super().page(matches, sort, limit, offset)
        owners, k, stop = self._offers.arrays["endpoint"], 2 * (offset + limit), offset + limit
        offers = offers & np.append(matches, [False])[owners]  # the last is NONE
        while True:
            rows = self._offers.page(offers, sort, k)
            page: Integers = owners[rows].astype(np.int64)
            page = page[is_among_first(page, 1)]
            if len(page) >= stop or len(rows) < k:
                return page[offset:stop]
            k *= 8

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
        if per_service:
            bits = pack(matches, block_count(len(groups.of_document)))
            listed -= groups.count_excess(bits, per_service)
        if offset >= listed:
            return ListedPage(total, listed, NO_ORDINALS)
        if not per_service:
            return ListedPage(
                total, listed, self.page(matches, filters.sort, limit, offset, offers)
            )

        def first(k: int) -> Ranked:
            return Ranked(total, self.page(matches, filters.sort, k, 0, offers))

        page = list_groups(first, groups, per_service, offset + limit)[offset:]
        return ListedPage(total, listed, page)

    def cheapest_offers(self, ordinals: Sequence[int], filters: EndpointFilters) -> list[int]:
        """Return the cheapest offers that satisfy the filters, NONE without filters of offers."""
        given = texts_of_offers(filters)
        return [self._offers.cheapest(each, given) if given else NONE for each in ordinals]

    def cost(self, filters: Conditions) -> int:
        """Return how many numbers are looked at to satisfy conditions, and to count facets."""
        is_of_offer = any(each.column.of_offer for each, _ in filters.given())
        return super().cost(filters) + self._offers.cost(filters) * is_of_offer


def texts_of_offers(filters: EndpointFilters) -> list[Given]:
    """Return the conditions on texts of offers."""
    return [pair for pair in filters.given() if pair[0].column.name in OFFER_COLUMNS]
