"""Writing the Whoosh index of a snapshot: an earlier index, and a segment of the changes.

A first index is written in parts, by several processes, as one Whoosh writer takes as long as all
other work of a build. Uses only the public API that all distributions of Whoosh share.
"""

from __future__ import annotations

import gc
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from whoosh import index
from whoosh.filedb.filestore import FileStorage
from whoosh.index import TOC

from indexer.errors import IndexerError
from indexer.processes.pool import Pool, wait_for
from indexer.record_store import KEY_SIZE, Keys
from indexer.segments.postings import GONE, FieldPostings, Numbers
from indexer.segments.segment import read_segment
from indexer.whoosh_index.files import DESCRIPTION, describe_index, is_whole_index
from indexer.whoosh_index.schema import FIELDS, SCHEMA
from service.artifacts.publishing import STAGING, WHOOSH
from service.storage.files import link
from service.storage.texts import IdTable

MOST_SEGMENTS = 32
"""Segments of Whoosh beyond which an index is written anew: a query reads each of them."""
MOST_DELETED = 0.5
"""Share of deleted documents beyond which an index is written anew."""
POSTINGS_MEMORY = 64  # MiB
"""Postings that Whoosh holds before it spills a sorted run to disk."""
KEYS = "documents.npy"
"""The keys of the documents in the order of their numbers, zeros for those that are deleted."""
NO_KEYS = np.empty((0, KEY_SIZE), np.uint8)
SEGMENT = ".seg"
"""The suffix of the one file that Whoosh writes of each segment."""
INDEX = "MAIN"
"""The name that Whoosh gives an index."""
WRITE_LOCK = f"{INDEX}_WRITELOCK"
"""An empty file that a Whoosh writer leaves behind, of use to a second writer alone."""


def start_whoosh_index(
    pool: Pool,
    artifacts: Path,
    before: str,
    snapshot: Path,
    segments: Sequence[tuple[Path, Numbers]],
) -> list[Future[Path]]:
    """Start to write the index of a snapshot that may still be staged; called in `stage`.

    Returns the calls for `publish_whoosh_index`: a single one where the index of the snapshot
    `before` is continued, else one for each process. `segments` are paths with the ordinals of
    services, or GONE.
    """
    earlier, staged = artifacts / WHOOSH / before, artifacts / STAGING / WHOOSH
    continued = earlier if is_whole_index(earlier) else None
    parts = max(1, min(pool.workers, len(segments))) if continued is None else 1
    return [
        pool.submit(write_part, staged / str(part), continued, snapshot, segments[part::parts])
        for part in range(parts)
    ]


def publish_whoosh_index(artifacts: Path, snapshot_id: str, parts: Sequence[Future[Path]]) -> None:
    """Wait for the parts of the index of a published snapshot, and publish them as one.

    An index that is whole stays. Called in `stage`; raises IndexerError.
    """
    folder = artifacts / WHOOSH / snapshot_id
    try:
        written = [wait_for(part) for part in parts]
        if is_whole_index(folder):
            return
        if len(written) > 1:
            _join(written)
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(exist_ok=True)
        written[0].rename(folder)
    except Exception as error:
        raise IndexerError(f"{folder}: the Whoosh index is not written: {error}") from error


def write_part(
    staged: Path, before: Path | None, snapshot: Path, segments: Sequence[tuple[Path, Numbers]]
) -> Path:
    """Write an index that has the services of the segments; returns its folder.

    before: a whole index to continue, None to begin one
    """
    keys = _sortable(np.concatenate([NO_KEYS, *(read_segment(path).keys for path, _ in segments)]))
    ordinals = np.concatenate([np.empty(0, np.int32), *(own for _, own in segments)])
    live = keys[ordinals != GONE]
    documents = _continue(staged, before, live)
    writer: Any = index.open_dir(str(staged)).writer(limitmb=POSTINGS_MEMORY)
    try:
        deleted = (documents != b"") & ~np.isin(documents, live)
        for number in np.flatnonzero(deleted).tolist():
            writer.delete_document(number)
        documents[deleted] = b""
        is_new = (ordinals != GONE) & ~np.isin(keys, documents)
        for service_id, terms in _documents(snapshot, segments, is_new):
            writer.add_document(id=service_id, **terms)
        writer.commit(merge=False)
    except BaseException:
        with suppress(Exception):  # which closes the files as far as the commit left them open
            writer.cancel()
        raise
    del writer
    # Whoosh keeps an exception with its frames, which hold the maps of its callers. The cycle is
    # young: a full collection would take half the time of a small build.
    gc.collect(1)
    documents = np.concatenate([documents, keys[is_new]])
    _finish(staged, documents.view(np.uint8).reshape(-1, KEY_SIZE))
    return staged


