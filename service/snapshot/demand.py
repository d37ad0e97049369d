"""Demand by service: stored JSON, each row made when the snapshot was built."""

from __future__ import annotations

from pathlib import Path

from service.storage.record_store import RecordStore

INPUTS, ZERO, POPULAR = range(-3, 0)
"""The rows after those of the services."""


class DemandTable:
    """The demand of each service, as a store of JSON texts.

    The rows of the services are in listing order, and empty without payments. Then follow INPUTS,
    the `DemandInputs` of all, ZERO, the demand of a service without payments, and POPULAR, a list
    of the services with most payments.
    """

    def __init__(self, folder: Path) -> None:
        self._rows = RecordStore(folder, "demand")

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
