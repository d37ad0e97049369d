"""A build: from the sources to the published snapshot, in the order of the functions below."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from indexer.assembly import Assembler, BuildContext, payment_inputs
from indexer.catalogue.intake import refresh_accepted, store_accepted
from indexer.catalogue.known import FILE as RESULTS
from indexer.catalogue.overlays import read_overlays
from indexer.decisions import DecisionTable, read_decisions
from indexer.derive.deriving import derive_columns
from indexer.derive.reuse import ReuseStore, save
from indexer.encoder.packaged import StaticEncoder, load_encoder, write_encoder
from indexer.errors import SourceError
from indexer.index.fit import LEAST_QUESTIONS, learn_threshold
from indexer.indexing import write_index
from indexer.intake.findings import collect_findings
from indexer.intake.fingerprint import Fingerprint
from indexer.intake.kept import take_over
from indexer.intake.sources import Inputs, fetch_feeds, find_inputs
from indexer.options import BuildOptions, ClusterOptions, RankingOptions
from indexer.payments.load import check_payment_files
from indexer.processes.pool import Pool
from indexer.processes.resources import available_cpus, plan_memory, release_memory
from indexer.progress import Progress
from indexer.report import Report, make_report, mark_unchanged, recall, remember, write_sources
from indexer.snapshot.compare import compare_with_served
from indexer.storing import StoredServices, store_services
from indexer.whoosh_index import draft_whoosh_index, update_whoosh_index
from service.arrays.container import open_arrays
from service.arrays.texts import Texts
from service.artifacts.downloads import make_downloads, name_current
from service.artifacts.publishing import (
    kept_snapshots,
    publish,
    remove_obsolete,
    stage,
    time_of_build,
    write_current,
)
from service.errors import PublishingFailed, SnapshotUnavailable
from service.snapshot.data import SnapshotData
from service.snapshot.manifest import (
    FORMAT,
    Manifest,
    Source,
    identify,
    list_files,
    read_manifest,
    verify,
)
from service.snapshot.publication import SNAPSHOTS, find_served, read_current
from service.snapshot.snapshot import Snapshot

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
    cluster = connect_cluster(options.cluster, options.out)
    with stage(options.out, options.keep) as staging:
        notes = []
        if cluster is not None:
            cluster.clean(kept_snapshots(options.out))
        if obsolete := remove_obsolete(options.out):
            notes.append(f"removed {', '.join(obsolete)} of an earlier release")
        inputs = _gather(options, progress)
        fingerprint = Fingerprint(inputs, _settings(options))
        report = _repeat(options, fingerprint, cluster, progress)
        if report is not None:
            refresh_accepted(options.out, inputs.sources, datetime.now(UTC))
            if options.whoosh:
                with progress.stage("write the Whoosh index"):
                    notes += update_whoosh_index(options.out, report.snapshot)
        else:
            with _opened(staging, options, inputs, progress) as context:
                report, holds_until, draft = _build(context, inputs, encoder, fingerprint, cluster)
                if draft is not None:
                    with progress.stage("write the Whoosh index"):
                        notes += update_whoosh_index(options.out, report.snapshot, draft)
            contents = fingerprint.contents()
            remember(options.out, staging, options.rejects, report, holds_until, contents)
        write_sources(options.out, staging, inputs, report)
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
        with _opened(staging, options, inputs, progress) as context:
            report = _check(context, inputs)
        mark_unchanged(options.out, report, Fingerprint(inputs, None).contents())
    report.stages, report.seconds = progress.seconds, time.monotonic() - started
    return report


def _gather(options: BuildOptions, progress: Progress) -> Inputs:
    """Find the inputs, check what needs no network, then fetch the feeds."""
    take_over(options.out)
    inputs = find_inputs(options)
    check_payment_files(payment_inputs([each for each in inputs.payments if each.path]))
    read_overlays(each.path for each in inputs.overlays if each.path)
    if options.memory is not None:
        plan_memory(options.memory, inputs.size)
    return fetch_feeds(inputs, options, progress)


def _load_encoder(options: BuildOptions) -> tuple[StaticEncoder | None, RankingOptions]:
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
        "" if options.cluster is None else options.cluster.prefix,
        repr(options.sources),
        sorted(options.accept),
        options.forget,
    ]


def _repeat(
    options: BuildOptions,
    fingerprint: Fingerprint,
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
            manifest = verify(folder)
        except SnapshotUnavailable:
            return None
    if cluster is not None:
        if not cluster.has(manifest):
            return None
        report.notes += cluster.publish(manifest)
    report.downloads = _make_downloads(options, folder, manifest, progress)
    write_current(options.out, manifest.id)
    name_current(options.out, manifest, read_current(options.out).checked_at)
    return report


def _make_downloads(
    options: BuildOptions, folder: Path, manifest: Manifest, progress: Progress
) -> int:
    """Make the files that others copy, if they are wanted; returns their bytes.

    They are there before the snapshot is published, so that no copy finds it without them.
    """
    if not options.downloads:
        return 0
    with progress.stage("make the downloads"):
        try:
            files = make_downloads(options.out, folder, manifest)
        except OSError as error:
            raise PublishingFailed(
                f"the files that others copy cannot be made: {error}; make room and build again, "
                "or give --no-downloads; what was published before stays"
            ) from error
    return sum(file.bytes for file in files)


@contextmanager
def _opened(
    staging: Path, options: BuildOptions, inputs: Inputs, progress: Progress
) -> Iterator[BuildContext]:
    """Yield the context of a build, with its processes and what earlier builds left for it."""
    jobs, memory = options.jobs or available_cpus(), plan_memory(options.memory, inputs.size)
    with (
        Pool(jobs, memory, in_process=inputs.is_below(SMALL, options.out)) as pool,
        collect_findings(options.rejects, inputs.paths, staging) as findings,
    ):
        reuse = ReuseStore(options.out, is_empty=options.from_scratch)
        now = datetime.now(UTC)
        context = BuildContext(staging, options, reuse, findings, progress, pool, now)
        context.built.mkdir()
        yield context


def _build(
    context: BuildContext,
    inputs: Inputs,
    encoder: StaticEncoder | None,
    fingerprint: Fingerprint,
    cluster: SearchCluster | None,
) -> tuple[Report, datetime | None, Future[str] | None]:
    """Build and publish a snapshot; returns the report, until when it holds, and the Whoosh draft.

    Whoosh writes beside the steps that one process takes.
    """
    options, findings, progress = context.options, context.findings, context.progress
    with Assembler(context, _served_decisions(options)).assemble(inputs) as assembled:
        stored = store_services(context, assembled)
    accepted, denials, holds_until = (
        assembled.accepted,
        assembled.denials,
        assembled.holds_until,
    )
    del assembled  # as large as the catalogue, which is on disk
    before, changes = compare_with_served(options.out, context.built)
    release_memory()
    folder = None
    if encoder is not None:
        folder = context.built / "encoder.arrays"
        write_encoder(folder, encoder)
    columns = context.staging / "columns.arrays"
    with progress.stage("derive", stored.counts.services) as stage:
        derived = derive_columns(
            columns,
            context.built,
            stored.keys,
            stored.annotated,
            context.reuse.columns(options.ranking.search.encoder),
            folder,
            context.pool,
            stage.advance,
        )
    draft = None
    if options.whoosh:
        draft = context.pool.submit(draft_whoosh_index, options.out, context.built)
    with progress.stage("index"):
        undescribed = write_index(context, columns, stored, folder)
    manifest = _describe(context, stored)
    manifest.denials = denials
    with progress.stage("learn when nothing fits"):
        if stored.counts.services + stored.counts.endpoints >= LEAST_QUESTIONS:
            snapshot = Snapshot(context.built, manifest, context.now, None)
            manifest.threshold = learn_threshold(snapshot)
    can_hold = holds_until is None or holds_until > context.now
    if can_hold:
        manifest.inputs = fingerprint.inputs()
    if cluster is not None:
        data = SnapshotData(context.built, manifest, context.now)
        annotations = Texts(open_arrays(context.staging / "annotations.arrays"), "annotations")
        cluster.load(data, annotations, progress)
        findings.notes += cluster.publish(manifest)
    downloads = _publish(context, manifest)
    store_accepted(options.out, accepted, findings, context.now)
    try:
        save(options.out, manifest.encoder, columns, context.staging / RESULTS)
    except OSError as error:
        findings.notes.append(f"the next build can reuse nothing of this one: {error}")
    report = make_report(
        manifest, findings, before, changes, derived, depends_on_time=holds_until is not None
    )
    report.undescribed, report.downloads = undescribed, downloads
    return report, holds_until, draft


def _check(context: BuildContext, inputs: Inputs) -> Report:
    """Read and merge the sources; returns a report without a snapshot."""
    with Assembler(context, _served_decisions(context.options)).assemble(inputs) as assembled:
        stored = store_services(context, assembled)
    _, changes = compare_with_served(context.options.out, context.built)
    return make_report(
        Manifest(FORMAT, "", context.now, stored.counts, [], {}),
        context.findings,
        "",
        changes,
        0,
        depends_on_time=assembled.holds_until is not None,
    )


def _describe(context: BuildContext, stored: StoredServices) -> Manifest:
    """Hash the files; returns their manifest."""
    files = list_files(context.built)
    tallies = context.findings.tallies
    identity = identify(files)
    return Manifest(
        format=FORMAT,
        id=identity,
        built_at=time_of_build(context.options.out),
        counts=stored.counts,
        sources=[Source(each.source, each.records, each.malformed) for each in tallies],
        files=files,
        encoder=context.options.ranking.search.encoder,
    )


def _publish(context: BuildContext, manifest: Manifest) -> int:
    """Publish the snapshot and name it to copies; returns the bytes of its downloads.

    A whole snapshot of its id stays, and learns of the inputs.
    """
    artifacts = context.options.out
    with suppress(SnapshotUnavailable):
        existing = read_manifest(artifacts / SNAPSHOTS / manifest.id)
        if existing.files == manifest.files:
            manifest.built_at = existing.built_at
    downloads = _make_downloads(context.options, context.built, manifest, context.progress)
    with context.progress.stage("publish"):
        publish(artifacts, context.built, manifest)
        name_current(artifacts, manifest, read_current(artifacts).checked_at)
    return downloads


def _served_decisions(options: BuildOptions) -> DecisionTable:
    """Return the decisions of the served snapshot, none without one or where they are forgotten."""
    folders = [] if options.forget else find_served(options.out)
    failure = None
    for folder in filter(Path.is_dir, folders):  # somebody may have removed one
        try:
            return read_decisions(folder)
        except SourceError as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return DecisionTable()
