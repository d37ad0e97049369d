"""The indexes of the stored services: segments are brought up to date, then compiled."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from indexer.catalogue.catalogue import Entry
from indexer.catalogue.outliers import Outlier, find_outliers
from indexer.columns.record_columns import RecordColumns
from indexer.columns.record_columns import concatenate as concatenate_columns
from indexer.columns.summaries import write_summaries
from indexer.encoder.packaged import StaticEncoder, write_encoder
from indexer.encoder.quantising import EncodedTexts
from indexer.options import BuildOptions
from indexer.processes.pool import Pool, run_beside
from indexer.progress import Progress
from indexer.record_store import Keys
from indexer.search.filters import write_filters
from indexer.search.offers import OfferWriter
from indexer.search.parts import segment_parts
from indexer.search.postings import compile_postings, popularity
from indexer.search.vectors import add_services, write_vectors
from indexer.segments.indexing import Resources, index_in_parts, merge_all
from indexer.segments.kept import Kept, keep
from indexer.segments.postings import GONE, Numbers
from indexer.segments.segment import Origin, read_segment
from indexer.segments.store import (
    SegmentCounts,
    StoredSegment,
    UsedSegment,
    choose_merged,
    find_segments,
    link_segments,
    merged_parts,
    open_written,
    selections,
    split_keys,
    use_segments,
)
from indexer.segments.vectors import gather_live_vectors
from indexer.snapshot.endpoints import IndexedEndpoints, write_endpoints
from indexer.snapshot.resources import ListedResources
from indexer.sources.fingerprint import hash_program
from service.search.config import SearchConfig
from service.snapshot.manifest import File

Segments = Sequence[tuple[Path, Numbers]]
"""The folders of segments, with the ordinals of their services."""


class IndexReport(Struct):
    """The outcome: suspicious prices, counts for the report, and hashes of files that are known."""

    outliers: list[Outlier]
    segments: SegmentCounts
    files: dict[str, File]


class Indexer:
    """Writes the indexes of the stored services into a snapshot that is being built.

    `kept` is what earlier builds left for it.
    """

    def __init__(
        self,
        staging: Path,
        options: BuildOptions,
        encoder: StaticEncoder | None,
        resources: Resources,
        pool: Pool,
        kept: Kept,
        progress: Progress,
    ) -> None:
        self._staging, self._built = staging, staging / "snapshot"
        self._options = options
        self._encoder = encoder
        self._resources = resources
        self._pool = pool
        self._kept = kept
        self._progress = progress

    def write(
        self, entries: Sequence[Entry], keys: Keys, listed: ListedResources, offers: OfferWriter
    ) -> IndexReport:
        """Index the services, in listing order, and their endpoints and listed resources.

        `keys` are the hashes of the stored services.
        """
        built, ranking = self._built, self._options.ranking
        encoder = None
        if self._encoder is not None:
            encoder = built / "encoder"
            write_encoder(encoder, self._encoder)
        used, counts, columns = self._update_segments(keys, encoder)
        segments = [(each.stored.folder, each.ordinals) for each in used]
        names = columns.service_runs["name"].strings()
        prior = np.array([popularity(entry.enriched, entry.calls) for entry in entries])
        beside = partial(run_beside, in_process=self._resources.parts(len(entries)) == 1)
        with self._progress.stage("compile"):
            indexed = write_endpoints(
                built, columns, listed, offers, encoder, indexed=self._options.endpoints
            )
            vectors = (built, segments, encoder, indexed)
            with nullcontext() if encoder is None else beside(_write_vectors, vectors):
                keep(built, columns)
                write_summaries(built, columns)
                write_filters(built / "filters", columns, [entry.calls for entry in entries])
                outliers = find_outliers(columns)
                runs = self._staging / "runs"
                _compile(built, runs, segments, indexed, names, prior, self._pool, ranking.search)
        return IndexReport(outliers, counts, link_segments(built, used))

    def _update_segments(
        self, keys: Keys, encoder: Path | None
    ) -> tuple[list[UsedSegment], SegmentCounts, RecordColumns]:
        """Read the records and index the texts that are new, and merge segments."""
        name = "" if self._encoder is None else self._encoder.name
        origin = Origin(hash_program(), name, self._options.endpoints)
        folder = self._staging / "segments"
        with self._progress.stage("read what is kept"):
            kept = list(find_segments(self._kept, origin))
        known = {key for stored in kept for key in split_keys(stored.keys)}
        columns = self._kept.records.columns
        rows = columns.find(keys).astype(np.int64)
        texts = split_keys(columns.texts)
        is_known = [row >= 0 and texts[row] in known for row in rows.tolist()]
        new = np.flatnonzero(np.logical_not(is_known))
        with self._progress.stage("index", len(new)) as stage:
            indexed = index_in_parts(
                folder,
                self._built,
                new,
                keys[new],
                known,
                origin,
                encoder,
                self._resources,
                stage.advance,
            )
        columns = _take(columns, rows, [part.columns for part in indexed], new)
        keys = columns.texts
        written = [open_written(part.segment) for part in indexed if part.segment is not None]
        stored: list[StoredSegment] = [*kept, *written]
        used = use_segments(stored, keys)
        merged = choose_merged(used)
        if merged:
            parts = merged_parts(merged, self._resources.parts(len(keys)))
            with self._progress.stage("merge segments"):
                folders = merge_all(
                    folder / "merged", selections(merged, parts), origin, self._resources
                )
            others = [each.stored for each in used if all(each is not one for one in merged)]
            used = use_segments([*others, *map(open_written, folders)], keys)
        added = sum(len(each.keys) for each in written)
        return used, SegmentCounts(added, len(used), len(merged)), columns


def _take(
    kept: RecordColumns,
    rows: npt.NDArray[np.int64],
    parts: Sequence[RecordColumns],
    new: npt.NDArray[np.int64],
) -> RecordColumns:
    """Return the columns of all services: rows of the kept ones, or for `new` ones of the parts."""
    rows[new] = len(kept.keys) + np.arange(len(new))
    return concatenate_columns([kept, *parts]).take(rows)


def _compile(
    built: Path,
    staging: Path,
    segments: Segments,
    indexed: IndexedEndpoints,
    names: Sequence[str],
    prior_of_services: npt.NDArray[np.float64],
    pool: Pool,
    config: SearchConfig,
) -> None:
    """Write the postings of the documents, given the names and the priors of the services."""
    documents = indexed.documents
    parts = chain.from_iterable(
        segment_parts(read_segment(folder), ordinals, documents) for folder, ordinals in segments
    )
    endpoints = int(documents.endpoints[-1])
    prior = np.zeros(len(documents.services))
    prior[:endpoints] = indexed.prior[:endpoints]
    own = np.flatnonzero(documents.own != GONE)
    prior[documents.own[own]] = prior_of_services[own]
    parts = chain([indexed.others], parts)
    compile_postings(parts, names, prior, documents, built / "postings", staging, pool, config)


def _write_vectors(
    built: Path, segments: Segments, encoder: Path, indexed: IndexedEndpoints
) -> None:
    """Write the vectors of the documents; a service that is one has its own vector alone."""
    services, endpoints = gather_live_vectors(segments, encoder)
    documents = indexed.documents
    rows = np.zeros((len(documents.services), services.rows.shape[1]), np.int8)
    inverse_lengths = np.zeros(len(rows), np.float32)
    first = np.arange(documents.endpoints[-1])
    for numbers, vectors in ((first, endpoints), (indexed.other_documents, indexed.other_vectors)):
        if vectors is not None and len(numbers):
            rows[numbers], inverse_lengths[numbers] = vectors
    own = EncodedTexts(rows, inverse_lengths)
    write_vectors(built / "vectors", add_services(own, services, documents.services))
