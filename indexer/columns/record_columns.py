"""The values that a snapshot needs of its records, by record, in plain arrays.

Texts that repeat are numbers of a table of strings, in which the empty string is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from indexer.columns.ragged import (
    AnyIntegers,
    Ragged,
    bounds_of,
    concatenate_ragged,
    first_equal,
    positions,
    ragged_texts,
)
from indexer.record_store import KEY_SIZE, Keys, arrays_path
from service.conditions import ENDPOINT_KEYS, SERVICE_KEYS
from service.search.postings import Integers
from service.storage.container import Arrays, open_arrays, write_arrays

STRUCT_CODES = {"b1": "?", "i4": "i", "i8": "q", "u4": "I", "u8": "Q", "f8": "d"}
"""Codes of `struct` by those of NumPy."""
EMPTY = 0
"""The number of the empty string."""

NUMBER = np.dtype("<i4")
"""The number of a string."""
SERVICE = np.dtype(
    [
        ("cheapest", "<f8"),  # NaN without a price
        ("enriched", "?"),
        ("deprecated", "?"),
        ("endpoints", "<u4"),  # how many
        # Where the bytes of the value of `endpoints` first stand in the record.
        ("start", "<u4"),
        ("stop", "<u4"),
    ]
)
ENDPOINT = np.dtype(
    [
        # Where it stands in the record.
        ("start", "<u4"),
        ("stop", "<u4"),
        ("is_rewritten", "?"),  # whether it has members of the names of added ones
        ("has_text", "?"),  # whether its description says anything
        ("key", "<u8"),  # as `endpoint_key` returns
        ("url", "<u8"),  # hash of the URL
        # Hashes of the URL in normal form and of its host, 0 for a text that is no URL.
        ("address", "<u8"),
        ("host", "<u8"),
        ("advice", "<u4"),  # to the seller, as bits
        ("price", "<f8"),  # the one that filters compare, or NaN
        ("payers", "<i8"),  # in the last 30 days
        ("network", NUMBER),
        ("scheme", NUMBER),
        ("pay_to", NUMBER),
        ("currency", NUMBER),
    ]
)
PRICE_RANGE = np.dtype([("currency", NUMBER), ("lowest", "<f8"), ("highest", "<f8")])
"""The prices of a service in one currency, above 0."""
TEXT = np.dtype(np.uint8)

# Ragged columns: texts, and lists of values without two spellings of one.
SERVICE_RUNS: dict[str, np.dtype[Any]] = {
    "id": TEXT,
    "name": TEXT,
    "summary": TEXT,  # empty where it can be spliced
    "prices": PRICE_RANGE,
    **dict.fromkeys(SERVICE_KEYS, NUMBER),
}
ENDPOINT_RUNS: dict[str, np.dtype[Any]] = dict.fromkeys(ENDPOINT_KEYS, NUMBER)


_runs = [
    ("strings", "strings", TEXT),
    *((f"service_{name}", "services", dtype) for name, dtype in SERVICE_RUNS.items()),
    *((f"endpoint_{name}", "endpoints", dtype) for name, dtype in ENDPOINT_RUNS.items()),
]


class RecordColumns(NamedTuple):
    """The columns of n services, and of their m endpoints in the same order.

    keys: uint8[n, 16], BLAKE2b of each record
    annotations: uint8[n, 16], the key of the annotations of each
    texts: uint8[n, 16], the key of the searched texts of each
    services: SERVICE[n]
    endpoints: ENDPOINT[m]
    service_runs, endpoint_runs: the ragged columns, by name
    strings: the table of strings
    """

    keys: Keys
    annotations: Keys
    texts: Keys
    services: npt.NDArray[np.void]
    endpoints: npt.NDArray[np.void]
    service_runs: dict[str, Ragged]
    endpoint_runs: dict[str, Ragged]
    strings: Ragged

    @property
    def first_endpoints(self) -> Integers:
        """int64[n + 1], the first endpoint of each service."""
        return bounds_of(self.services["endpoints"])

    def take(self, rows: AnyIntegers) -> RecordColumns:
        """Return the columns of these services, in this order, with their strings alone."""
        endpoints = positions(self.first_endpoints, rows)
        taken = self._replace(
            keys=self.keys[rows],
            annotations=self.annotations[rows],
            texts=self.texts[rows],
            services=self.services[rows],
            endpoints=self.endpoints[endpoints],
            service_runs={name: run.take(rows) for name, run in self.service_runs.items()},
            endpoint_runs={name: run.take(endpoints) for name, run in self.endpoint_runs.items()},
        )
        return _without_unused_strings(taken)

    def find(self, keys: Keys) -> npt.NDArray[np.int32]:
        """Return the row of each key, -1 for a key that is not here."""
        return find_keys(self.keys, keys)

    def numbers(self) -> list[npt.NDArray[np.int32]]:
        """Return views of all columns that are numbers of strings."""
        plain = [self.services, self.endpoints, self.service_runs["prices"].items]
        lists = [*self.service_runs.values(), *self.endpoint_runs.values()]
        return [
            *(each[name] for each in plain for name in _number_fields(each.dtype)),
            *(run.items for run in lists if run.items.dtype == NUMBER),
        ]


def write_columns(path: Path, columns: RecordColumns) -> None:
    """Write columns, for `open_columns`."""
    arrays: Arrays = {
        "keys": columns.keys,
        "annotations": columns.annotations,
        "texts": columns.texts,
        "services": columns.services.view(SERVICE.str),
        "endpoints": columns.endpoints.view(ENDPOINT.str),
    }
    runs = [columns.strings, *columns.service_runs.values(), *columns.endpoint_runs.values()]
    for (name, _, dtype), run in zip(_runs, runs, strict=True):
        arrays |= {f"{name}_sizes": run.sizes, name: run.items.view(dtype.str)}
    write_arrays(arrays_path(path), arrays)


def open_columns(path: Path) -> RecordColumns:
    """Map columns that this program wrote; raises SnapshotDamaged."""
    arrays = open_arrays(arrays_path(path))

    def ragged(name: str, dtype: np.dtype[np.generic]) -> Ragged:
        return Ragged(arrays[f"{name}_sizes"], arrays[name].view(dtype))

    return RecordColumns(
        keys=arrays["keys"],
        annotations=arrays["annotations"],
        texts=arrays["texts"],
        services=arrays["services"].view(SERVICE),
        endpoints=arrays["endpoints"].view(ENDPOINT),
        service_runs={name: ragged(f"service_{name}", each) for name, each in SERVICE_RUNS.items()},
        endpoint_runs={
            name: ragged(f"endpoint_{name}", each) for name, each in ENDPOINT_RUNS.items()
        },
        strings=ragged("strings", TEXT),
    )


def packer(dtype: np.dtype[np.void]) -> Struct:
    """Return a Struct that packs a row of a dtype, whose fields are not aligned."""
    codes = (STRUCT_CODES[dtype[name].str[1:]] for name in dtype.names or ())
    return Struct("<" + "".join(codes))


def find_keys(known: Keys, wanted: Keys) -> npt.NDArray[np.int32]:
    """Return the first row of each wanted key among the known ones, or -1."""
    halves = np.ascontiguousarray(np.concatenate((known, wanted))).view(np.uint64)
    rows = first_equal(*halves.T)[len(known) :]
    return np.where(rows < len(known), rows, -1).astype(np.int32)


def concatenate(parts: Sequence[RecordColumns]) -> RecordColumns:
    """Return the columns of the services of all parts, with one table of strings."""
    if not parts:
        return no_columns()
    numbers: dict[bytes, int] = {b"": EMPTY}
    mapped = []
    for part in parts:
        own = [numbers.setdefault(text, len(numbers)) for text in part.strings.texts()]
        mapped.append(_renumbered(part, np.asarray(own, np.int64), part.strings))
    return RecordColumns(
        keys=np.concatenate([part.keys for part in mapped]),
        annotations=np.concatenate([part.annotations for part in mapped]),
        texts=np.concatenate([part.texts for part in mapped]),
        services=np.concatenate([part.services for part in mapped]),
        endpoints=np.concatenate([part.endpoints for part in mapped]),
        service_runs={
            name: concatenate_ragged([part.service_runs[name] for part in mapped])
            for name in SERVICE_RUNS
        },
        endpoint_runs={
            name: concatenate_ragged([part.endpoint_runs[name] for part in mapped])
            for name in ENDPOINT_RUNS
        },
        strings=ragged_texts([*numbers]),
    )


def of_strings(function: Callable[[str], int], numbers: AnyIntegers, strings: Ragged) -> Integers:
    """Return the values of a function of strings, by their numbers; each is computed once."""
    is_used = np.zeros(len(strings.sizes), np.bool_)
    is_used[numbers] = True
    used = strings.take(np.flatnonzero(is_used)).strings()
    values = np.zeros(len(is_used), np.int64)
    values[is_used] = [function(string) for string in used]
    mapped: Integers = values[numbers]
    return mapped


def no_columns() -> RecordColumns:
    """Return the columns of no services."""
    none = np.empty((0, KEY_SIZE), np.uint8)
    service_runs, endpoint_runs = (
        {name: Ragged(np.empty(0, np.uint32), np.empty(0, dtype)) for name, dtype in runs.items()}
        for runs in (SERVICE_RUNS, ENDPOINT_RUNS)
    )
    return RecordColumns(
        keys=none,
        annotations=none,
        texts=none,
        services=np.empty(0, SERVICE),
        endpoints=np.empty(0, ENDPOINT),
        service_runs=service_runs,
        endpoint_runs=endpoint_runs,
        strings=ragged_texts([b""]),
    )


def _without_unused_strings(columns: RecordColumns) -> RecordColumns:
    strings = columns.strings
    is_used = np.zeros(len(strings.sizes), np.bool_)
    is_used[EMPTY] = True
    for numbers in columns.numbers():
        is_used[numbers] = True
    if is_used.all():
        return columns
    used = np.flatnonzero(is_used)
    return _renumbered(columns, np.cumsum(is_used) - 1, strings.take(used))


def _renumbered(columns: RecordColumns, new_numbers: Integers, strings: Ragged) -> RecordColumns:
    """Return columns with another table of strings, to which their numbers are mapped."""

    def renumber(items: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if items.dtype == NUMBER:
            numbers: npt.NDArray[Any] = new_numbers[items].astype(NUMBER)
            return numbers
        if fields := _number_fields(items.dtype):
            items = items.copy()
            for name in fields:
                items[name] = new_numbers[items[name]]
        return items

    service_runs, endpoint_runs = (
        {name: run._replace(items=renumber(run.items)) for name, run in runs.items()}
        for runs in (columns.service_runs, columns.endpoint_runs)
    )
    return columns._replace(
        services=renumber(columns.services),
        endpoints=renumber(columns.endpoints),
        service_runs=service_runs,
        endpoint_runs=endpoint_runs,
        strings=strings,
    )


def _number_fields(dtype: np.dtype[Any]) -> list[str]:
    return [name for name in dtype.names or () if dtype[name] == NUMBER]
