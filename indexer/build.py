"""Building a snapshot: the pipeline from sources to the published files."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from indexer.catalogue.catalogue import Catalogue, Entry
from indexer.catalogue.outliers import Outlier, find_outliers
from indexer.catalogue.overlays import read_overlays
from indexer.catalogue.record import normalise
from indexer.cli.report import Report, report_build
from indexer.errors import InvalidRecord
from indexer.options import BuildOptions, Policy
from indexer.payments.database import open_payments
from indexer.payments.usage import count_usage, fill_usage, read_addresses
from indexer.progress import Progress, track
from indexer.snapshot.ecosystem import write_ecosystem
from indexer.snapshot.filters import write_filters
from indexer.snapshot.pool import Worker, hire
from indexer.snapshot.postings import compile_postings
from indexer.snapshot.prior import prior_of
from indexer.snapshot.publish import identify, list_files, publish, reuse, since_last
from indexer.snapshot.publish import stage as open_staging
from indexer.snapshot.record_store import (
    read_record_store,
    write_ids,
    write_record_store,
    write_records,
)
from indexer.snapshot.summaries import summarise_services
from indexer.snapshot.whoosh_index import index_span, indexing
from indexer.sources.inputs import Input, Inputs, gather_inputs, recall, remember
from indexer.sources.records import SourceRecord, read_records
from indexer.sources.rejects import Rejects, collect_rejects
from indexer.x402.grouping import Discovery
from indexer.x402.resource import Unlisted, read_resource
from service.records import Counts
from service.snapshot.snapshot import FORMAT, Manifest, Source

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def build_snapshot(options: BuildOptions) -> Report:
    """Build under a lock, unless what was read last is there unchanged, and so is the snapshot."""
    started = time.monotonic()
    progress = Progress(quiet=options.quiet or options.json)
    with open_staging(options.out) as staging:
        inputs = gather_inputs(options, progress)
        report = recall(options.out, inputs, options.rejects)
        if report is None or reuse(options.out, report.snapshot) is None:
            with (
                hire(inputs.workers, index_span) as workers,
                collect_rejects(options.rejects, inputs.paths) as rejects,
            ):
                rejects.notes += inputs.notes
                report = build_within(staging, options, inputs, rejects, workers, progress)
            remember(options.out, inputs, options.rejects, report)
    report.stages, report.seconds = progress.seconds, time.monotonic() - started
    return report


def build_within(
    staging: Path,
    options: BuildOptions,
    inputs: Inputs,
    rejects: Rejects,
    workers: list[Worker],
    progress: Progress,
) -> Report:
    """Read, validate, normalise, order, write, publish; returns what there is to say of it."""
    now = datetime.now(UTC)
    overlays = read_overlays(options.overlays)
    built = staging / "snapshot"
    built.mkdir()
    with (staging / "spool").open("w+b") as spool:
        catalogue = Catalogue(spool)
        read_catalogue(catalogue, inputs.sources, staging, options.policy, rejects, progress)
        catalogue.identify(rejects)
        with open_payments(staging, inputs.payments, rejects, now, progress) as payments:
            fill_in_usage(catalogue, payments)
            payment_count = write_ecosystem(built / "ecosystem", payments)
        rejects.check(options.max_rejects)
        catalogue.overlay(overlays, rejects)
        listing = catalogue.order()
        with progress.stage("write the services", len(listing)) as stage:
            ids = [listed.id for listed in listing]
            write_records(built, track(catalogue.texts(ids), stage.advance))
            write_ids(built, ids)

    served = list_files(built)
    snapshot_id = identify(served)
    before, changes = since_last(options.out, built)
    manifest = reuse(options.out, snapshot_id)
    if manifest is not None:
        outliers = find_outliers(read_record_store(built, "records"))
    else:
        outliers = index_services(built, [listed.entry for listed in listing], workers, progress)
        endpoint_count = sum(listed.entry.endpoints for listed in listing)
        manifest = Manifest(
            format=FORMAT,
            id=snapshot_id,
            built_at=now,
            counts=Counts(len(listing), endpoint_count, payment_count),
            sources=[Source(t.source, t.records, t.malformed) for t in rejects.tallies],
            files=list_files(built, known=served),
        )
        with progress.stage("publish"):
            publish(options.out, built, manifest)
    return report_build(manifest, rejects, before, changes, outliers)


def read_catalogue(
    catalogue: Catalogue,
    sources: list[Input],
    staging: Path,
    policy: Policy,
    rejects: Rejects,
    progress: Progress,
) -> None:
    """Add the valid records of these sources to the catalogue, and the others to the rejects."""
    size = sum(Path(source.path).stat().st_size for source in sources if source.is_plain)
    total = size if all(source.is_plain for source in sources) else None
    with (
        (staging / "resources").open("w+b") as spool,
        progress.stage("read", total, in_bytes=True) as reading,
    ):
        discovery = Discovery(spool)
        for number, source in enumerate(sources):
            tally = rejects.tally(source.name)
            for record in read_records(source.path, source.name):
                tally.records += 1
                reading.advance(len(record.text) + 1)
                try:
                    if record.is_resource:
                        resource = read_resource(record, policy)
                        discovery.add(number, record.position, resource)
                        for notice in resource.notices:
                            reject = source.reject(record, notice.path, notice.reason)
                            rejects.note(tally, "with an unknown asset", reject)
                    else:
                        catalogue.add(number, record.position, normalise(record))
                except InvalidRecord as fault:
                    rejects.malformed(tally, source.reject(record, fault.path, fault.reason))
                except Unlisted as fault:
                    reject = source.reject(record, fault.path, fault.reason)
                    rejects.left_out(tally, fault.policy, reject)
        for service in discovery.services():
            found = normalise(SourceRecord(service.position, service.text))
            catalogue.add(service.source, service.position, found, discovered=True)


def fill_in_usage(catalogue: Catalogue, payments: DuckDBPyConnection | None) -> None:
    """Count what came to the endpoints that say where they are paid, where no source says it."""
    if payments is None:
        return
    ids = catalogue.ids
    addresses = (
        read_addresses(text) if b'"payTo"' in text else () for text in catalogue.texts(ids)
    )
    for service_id, usage in zip(ids, count_usage(payments, addresses), strict=True):
        if usage is not None:
            (text,) = catalogue.texts([service_id])
            catalogue.replace(service_id, fill_usage(text, usage), usage.whole.calls)


def index_services(
    built: Path, entries: list[Entry], workers: list[Worker], progress: Progress
) -> list[Outlier]:
    """Write what listing and search need besides the stored services, whose entries these are.

    Returns what is suspicious about them, found while other processes index.
    """
    count = len(entries)
    with (
        progress.stage("index", count) as stage,
        indexing(built / "whoosh", built, count, workers, stage.advance) as parts,
    ):
        write_record_store(
            built, "summaries", summarise_services(read_record_store(built, "records"))
        )
        calls = [entry.calls for entry in entries]
        write_filters(built / "narrowing", read_record_store(built, "records"), calls)
        outliers = find_outliers(read_record_store(built, "records"))
    with progress.stage("compile"):
        names = [entry.name for entry in entries]
        prior = np.array([prior_of(entry.enriched, entry.calls) for entry in entries])
        compile_postings(parts, names, prior, built / "postings")
    return outliers


def build_quietly(source: Path, artifacts: Path) -> Report:
    """Build from one file that must have no malformed record."""
    options = BuildOptions(
        sources=(str(source),), out=artifacts, max_rejects=Fraction(0), quiet=True
    )
    return build_snapshot(options)
