"""Figures of payments, stored as JSON: each answer is a row, or a run of rows."""

from __future__ import annotations

from itertools import accumulate, pairwise
from pathlib import Path

import msgspec

from service.storage.container import open_arrays
from service.storage.texts import Texts

TABLES = ("overview", "days", "first_days", "hours", "transactions")
INPUTS, ZERO, POPULAR = range(-3, 0)
"""The rows of a demand table after those of the services."""

_counts = msgspec.json.Decoder(tuple[int, int, int, int, int])


class Ecosystem:
    """Payment statistics: a store of JSON texts, which are the rows of TABLES one after the other.

    The first text is the number of rows of each table.

    `overview`: the totals of the last 1, 2, … days before the newest payment, then those of all.
    `days`: the UTC days from the first payment to the newest, oldest first.
    `first_days`: for a timeframe of 1, 2, … days, which starts within a day, its part of that day.
    `hours`: the hours of a timeframe of one day.
    `transactions`: the newest payments, newest first.
    """

    def __init__(self, folder: Path) -> None:
        self._rows = Texts(open_arrays(folder / "ecosystem.arrays"), "ecosystem")
        bounds = accumulate(_counts.decode(self._rows.text(0)), initial=1)
        tables = [range(start, stop) for start, stop in pairwise(bounds)]
        self._overview, self._days, self._first_days, self._hours, self._transactions = tables

    def overview(self, timeframe: int) -> bytes:
        """Return the totals of the last `timeframe` days, as a JSON object."""
        return self._rows.text(self._overview[:timeframe][-1])

    def stats(self, timeframe: int) -> bytes:
        """Return the buckets of the last `timeframe` days, as JSON objects joined by commas."""
        if timeframe == 1:
            return self._text(self._hours)
        if timeframe > len(self._first_days):
            return self._text(self._days)
        first_day = self._rows.text(self._first_days[timeframe - 1])
        return first_day + b"," + self._text(self._days[-timeframe:])

    @property
    def payments(self) -> int:
        """The number of payments that can be listed."""
        return len(self._transactions)

    def transactions(self, page: int, limit: int) -> tuple[bytes, bool]:
        """Return one page of payments joined by commas, and whether another follows."""
        stop = (page + 1) * limit
        rows = self._transactions[page * limit : stop]
        return self._text(rows), stop < len(self._transactions)

    def _text(self, rows: range) -> bytes:
        return bytes(self._rows.slice(rows.start, rows.stop))


class DemandTable:
    """The demand of each service, as a store of JSON texts.

    The rows of the services are in listing order, and empty without payments. Then follow INPUTS,
    the `DemandInputs` of all, ZERO, the demand of a service without payments, and POPULAR, a list
    of the services with most payments.
    """

    def __init__(self, folder: Path) -> None:
        self._rows = Texts(open_arrays(folder / "demand.arrays"), "demand")

    @property
    def popular(self) -> memoryview:
        """The services with most payments, as a JSON array of `PopularService`."""
        return self._extra(POPULAR)

    def of_service(self, ordinal: int) -> memoryview:
        """Return the figures of a service, as the JSON of a `StoredDemand`."""
        return self._rows.view(ordinal) or self._extra(ZERO)

    def pieces(self, ordinal: int) -> list[bytes | memoryview]:
        """Return the JSON of a `Demand` in pieces."""
        return [self.of_service(ordinal)[:-1], b',"inputs":', self._extra(INPUTS), b"}"]

    def _extra(self, row: int) -> memoryview:
        return self._rows.view(len(self._rows) + row)
