"""The columns of services and their endpoints: what each record yields, in plain arrays.

Strings that repeat are numbers of one table, in which the empty string is 0. A token is the number
of a word, a blank and the term of the word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from struct import Struct
from typing import Any

import numpy as np
import numpy.typing as npt

from indexer.derive.ragged import AnyIntegers, Ragged, bounds_of, positions, ragged_texts
from indexer.derive.records import ENDPOINT_FIELDS, SERVICE_FIELDS
from indexer.record_store import Keys
from service.arrays.container import Arrays, ArraysWriter, open_arrays, writing_arrays
from service.conditions import ENDPOINT_KEYS, SERVICE_KEYS
from service.search.postings import Integers

STRUCT_CODES = {"b1": "?", "i4": "4s", "i8": "q", "u4": "I", "u8": "Q", "f8": "d"}
"""Codes of `struct` by those of NumPy; the number of a string is packed."""
EMPTY = 0
"""The number of the empty string."""
CHUNK = 1 << 16
"""Services or endpoints whose rows are copied at a time."""

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
        ("seller", "<u8"),  # hash of the registrable domain
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

PLAIN = {
    "keys": "service",
    "services": "service",
    "endpoints": "endpoint",
    "service_vectors": "service",
    "endpoint_vectors": "endpoint",
}
"""The arrays that have a row for each service or endpoint."""
STRUCTURES = {"services": SERVICE, "endpoints": ENDPOINT, "service.prices": PRICE_RANGE}
RAGGED: dict[str, np.dtype[Any]] = {
    "service.id": TEXT,
    "service.name": TEXT,
    "service.summary": TEXT,  # empty where it can be spliced
    "service.prices": PRICE_RANGE,
    **{f"service.{name}": NUMBER for name in SERVICE_KEYS},
    **{f"service.tokens.{name}": NUMBER for name in SERVICE_FIELDS},
    **{f"endpoint.{name}": NUMBER for name in ENDPOINT_KEYS},
    **{f"endpoint.tokens.{name}": NUMBER for name in ENDPOINT_FIELDS},
}
"""Ragged columns: texts, tokens, and lists of values without two spellings of one."""
STRINGS = "strings"
SIZES = ".sizes"
"""Suffix of the array that has the sizes of the rows of a ragged column."""


class RecordColumns:
    """The columns of n services, and of their m endpoints in the same order.

    keys: uint8[n, 2 * KEY_SIZE], the hashes of each record and of its annotations
    services: SERVICE[n]
    endpoints: ENDPOINT[m]
    service_vectors, endpoint_vectors: int8[n or m, dimensions], of no dimensions without an encoder
    service_runs, endpoint_runs: the ragged columns, by name
    service_tokens, endpoint_tokens: the tokens, by field
    strings: the table of strings
    """

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays
        runs = {name: ragged_of(arrays, name) for name in RAGGED}
        self.keys: Keys = arrays["keys"]
        self.services: npt.NDArray[np.void] = arrays["services"].view(SERVICE)
        self.endpoints: npt.NDArray[np.void] = arrays["endpoints"].view(ENDPOINT)
        self.service_vectors: npt.NDArray[np.int8] = arrays["service_vectors"]
        self.endpoint_vectors: npt.NDArray[np.int8] = arrays["endpoint_vectors"]
        self.service_runs, self.endpoint_runs = _under(runs, "service."), _under(runs, "endpoint.")
        self.service_tokens = _under(runs, "service.tokens.")
        self.endpoint_tokens = _under(runs, "endpoint.tokens.")
        self.strings = ragged_of(arrays, STRINGS)

    @property
    def first_endpoints(self) -> Integers:
        """int64[n + 1], the first endpoint of each service."""
        return bounds_of(self.services["endpoints"])

    def find(self, keys: Keys) -> Integers:
        """Return the row of each key, -1 for a key that is not here."""
        known, wanted = (
            np.ascontiguousarray(each).view(f"S{each.shape[1]}").ravel()
            for each in (self.keys, keys)
        )
        if not len(known):
            return np.full(len(wanted), -1)
        order = np.argsort(known, kind="stable")
        rows = order[np.minimum(np.searchsorted(known, wanted, sorter=order), len(known) - 1)]
        return np.where(known[rows] == wanted, rows, -1)


def ragged_of(arrays: Arrays, name: str) -> Ragged:
    """Return a ragged column of a file of columns."""
    return Ragged(arrays[f"{name}{SIZES}"], arrays[name].view(RAGGED.get(name, TEXT)))


def ragged_arrays(name: str, rows: Ragged) -> Arrays:
    """Return the arrays of a ragged column."""
    return {f"{name}{SIZES}": rows.sizes, name: rows.items}


def open_columns(path: Path) -> RecordColumns:
    """Map columns that this program wrote; raises SnapshotDamaged."""
    return RecordColumns(open_arrays(path))


def merge_columns(path: Path, parts: Sequence[RecordColumns], rows: Integers) -> None:
    """Write the services of these rows of all parts together, in this order.

    One array is in memory at a time. Strings that no row uses are dropped, and the others numbered
    anew.
    """
    arrays = [part.arrays for part in parts]
    counts = np.concatenate([part.services["endpoints"] for part in parts])
    taken = {"service": rows, "endpoint": positions(bounds_of(counts), rows)}
    strings = _Strings([part.strings for part in parts])
    with writing_arrays(path) as writer:
        for name, owner in PLAIN.items():
            items = strings.join(name, [each[name] for each in arrays])
            writer.stream(name, _chunks(strings, name, items, taken[owner]), items.dtype)
        for name in RAGGED:
            sizes = np.concatenate([each[f"{name}{SIZES}"] for each in arrays])
            items = strings.join(name, [each[name] for each in arrays])
            _merge_ragged(writer, strings, name, Ragged(sizes, items), taken[name.split(".")[0]])
        for name, array in ragged_arrays(STRINGS, strings.used()).items():
            writer.write(name, array)


def _merge_ragged(
    writer: ArraysWriter, strings: _Strings, name: str, column: Ragged, rows: Integers
) -> None:
    writer.write(f"{name}{SIZES}", column.sizes[rows])
    bounds = column.bounds
    pieces = (
        strings.renumber(name, column.items[positions(bounds, rows[start : start + CHUNK])])
        for start in range(0, len(rows), CHUNK)
    )
    writer.stream(name, pieces, column.items.dtype)


def _chunks(
    strings: _Strings, name: str, items: npt.NDArray[Any], rows: Integers
) -> Iterator[npt.NDArray[Any]]:
    for start in range(0, max(len(rows), 1), CHUNK):  # an array of several dimensions has a piece
        yield strings.renumber(name, items[rows[start : start + CHUNK]])


class _Strings:
    """The strings of several tables: joined to one, then numbered as they are used."""

    def __init__(self, tables: Sequence[Ragged]) -> None:
        joined: dict[bytes, int] = {b"": EMPTY}
        self._joined = [
            np.array([joined.setdefault(text, len(joined)) for text in table.texts()], NUMBER)
            for table in tables
        ]
        self._texts = [*joined]
        self._numbers = np.full(len(joined), -1, NUMBER)
        self._numbers[EMPTY], self._used = EMPTY, [np.array([EMPTY])]
        self._count = 1

    def join(self, name: str, parts: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """Return the items of a column of all parts, with the numbers of the joined table."""
        own = (
            _renumbered(name, items, numbers)
            for items, numbers in zip(parts, self._joined, strict=True)
        )
        return np.concatenate([*own])

    def renumber(self, name: str, items: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return items whose strings have their final numbers."""
        for numbers in _numbers_of(name, items):
            is_new = np.zeros(len(self._numbers), np.bool_)
            is_new[numbers] = True
            new = np.flatnonzero(is_new & (self._numbers < 0))
            self._numbers[new] = np.arange(self._count, self._count + len(new))
            self._used.append(new)
            self._count += len(new)
        return _renumbered(name, items, self._numbers)

    def used(self) -> Ragged:
        """Return the table of the strings that were used."""
        used = np.concatenate(self._used).tolist()
        return ragged_texts([self._texts[number] for number in used])


