"""Indexing the texts that no segment has, and merging segments, in worker processes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from indexer.columns.extraction import Extractor
from indexer.columns.record_columns import RecordColumns
from indexer.processes.pool import start_workers
from indexer.processes.resources import whoosh_memory, worker_count
from indexer.progress import Advance, track
from indexer.record_store import Keys
from indexer.segments.segment import (
    Origin,
    SegmentWriter,
    Selection,
    merge_segments,
)
from indexer.segments.texts import ServiceText
from service.storage.record_store import Records

SMALLEST_PART = 2500
"""Services that take longer to index than a worker takes to start."""
MOST_PARTS = 7
"""Segments that a build writes at most: one more would be enough to merge them all again."""
PROGRESS_STEP = 500
"""Services between two reports of progress."""


class Resources(Struct, frozen=True):
    """The processes of a stage, at most, and the bytes of memory for all."""

    jobs: int
    memory: int

    def parts(self, count: int) -> int:
        """Return into how many parts the work on `count` services is divided."""
        workers = min(worker_count(self.jobs, self.memory), MOST_PARTS)
        return min(workers, max(1, count // SMALLEST_PART))


class Indexed(NamedTuple):
    """The columns of some services, and the segment of those whose texts were indexed."""

    columns: RecordColumns
    segment: Path | None


_text = msgspec.json.Decoder(ServiceText)


def index_in_parts(
    folder: Path,
    built: Path,
    ordinals: npt.NDArray[np.int64],
    keys: Keys,
    known: Collection[bytes],
    origin: Origin,
    encoder: Path | None,
    resources: Resources,
    advance: Advance,
) -> list[Indexed]:
    """Extract the columns of stored services, and index those whose texts are not `known`.

    Segments are numbered folders of `folder`. `ordinals` ascend, `keys` are the hashes of their
    records. Returns the parts in this order. `advance` is called from other threads.
    """
    parts = resources.parts(len(ordinals))
    share = whoosh_memory(resources.memory, parts)
    tasks = [
        (folder / str(number), built, own, own_keys, known, origin, encoder, share)
        for number, (own, own_keys) in enumerate(
            zip(np.array_split(ordinals, parts), np.array_split(keys, parts), strict=True)
        )
    ]
    if parts == 1:
        return [index_services(*tasks[0], advance)]
    with start_workers(index_services, tasks, advance) as results:
        indexed: list[Indexed] = results()
    return indexed


def index_services(
    folder: Path,
    built: Path,
    ordinals: npt.NDArray[np.int64],
    keys: Keys,
    known: Collection[bytes],
    origin: Origin,
    encoder: Path | None,
    memory: int,
    advance: Advance,
) -> Indexed:
    """Extract the columns of some of the stored services and index them, with progress."""
    extractor = Extractor()
    writer: SegmentWriter | None = None
    records = map(Records(built).text, ordinals.tolist())
    try:
        for record in track(records, advance, PROGRESS_STEP):
            key = extractor.add(record)
            if key not in known:
                writer = writer or SegmentWriter(folder, origin, memory, encoder)
                writer.add(key, _text.decode(record))
    except BaseException:
        if writer is not None:
            writer.cancel()
        raise
    if writer is not None:
        writer.finish()
    return Indexed(extractor.columns(keys), folder if writer else None)


def merge_all(
    folder: Path,
    selections: Sequence[Sequence[Selection]],
    origin: Origin,
    resources: Resources,
) -> list[Path]:
    """Write each list of selections as a segment; returns their folders."""
    share = whoosh_memory(resources.memory, max(1, len(selections)))
    folders = [folder / str(number) for number in range(len(selections))]
    tasks = [
        (own, list(selected), origin, share)
        for own, selected in zip(folders, selections, strict=True)
    ]
    if len(tasks) > 1:
        with start_workers(_merge, tasks, lambda _: None) as results:
            results()
    else:
        for task in tasks:
            merge_segments(*task)
    return folders


def _merge(
    folder: Path, selections: list[Selection], origin: Origin, memory: int, _: Advance
) -> None:
    merge_segments(folder, selections, origin, memory)
