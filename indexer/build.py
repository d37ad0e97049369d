"""A build: from the sources to the published snapshot, in the order of the functions below."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Raw
from msgspec.structs import replace

from indexer.catalogue.catalogue import NO_GROUP, Catalogue, Entry, Listed
from indexer.catalogue.outliers import Outlier, find_outliers
from indexer.catalogue.overlays import Overlay, read_overlays
from indexer.catalogue.record import given_id, normalise
from indexer.encoder.embedding_cache import check_embeddings_file
from indexer.encoder.packaged import StaticEncoder, load_encoder, write_encoder
from indexer.encoder.parameters import check_installed, name_fitted
from indexer.encoder.quantising import concatenate
from indexer.errors import InvalidRecord
from indexer.options import BuildOptions, EncoderKind, Ranking
from indexer.payments.database import open_payments
from indexer.payments.usage import ServiceUsage, count_usage, fill_usage, read_addresses
from indexer.progress import Progress, track
from indexer.record_store import (
    read_record_store,
    write_ids,
    write_records,
    write_summaries,
)
from indexer.report import Report, make_report, recall, remember
from indexer.resources import available_cpus, available_memory
from indexer.search.filters import write_filters
from indexer.search.offers import OfferWriter
from indexer.search.postings import compile_postings, popularity
from indexer.search.spans import indexing
from indexer.search.vectors import write_vectors
from indexer.snapshot.documents import read_documents
from indexer.snapshot.ecosystem import write_ecosystem
from indexer.snapshot.endpoints import compile_endpoints, write_endpoints
from indexer.snapshot.publish import identify, list_files, publish, reuse, since_last, stage
from indexer.snapshot.resources import ListedResources, write_resources
from indexer.sources.fingerprint import take_fingerprint
from indexer.sources.inputs import Inputs, gather_inputs
from indexer.sources.records import SourceRecord, read_records
from indexer.sources.rejects import Reject, Rejects, Tally, collect_rejects
from indexer.x402.discovery import Discovery, read_endpoints
from indexer.x402.resource import Unlisted, read_resource
from service.records import Counts
from service.snapshot.manifest import FORMAT, Manifest, Source

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

REPLACED = "replaced by a newer listing"
DUPLICATE = "has the URL, method and tool of another listing, which is newer or more complete"
EMBEDDINGS = "embeddings.db"
"""The file in the artifacts folder that keeps the vectors of the transformer."""


def build_snapshot(options: BuildOptions, progress: Progress | None = None) -> Report:
    """Build and publish a snapshot, under the lock of the artifacts folder.

    When nothing changed since the last build, its snapshot is verified instead. Raises
    IndexerError or OSError; the published snapshot then stays.
    """
    started = time.monotonic()
    progress = progress or Progress()
    encoder, ranking = _load_encoder(options)
    options = replace(options, ranking=ranking)
    with stage(options.out) as staging:
        inputs = gather_inputs(options, progress)
        settings = [options.policy, str(options.max_rejects), FORMAT, ranking]
        with progress.stage("compare with the last build"):
            fingerprint = take_fingerprint(inputs, settings)
            report = recall(options.out, fingerprint, options.rejects)
        if report is None or reuse(options.out, report.snapshot) is None:
            with collect_rejects(options.rejects, inputs.paths) as rejects:
                report = _Build(staging, options, encoder, inputs, rejects, progress).run()
            remember(options.out, staging, fingerprint, options.rejects, report)
    report.stages, report.seconds = progress.seconds, time.monotonic() - started
    return report


def _load_encoder(options: BuildOptions) -> tuple[StaticEncoder | None, Ranking]:
    """Return the packaged encoder, if texts are encoded, and the ranking with its name."""
    ranking = options.ranking
    encoder = None if ranking.encoder is EncoderKind.NONE else load_encoder()
    name = "" if encoder is None else encoder.name
    if encoder is not None and ranking.encoder is EncoderKind.TRANSFORMER:
        check_installed()
        name = name_fitted(encoder)
        if options.embeddings is not None:
            check_embeddings_file(options.embeddings)
    configs = (replace(each, encoder=name) for each in (ranking.search, ranking.endpoint_search))
    return encoder, Ranking(ranking.encoder, *configs)


class _Build:
    """A build in a staging folder; `run` has its stages in order."""

    def __init__(
        self,
        staging: Path,
        options: BuildOptions,
        encoder: StaticEncoder | None,
        inputs: Inputs,
        rejects: Rejects,
        progress: Progress,
    ) -> None:
        self._staging = staging
        self._built = staging / "snapshot"
        self._options = options
        self._encoder = encoder
        self._inputs = inputs
        self._rejects = rejects
        self._progress = progress
        self._jobs = options.jobs or available_cpus()
        self._memory = options.memory or available_memory()

    def run(self) -> Report:
        now = datetime.now(UTC)
        rejects = self._rejects
        rejects.notes += self._inputs.notes
        overlays = read_overlays(self._inputs.overlays)
        self._built.mkdir()
        with (
            (self._staging / "spool").open("w+b") as spool,
            (self._staging / "resources").open("w+b") as resource_spool,
        ):
            catalogue, discovery = Catalogue(spool), Discovery(resource_spool)
            self._read(catalogue, discovery)
            catalogue.identify(rejects)
            self._match(catalogue, discovery)
            with open_payments(
                self._staging,
                self._inputs.payments,
                rejects,
                now,
                self._progress,
                jobs=self._jobs,
                memory=self._memory,
            ) as payments:
                payment_count = write_ecosystem(self._built / "ecosystem", payments)
                rejects.check(self._options.max_rejects)
                self._amend(catalogue, overlays, payments)
            listing = catalogue.order()
            self._write(catalogue, [listed.id for listed in listing])
            offers = OfferWriter()
            listed = self._write_resources(discovery, listing, offers)

        stored = list_files(self._built)
        ranking = self._options.ranking
        configs = (ranking.search, ranking.endpoint_search)
        snapshot_id = identify(stored, configs)
        before, changes = since_last(self._options.out, self._built)
        manifest = reuse(self._options.out, snapshot_id)
        if manifest is not None:
            outliers = find_outliers(read_record_store(self._built, "records"))
        else:
            entries = [listed.entry for listed in listing]
            outliers = self._index(entries, listed, offers)
            endpoint_count = sum(entry.endpoints for entry in entries)
            resource_count = len(listed.keys)
            manifest = Manifest(
                format=FORMAT,
                id=snapshot_id,
                built_at=now,
                counts=Counts(len(entries), endpoint_count, resource_count, payment_count),
                sources=[Source(t.source, t.records, t.malformed) for t in rejects.tallies],
                files=list_files(self._built, known=stored),
            )
            with self._progress.stage("publish"):
                publish(self._options.out, self._built, manifest)
        return make_report(manifest, rejects, before, changes, outliers, ranking.search.encoder)

    def _read(self, catalogue: Catalogue, discovery: Discovery) -> None:
        """Add the records of all sources to the catalogue, or to the rejects."""
        sources = self._inputs.sources
        sizes = [None if source.is_compressed else source.size for source in sources]
        total = None if None in sizes else sum(size or 0 for size in sizes)
        with self._progress.stage("read", total, in_bytes=True) as reading:
            for number, source in enumerate(sources):
                tally = self._rejects.tally(source.name)
                for record in read_records(source.path, source.name):
                    reading.advance(len(record.text) + 1)
                    self._add(catalogue, discovery, number, tally, record)
            for service in discovery.services():
                record = SourceRecord(service.position, service.text)
                catalogue.add(service.source, record.position, normalise(record), service.group)

    def _add(
        self,
        catalogue: Catalogue,
        discovery: Discovery,
        source: int,
        tally: Tally,
        record: SourceRecord,
    ) -> None:
        """Validate a record, and add it to the catalogue or to the discovered resources."""

        def reject(path: str, reason: str) -> Reject:
            return Reject(tally.source, record.position, given_id(record.text), path, reason)

        tally.records += 1
        try:
            if not record.is_resource:
                catalogue.add(source, record.position, normalise(record))
                return
            resource, resource_listing = read_resource(record, self._options.policy)
            replaced = discovery.add(source, record.position, resource, resource_listing)
            if replaced is not None:
                self._leave_out(REPLACED, *replaced, given_id(record.text), DUPLICATE)
            for notice in resource.notices:
                self._rejects.note(tally, notice.kind, reject(notice.path, notice.reason))
        except InvalidRecord as fault:
            self._rejects.malformed(tally, reject(fault.path, fault.reason))
        except Unlisted as fault:
            self._rejects.left_out(tally, fault.policy, reject(fault.path, fault.reason))

    def _match(self, catalogue: Catalogue, discovery: Discovery) -> None:
        """Leave out resources of a replaced service that the catalogue record does not name."""
        for service_id, entry in catalogue.entries():
            if entry.group == NO_GROUP or entry.discovered:
                continue
            (text,) = catalogue.texts([service_id])
            for place, resource in discovery.restrict(entry.group, read_endpoints(text)):
                reason = f"is none of the endpoints that the catalogue record of {service_id} names"
                policy = "replaced by a catalogue record"
                self._leave_out(policy, place.source, place.position, resource.identity, reason)

    def _leave_out(
        self, policy: str, source: int, position: str, url: Raw | str | None, reason: str
    ) -> None:
        """Count and name a resource that was read and is not listed."""
        tally = self._rejects.tallies[source]
        reject = Reject(tally.source, position, url, "$.resource", reason)
        self._rejects.left_out(tally, policy, reject)

    def _amend(
        self,
        catalogue: Catalogue,
        overlays: dict[str, Overlay],
        payments: DuckDBPyConnection | None,
    ) -> None:
        """Fill in usage where the records have none, and apply the overlays."""
        ids = catalogue.ids
        usages: Iterable[ServiceUsage | None] = repeat(None, len(ids))
        if payments is not None:
            texts = catalogue.texts(ids)
            paid = (read_addresses(text) if b'"payTo"' in text else () for text in texts)
            usages = count_usage(payments, paid)
        for service_id, usage in zip(ids, usages, strict=True):
            overlay = overlays.pop(service_id, None)
            if usage is not None or overlay is not None:
                (text,) = catalogue.texts([service_id])
                filled = text if usage is None else fill_usage(text, usage)
                calls = 0 if usage is None else usage.whole.calls
                catalogue.amend(service_id, filled, calls, overlay, self._rejects)
        self._rejects.unused_overlays += [
            f"{overlay.where}: {overlay.id}" for overlay in overlays.values()
        ]

    def _write(self, catalogue: Catalogue, ids: list[str]) -> None:
        with self._progress.stage("write the services", len(ids)) as writing:
            write_records(self._built, track(catalogue.texts(ids), writing.advance))
            write_ids(self._built, ids)

    def _write_resources(
        self, discovery: Discovery, listing: list[Listed], offers: OfferWriter
    ) -> ListedResources:
        """Write the resources of the services, and collect their offers."""
        for place, resource in discovery.resources_except(listed.entry.group for listed in listing):
            reason = "belongs to a service that an overlay removes"
            policy = "removed by an overlay"
            self._leave_out(policy, place.source, place.position, resource.identity, reason)
        listings = (
            (ordinal, listed.id, resource)
            for ordinal, listed in enumerate(listing)
            if listed.entry.group != NO_GROUP
            for resource in discovery.listings(listed.entry.group)
        )
        with self._progress.stage("write the resources"):
            return write_resources(self._built / "resources", listings, offers)

    def _write_encoder(self, documents: int) -> Path | None:
        """Write the encoder of queries; returns the folder of the encoder of documents."""
        if self._encoder is None:
            return None
        folder = self._built / "encoder"
        if self._options.ranking.encoder is EncoderKind.STATIC:
            write_encoder(folder, self._encoder)
            return folder
        from indexer.encoder.fitting import Fitting  # noqa: PLC0415  # needs the extra `semantic`

        fitting = Fitting(
            self._encoder,
            partial(read_documents, self._built),
            self._staging / "documents",
            self._options.embeddings or self._options.out / EMBEDDINGS,
            shared=self._options.embeddings is not None,
        )
        texts = 2 * documents + len(self._encoder.pieces)
        with self._progress.stage("embed", texts) as embedding:
            singles = fitting.embed(self._jobs, embedding.advance)
        with self._progress.stage("fit the encoder"):
            write_encoder(folder, fitting.fit(singles, documents))
        return self._staging / "documents"

    def _index(
        self, entries: list[Entry], listed: ListedResources, offers: OfferWriter
    ) -> list[Outlier]:
        """Write the indexes of the stored services and endpoints; returns suspicious prices.

        The summaries, the filters and the prices are computed while the workers index.
        """
        built, count, options = self._built, len(entries), self._options
        encoder = self._write_encoder(
            sum(1 + entry.endpoints for entry in entries) + len(listed.keys)
        )
        with (
            self._progress.stage("index", count) as indexed,
            indexing(
                built / "whoosh",
                built,
                count,
                indexed.advance,
                encoder=encoder,
                jobs=self._jobs,
                memory=self._memory,
            ) as results,
        ):
            write_summaries(built, read_record_store(built, "records"))
            calls = [entry.calls for entry in entries]
            write_filters(built / "filters", read_record_store(built, "records"), calls)
            endpoint_counts = [entry.endpoints for entry in entries]
            documents = write_endpoints(built, endpoint_counts, listed, offers, encoder)
            outliers = find_outliers(read_record_store(built, "records"))
            spans = results()
        with self._progress.stage("compile"):
            names = [entry.name for entry in entries]
            prior = np.array([popularity(entry.enriched, entry.calls) for entry in entries])
            services = [span.services for span in spans]
            compile_postings(services, names, prior, built / "postings", options.ranking.search)
            vectors = None
            if encoder is not None:
                vectors = concatenate(part.vectors for part in services if part.vectors)
                write_vectors(built / "vectors", vectors)
        with self._progress.stage("compile the endpoints"):
            compile_endpoints(
                spans, documents, vectors, built / "endpoints", options.ranking.endpoint_search
            )
        return outliers
