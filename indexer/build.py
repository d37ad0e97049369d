"""A build: from the sources to the published snapshot, in the order of the functions below."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from indexer.assembly import Assembled, Assembler, payment_inputs
from indexer.catalogue.catalogue import Entry
from indexer.catalogue.intake import refresh_accepted, store_accepted
from indexer.catalogue.known_records import open_known_records, program_of_facts
from indexer.catalogue.overlays import read_overlays
from indexer.columns.files import open_columns
from indexer.encoder.packaged import StaticEncoder, load_encoder
from indexer.errors import IndexerError
from indexer.indexing import Alive, Indexer, IndexReport
from indexer.opensearch.documents import remove_postings
from indexer.options import BuildOptions, ClusterOptions, Ranking
from indexer.payments.database import check_payment_files
from indexer.processes.pool import Pool
from indexer.processes.resources import (
    anonymous_memory,
    available_cpus,
    plan_memory,
)
from indexer.progress import Progress, track
from indexer.publishing.publication import Publisher
from indexer.record_store import Keys, write_ids, write_records
from indexer.report import Report, make_report, recall, remember, write_sources
from indexer.search.offers import OfferWriter
from indexer.search.popularity import Payers
from indexer.segments.indexing import Annotated, write_annotations
from indexer.segments.reuse import ReuseStore, save
from indexer.segments.store import SegmentCounts
from indexer.snapshot.compare import compare_with_served
from indexer.snapshot.listings import NO_RECORD, NamedUrls, RecordPlace, write_listings
from indexer.snapshot.probes import write_probes
from indexer.snapshot.profiles import write_profiles
from indexer.snapshot.resources import ListedResources, ServiceListing, write_resources
from indexer.sources.decisions import DecisionTable, read_decisions
from indexer.sources.findings import Findings, collect_findings
from indexer.sources.fingerprint import Fingerprint, take_fingerprint
from indexer.sources.inputs import Inputs, fetch_feeds, find_inputs
from indexer.sources.subjects import NO_ADVICE
from indexer.whoosh_index.files import check_index
from indexer.whoosh_index.update import publish_whoosh_index, start_whoosh_index
from indexer.x402.outline import subject_of
from service.errors import PublishingFailed, SnapshotUnavailable
from service.publishing.artifacts import (
    WHOOSH,
    earlier_ids,
    kept_snapshots,
    make_current,
    publish,
    stage,
)
from service.publishing.downloads import make_downloads
from service.schema.status import Counts
from service.snapshot.listings import position_hash
from service.snapshot.manifest import (
    FORMAT,
    File,
    Manifest,
    Source,
    identify,
    list_files,
    read_manifest,
    verify,
)
from service.snapshot.publication import SNAPSHOTS, read_current

if TYPE_CHECKING:
    from indexer.opensearch.loading import SearchCluster


SMALL = 2**22
"""Bytes of sources below which a build needs less time than its workers take to start."""


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
        with take_fingerprint(inputs, _settings(options)) as fingerprint:
            report = _repeat(options, fingerprint, cluster, progress)
            if report is not None:
                refresh_accepted(options.out, inputs.sources, datetime.now(UTC))
                left = plan_memory(options.memory, inputs.size) - anonymous_memory(os.getpid())
                _make_downloads(options, report, left, progress)
            else:
                with _opened(staging, options, inputs, encoder, progress) as build:
                    report = build.run(inputs, fingerprint, cluster)
                remember(options.out, staging, options.rejects, report)
        write_sources(options.out, staging, inputs, report)
        report.pushed = publisher.publish(options.out, progress)
        report.notes += notes
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
        with _opened(staging, options, inputs, None, progress) as build:
            report = build.check(inputs)
    report.stages, report.seconds = progress.seconds, time.monotonic() - started
    return report


def _gather(options: BuildOptions, progress: Progress) -> Inputs:
    """Find the inputs, check what needs no network, then fetch the feeds."""
    inputs = find_inputs(options)
    check_payment_files(payment_inputs([each for each in inputs.payments if each.path]))
    read_overlays(each.path for each in inputs.overlays if each.path)
    plan_memory(options.memory, inputs.size)
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


def _settings(options: BuildOptions) -> list[object]:
    """Return the options that decide what a build makes of its sources."""
    return [
        repr(options.policy),
        str(options.max_rejects),
        FORMAT,
        options.ranking,
        options.endpoints,
        "" if options.cluster is None else options.cluster.name,
        repr(options.sources),
        sorted(options.accept),
        options.forget,
    ]


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
        if report is None:
            return None
        folder = options.out / SNAPSHOTS / report.snapshot
        try:
            manifest = verify(folder, options.jobs or available_cpus())
        except SnapshotUnavailable:
            return None
    if cluster is not None and manifest.index is not None:
        if not cluster.has(folder, manifest.index):
            return None
        cluster.keep(manifest.index)
    try:
        check_index(options.out / WHOOSH / manifest.id)
    except (IndexerError, SnapshotUnavailable):
        return None
    make_current(options.out, manifest.id)
    return report


def _make_downloads(options: BuildOptions, report: Report, memory: int, progress: Progress) -> None:
    """Make the downloads of the published snapshot, with patches from the one before.

    `memory` is what may be taken for them.
    """
    if not options.downloads:
        return
    folder = options.out / SNAPSHOTS / report.snapshot
    others = (each for each in kept_snapshots(options.out) if each != report.snapshot)
    base = next(others, "")
    with progress.stage("make the downloads"):
        threads = options.jobs or available_cpus()
        try:
            manifest = read_manifest(folder)
            download = make_downloads(options.out, folder, manifest, base, threads, memory)
        except (OSError, SnapshotUnavailable) as error:
            raise PublishingFailed(
                f"{report.snapshot} is served, but its downloads cannot be made: {error}; "
                "make room and build again"
            ) from error
    report.downloads = sum(file.bytes for file in download.archives.values())
    report.patches = download.patch_file.bytes


@contextmanager
def _opened(
    staging: Path,
    options: BuildOptions,
    inputs: Inputs,
    encoder: StaticEncoder | None,
    progress: Progress,
) -> Iterator[_Build]:
    """Yield a build, which reads what earlier builds left for it."""
    snapshots = [] if options.from_scratch else kept_snapshots(options.out)
    jobs, memory = options.jobs or available_cpus(), plan_memory(options.memory, inputs.size)
    with (
        Pool(jobs, memory, in_process=inputs.is_below(SMALL)) as pool,
        collect_findings(options.rejects, inputs.paths, staging) as findings,
    ):
        pool.start()
        reuse = ReuseStore(options.out, snapshots)
        yield _Build(staging, options, encoder, reuse, findings, progress, pool)


class _Stored(NamedTuple):
    """The services and resources of a build, as they are stored.

    endpoints: their count
    payers, endpoint_payers, alive: as `Indexer.write` takes them
    drifted: as `write_listings` takes them
    keys: hashes of the services
    annotated: their annotations
    files: the files that are hashed already
    offers: of the resources, to which the endpoints add theirs
    named: the URLs of the resources
    records: the place of the record of each service
    """

    endpoints: int
    payers: list[Payers]
    endpoint_payers: list[dict[int, Payers]]
    alive: Alive
    drifted: npt.NDArray[np.bool_]
    keys: Keys
    annotated: Annotated
    files: dict[str, File]
    listed: ListedResources
    offers: OfferWriter
    payments: int
    named: NamedUrls
    records: list[RecordPlace]

    @property
    def counts(self) -> Counts:
        return Counts(len(self.payers), self.endpoints, len(self.listed.keys), self.payments)


class _Build:
    """A build in a staging folder; `run` has its stages in order."""

    def __init__(
        self,
        staging: Path,
        options: BuildOptions,
        encoder: StaticEncoder | None,
        reuse: ReuseStore,
        findings: Findings,
        progress: Progress,
        pool: Pool,
    ) -> None:
        self._staging, self._built = staging, staging / "snapshot"
        self._built.mkdir()
        self._options, self._findings, self._progress = options, findings, progress
        self._now = datetime.now(UTC)
        self._pool = pool
        self._indexer = Indexer(staging, options, encoder, pool, reuse, progress)
        served = DecisionTable() if options.forget else _served_decisions(options.out)
        with progress.stage("read what is kept"):
            self._known = open_known_records(reuse, options.policy, staging)
        self._assembler = Assembler(
            staging,
            options,
            served,
            reuse.records,
            self._known,
            findings,
            progress,
            self._now,
            pool,
        )

    def run(
        self, inputs: Inputs, fingerprint: Fingerprint | None, cluster: SearchCluster | None
    ) -> Report:
        """Build and publish; returns the report."""
        with self._assembler.assemble(inputs, self._built) as assembled:
            stored = self._store(assembled)
        accepted, rules, reused = assembled.accepted, assembled.rules, assembled.reused
        denials, depends_on_time = assembled.denials, assembled.depends_on_time
        del assembled  # as large as the catalogue, which is on disk
        before, changes = compare_with_served(self._options.out, self._built)
        indexed = self._indexer.write(
            stored.payers,
            stored.endpoint_payers,
            stored.alive,
            stored.keys,
            stored.annotated,
            stored.listed,
            stored.offers,
        )
        with self._progress.stage("write the listings"):
            write_listings(
                self._built / "listings",
                open_columns(indexed.columns),
                stored.named,
                stored.records,
                stored.drifted,
                self._findings.fates,
            )
        self._pool.renew()
        is_dated = depends_on_time or fingerprint is None or not fingerprint.is_current()
        manifest = self._describe(stored)
        manifest.denials = denials
        manifest.inputs = None if is_dated or fingerprint is None else fingerprint.inputs()
        loaded = 0 if cluster is None else self._load(cluster, manifest)
        self._publish(manifest)
        store_accepted(self._options.out, accepted, rules, self._findings, self._now)
        report = make_report(
            manifest,
            self._findings,
            before,
            changes,
            indexed.outliers,
            reused,
            indexed.counts,
            depends_on_time=depends_on_time,
        )
        report.loaded, report.undescribed = loaded, indexed.undescribed
        with self._left_behind(before, manifest.id, indexed) as processes:
            left = self._pool.left(processes)
            _make_downloads(self._options, report, left, self._progress)
        return report

    def check(self, inputs: Inputs) -> Report:
        """Read and merge the sources; returns a report without a snapshot."""
        with self._assembler.assemble(inputs, self._built) as assembled:
            stored = self._store(assembled)
        _, changes = compare_with_served(self._options.out, self._built)
        return make_report(
            Manifest(FORMAT, "", self._now, stored.counts, [], {}),
            self._findings,
            "",
            changes,
            [],
            assembled.reused,
            SegmentCounts(0, 0, 0),
            depends_on_time=assembled.depends_on_time,
        )

    def _store(self, assembled: Assembled) -> _Stored:
        """Write the services, their ids, their resources and the decisions."""
        ids = [each.id for each in assembled.listing]
        with self._progress.stage("write the services", len(ids)) as writing:
            runs = assembled.catalogue.runs(track(ids, writing.advance))
            keys, files = write_records(self._built, runs)
            write_ids(self._built, ids)
            texts = assembled.catalogue.annotations(ids)
            annotated = write_annotations(self._staging / "annotations", texts)
            counts = [each.entry.endpoints for each in assembled.listing]
            profiles = write_profiles(self._built, annotated.path, counts)
        offers = OfferWriter()
        listings = (
            ServiceListing(
                ordinal,
                each.id,
                listing,
                place.in_record,
                assembled.probed.of_listing(listing),
                assembled.overlays.describe_url(listing.endpoint.url),
                profiles.get(ordinal),
            )
            for ordinal, each in enumerate(assembled.listing)
            for place, listing in assembled.discovery.listings(each.entry.group)
        )
        with self._progress.stage("write the resources"):
            listed = write_resources(self._built / "resources", listings, len(ids), offers)
        assembled.decisions.write(self._built)
        payers = [each.entry.payers for each in assembled.listing]
        of_endpoints = [each.entry.endpoint_payers or {} for each in assembled.listing]
        services = np.array([each.entry.alive for each in assembled.listing], np.int8)
        probed = write_probes(self._built, assembled.probed.of_endpoints(assembled.listing))
        return _Stored(
            sum(counts),
            payers,
            of_endpoints,
            Alive(services, probed.verdicts),
            probed.drifted,
            keys,
            annotated,
            files,
            listed,
            offers,
            assembled.payments,
            _named_urls(assembled),
            [self._place(each.entry) for each in assembled.listing],
        )

    def _place(self, entry: Entry) -> RecordPlace:
        if entry.discovered:
            return NO_RECORD
        name = self._findings.tallies[entry.source].source
        return RecordPlace(entry.source, position_hash(name, entry.position))

    def _describe(self, stored: _Stored) -> Manifest:
        """Hash the files; returns their manifest."""
        files = list_files(self._built, self._pool.jobs, stored.files)
        tallies = self._findings.tallies
        manifest = Manifest(
            format=FORMAT,
            id="",
            built_at=self._now,
            counts=stored.counts,
            sources=[Source(each.source, each.records, each.malformed) for each in tallies],
            files=files,
            encoder=self._options.ranking.search.encoder,
        )
        manifest.id = identify(manifest.files)
        manifest.earlier = earlier_ids(self._options.out, manifest.id)
        return manifest

    def _load(self, cluster: SearchCluster, manifest: Manifest) -> int:
        """Move the postings to the cluster; returns their bytes."""
        loaded = cluster.load(self._built, manifest.id, self._progress)
        self._findings.notes += loaded.notes
        manifest.index = cluster.index_of(manifest.id)
        manifest.indexed = {name: manifest.files.pop(name) for name in remove_postings(self._built)}
        cluster.switch(manifest.index)
        return loaded.bytes

    def _publish(self, manifest: Manifest) -> None:
        """Publish the snapshot; a whole one of its id stays, and learns of the inputs."""
        with suppress(SnapshotUnavailable):
            existing = read_manifest(self._options.out / SNAPSHOTS / manifest.id)
            if existing.files == manifest.files:
                manifest.built_at, manifest.earlier = existing.built_at, existing.earlier
        with self._progress.stage("publish"):
            publish(self._options.out, self._built, manifest)

    @contextmanager
    def _left_behind(self, before: str, snapshot_id: str, indexed: IndexReport) -> Iterator[int]:
        """Write the Whoosh index beside the body, and then the files that the next build reuses.

        Yields the number of processes at work. The snapshot is published: a failure is a note.
        """
        artifacts, facts = self._options.out, self._staging / "facts"
        folder = artifacts / SNAPSHOTS / snapshot_id
        placed = [(each.stored.path, each.ordinals) for each in indexed.segments]
        parts = start_whoosh_index(self._pool, artifacts, before, folder, placed)
        try:
            yield len(parts)
        finally:
            notes = self._findings.notes
            with self._progress.stage("write the Whoosh index"):
                try:
                    publish_whoosh_index(artifacts, snapshot_id, parts)
                except IndexerError as error:
                    notes.append(str(error))
            segments = [(each.stored.path, each.stored.file) for each in indexed.segments]
            try:
                self._known.facts.write(facts, program_of_facts(self._options.policy))
                save(artifacts, snapshot_id, segments, indexed.columns, facts)
            except OSError as error:
                notes.append(f"the next build can reuse nothing of this one: {error}")


def _named_urls(assembled: Assembled) -> NamedUrls:
    """Return what is listed of all services; advice is that of the resource that is served."""
    named, discovery = NamedUrls(), assembled.discovery
    for service, each in enumerate(assembled.listing):
        for place in discovery.resources(each.entry.group):
            named.add(subject_of(discovery.outline(place)), place.source, service)
            for other in place.others:
                subject = subject_of(discovery.outline(other))._replace(advice=NO_ADVICE)
                named.add(subject, other.source, service)
    return named


def _served_decisions(artifacts: Path) -> DecisionTable:
    """Return the decisions of the served snapshot, none without one."""
    try:
        folder = artifacts / SNAPSHOTS / read_current(artifacts).id
        files = read_manifest(folder).files
    except SnapshotUnavailable:
        return DecisionTable()
    return read_decisions(folder, files)
