"""Figures of payments, stored as JSON: each answer is a text, or a run of texts.

`indexer.snapshot.ecosystem` writes `ecosystem.arrays`, which has the `Texts` of TABLES:

overview: the totals of the last 1, 2, … days before the newest payment, then those of all
days: the UTC days from the first payment to the newest, oldest first
first_days: for a timeframe of 1, 2, … days, which starts within a day, its part of that day
hours: the hours of a timeframe of one day
transactions: the newest payments, newest first
demand: a `StoredDemand` for each service, in listing order, empty without payments

and the JSON of `inputs`, the `DemandInputs` of all services, and of `popular`, the list of the
services with most payments.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from service.arrays.container import items_of, open_arrays
from service.arrays.texts import Texts
from service.schema.demand import StoredDemand

TABLES = ("overview", "days", "first_days", "hours", "transactions", "demand")
NO_DEMAND = msgspec.json.encode(StoredDemand())


class Ecosystem:
    """Payment statistics, and the demand of services."""

    def __init__(self, folder: Path) -> None:
        arrays = open_arrays(folder / "ecosystem.arrays")
        tables = (Texts(arrays, name) for name in TABLES)
        self._overview, self._days, self._first_days, self._hours, *others = tables
        self._transactions, self._demand = others
        self._inputs, self.popular = items_of(arrays["inputs"]), items_of(arrays["popular"])

    def overview(self, timeframe: int) -> bytes:
        """Return the totals of the last `timeframe` days, as a JSON object."""
        return self._overview.text(min(timeframe, len(self._overview)) - 1)

    def stats(self, timeframe: int) -> bytes:
        """Return the buckets of the last `timeframe` days, as JSON objects joined by commas."""
        days = len(self._days)
        if timeframe == 1:
            return bytes(self._hours.slice(0, len(self._hours)))
        if timeframe > len(self._first_days):
            return bytes(self._days.slice(0, days))
        first_day = self._first_days.text(timeframe - 1)
        return b",".join((first_day, self._days.slice(days - timeframe, days)))

    @property
    def payments(self) -> int:
        """The number of payments that can be listed."""
        return len(self._transactions)

    def transactions(self, page: int, limit: int) -> tuple[bytes, bool]:
        """Return one page of payments joined by commas, and whether another follows."""
        stop = (page + 1) * limit
        return bytes(self._transactions.slice(page * limit, stop)), stop < self.payments

    def demand_of(self, service: int) -> memoryview | bytes:
        """Return the figures of a service, as the JSON of a `StoredDemand`."""
        return self._demand.view(service) or NO_DEMAND

    def demand(self, service: int) -> bytes:
        """Return the demand of a service, as the JSON of a `Demand`."""
        return b"".join((self.demand_of(service)[:-1], b',"inputs":', self._inputs, b"}"))
