"""Writing the files of `service.snapshot.resources`."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from indexer.snapshot.record_store import write_record_store
from indexer.x402.listing import Listing
from service.snapshot.resources import NONE
from service.storage.string_table import write_string_table


def write_resources(folder: Path, listings: Iterable[tuple[str, Listing]]) -> int:
    """Write listings, each with the id of its service, in their order; returns their number."""
    folder.mkdir()
    columns = _Columns()

    def texts() -> Iterator[bytes]:
        for service_id, listing in listings:
            columns.add(listing)
            yield listing.encode(service_id)

    count = write_record_store(folder, "texts", texts())
    columns.write(folder)
    return count


class _Columns:
    """The values that resources are filtered by; strings are numbered as they come."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._numbered = {
            name: array("i") for name in ("types", "networks", "schemes", "pay_to", "extensions")
        }
        self._offsets = {name: array("q", [0]) for name in ("entries", "extensions")}

    def add(self, listing: Listing) -> None:
        """Add the values of the next resource."""
        self._append("types", listing.type)
        for entry in listing.entries:
            self._append("networks", entry.network)
            self._append("schemes", entry.scheme)
            self._append("pay_to", entry.pay_to.casefold())
        for key in listing.extensions:
            self._append("extensions", key)
        self._offsets["entries"].append(len(self._numbered["networks"]))
        self._offsets["extensions"].append(len(self._numbered["extensions"]))

    def write(self, folder: Path) -> None:
        """Write the strings in the order of a `StringTable`, and the arrays of their numbers."""
        numbers = {string.encode(): number for string, number in self._numbers.items()}
        strings = sorted(numbers)
        write_string_table(folder / "strings", strings)
        sorted_numbers = np.full(len(strings) + 1, NONE, np.int32)  # NONE is the index of the last
        sorted_numbers[[numbers[string] for string in strings]] = np.arange(len(strings))
        for name, given in self._numbered.items():
            column: npt.NDArray[np.int32] = sorted_numbers[np.asarray(given, np.int32)]
            np.save(folder / f"{name}.npy", column)
        for name, offsets in self._offsets.items():
            np.save(folder / f"{name}.offsets.npy", np.asarray(offsets, np.int64))

    def _append(self, name: str, value: str) -> None:
        number = self._numbers.setdefault(value, len(self._numbers)) if value else NONE
        self._numbered[name].append(number)
