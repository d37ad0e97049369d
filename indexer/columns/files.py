"""Columns in a file: a hash, then plain arrays by name, never pickles."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from indexer.columns.ragged import Ragged
from indexer.columns.record_columns import (
    EMPTY,
    ENDPOINT,
    ENDPOINT_RUNS,
    SERVICE,
    SERVICE_RUNS,
    TEXT,
    RecordColumns,
)
from indexer.record_store import KEY_SIZE

FILE = "columns"
DIGEST_SIZE = 32
LAYOUT = [str(each) for each in (SERVICE, ENDPOINT, SERVICE_RUNS, ENDPOINT_RUNS)]
"""The type of the items of the arrays."""


class ColumnsDamaged(Exception):  # not an IndexerError: the records are read again
    """Columns that are missing, damaged, or of another layout."""


class _Columns(Struct):
    layout: list[str]
    arrays: dict[str, memoryview]


_decoder = msgspec.msgpack.Decoder(_Columns)


def write_columns(folder: Path, columns: RecordColumns) -> None:
    """Write columns, for `open_columns`; the folder must exist."""
    arrays = {
        "keys": columns.keys,
        "texts": columns.texts,
        "services": columns.services,
        "endpoints": columns.endpoints,
        **_arrays_of("strings", columns.strings),
    }
    for name, run in columns.service_runs.items():
        arrays |= _arrays_of(f"service {name}", run)
    for name, run in columns.endpoint_runs.items():
        arrays |= _arrays_of(f"endpoint {name}", run)
    views = {
        name: np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        for name, array in arrays.items()
    }
    content = msgspec.msgpack.encode(_Columns(LAYOUT, views))
    with (folder / FILE).open("wb") as file:
        file.write(_digest(content))
        file.write(content)


def open_columns(folder: Path) -> RecordColumns:
    """Read columns; raises ColumnsDamaged where they are not as they were written."""
    path = folder / FILE
    try:
        content = path.read_bytes()
        if _digest(memoryview(content)[DIGEST_SIZE:]) != content[:DIGEST_SIZE]:
            raise ColumnsDamaged(f"{path}: the hash differs")
        read = _decoder.decode(memoryview(content)[DIGEST_SIZE:])
        _require(read.layout == LAYOUT, "the layout")
        return _columns(read.arrays)
    except (OSError, msgspec.MsgspecError, KeyError, ValueError) as error:
        raise ColumnsDamaged(f"{path}: {error}") from error


def _columns(arrays: dict[str, memoryview]) -> RecordColumns:
    """Return the columns of arrays; raises KeyError or ValueError where they do not fit."""
    services = np.frombuffer(arrays["services"], SERVICE)
    endpoints = np.frombuffer(arrays["endpoints"], ENDPOINT)
    keys, texts = (
        np.frombuffer(arrays[name], np.uint8).reshape(len(services), KEY_SIZE)
        for name in ("keys", "texts")
    )
    columns = RecordColumns(
        keys=keys,
        texts=texts,
        services=services,
        endpoints=endpoints,
        service_runs={
            name: _ragged(arrays, f"service {name}", dtype, len(services))
            for name, dtype in SERVICE_RUNS.items()
        },
        endpoint_runs={
            name: _ragged(arrays, f"endpoint {name}", dtype, len(endpoints))
            for name, dtype in ENDPOINT_RUNS.items()
        },
        strings=_ragged(arrays, "strings", TEXT),
    )
    strings = len(columns.strings.sizes)
    _require(int(services["endpoints"].sum(dtype=np.int64)) == len(endpoints), "endpoints")
    _require(strings > 0 and columns.strings.sizes[EMPTY] == 0, "strings")
    for numbers in columns.numbers():
        in_table = numbers.min(initial=0) >= 0 and numbers.max(initial=0) < strings
        _require(bool(in_table), "numbers of strings")
    return columns


def _arrays_of(name: str, run: Ragged) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a run; a byte is enough for most sizes."""
    is_small = run.sizes.max(initial=0) <= np.iinfo(np.uint8).max
    sizes = run.sizes.astype(np.uint8) if is_small else run.sizes
    return {f"{name} {sizes.dtype}": sizes, name: run.items}


def _ragged(
    arrays: dict[str, memoryview], name: str, dtype: np.dtype[Any], rows: int | None = None
) -> Ragged:
    of_bytes = arrays.get(f"{name} uint8")
    if of_bytes is None:
        sizes = np.frombuffer(arrays[f"{name} uint32"], np.uint32)
    else:
        sizes = np.frombuffer(of_bytes, np.uint8).astype(np.uint32)
    run = Ragged(sizes, np.frombuffer(arrays[name], dtype))
    _require(rows is None or len(sizes) == rows, f"sizes of {name}")
    _require(int(sizes.sum(dtype=np.int64)) == len(run.items), name)
    return run


def _digest(content: bytes | memoryview) -> bytes:
    return blake2b(content, digest_size=DIGEST_SIZE).digest()


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise ValueError(f"does not fit: {what}")
