"""Writing the Whoosh index of a snapshot: that of an earlier one, and a segment of what changed.

Only what all distributions of Whoosh offer publicly is used.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from whoosh import index

from indexer.errors import IndexerError
from indexer.record_store import KEY_SIZE, Keys, load_array
from indexer.segments.postings import GONE, FieldPostings, Numbers
from indexer.segments.segment import read_keys, read_segment
from indexer.whoosh_index.files import check_index, describe_index
from indexer.whoosh_index.schema import FIELDS, SCHEMA
from service.errors import SnapshotUnavailable
from service.publishing.artifacts import STAGING, WHOOSH
from service.snapshot.manifest import File
from service.snapshot.publication import SNAPSHOTS
from service.storage.record_store import IdTable

MOST_SEGMENTS = 32
"""Segments of Whoosh beyond which an index is written anew: a query reads each of them."""
MOST_DELETED = 0.5
"""Share of deleted documents beyond which an index is written anew."""
POSTINGS_MEMORY = 64  # MiB
"""Postings that Whoosh holds before it spills a sorted run to disk."""
KEYS = "documents.npy"
"""The keys of the documents in the order of their numbers, zeros for those that are deleted."""
WRITE_LOCK = "MAIN_WRITELOCK"
"""An empty file that a Whoosh writer leaves behind, of use to a second writer alone."""


def update_whoosh_index(
    artifacts: Path, snapshot_id: str, before: str, segments: Sequence[tuple[Path, Numbers]]
) -> None:
    """Write the index of a published snapshot, from that of the snapshot `before` if it is whole.

    `segments` are the folders of segments with the ordinals of their services, or GONE. An index
    that is whole stays. Called in `stage`; raises IndexerError.
    """
    folder = artifacts / WHOOSH / snapshot_id
    staged = artifacts / STAGING / WHOOSH
    try:
        if _check(folder) is not None:
            return
        _write(staged, artifacts / WHOOSH / before, artifacts / SNAPSHOTS / snapshot_id, segments)
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(exist_ok=True)
        staged.rename(folder)
    except Exception as error:
        raise IndexerError(f"{folder}: the Whoosh index is not written: {error}") from error


def _check(folder: Path) -> dict[str, File] | None:
    """Return the files of an index, or None if it is not whole."""
    with suppress(IndexerError, SnapshotUnavailable):
        return check_index(folder)
    return None


def _write(
    staged: Path, before: Path, snapshot: Path, segments: Sequence[tuple[Path, Numbers]]
) -> None:
    """Write an index that has the services of the segments."""
    keys = [_sortable(read_keys(path)) for path, _ in segments]
    live = np.concatenate(
        [
            _sortable(np.empty((0, KEY_SIZE), np.uint8)),
            *(own[ordinals != GONE] for own, (_, ordinals) in zip(keys, segments, strict=True)),
        ]
    )
    known, documents = _continue(staged, before, live)
    ids = IdTable(snapshot)
    writer: Any = index.open_dir(str(staged)).writer(limitmb=POSTINGS_MEMORY)
    try:
        deleted = (documents != b"") & ~np.isin(documents, live)
        for number in np.flatnonzero(deleted).tolist():
            writer.delete_document(number)
        documents[deleted] = b""
        added = []
        for own, (path, ordinals) in zip(keys, segments, strict=True):
            rows = np.flatnonzero((ordinals != GONE) & ~np.isin(own, documents))
            added.append(own[rows])
            for ordinal, terms in zip(ordinals[rows].tolist(), _terms(path, rows), strict=True):
                writer.add_document(id=ids[ordinal], **terms)
        writer.commit(merge=False)
    except BaseException:
        with suppress(Exception):  # which closes the files as far as the commit left them open
            writer.cancel()
        raise
    (staged / WRITE_LOCK).unlink(missing_ok=True)
    documents = np.concatenate([documents, *added])
    count, _ = _count(staged)
    if count != len(documents):
        raise IndexerError(f"it has {count} documents, not {len(documents)}")
    np.save(staged / KEYS, documents.view(np.uint8).reshape(-1, KEY_SIZE))
    describe_index(staged, known)


def _continue(
    staged: Path, before: Path, live: npt.NDArray[np.bytes_]
) -> tuple[dict[str, File], npt.NDArray[np.bytes_]]:
    """Link the files of an earlier index, if it is worth to; returns them, and its documents."""
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir()
    files = _check(before)
    if files is not None:
        documents = _sortable(load_array(before / KEYS))
        count, segments = _count(before)
        remaining = np.count_nonzero(np.isin(documents, live))
        worth = segments < MOST_SEGMENTS and remaining >= (1 - MOST_DELETED) * len(documents)
        if worth and count == len(documents):
            known = {name: file for name, file in files.items() if name != KEYS}
            for name in known:
                try:
                    os.link(before / name, staged / name)
                except OSError:  # the file system has no hard links
                    shutil.copyfile(before / name, staged / name)
            return known, documents
    index.create_in(str(staged), SCHEMA)
    return {}, _sortable(np.empty((0, KEY_SIZE), np.uint8))


def _count(folder: Path) -> tuple[int, int]:
    """Return the counts of documents, deleted ones included, and of segments."""
    reader: Any = index.open_dir(str(folder), readonly=True, schema=SCHEMA).reader()
    try:
        return reader.doc_count_all(), len(reader.leaf_readers())
    finally:
        reader.close()


def _terms(path: Path, rows: npt.NDArray[np.int64]) -> Iterator[dict[str, dict[bytes, int]]]:
    """Yield the counts of the terms of some services of a segment, by field."""
    if not len(rows):
        return
    segment = read_segment(path)
    numbers = np.full(len(segment.keys), GONE, np.int32)
    numbers[rows] = np.arange(len(rows))
    fields = [_transpose(segment.services.fields[name], numbers, len(rows)) for name in FIELDS]
    for counts in zip(*fields, strict=True):
        yield dict(zip(FIELDS, counts, strict=True))


def _transpose(field: FieldPostings, numbers: Numbers, count: int) -> Iterator[dict[bytes, int]]:
    """Yield the counts of the terms of each of `count` documents, by their new numbers or GONE."""
    documents = numbers[field.documents]
    present = np.flatnonzero(documents != GONE)
    order = present[np.argsort(documents[present], kind="stable")]
    owners = np.repeat(np.arange(len(field.terms)), field.sizes)[order].tolist()
    counts = field.counts[order].astype(np.int64).tolist()
    bounds = np.searchsorted(documents[order], np.arange(count + 1)).tolist()
    for start, stop in pairwise(bounds):
        terms = [field.terms[owner] for owner in owners[start:stop]]
        yield dict(zip(terms, counts[start:stop], strict=True))


def _sortable(keys: Keys) -> npt.NDArray[np.bytes_]:
    """Return each key as one value; a key of zeros is the empty value."""
    return np.ascontiguousarray(keys).view(f"S{KEY_SIZE}").ravel()
