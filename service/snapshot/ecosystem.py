"""Ecosystem numbers: every possible answer is a row, or a run of rows, computed at index time."""

from __future__ import annotations

from pathlib import Path

from service.storage.record_store import RecordStore


class Ecosystem:
    """The tables of what was paid, each a store of JSON texts.

    `overview` holds the totals of 1, 2, … days before the newest payment, its last row those of
    all payments. `days` holds the UTC days from the first payment to the newest, oldest first.
    A timeframe starts within a day: `first_days` holds what of that day belongs to it, for 1, 2, …
    days. `hours` holds the hours of a timeframe of one day. `transactions` holds the newest
    payments, newest first.
    """

    def __init__(self, folder: Path) -> None:
        self._overview = RecordStore(folder, "overview")
        self._hours = RecordStore(folder, "hours")
        self._days = RecordStore(folder, "days")
        self._first_days = RecordStore(folder, "first_days")
        self._transactions = RecordStore(folder, "transactions")

    def overview(self, timeframe: int) -> bytes:
        """The totals of the last `timeframe` days, as a JSON object."""
        return self._overview.text(min(timeframe, len(self._overview)) - 1)

    def stats(self, timeframe: int) -> bytes:
        """The buckets of the last `timeframe` days, as JSON objects joined by commas."""
        days = len(self._days)
        if timeframe == 1:
            return bytes(self._hours.slice(0, len(self._hours)))
        if timeframe > len(self._first_days):
            return bytes(self._days.slice(0, days))
        whole_days = self._days.slice(days - timeframe, days)
        return self._first_days.text(timeframe - 1) + b"," + whole_days

    def transactions(self, page: int, limit: int) -> tuple[bytes, bool]:
        """One page of payments joined by commas, and whether another follows."""
        start, stop = page * limit, (page + 1) * limit
        return bytes(self._transactions.slice(start, stop)), stop < len(self._transactions)
