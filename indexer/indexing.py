"""The indexes of the stored services: segments are brought up to date, then compiled."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from indexer.catalogue.catalogue import Entry
from indexer.catalogue.outliers import Outlier, find_outliers
from indexer.columns.extraction import extract
from indexer.columns.record_columns import RecordColumns
from indexer.columns.record_columns import concatenate as concatenate_columns
from indexer.columns.summaries import write_summaries
from indexer.encoder.packaged import StaticEncoder, write_encoder
from indexer.encoder.quantising import EncodedTexts, concatenate
from indexer.options import BuildOptions
from indexer.processes.pool import run_beside
from indexer.progress import Progress
from indexer.record_store import Keys, read_record_store
from indexer.search.filters import write_filters
from indexer.search.offers import OfferWriter
from indexer.search.parts import part_of
from indexer.search.postings import compile_postings, popularity
from indexer.search.vectors import write_endpoint_vectors, write_vectors
from indexer.segments.indexing import Resources, index_in_parts, merge_all
from indexer.segments.kept import Kept, keep
from indexer.segments.postings import Numbers
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
from indexer.snapshot.endpoints import compile_endpoints, write_endpoints
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
        kept: Kept,
        progress: Progress,
    ) -> None:
        self._staging, self._built = staging, staging / "snapshot"
        self._options = options
        self._encoder = encoder
        self._resources = resources
        self._has_endpoints = options.endpoints
        self._kept = kept
        self._progress = progress

    def columns_of(self, keys: Keys) -> RecordColumns:
        """Return the columns of the stored services, whose hashes are `keys`."""
        kept = self._kept.records.columns
        rows = kept.find(keys).astype(np.int64)
        new = np.flatnonzero(rows < 0)
        extracted = extract(read_record_store(self._built, "records", new.tolist()), keys[new])
        return _take(kept, rows, [extracted], new)

    def write(
        self, entries: Sequence[Entry], keys: Keys, listed: ListedResources, offers: OfferWriter
    ) -> IndexReport:
        """Index the services, in listing order, and their endpoints and listed resources.

        `keys` are the hashes of the stored services.
        """
        built, ranking = self._built, self._options.ranking
        encoder = self._write_encoder()
        used, counts, columns = self._update_segments(keys, encoder)
        names = columns.service_runs["name"].strings()
        prior = np.array([popularity(entry.enriched, entry.calls) for entry in entries])
        segments = [(each.stored.folder, each.ordinals) for each in used]
        beside = partial(run_beside, in_process=self._resources.parts(len(entries)) == 1)
        services = (built, segments, names, prior, encoder, ranking.search)
        with self._progress.stage("compile"), beside(_compile_services, services):
            endpoints = write_endpoints(
                built, columns, listed, offers, encoder, indexed=self._has_endpoints
            )
            others = endpoints.other_vectors if self._has_endpoints else None
            vectors = (built, segments, encoder, others, endpoints.services)
            with nullcontext() if others is None else beside(_write_endpoint_vectors, vectors):
                keep(built, columns)
                write_summaries(built, columns, read_record_store(built, "records"))
                write_filters(built / "filters", columns, [entry.calls for entry in entries])
                outliers = find_outliers(columns)
                compile_endpoints(built, segments, endpoints, ranking.endpoint_search)
        return IndexReport(outliers, counts, link_segments(built, used))

    def _update_segments(
        self, keys: Keys, encoder: Path | None
    ) -> tuple[list[UsedSegment], SegmentCounts, RecordColumns]:
        """Read the records and index the texts that are new, and merge segments."""
        name = "" if self._encoder is None else self._encoder.name
        origin = Origin(hash_program(), name, self._has_endpoints)
        folder = self._staging / "segments"
        with self._progress.stage("read what is kept"):
            kept = list(find_segments(self._kept, origin))
        known = {key for stored in kept for key in split_keys(stored.keys)}
        columns = self._kept.records.columns
        rows = columns.find(keys).astype(np.int64)
        new = np.flatnonzero(~_have_segments(columns, rows, known))
        with (
            self._progress.stage("index", len(new)) as stage,
            index_in_parts(
                folder,
                self._built,
                new,
                keys[new],
                known,
                origin,
                encoder,
                self._resources,
                stage.advance,
            ) as results,
        ):
            indexed = results()
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

    def _write_encoder(self) -> Path | None:
        """Write the encoder, by which queries and documents are encoded; returns its folder."""
        if self._encoder is None:
            return None
        folder = self._built / "encoder"
        write_encoder(folder, self._encoder)
        return folder


def _take(
    kept: RecordColumns,
    rows: npt.NDArray[np.int64],
    parts: Sequence[RecordColumns],
    new: npt.NDArray[np.int64],
) -> RecordColumns:
    """Return the columns of all services: rows of the kept ones, or for `new` ones of the parts."""
    rows[new] = len(kept.keys) + np.arange(len(new))
    return concatenate_columns([kept, *parts]).take(rows)


def _compile_services(
    built: Path,
    segments: Segments,
    names: Sequence[str],
    prior: npt.NDArray[np.float64],
    encoder: Path | None,
    config: SearchConfig,
) -> None:
    """Write the postings of the services, and their vectors, if they are encoded.

    `names` and `prior` are in listing order.
    """
    parts = [part_of(read_segment(folder).services, ordinals) for folder, ordinals in segments]
    compile_postings(parts, names, prior, built / "postings", config)
    if encoder is not None:
        services, _ = gather_live_vectors(segments, encoder)
        write_vectors(built / "vectors", services)


def _write_endpoint_vectors(
    built: Path,
    segments: Segments,
    encoder: Path,
    others: EncodedTexts,
    services_of: npt.NDArray[np.int32],
) -> None:
    """Write the vectors of endpoints and of other resources, given the service of each."""
    services, endpoints = gather_live_vectors(segments, encoder)
    folder = built / "endpoints" / "vectors"
    write_endpoint_vectors(folder, concatenate([endpoints, others]), services, services_of)


def _have_segments(
    columns: RecordColumns, rows: npt.NDArray[np.int64], known: Collection[bytes]
) -> npt.NDArray[np.bool_]:
    """Return for each service, by its row in the columns or -1, whether it has a segment."""
    texts = split_keys(columns.texts)
    return np.array([row >= 0 and texts[row] in known for row in rows.tolist()], np.bool_)
