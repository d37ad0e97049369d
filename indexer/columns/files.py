"""Columns in a file: a container of arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from indexer.columns.ragged import Ragged
from indexer.columns.record_columns import (
    ENDPOINT,
    ENDPOINT_RUNS,
    SERVICE,
    SERVICE_RUNS,
    TEXT,
    RecordColumns,
)
from indexer.record_store import KEY_SIZE
from service.storage.container import Array, Arrays, Layout, open_arrays, write_arrays

_runs = [
    ("strings", "strings", TEXT),
    *((f"service_{name}", "services", dtype) for name, dtype in SERVICE_RUNS.items()),
    *((f"endpoint_{name}", "endpoints", dtype) for name, dtype in ENDPOINT_RUNS.items()),
]
RECORD_COLUMNS = Layout(
    "The values that a snapshot needs of its records.",
    keys=Array("|u1", f"services,{KEY_SIZE}", "hashes of the records"),
    annotations=Array("|u1", f"services,{KEY_SIZE}", "hashes of their annotations"),
    texts=Array("|u1", f"services,{KEY_SIZE}", "hashes of the searched texts"),
    services=Array(SERVICE.str, "services"),
    endpoints=Array(ENDPOINT.str, "endpoints"),
    **{
        part: array
        for name, rows, dtype in _runs
        for part, array in {
            f"{name}_sizes": Array("<u4", rows, "how many items each row has"),
            name: Array(dtype.str, f"items of {name}"),
        }.items()
    },
)


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
    write_arrays(path, RECORD_COLUMNS, arrays)


def open_columns(path: Path) -> RecordColumns:
    """Map columns that this program wrote; raises SnapshotDamaged."""
    arrays = open_arrays(path, RECORD_COLUMNS, cold=RECORD_COLUMNS.arrays)

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
