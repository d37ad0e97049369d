"""The indexes of the stored services: segments are brought up to date, then compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from indexer.catalogue.outliers import Outlier, find_outliers
from indexer.columns.files import open_columns, write_columns
from indexer.columns.record_columns import RecordColumns, find_keys
from indexer.columns.record_columns import concatenate as concatenate_columns
from indexer.columns.summaries import write_summaries
from indexer.encoder.packaged import StaticEncoder, write_encoder
from indexer.encoder.quantising import EncodedTexts
from indexer.options import BuildOptions
from indexer.processes.pool import Pool, wait_for
from indexer.processes.resources import release_memory
from indexer.progress import Progress
from indexer.record_store import Keys
from indexer.search.filters import write_filters
from indexer.search.offers import OfferWriter
from indexer.search.parts import Documents, segment_parts
from indexer.search.popularity import Payers, Popularity, popularity_of
from indexer.search.postings import compile_postings
from indexer.search.vectors import add_services, write_vectors
from indexer.segments.indexing import Annotated, index_in_parts
from indexer.segments.postings import GONE, Numbers
from indexer.segments.reuse import ReuseStore
from indexer.segments.segment import SegmentParameters, merge_segments, read_segment
from indexer.segments.store import (
    SegmentCounts,
    UsedSegment,
    choose_merged,
    find_segments,
    open_written,
    selections,
    use_segments,
)
from indexer.segments.vectors import endpoint_numbers, gather_vectors
from indexer.snapshot.endpoints import IndexedEndpoints, Verdicts, write_endpoints
from indexer.snapshot.resources import ListedResources
from service.search.config import SearchConfig

Segments = Sequence[tuple[Path, Numbers]]
"""The paths of segments, with the ordinals of their services."""


class Alive(NamedTuple):
    """The verdicts of probers on the services and on their endpoints, in listing order."""

    services: Verdicts
    endpoints: Verdicts


class IndexReport(Struct):
    """The outcome: suspicious prices, counts for the report, and files for the next build.

    undescribed: endpoints without a text of their own
    """

    outliers: list[Outlier]
    counts: SegmentCounts
    segments: list[UsedSegment]
    columns: Path
    undescribed: int


class Indexer:
    """Writes the indexes of the stored services into a snapshot that is being built.

    `reuse` has the files that earlier builds left.
    """

    def __init__(
        self,
        staging: Path,
        options: BuildOptions,
        encoder: StaticEncoder | None,
        pool: Pool,
        reuse: ReuseStore,
        progress: Progress,
    ) -> None:
        self._staging, self._built = staging, staging / "snapshot"
        self._options = options
        self._encoder = encoder
        self._pool = pool
        self._reuse = reuse
        self._progress = progress

    def write(
        self,
        payers: Sequence[Payers],
        endpoint_payers: Sequence[Mapping[int, Payers]],
        alive: Alive,
        keys: Keys,
        annotated: Annotated,
        listed: ListedResources,
        offers: OfferWriter,
    ) -> IndexReport:
        """Index the services, in listing order, and their endpoints and listed resources.

        payers: of the services
        endpoint_payers: of each service, the payers of the endpoints that have payments
        alive: the verdicts of probers
        keys: the hashes of the stored services
        annotated: their annotations
        """
        built, ranking = self._built, self._options.ranking
        encoder = None
        if self._encoder is not None:
            encoder = built / "encoder"
            write_encoder(encoder, self._encoder)
        kept = self._staging / "columns"
        used, counts = self._update_segments(kept, keys, annotated, encoder)
        self._pool.renew()
        columns = open_columns(kept)
        segments = [(each.stored.path, each.ordinals) for each in used]
        names = columns.service_runs["name"].strings()
        popularity = popularity_of(payers, alive.services)
        services = columns.services
        prior = popularity.prior(services["enriched"], services["deprecated"])
        with self._progress.stage("compile"):
            indexed = write_endpoints(
                built,
                columns,
                listed,
                offers,
                encoder,
                payers=endpoint_payers,
                alive=alive.endpoints,
                indexed=self._options.endpoints,
            )
            release_memory()
            vectors = None
            if indexed.other_vectors is not None:
                vectors = self._pool.submit(
                    _write_vectors,
                    built,
                    segments,
                    indexed.documents,
                    indexed.other_documents,
                    indexed.other_vectors,
                )
            outliers = self._pool.submit(_write_listing, built, kept, popularity)
            runs = self._staging / "runs"
            _compile(built, runs, segments, indexed, names, prior, self._pool, ranking.search)
            if vectors is not None:
                wait_for(vectors)
            undescribed = int(np.count_nonzero(~columns.endpoints["has_text"]))
            return IndexReport(wait_for(outliers), counts, used, kept, undescribed)

    def _update_segments(
        self, path: Path, keys: Keys, annotated: Annotated, encoder: Path | None
    ) -> tuple[list[UsedSegment], SegmentCounts]:
        """Read the records, index the texts that are new, and merge segments.

        The columns of the records are written to `path`, as mapped files take no memory.
        """
        name = "" if self._encoder is None else self._encoder.name
        origin = SegmentParameters(name, self._options.endpoints)
        folder = self._staging / "segments"
        folder.mkdir()
        with self._progress.stage("read what is kept"):
            kept = list(find_segments(self._reuse, origin))
        columns = self._reuse.records.columns
        known = np.concatenate([columns.texts[:0], *(stored.keys for stored in kept)])
        rows = columns.find(keys).astype(np.int64)
        is_known = rows >= 0
        is_known[is_known] = np.all(
            columns.annotations[rows[is_known]] == annotated.keys[is_known], axis=1
        )
        is_known[is_known] = find_keys(known, columns.texts[rows[is_known]]) >= 0
        new = np.flatnonzero(~is_known)
        with self._progress.stage("index", len(new)) as stage:
            indexed = index_in_parts(
                folder,
                self._built,
                new,
                keys[new],
                annotated,
                known,
                origin,
                encoder,
                self._pool,
                stage.advance,
            )
        columns = _take(columns, rows, [open_columns(part.columns) for part in indexed], new)
        write_columns(path, columns)
        keys = columns.texts
        written = [open_written(part.segment) for part in indexed if part.segment is not None]
        used = use_segments([*kept, *written], keys)
        merged = choose_merged(used)
        if merged:
            tasks = [
                (folder / f"merged {number}", selected)
                for number, selected in enumerate(selections(merged))
            ]
            with self._progress.stage("merge segments"):
                self._pool.map(merge_segments, tasks)
            others = [each.stored for each in used if all(each is not one for one in merged)]
            used = use_segments([*others, *(open_written(path) for path, _ in tasks)], keys)
        added = sum(len(each.keys) for each in written)
        return used, SegmentCounts(added, len(used), len(merged))


def _write_listing(built: Path, kept: Path, popularity: Popularity) -> list[Outlier]:
    """Write the summaries and filters of services from columns; returns suspicious prices."""
    columns = open_columns(kept)
    write_summaries(built, columns)
    write_filters(built / "filters", columns, popularity)
    return find_outliers(columns)


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
    prior[indexed.other_documents] = indexed.other_prior
    own = np.flatnonzero(documents.own != GONE)
    prior[documents.own[own]] = prior_of_services[own]
    parts = chain([indexed.others], parts)
    compile_postings(parts, names, prior, documents, built / "postings", staging, pool, config)


def _write_vectors(
    built: Path, segments: Segments, documents: Documents, others: Numbers, vectors: EncodedTexts
) -> None:
    """Write the vectors of the documents; `others` has the vectors of documents without a segment.

    A service that is a document has its own vector alone.
    """
    services, own = [], [(vectors, others)]
    for path, ordinals in segments:
        segment = read_segment(path)
        services.append((segment.service_vectors, ordinals))
        numbers = endpoint_numbers(segment.first_endpoints, ordinals, documents.endpoints)
        own.append((segment.endpoint_vectors, numbers))
    dimensions = vectors.rows.shape[1]
    of_documents = gather_vectors(own, len(documents.services), dimensions)
    of_services = gather_vectors(services, len(documents.own), dimensions)
    vectors = add_services(of_documents, of_services, documents.services)
    del of_services, of_documents
    write_vectors(built / "vectors", vectors)
