"""The ecosystem tables: each answer is a row, or a run of rows, computed at indexing time."""

from __future__ import annotations

from pathlib import Path

from service.storage.record_store import RecordStore


class Ecosystem:
    """Payment statistics, as stores of JSON texts.

    `overview`: the totals of the last 1, 2, … days before the newest payment, then those of all.
    `days`: the UTC days from the first payment to the newest, oldest first.
    `first_days`: for a timeframe of 1, 2, … days, which starts within a day, its part of that day.
    `hours`: the hours of a timeframe of one day.
    `transactions`: the newest payments, newest first.
    """

    def __init__(self, folder: Path) -> None:
        self._overview = RecordStore(folder, "overview")
        self._hours = RecordStore(folder, "hours")
        self._days = RecordStore(folder, "days")
        self._first_days = RecordStore(folder, "first_days")
        self._transactions = RecordStore(folder, "transactions")

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
        whole_days = self._days.slice(days - timeframe, days)
        return self._first_days.text(timeframe - 1) + b"," + whole_days

    def transactions(self, page: int, limit: int) -> tuple[bytes, bool]:
        """Return one page of payments joined by commas, and whether another follows."""
        start, stop = page * limit, (page + 1) * limit
        return bytes(self._transactions.slice(start, stop)), stop < len(self._transactions)