def _documents(
    snapshot: Path, segments: Sequence[tuple[Path, Numbers]], is_new: npt.NDArray[np.bool_]
) -> Iterator[tuple[str, dict[str, dict[bytes, int]]]]:
    """Yield the ids and the terms of the new services."""
    ids = IdTable(snapshot)
    stop = 0
    for path, own in segments:
        start, stop = stop, stop + len(own)
        rows = np.flatnonzero(is_new[start:stop])
        if not len(rows):
            continue
        fields = read_segment(path).services.fields
        numbers = np.full(len(own), GONE, np.int32)
        numbers[rows] = np.arange(len(rows))
        counts = (_transpose(fields[name], numbers, len(rows)) for name in FIELDS)
        for ordinal, *terms in zip(own[rows].tolist(), *counts, strict=True):
            yield ids[ordinal], dict(zip(FIELDS, terms, strict=True))


def _continue(
    staged: Path, before: Path | None, live: npt.NDArray[np.bytes_]
) -> npt.NDArray[np.bytes_]:
    """Link the files of an earlier index and return its documents, or begin a new one."""
    staged.mkdir(parents=True)
    if before is not None:
        documents = _sortable(np.load(before / KEYS, allow_pickle=False))
        paths = [path for path in before.iterdir() if path.name not in (KEYS, DESCRIPTION)]
        segments = sum(path.suffix == SEGMENT for path in paths)
        remaining = np.count_nonzero(np.isin(documents, live))
        if segments < MOST_SEGMENTS and remaining >= (1 - MOST_DELETED) * len(documents):
            for path in paths:
                link(path, staged / path.name)
            return documents
    index.create_in(str(staged), SCHEMA)
    return _sortable(NO_KEYS)


def _finish(folder: Path, documents: Keys) -> None:
    """Write what describes an index, having counted its documents."""
    (folder / WRITE_LOCK).unlink(missing_ok=True)
    count = index.open_dir(str(folder), readonly=True, schema=SCHEMA).doc_count_all()
    if count != len(documents):
        raise IndexerError(f"the index has {count} documents, not {len(documents)}")
    np.save(folder / KEYS, documents)
    describe_index(folder)


def _join(parts: Sequence[Path]) -> None:
    """Move the segments of all parts into the first, and list them in its table of contents."""
    target = parts[0]
    tables = [TOC.read(FileStorage(str(part)), INDEX) for part in parts]
    for path in chain.from_iterable(part.glob(f"*{SEGMENT}") for part in parts):
        path.rename(target / path.name)
    documents = np.concatenate([np.load(part / KEYS, allow_pickle=False) for part in parts])
    for path in target.glob("*.toc"):
        path.unlink()
    segments = list(chain.from_iterable(table.segments for table in tables))
    TOC(SCHEMA, segments, tables[0].generation + 1).write(FileStorage(str(target)), INDEX)
    _finish(target, documents)


def _transpose(field: FieldPostings, numbers: Numbers, count: int) -> Iterator[dict[bytes, int]]:
    """Yield the counts of the terms of each of `count` documents, by their new numbers or GONE."""
    documents = numbers[field.documents]
    present = np.flatnonzero(documents != GONE)
    order = present[np.argsort(documents[present], kind="stable")]
    texts = field.terms.texts()
    owners = np.repeat(np.arange(len(texts)), field.sizes)[order].tolist()
    counts = field.counts[order].astype(np.int64).tolist()
    bounds = np.searchsorted(documents[order], np.arange(count + 1))
    for start, stop in pairwise(bounds.tolist()):
        terms = [texts[owner] for owner in owners[start:stop]]
        yield dict(zip(terms, counts[start:stop], strict=True))


def _sortable(keys: Keys) -> npt.NDArray[np.bytes_]:
    """Return each key as one value; a key of zeros is the empty value."""
    return np.ascontiguousarray(keys).view(f"S{KEY_SIZE}").ravel()
