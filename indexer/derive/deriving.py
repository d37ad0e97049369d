"""Deriving the columns of a catalogue: known ones are taken over, others computed in processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import NamedTuple

import numpy as np

from indexer.derive.columns import RecordColumns, merge_columns, open_columns
from indexer.derive.extraction import Extractor
from indexer.processes.pool import Pool
from indexer.progress import Advance
from indexer.record_store import KEY_SIZE, Keys, record_key
from service.arrays.container import open_arrays, write_arrays, writing_arrays
from service.arrays.texts import Records, Texts, write_texts
from service.search.postings import Integers

PART = 2000
"""Services of a part, so that the memory of a process does not grow with the catalogue."""
SMALLEST_PART = 250
"""Services that take longer to derive than a call of a process takes."""
LARGE_SERVICE = 2**13
"""Bytes of a record beyond which it counts as several services."""


class Annotated(NamedTuple):
    """The path of a `Texts` of the annotations of all services, and their hashes."""

    path: Path
    keys: Keys


def write_annotations(path: Path, texts: Iterable[bytes]) -> Annotated:
    """Write the encoded annotations of services; a service without any has a hash of zeros."""
    keys = bytearray()

    def hashed() -> Iterator[bytes]:
        for text in texts:
            keys.extend(record_key(text) if text else bytes(KEY_SIZE))
            yield text

    with writing_arrays(path) as writer:
        write_texts(writer, "annotations", hashed())
    return Annotated(path, np.frombuffer(bytes(keys), np.uint8).reshape(-1, KEY_SIZE))


def derive_columns(
    path: Path,
    built: Path,
    keys: Keys,
    annotated: Annotated,
    known: RecordColumns | None,
    encoder: Path | None,
    pool: Pool,
    advance: Advance,
) -> int:
    """Write the columns of all stored services; returns how many services were derived anew.

    keys: the hashes of the records
    known: columns of earlier records, with vectors of the same encoder
    """
    keys = np.concatenate((keys, annotated.keys), axis=1)
    rows = np.full(len(keys), -1) if known is None else known.find(keys)
    new = np.flatnonzero(rows < 0)
    advance(len(keys) - len(new))
    sizes = np.diff(open_arrays(built / "records.arrays")["offsets"])[new]
    divided = divide(new, sizes, pool.workers) if len(new) or known is None else []
    tasks = [
        (path.with_name(f"{number} {path.name}"), built, part, keys[part], annotated.path, encoder)
        for number, part in enumerate(divided)
    ]
    written = pool.map(derive_part, tasks, advance, [*map(len, divided)])
    parts = [] if known is None else [known]
    parts += map(open_columns, written)
    rows[new] = sum(len(part.keys) for part in parts) - len(new) + np.arange(len(new))
    merge_columns(path, parts, rows)
    for each in written:
        each.unlink()
    return len(new)


def divide(ordinals: Integers, sizes: Integers, workers: int) -> list[Integers]:
    """Divide services, given the bytes of their records, to parts of about the same work."""
    ends = np.cumsum(np.maximum(1.0, sizes / LARGE_SERVICE))
    work = float(ends[-1]) if len(ends) else 0.0
    least = min(workers, int(work // SMALLEST_PART))
    parts = max(1, least, ceil(work / PART))
    inner = np.searchsorted(ends, work * np.arange(1, parts) / parts, side="right")
    bounds = np.unique(np.concatenate(([0], inner, [len(ends)]))).tolist()
    return [ordinals[slice(*each)] for each in pairwise(bounds)] or [ordinals]


def derive_part(
    path: Path, built: Path, ordinals: Integers, keys: Keys, annotations: Path, encoder: Path | None
) -> Path:
    """Write the columns of some of the stored services; returns the path."""
    records = map(Records(built).text, ordinals.tolist())
    texts = map(Texts(open_arrays(annotations), "annotations").text, ordinals.tolist())
    extractor = Extractor(encoder)
    for record, text in zip(records, texts, strict=True):
        extractor.add(record, text)
    write_arrays(path, extractor.arrays(keys))
    return path
