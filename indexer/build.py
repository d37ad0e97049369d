"""A build: from the sources to the published snapshot, in the order of the functions below."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import closing, suppress
from datetime import UTC, datetime
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Raw
from msgspec.structs import replace

from indexer.catalogue.catalogue import NO_GROUP, Catalogue, Listed
from indexer.catalogue.known_records import (
    KnownRecords,
    KnownRecordsDamaged,
    open_known_records,
)
from indexer.catalogue.normaliser import Normaliser, Result
from indexer.catalogue.outliers import find_outliers
from indexer.catalogue.overlays import Overlay, read_overlays
from indexer.catalogue.record import given_id
from indexer.encoder.packaged import StaticEncoder, load_encoder
from indexer.errors import InvalidRecord
from indexer.indexing import Indexer
from indexer.opensearch.documents import remove_postings
from indexer.options import BuildOptions, ClusterOptions, Ranking
from indexer.payments.database import open_payments
from indexer.payments.usage import ServiceUsage, count_usage, fill_usage, read_addresses
from indexer.processes.resources import available_cpus, available_memory, worker_count
from indexer.progress import Progress, track
from indexer.publishing.publication import Publisher
from indexer.record_store import Keys, write_ids, write_records
from indexer.report import Report, make_report, recall, remember
from indexer.search.offers import OfferWriter
from indexer.segments.indexing import Resources
from indexer.segments.kept import Kept
from indexer.segments.store import SegmentCounts
from indexer.snapshot.ecosystem import write_ecosystem
from indexer.snapshot.identity import find_whole, identify, list_files, since_last
from indexer.snapshot.resources import ListedResources, write_resources
from indexer.sources.fingerprint import Fingerprint, hash_program, take_fingerprint
from indexer.sources.inputs import Inputs, gather_inputs
from indexer.sources.records import SourceRecord, read_records
from indexer.sources.rejects import Reject, Rejects, Tally, collect_rejects
from indexer.x402.discovery import Discovery, read_endpoints
from indexer.x402.resource import Unlisted, read_resource
from service.artifacts.downloads import DOWNLOADS, read_download
from service.publishing.artifacts import earlier_ids, kept_snapshots, make_current, publish, stage
from service.publishing.downloads import make_downloads
from service.records import Counts
from service.snapshot.manifest import FORMAT, SEGMENTS, File, Manifest, Source
from service.snapshot.publication import SNAPSHOTS

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from indexer.opensearch.loading import SearchCluster

REPLACED = "replaced by a newer listing"
DUPLICATE = "has the URL, method and tool of another listing, which is newer or more complete"
SOURCES = "sources"
"""The folder of a snapshot that keeps the facts of its source records for the next build."""
SPOOL_BUFFER = 2**18  # bytes


def build_snapshot(options: BuildOptions, progress: Progress | None = None) -> Report:
    """Build and publish a snapshot, under the lock of the artifacts folder.

    When nothing changed since the last build, its snapshot is verified instead. Raises
    IndexerError, PublishingFailed or OSError; the published snapshot then stays.
    """
    started = time.monotonic()
    progress = progress or Progress()
    encoder, ranking = _load_encoder(options)
    options = replace(options, ranking=ranking)
    publisher = Publisher(options.publish, options.sign, options.keep)
    cluster = connect_cluster(options.cluster, options.out)
    with stage(options.out, options.keep) as staging:
        notes = [] if cluster is None else cluster.clean(kept_snapshots(options.out))
        inputs = gather_inputs(options, progress)
        engine = "" if options.cluster is None else options.cluster.name
        settings = [
            options.policy,
            str(options.max_rejects),
            FORMAT,
            ranking,
            options.endpoints,
            engine,
        ]
        with take_fingerprint(inputs, settings) as fingerprint:
            report = _repeat(options, fingerprint, cluster, progress)
            if report is None:
                snapshots = [] if options.from_scratch else kept_snapshots(options.out)
                with (
                    closing(Kept(options.out, snapshots)) as kept,
                    collect_rejects(options.rejects, inputs.paths) as rejects,
                ):
                    build = _Build(
                        staging, options, encoder, inputs, kept, rejects, cluster, progress
                    )
                    report = build.run()
                remember(options.out, staging, fingerprint, options.rejects, report)
        report.pushed = publisher.publish(options.out, progress)
        report.notes += notes
    if options.downloads:
        download = read_download(options.out / DOWNLOADS / report.snapshot)
        report.downloads = sum(file.bytes for file in download.archives.values())
        report.patches = download.patch_file.bytes
    report.stages, report.seconds = progress.seconds, time.monotonic() - started
    return report


def _load_encoder(options: BuildOptions) -> tuple[StaticEncoder | None, Ranking]:
    """Return the packaged encoder, if texts are encoded, and the ranking with its name."""
    ranking = options.ranking
    encoder = None if not ranking.is_semantic else load_encoder()
    name = "" if encoder is None else encoder.name
    return encoder, replace(ranking, search=replace(ranking.search, encoder=name))


def connect_cluster(options: ClusterOptions | None, artifacts: Path) -> SearchCluster | None:
    """Return the cluster of the builds to an artifacts folder, if there is one."""
    if options is None:
        return None
    from indexer.opensearch.loading import SearchCluster  # noqa: PLC0415  # optional dependencies

    return SearchCluster(options, artifacts)


def _repeat(
    options: BuildOptions,
    fingerprint: Fingerprint | None,
    cluster: SearchCluster | None,
    progress: Progress,
) -> Report | None:
    """Publish the last snapshot again if nothing changed; returns its report, or None."""
    with progress.stage("compare with the last build"):
        report = None
        if not options.from_scratch:
            report = recall(options.out, fingerprint, options.rejects)
    if report is None or _publish_again(options, report.snapshot, cluster, progress) is None:
        return None
    return report


def _publish_again(
    options: BuildOptions, snapshot_id: str, cluster: SearchCluster | None, progress: Progress
) -> Manifest | None:
    """Publish the existing snapshot of this id if it is whole; returns its manifest, or None."""
    manifest = find_whole(options.out, snapshot_id)
    if manifest is not None:
        folder = options.out / SNAPSHOTS / snapshot_id
        if cluster is not None and manifest.index is not None:
            if not cluster.has(folder, manifest.index):
                return None
            cluster.keep(manifest.index)
        _make_downloads(options, folder, manifest, progress)
        make_current(options.out, snapshot_id)
    return manifest


def _make_downloads(
    options: BuildOptions, folder: Path, manifest: Manifest, progress: Progress
) -> None:
    """Make the downloads of a snapshot before it is published, unless an option forbids it."""
    if options.downloads:
        with progress.stage("make the downloads"):
            make_downloads(options.out, folder, manifest, options.jobs or available_cpus())


class _Build:
    """A build in a staging folder; `run` has its stages in order."""

    def __init__(
        self,
        staging: Path,
        options: BuildOptions,
        encoder: StaticEncoder | None,
        inputs: Inputs,
        kept: Kept,
        rejects: Rejects,
        cluster: SearchCluster | None,
        progress: Progress,
    ) -> None:
        self._cluster = cluster
        self._staging = staging
        self._built = staging / "snapshot"
        self._options = options
        self._inputs = inputs
        self._rejects = rejects
        self._progress = progress
        self._jobs = options.jobs or available_cpus()
        self._memory = options.memory or available_memory()
        resources = Resources(self._jobs, self._memory)
        self._indexer = Indexer(staging, options, encoder, resources, kept, progress)
        self._kept, self._reused, self._loaded = kept, 0, 0
        with progress.stage("read what is kept"):
            self._known = _known_records(kept)

    def run(self) -> Report:
        now = datetime.now(UTC)
        rejects = self._rejects
        rejects.notes += self._inputs.notes
        overlays = read_overlays(each.path for each in self._inputs.overlays)
        self._built.mkdir()
        with (
            (self._staging / "spool").open("w+b", buffering=SPOOL_BUFFER) as spool,
            (self._staging / "resources").open("w+b") as resource_spool,
        ):
            catalogue, discovery = Catalogue(spool, self._kept.records), Discovery(resource_spool)
            self._read(catalogue, discovery)
            catalogue.identify(rejects)
            self._match(catalogue, discovery)
            with open_payments(
                self._staging,
                [each.path for each in self._inputs.payments],
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
            keys, records = self._write(catalogue, [listed.id for listed in listing])
            offers = OfferWriter()
            listed = self._write_resources(discovery, listing, offers)

        stored = list_files(self._built, known=records)
        ranking = self._options.ranking
        engine = "" if self._options.cluster is None else self._options.cluster.name
        documents = "endpoints" if self._options.endpoints else "services"
        snapshot_id = identify(stored, ranking.search, documents, engine)
        before, changes = since_last(self._options.out, self._built)
        manifest = None
        if not self._options.from_scratch:
            manifest = _publish_again(self._options, snapshot_id, self._cluster, self._progress)
        if manifest is not None:
            outliers = find_outliers(self._indexer.columns_of(keys))
            segments = SegmentCounts(0, 0, 0)
        else:
            entries = [listed.entry for listed in listing]
            indexed = self._indexer.write(entries, keys, listed, offers)
            outliers, segments = indexed.outliers, indexed.segments
            endpoint_count = sum(entry.endpoints for entry in entries)
            resource_count = len(listed.keys)
            self._known.write(self._built / SEGMENTS / SOURCES, hash_program())
            index = self._load(snapshot_id)
            manifest = Manifest(
                format=FORMAT,
                id=snapshot_id,
                built_at=now,
                counts=Counts(len(entries), endpoint_count, resource_count, payment_count),
                sources=[Source(t.source, t.records, t.malformed) for t in rejects.tallies],
                files=list_files(self._built, known=stored | indexed.files),
                earlier=earlier_ids(self._options.out, snapshot_id),
                encoder=ranking.search.encoder,
                index=index,
            )
            _make_downloads(self._options, self._built, manifest, self._progress)
            with self._progress.stage("publish"):
                if self._cluster is not None and index is not None:
                    self._cluster.switch(index)
                publish(self._options.out, self._built, manifest)
        report = make_report(
            manifest,
            rejects,
            before,
            changes,
            outliers,
            self._reused,
            segments,
        )
        report.loaded = self._loaded
        return report

    def _load(self, snapshot_id: str) -> str | None:
        """Move the postings to the cluster, if there is one; returns the index."""
        if self._cluster is None:
            return None
        loaded = self._cluster.load(self._built, snapshot_id, self._progress)
        self._rejects.notes += loaded.notes
        self._loaded = loaded.bytes
        remove_postings(self._built)
        return self._cluster.index_of(snapshot_id)

    def _read(self, catalogue: Catalogue, discovery: Discovery) -> None:
        """Add the records of all sources to the catalogue, or to the rejects."""
        sources = self._inputs.sources
        sizes = [None if source.is_compressed else source.size for source in sources]
        total = None if None in sizes else sum(size or 0 for size in sizes)
        workers = worker_count(self._jobs, self._memory)
        with (
            self._progress.stage("read", total, in_bytes=True) as reading,
            Normaliser(self._known, workers) as normaliser,
        ):
            for number, source in enumerate(sources):
                tally = self._rejects.tally(source.name)
                records = read_records(source.path, source.name)
                for record, result in normaliser.normalise(records):
                    reading.advance(len(record.text) + 1)
                    self._add(catalogue, discovery, number, tally, record, result)
            self._reused = normaliser.reused
            for service in discovery.services():
                record = SourceRecord(service.position, service.text)
                normalised = self._known.normalise(record)
                catalogue.add(service.source, record.position, normalised, service.group)

    def _add(
        self,
        catalogue: Catalogue,
        discovery: Discovery,
        source: int,
        tally: Tally,
        record: SourceRecord,
        result: Result,
    ) -> None:
        """Add a record to the catalogue, to the discovered resources or to the rejects."""

        def reject(path: str, reason: str) -> Reject:
            return Reject(tally.source, record.position, given_id(record.text), path, reason)

        tally.records += 1
        try:
            if isinstance(result, InvalidRecord):
                raise result
            if result is not None:
                catalogue.add(source, record.position, result)
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
                catalogue.amend(service_id, filled, calls, overlay, self._known, self._rejects)
        self._rejects.unused_overlays += [
            f"{overlay.where}: {overlay.id}" for overlay in overlays.values()
        ]

    def _write(self, catalogue: Catalogue, ids: list[str]) -> tuple[Keys, dict[str, File]]:
        """Write the services; returns the hashes of their records, and files that are described."""
        with self._progress.stage("write the services", len(ids)) as writing:
            written = write_records(self._built, catalogue.runs(track(ids, writing.advance)))
            write_ids(self._built, ids)
        return written

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


def _known_records(kept: Kept) -> KnownRecords:
    """Return the facts of source records that the last build kept, none where it has none."""
    for folder in kept.whole(SOURCES):
        with suppress(KnownRecordsDamaged):
            return open_known_records(folder, hash_program(), kept.records)
    return KnownRecords()
