"""Indexing the texts that no segment has, in worker processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import ceil
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from indexer.columns.extraction import Extractor
from indexer.columns.record_columns import write_columns
from indexer.processes.pool import Pool
from indexer.progress import Advance, track
from indexer.record_store import KEY_SIZE, Keys, record_key
from indexer.segments.segment import SegmentParameters, SegmentWriter
from indexer.segments.store import LARGE_SERVICE, LEVELS, MERGE_FACTOR, MOST_SERVICES, divide
from service.storage.container import open_arrays, writing_arrays
from service.storage.texts import Records, Texts, write_texts

SMALLEST_PART = 2500
"""Services that take longer to index than a worker takes to start."""
PROGRESS_STEP = 500
"""Services between two reports of progress."""


class Annotated(NamedTuple):
    """A `Texts` of the annotations of all services, and the hashes of some."""

    path: Path
    keys: Keys


class Indexed(NamedTuple):
    """The columns of some services, and the segment of those whose texts were indexed."""

    columns: Path
    segment: Path | None


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


def index_in_parts(
    folder: Path,
    built: Path,
    ordinals: npt.NDArray[np.int64],
    keys: Keys,
    annotated: Annotated,
    known: Keys,
    origin: SegmentParameters,
    encoder: Path | None,
    pool: Pool,
    advance: Advance,
) -> list[Indexed]:
    """Extract the columns of stored services, and index those whose texts are not `known`.

    Returns the parts in order, as files of `folder`.

    ordinals, keys: of the services, ascending, and the hashes of their records
    annotated: the annotations of all services
    known: keys of texts
    advance: called from other threads
    """
    if not len(ordinals):
        return []
    sizes = np.diff(open_arrays(built / "records.arrays")["offsets"])[ordinals]
    weights = np.maximum(1.0, sizes / LARGE_SERVICE)
    parts = divide(weights, part_count(float(weights.sum()), pool.workers))
    tasks = [
        (
            folder / str(number),
            built,
            ordinals[part],
            keys[part],
            Annotated(annotated.path, annotated.keys[ordinals[part]]),
            known,
            origin,
            encoder,
        )
        for number, part in enumerate(parts)
    ]
    return pool.map(index_services, tasks, advance)


def part_count(services: float, workers: int) -> int:
    """Return into how many parts the work on services is divided: as many for each worker.

    Makes fewer parts where segments would be so many and small that all are merged at once.
    """
    least = max(1, ceil(services / MOST_SERVICES))
    most = max(min(MERGE_FACTOR - 1, services // SMALLEST_PART), services // LEVELS[-1])
    return int(max(least, min(ceil(least / workers) * workers, most)))


def index_services(
    path: Path,
    built: Path,
    ordinals: npt.NDArray[np.int64],
    keys: Keys,
    annotated: Annotated,
    known: Keys,
    origin: SegmentParameters,
    encoder: Path | None,
    advance: Advance,
) -> Indexed:
    """Extract the columns of some of the stored services and index them, with progress."""
    annotations = Texts(open_arrays(annotated.path), "annotations")
    known_texts = {bytes(key) for key in known}
    extractor = Extractor()
    writer: SegmentWriter | None = None
    records = map(Records(built).text, ordinals.tolist())
    texts = map(annotations.text, ordinals.tolist())
    for record in track(records, advance, PROGRESS_STEP):
        key, contents = extractor.add(record, next(texts))
        if key not in known_texts:
            writer = writer or SegmentWriter(path, origin, encoder)
            writer.add(key, contents)
    columns = path.with_suffix(".columns")
    write_columns(columns, extractor.columns(keys, annotated.keys))
    if writer is None:
        return Indexed(columns, None)
    del extractor  # before the analysis, which takes the most memory
    writer.finish()
    return Indexed(columns, path)
