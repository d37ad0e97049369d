"""Writing the files of a `ServiceFilterIndex`: facets, prices and orders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from indexer.columns.ragged import Ragged
from indexer.columns.record_columns import RecordColumns
from service.filtering.facets import DENSE_SHARE, SERVICE_KEYS, Normaliser


def write_filters(folder: Path, columns: RecordColumns, calls: Sequence[int]) -> None:
    """Write the filters of the services, and of their calls in the last 30 days."""
    folder.mkdir()
    services, strings = columns.services, columns.strings
    count = len(services)
    for name, key in SERVICE_KEYS.items():
        if name in columns.service_runs:
            values = columns.service_runs[name]
        else:
            values = Ragged(np.ones(count, np.uint32), services[name])
        write_spellings(folder, name, key, values, strings)
    prices = np.ascontiguousarray(services["cheapest"])
    np.save(folder / "cheapest.npy", prices)
    np.save(folder / "enriched.npy", np.ascontiguousarray(services["enriched"]))
    names = [name.casefold() for name in columns.service_runs["name"].strings()]
    orders = {
        "popularity": sorted(range(count), key=calls.__getitem__, reverse=True),  # and stable
        "price": np.argsort(prices, kind="stable"),
        "name": sorted(range(count), key=names.__getitem__),
    }
    for name, order in orders.items():
        np.save(folder / f"{name}.npy", np.asarray(order, np.uint32))


def write_spellings(
    folder: Path, name: str, key: Normaliser, values: Ragged, strings: Ragged
) -> None:
    """Write the files of a `StoredFacet` of values that may be spelt in several ways.

    values: int32, numbers of strings: those of each document, without two spellings of one value

    Spellings with the same key are one value, which is shown in its most frequent spelling.
    """
    counts = np.bincount(values.items, minlength=len(strings.sizes))
    used = np.flatnonzero(counts)
    spellings = strings.take(used).strings()
    keys: dict[str, int] = {}
    best: dict[int, tuple[int, str]] = {}
    key_numbers = np.zeros(len(counts), np.int32)
    for number, spelling, uses in zip(used.tolist(), spellings, counts[used].tolist(), strict=True):
        own = keys.setdefault(key(spelling), len(keys))
        key_numbers[number] = own
        best[own] = min(best.get(own, (0, "")), (-uses, spelling))
    item_keys = key_numbers[values.items]
    if len(keys) <= np.iinfo(np.uint16).max:
        item_keys = item_keys.astype(np.uint16)  # which NumPy sorts several times as fast
    documents = values.owners[np.argsort(item_keys, kind="stable")].astype(np.uint32)
    bounds = np.cumsum(np.bincount(item_keys, minlength=len(keys))).tolist()
    spans = [documents[start:stop] for start, stop in pairwise([0, *bounds])]
    shown = {best[own][1]: spans[own] for own in range(len(keys))}
    write_facet(folder, name, shown, len(values.sizes))


def write_facet(
    folder: Path, name: str, values: Mapping[str, npt.NDArray[np.uint32]], documents: int
) -> None:
    """Write the files of a `StoredFacet`: values with their documents, ascending."""
    ordered = sorted(values, key=lambda value: (-len(values[value]), value))
    (folder / f"{name}.values.json").write_bytes(msgspec.json.encode(ordered))
    lengths = [0, *(len(values[value]) for value in ordered)]
    np.save(folder / f"{name}.offsets.npy", np.cumsum(lengths, dtype=np.int64))
    ordinals = [np.empty(0, np.uint32), *(values[value] for value in ordered)]
    np.save(folder / f"{name}.ordinals.npy", np.concatenate(ordinals).astype(np.uint32))
    dense = [value for value in ordered if len(values[value]) > documents * DENSE_SHARE]
    masks = np.zeros((len(dense), documents), np.bool_)
    for mask, value in zip(masks, dense, strict=True):
        mask[values[value]] = True
    np.save(folder / f"{name}.dense.npy", masks)
