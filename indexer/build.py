"""A build: from the sources to the published snapshot, in the order of the functions below."""

from __future__ import annotations

import time
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from indexer.assembly import Assembled, Assembler, payment_inputs
from indexer.catalogue.intake import refresh_accepted
from indexer.catalogue.known_records import (
    KnownRecords,
    KnownRecordsDamaged,
    open_known_records,
)
from indexer.catalogue.outliers import find_outliers
from indexer.catalogue.overlays import read_overlays
from indexer.encoder.packaged import StaticEncoder, load_encoder
from indexer.indexing import Indexer
from indexer.opensearch.documents import remove_postings
from indexer.options import BuildOptions, ClusterOptions, Ranking
from indexer.payments.database import check_payment_files
from indexer.processes.resources import available_cpus, available_memory
from indexer.progress import Progress, track
from indexer.publishing.publication import Publisher
from indexer.record_store import Keys, write_ids, write_records
from indexer.report import Report, make_report, recall, remember, write_sources
from indexer.search.offers import OfferWriter
from indexer.segments.indexing import Resources
from indexer.segments.kept import Kept
from indexer.segments.store import SegmentCounts
from indexer.snapshot.identity import find_whole, identify, list_files, since_last
from indexer.snapshot.resources import ListedResources, ServiceListing, write_resources
from indexer.sources.decisions import DecisionTable, read_decisions
from indexer.sources.findings import Findings, collect_findings
from indexer.sources.fingerprint import Fingerprint, hash_program, take_fingerprint
from indexer.sources.inputs import Inputs, fetch_feeds, find_inputs
from service.artifacts.downloads import DOWNLOADS, read_download
from service.errors import SnapshotUnavailable
from service.publishing.artifacts import earlier_ids, kept_snapshots, make_current, publish, stage
from service.publishing.downloads import make_downloads
from service.records import Counts
from service.snapshot.manifest import FORMAT, SEGMENTS, File, Manifest, Source, read_manifest
from service.snapshot.publication import SNAPSHOTS, read_current

if TYPE_CHECKING:
    from indexer.opensearch.loading import SearchCluster

SOURCES = "sources"
"""The folder of a snapshot that keeps the facts of its source records for the next build."""


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
        inputs = _gather(options, progress)
        served = DecisionTable() if options.forget else _served_decisions(options.out)
        engine = "" if options.cluster is None else options.cluster.name
        settings = [
            repr(options.policy),
            str(options.max_rejects),
            FORMAT,
            ranking,
            options.endpoints,
            engine,
            repr(options.sources),
            sorted(options.accept),
            options.forget,
        ]
        with take_fingerprint(inputs, settings) as fingerprint:
            report = _repeat(options, fingerprint, cluster, progress)
            if report is not None:
                refresh_accepted(options.out, inputs.sources, datetime.now(UTC))
            else:
                snapshots = [] if options.from_scratch else kept_snapshots(options.out)
                with (
                    closing(Kept(options.out, snapshots)) as kept,
                    collect_findings(options.rejects, inputs.paths) as findings,
                ):
                    build = _Build(
                        staging, options, encoder, kept, findings, cluster, progress, served
                    )
                    report = build.run(inputs)
                remember(options.out, staging, fingerprint, options.rejects, report)
        write_sources(options.out, staging, inputs, report)
        report.pushed = publisher.publish(options.out, progress)
        report.notes += notes
    if options.downloads:
        download = read_download(options.out / DOWNLOADS / report.snapshot)
        report.downloads = sum(file.bytes for file in download.archives.values())
        report.patches = download.patch_file.bytes
    report.stages, report.seconds = progress.seconds, time.monotonic() - started
    return report


def check_sources(options: BuildOptions, progress: Progress | None = None) -> Report:
    """Read and merge the sources as a build does, and publish nothing; raises as a build does.

    The report has no snapshot; its changes are those since the served one.
    """
    started = time.monotonic()
    progress = progress or Progress()
    with stage(options.out, keep=None) as staging:
        inputs = _gather(options, progress)
        served = DecisionTable() if options.forget else _served_decisions(options.out)
        snapshots = [] if options.from_scratch else kept_snapshots(options.out)
        with (
            closing(Kept(options.out, snapshots)) as kept,
            collect_findings(options.rejects, inputs.paths) as findings,
        ):
            build = _Build(staging, options, None, kept, findings, None, progress, served)
            report = build.check(inputs)
    report.stages, report.seconds = progress.seconds, time.monotonic() - started
    return report


