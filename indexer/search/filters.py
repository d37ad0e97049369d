"""Writing the facets, prices and orders of services, and the facets of any documents."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from indexer.derive.columns import RecordColumns
from indexer.derive.ragged import Ragged
from indexer.search.popularity import Popularity
from service.conditions import (
    SERVICE_KEYS,
    Conditions,
    Normaliser,
    ServiceConditions,
    TextColumn,
    conditions_of,
)
from service.storage.container import Arrays, ArraysWriter, writing_arrays


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
    values = {
        "prices": services["cheapest"],
        "enriched": services["enriched"],
        "payers": popularity.stored_payers,
        "alive": popularity.alive,
    }
    facets = {name: FacetValues(runs[name], columns.strings) for name in SERVICE_KEYS}
    with writing_arrays(path) as writer:
        write_conditions(writer, ServiceConditions, facets, values)
        for name, order in orders.items():
            writer.write(name, np.asarray(order, np.uint32))


def write_conditions(
    writer: ArraysWriter,
    kind: type[Conditions],
    facets: Mapping[str, FacetValues],
    values: Arrays,
) -> None:
    """Write what the conditions of a kind are compared with."""
    for _, name, column in conditions_of(kind):
        if not column.is_stored:
            continue
        if isinstance(column, TextColumn):
            write_facet(writer, name, column.key, facets[name])
        else:
            writer.write(column.array, values[column.array])


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
    ranks = np.empty(len(keys), np.min_scalar_type(max(len(keys) - 1, 0)))
    ranks[order] = np.arange(len(keys))
    encoded = msgspec.json.encode([best[own][1] for own in order])
    writer.write(f"{name}.values", np.frombuffer(encoded, np.uint8))
    writer.write(f"{name}.numbers", ranks[key_numbers[numbers.items]])
    most = int(numbers.sizes.max(initial=0))
    writer.write(f"{name}.sizes", numbers.sizes.astype(np.min_scalar_type(most)))
