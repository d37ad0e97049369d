"""Writing the facets, prices and orders of services, and the facets of any documents."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from indexer.columns.ragged import AnyIntegers, Ragged
from indexer.columns.record_columns import RecordColumns
from indexer.search.popularity import Popularity
from service.filtering.facets import DENSE_SHARE, SERVICE_KEYS, Normaliser
from service.storage.container import ArraysWriter, writing_arrays
from service.storage.layouts import SERVICE_FILTERS


class FacetValues(NamedTuple):
    """The values of documents: numbers of strings, none two spellings of one value.

    numbers: int32, the numbers of each document
    """

    numbers: Ragged
    strings: Ragged


def write_filters(path: Path, columns: RecordColumns, popularity: Popularity) -> None:
    """Write the container of the `FilterIndex` of services."""
    services, runs = columns.services, columns.service_runs
    count = len(services)
    names = [name.casefold() for name in runs["name"].strings()]
    orders = {
        "by_popularity": popularity.order,
        "by_price": np.argsort(services["cheapest"], kind="stable"),
        "by_name": sorted(range(count), key=names.__getitem__),
    }
    with writing_arrays(path, SERVICE_FILTERS) as writer:
        for name, key in SERVICE_KEYS.items():
            values = runs[name] if name in runs else single_values(services[name])
            write_facet(writer, name, key, FacetValues(values, columns.strings))
        writer.write("prices", services["cheapest"])
        writer.write("enriched", services["enriched"])
        writer.write("payers", popularity.stored_payers)
        writer.write("alive", popularity.alive)
        for name, order in orders.items():
            writer.write(name, np.asarray(order, np.uint32))


def single_values(numbers: AnyIntegers) -> Ragged:
    """Return the numbers of documents that have one each."""
    return Ragged(np.ones(len(numbers), np.uint32), numbers)


def write_facet(writer: ArraysWriter, name: str, key: Normaliser, values: FacetValues) -> None:
    """Write the arrays of a `Facet`.

    Spellings with the same key are one value, which is shown in its most frequent spelling.
    """
    numbers, strings = values
    counts = np.bincount(numbers.items, minlength=len(strings.sizes))
    used = np.flatnonzero(counts)
    spellings = strings.take(used).strings()
    keys: dict[str, int] = {}
    best: dict[int, tuple[int, str]] = {}
    key_numbers = np.zeros(len(counts), np.int32)
    for number, spelling, uses in zip(used.tolist(), spellings, counts[used].tolist(), strict=True):
        own = keys.setdefault(key(spelling), len(keys))
        key_numbers[number] = own
        best[own] = min(best.get(own, (0, "")), (-uses, spelling))
    sizes = np.bincount(key_numbers[numbers.items], minlength=len(keys)).tolist()
    order = sorted(range(len(keys)), key=lambda own: (-sizes[own], best[own][1]))
    ranks = np.empty(len(keys), np.uint16 if len(keys) <= np.iinfo(np.uint16).max else np.int32)
    ranks[order] = np.arange(len(keys))
    # NumPy sorts numbers of 16 bits several times as fast.
    by_value = np.argsort(ranks[key_numbers[numbers.items]], kind="stable")
    ordinals = numbers.owners[by_value].astype(np.uint32)
    bounds = np.cumsum([0, *(sizes[own] for own in order)], dtype=np.int64)
    documents = len(numbers.sizes)
    dense = sum(size > documents * DENSE_SHARE for size in sizes)
    masks = np.zeros((dense, documents), np.bool_)
    for mask, (start, stop) in zip(masks, pairwise(bounds.tolist()), strict=False):
        mask[ordinals[start:stop]] = True
    encoded = msgspec.json.encode([best[own][1] for own in order])
    writer.write(f"{name}.values", np.frombuffer(encoded, np.uint8))
    writer.write(f"{name}.offsets", bounds)
    writer.write(f"{name}.ordinals", ordinals)
    writer.write(f"{name}.dense", masks)