def _gather(options: BuildOptions, progress: Progress) -> Inputs:
    """Find the inputs, check what needs no network, then fetch the feeds."""
    inputs = find_inputs(options)
    check_payment_files(payment_inputs([each for each in inputs.payments if each.path]))
    read_overlays(each.path for each in inputs.overlays if each.path)
    return fetch_feeds(inputs, options, progress)


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
        kept: Kept,
        findings: Findings,
        cluster: SearchCluster | None,
        progress: Progress,
        served: DecisionTable,
    ) -> None:
        self._cluster = cluster
        self._staging = staging
        self._built = staging / "snapshot"
        self._options = options
        self._findings = findings
        self._progress = progress
        resources = Resources(
            options.jobs or available_cpus(), options.memory or available_memory()
        )
        self._indexer = Indexer(staging, options, encoder, resources, kept, progress)
        self._loaded = 0
        self._now = datetime.now(UTC)
        with progress.stage("read what is kept"):
            self._known = _known_records(kept)
        self._assembler = Assembler(
            staging, options, served, kept.records, self._known, findings, progress, self._now
        )

    def run(self, inputs: Inputs) -> Report:
        """Build and publish; returns the report."""
        self._built.mkdir()
        offers = OfferWriter()
        with self._assembler.assemble(inputs, self._built / "ecosystem") as assembled:
            keys, records = self._write(assembled)
            listed = self._write_resources(assembled, offers)
        assembled.decisions.write(self._built)
        report = self._publish(assembled, keys, records, listed, offers)
        assembled.intake.store()
        return report

    def check(self, inputs: Inputs) -> Report:
        """Read and merge the sources; returns a report without a snapshot."""
        self._built.mkdir()
        with self._assembler.assemble(inputs, self._built / "ecosystem") as assembled:
            self._write(assembled)
            listed = self._write_resources(assembled, OfferWriter())
        _, changes = since_last(self._options.out, self._built)
        entries = [each.entry for each in assembled.listing]
        counts = Counts(
            len(entries),
            sum(entry.endpoints for entry in entries),
            len(listed.keys),
            assembled.payments,
        )
        manifest = Manifest(FORMAT, "", self._now, counts, [], {})
        reused = assembled.intake.reused
        return make_report(
            manifest, self._findings, "", changes, [], reused, SegmentCounts(0, 0, 0)
        )

    def _publish(
        self,
        assembled: Assembled,
        keys: Keys,
        records: dict[str, File],
        listed: ListedResources,
        offers: OfferWriter,
    ) -> Report:
        """Write the indexes and publish the snapshot, unless it exists; returns the report."""
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
            entries = [each.entry for each in assembled.listing]
            indexed = self._indexer.write(entries, keys, listed, offers)
            outliers, segments = indexed.outliers, indexed.segments
            endpoint_count = sum(entry.endpoints for entry in entries)
            resource_count = len(listed.keys)
            self._known.write(self._built / SEGMENTS / SOURCES, hash_program())
            index = self._load(snapshot_id)
            manifest = Manifest(
                format=FORMAT,
                id=snapshot_id,
                built_at=self._now,
                counts=Counts(len(entries), endpoint_count, resource_count, assembled.payments),
                sources=[
                    Source(each.source, each.records, each.malformed)
                    for each in self._findings.tallies
                ],
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
            manifest, self._findings, before, changes, outliers, assembled.intake.reused, segments
        )
        report.loaded = self._loaded
        report.depends_on_time |= assembled.depends_on_time
        return report

    def _load(self, snapshot_id: str) -> str | None:
        """Move the postings to the cluster, if there is one; returns the index."""
        if self._cluster is None:
            return None
        loaded = self._cluster.load(self._built, snapshot_id, self._progress)
        self._findings.notes += loaded.notes
        self._loaded = loaded.bytes
        remove_postings(self._built)
        return self._cluster.index_of(snapshot_id)

    def _write(self, assembled: Assembled) -> tuple[Keys, dict[str, File]]:
        """Write the services; returns the hashes of their records, and files that are described."""
        ids = [each.id for each in assembled.listing]
        with self._progress.stage("write the services", len(ids)) as writing:
            runs = assembled.catalogue.runs(track(ids, writing.advance))
            written = write_records(self._built, runs)
            write_ids(self._built, ids)
        return written

    def _write_resources(self, assembled: Assembled, offers: OfferWriter) -> ListedResources:
        """Write the resources of the services, and collect their offers."""
        listings = (
            ServiceListing(ordinal, each.id, listing, place.in_record)
            for ordinal, each in enumerate(assembled.listing)
            if each.entry.has_group
            for place, listing in assembled.discovery.listings(each.entry.group)
        )
        folder, count = self._built / "resources", len(assembled.listing)
        with self._progress.stage("write the resources"):
            return write_resources(folder, listings, count, offers)


def _served_decisions(artifacts: Path) -> DecisionTable:
    """Return the decisions of the served snapshot, none without one."""
    try:
        folder = artifacts / SNAPSHOTS / read_current(artifacts).id
        files = read_manifest(folder).files
    except SnapshotUnavailable:
        return DecisionTable()
    return read_decisions(folder, files)


def _known_records(kept: Kept) -> KnownRecords:
    """Return the facts of source records that the last build kept, none where it has none."""
    for folder in kept.whole(SOURCES):
        with suppress(KnownRecordsDamaged):
            return open_known_records(folder, hash_program(), kept.records)
    return KnownRecords()