def _numbers_of(name: str, items: npt.NDArray[Any]) -> list[npt.NDArray[np.int32]]:
    """Return views of the numbers of strings in a column."""
    structure = STRUCTURES.get(name)
    if structure is None:
        return [items] if RAGGED.get(name) == NUMBER else []
    viewed = items.view(structure)
    return [viewed[field] for field in structure.names or () if structure[field] == NUMBER]


def _renumbered(name: str, items: npt.NDArray[Any], numbers: AnyIntegers) -> npt.NDArray[Any]:
    if RAGGED.get(name) == NUMBER:
        mapped: npt.NDArray[Any] = numbers[items]
        return mapped
    if name in STRUCTURES:
        items = items.copy()
        for column in _numbers_of(name, items):
            column[:] = numbers[column]
    return items


def of_strings(function: Callable[[str], int], numbers: AnyIntegers, strings: Ragged) -> Integers:
    """Return the values of a function of strings, by their numbers; each is computed once."""
    is_used = np.zeros(len(strings.sizes), np.bool_)
    is_used[numbers] = True
    used = strings.take(np.flatnonzero(is_used)).strings()
    values = np.zeros(len(is_used), np.int64)
    values[is_used] = [function(string) for string in used]
    mapped: Integers = values[numbers]
    return mapped


def packer(dtype: np.dtype[np.void]) -> Struct:
    """Return a Struct that packs a row of a dtype, whose fields are not aligned."""
    codes = (STRUCT_CODES[dtype[name].str[1:]] for name in dtype.names or ())
    return Struct("<" + "".join(codes))


def _under(runs: dict[str, Ragged], prefix: str) -> dict[str, Ragged]:
    return {name.removeprefix(prefix): run for name, run in runs.items() if name.startswith(prefix)}
