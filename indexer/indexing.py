"""The indexes of the stored services: segments are brought up to date, then compiled."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from indexer.assembly import BuildContext
from indexer.columns.record_columns import concatenate as concatenate_columns
from indexer.columns.record_columns import find_keys, open_columns, write_columns
from indexer.encoder.packaged import StaticEncoder, write_encoder
from indexer.encoder.quantising import EncodedTexts
from indexer.processes.pool import wait_for
from indexer.processes.resources import release_memory
from indexer.search.filters import write_filters
from indexer.search.parts import Documents, segment_parts
from indexer.search.popularity import Popularity, popularity_of
from indexer.search.postings import compile_postings
from indexer.search.vectors import add_services, write_vectors
from indexer.segments.indexing import index_in_parts
from indexer.segments.postings import GONE, Numbers, endpoint_numbers, gather_vectors
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
from indexer.snapshot.endpoints import IndexedEndpoints, write_endpoints
from indexer.storing import StoredServices
from service.search.config import SearchConfig
from service.storage.container import writing_arrays
from service.storage.texts import write_summaries

Segments = Sequence[tuple[Path, Numbers]]
"""The paths of segments, with the ordinals of their services."""


class IndexReport(Struct):
    """The outcome: counts for the report, and files for the next build.

    undescribed: endpoints without a text of their own
    """

    counts: SegmentCounts
    segments: list[UsedSegment]
    columns: Path
    undescribed: int


def write_indexes(
    context: BuildContext, encoder: StaticEncoder | None, stored: StoredServices
) -> IndexReport:
    """Write the indexes of the stored services, of their endpoints and listed resources."""
    built, pool, ranking = context.built, context.pool, context.options.ranking
    folder = None
    if encoder is not None:
        folder = built / "encoder.arrays"
        write_encoder(folder, encoder)
    kept = context.staging / "columns"
    used, counts = _update_segments(context, stored, kept, folder)
    pool.renew()
    columns = open_columns(kept)
    segments = [(each.stored.path, each.ordinals) for each in used]
    names = columns.service_runs["name"].strings()
    popularity = popularity_of(stored.payers, stored.alive)
    services = columns.services
    prior = popularity.prior(services["enriched"], services["deprecated"])
    with context.progress.stage("compile"):
        indexed = write_endpoints(
            built,
            columns,
            stored.listed,
            stored.offers,
            folder,
            payers=stored.endpoint_payers,
            alive=stored.probed.verdicts,
        )
        release_memory()
        vectors = None
        if indexed.other_vectors is not None:
            vectors = pool.submit(
                _write_vectors,
                built,
                segments,
                indexed.documents,
                indexed.other_documents,
                indexed.other_vectors,
            )
        listing = pool.submit(_write_listing, built, kept, popularity)
        _compile(built, segments, indexed, names, prior, ranking.search)
        if vectors is not None:
            wait_for(vectors)
        undescribed = int(np.count_nonzero(~columns.endpoints["has_text"]))
        wait_for(listing)
        return IndexReport(counts, used, kept, undescribed)


def _update_segments(
    context: BuildContext, stored: StoredServices, path: Path, encoder: Path | None
) -> tuple[list[UsedSegment], SegmentCounts]:
    """Read the records, index the texts that are new, and merge segments.

    The columns of the records are written to `path`, as mapped files take no memory.
    """
    options, progress, pool = context.options, context.progress, context.pool
    keys, annotated = stored.keys, stored.annotated
    origin = SegmentParameters(options.ranking.search.encoder)
    folder = context.staging / "segments"
    folder.mkdir()
    with progress.stage("read what is kept"):
        kept = list(find_segments(context.reuse, origin))
    columns = context.reuse.columns
    known = np.concatenate([columns.texts[:0], *(each.keys for each in kept)])
    rows = columns.find(keys).astype(np.int64)
    is_known = rows >= 0
    is_known[is_known] = np.all(
        columns.annotations[rows[is_known]] == annotated.keys[is_known], axis=1
    )
    is_known[is_known] = find_keys(known, columns.texts[rows[is_known]]) >= 0
    new = np.flatnonzero(~is_known)
    with progress.stage("index", len(new)) as stage:
        indexed = index_in_parts(
            folder,
            context.built,
            new,
            keys[new],
            annotated,
            known,
            origin,
            encoder,
            pool,
            stage.advance,
        )
    rows[new] = len(columns.keys) + np.arange(len(new))
    parts = [columns, *(open_columns(part.columns) for part in indexed)]
    columns = concatenate_columns(parts).take(rows)
    write_columns(path, columns)
    written = [open_written(part.segment) for part in indexed if part.segment is not None]
    used = use_segments([*kept, *written], columns.texts)
    merged = choose_merged(used)
    if merged:
        tasks = [
            (folder / f"merged {number}", selected)
            for number, selected in enumerate(selections(merged))
        ]
        with progress.stage("merge segments"):
            pool.map(merge_segments, tasks)
        others = [each.stored for each in used if all(each is not one for one in merged)]
        used = use_segments([*others, *(open_written(path) for path, _ in tasks)], columns.texts)
    added = sum(len(each.keys) for each in written)
    return used, SegmentCounts(added, len(used), len(merged))


def _write_listing(built: Path, kept: Path, popularity: Popularity) -> None:
    """Write the summaries and filters of services from columns."""
    columns = open_columns(kept)
    services, texts = columns.services, columns.service_runs["summary"].texts()
    with writing_arrays(built / "summaries.arrays") as writer:
        write_summaries(writer, services["start"], services["stop"], services["endpoints"], texts)
    write_filters(built / "filters.arrays", columns, popularity)


def _compile(
    built: Path,
    segments: Segments,
    indexed: IndexedEndpoints,
    names: Sequence[str],
    prior_of_services: npt.NDArray[np.float64],
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
    compile_postings(parts, names, prior, documents, built / "index.arrays", config)


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
    write_vectors(built / "vectors.arrays", vectors)
