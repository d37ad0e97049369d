"""The report of a build: its data, and the report of the last build, kept for the next one."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from indexer.intake.findings import Finding, Findings, State, Tally
from indexer.intake.fingerprint import Fingerprint
from indexer.intake.sources import Inputs
from indexer.snapshot.compare import ChangeCounts
from indexer.text import one_line
from service.arrays.files import read_json, sha256
from service.artifacts.publishing import LAST
from service.errors import SnapshotUnavailable
from service.schema.status import SourceState
from service.schema.values import format_timestamp
from service.snapshot.manifest import Manifest, read_manifest
from service.snapshot.publication import SNAPSHOTS, SOURCES, read_current

MAX_FAILURE = 300  # characters


class Report(Struct, rename="camel"):
    """The outcome of a build; `changes` is None where there was no snapshot to compare with.

    findings: number of records that were not published as they came
    undescribed: endpoints without a text of their own
    depends_on_time: whether a later build of the same inputs may differ
    indexed: services that were derived and indexed anew
    downloads: bytes of the files that others copy; 0 without them
    """

    snapshot: str
    changed: bool
    services: int
    endpoints: int
    resources: int
    payments: int
    bytes: int
    encoder: str
    indexed: int
    seconds: float
    stages: dict[str, float]
    sources: list[Tally]
    changes: ChangeCounts | None
    unused_overlays: list[str]
    notes: list[str]
    findings: int
    first_findings: list[Finding]
    depends_on_time: bool = False
    downloads: int = 0
    undescribed: int = 0
    unused_denials: list[str] = []


class LastBuild(Struct):
    """The last build as `remember` stores it.

    rejects: the state of the file of rejects
    holds_until: until when a build of the same inputs is the same, None for ever
    contents: hashes of what was last accepted, by source
    """

    rejects: str
    report: Report
    holds_until: datetime | None = None
    contents: dict[str, str] = {}


def make_report(
    manifest: Manifest,
    findings: Findings,
    before: str,
    changes: ChangeCounts | None,
    indexed: int,
    *,
    depends_on_time: bool,
) -> Report:
    """Return the report of a build of this manifest; `before` is the id that was served."""
    for tally in findings.tallies:
        tally.reasons = dict(sorted(tally.reasons.items(), key=lambda reason: -reason[1]))
        tally.left_out = {policy: count for policy, count in tally.left_out.items() if count}
    counts = manifest.counts
    return Report(
        snapshot=manifest.id,
        changed=manifest.id != before,
        services=counts.services,
        endpoints=counts.endpoints,
        resources=counts.resources,
        payments=counts.payments,
        bytes=sum(file.bytes for file in manifest.files.values()),
        encoder=manifest.encoder,
        indexed=indexed,
        seconds=0.0,
        stages={},
        sources=findings.tallies,
        changes=changes,
        unused_overlays=findings.unused_overlays,
        unused_denials=findings.unused_denials,
        notes=findings.notes,
        findings=findings.count,
        first_findings=findings.first(),
        depends_on_time=depends_on_time,
    )


def recall(artifacts: Path, fingerprint: Fingerprint, rejects: Path | None) -> Report | None:
    """Return the report of the last build if this one would repeat it and it holds, else None.

    The inputs are compared with those in the manifest of the served snapshot. A last build whose
    clock was ahead is not repeated: it may have accepted payments dated in the future.
    """
    last = read_json(artifacts / LAST, LastBuild)
    if last is None:
        return None
    try:
        served = read_current(artifacts)
        inputs = read_manifest(artifacts / SNAPSHOTS / served.id).inputs
        published = (_state_of(rejects), served.id)
    except (OSError, SnapshotUnavailable):
        return None
    is_last = published == (last.rejects, last.report.snapshot)
    now = datetime.now(UTC)
    if not is_last or inputs is None or served.checked_at > now:
        return None
    if last.holds_until is not None and last.holds_until < now:
        return None
    if fingerprint.settings != inputs.settings or fingerprint.inputs() != inputs:
        return None
    for tally in last.report.sources:
        tally.is_unchanged = tally.state is State.CURRENT
        tally.read_at = None if tally.is_unchanged else tally.read_at
    return msgspec.structs.replace(last.report, changed=False, changes=None, indexed=0)


def mark_unchanged(artifacts: Path, report: Report, contents: Mapping[str, str]) -> dict[str, str]:
    """Mark sources whose content was accepted before; returns what is accepted now, by source."""
    last = read_json(artifacts / LAST, LastBuild)
    known = last.contents if last else {}
    accepted = dict(known)
    for tally in report.sources:
        if tally.state is State.CURRENT:
            accepted[tally.source] = content = contents.get(tally.source, "")
            tally.is_unchanged = content != "" and content == known.get(tally.source)
    return {tally.source: accepted.get(tally.source, "") for tally in report.sources}


def write_sources(artifacts: Path, staging: Path, inputs: Inputs, report: Report) -> None:
    """Write which copies were read; a repeated build counts its CURRENT sources as read now."""
    read_at = {each.name: each.read_at for each in inputs.all}
    now = datetime.now(UTC)
    for tally in report.sources:
        if tally.state is State.CURRENT:
            tally.read_at = read_at.get(tally.source) or tally.read_at or now
    states = [
        SourceState(
            name=tally.source,
            state=tally.state.value,
            read_at=None if tally.read_at is None else format_timestamp(tally.read_at),
            failure=one_line(tally.failure.partition("\n")[0])[:MAX_FAILURE],
        )
        for tally in report.sources
    ]
    staged = staging / SOURCES
    with suppress(OSError):  # the snapshot is published
        staged.write_bytes(msgspec.json.encode(states))
        staged.replace(artifacts / SOURCES)


def remember(
    artifacts: Path,
    staging: Path,
    rejects: Path | None,
    report: Report,
    holds_until: datetime | None,
    contents: Mapping[str, str],
) -> None:
    """Keep the report for `recall`; errors are suppressed, since the snapshot is published."""
    path, staged = artifacts / LAST, staging / LAST
    accepted = mark_unchanged(artifacts, report, contents)
    with suppress(OSError):
        path.unlink(missing_ok=True)
        last = LastBuild(_state_of(rejects), report, holds_until, accepted)
        staged.write_bytes(msgspec.json.encode(last))
        staged.replace(path)


def _state_of(rejects: Path | None) -> str:
    """Return the path and the hash of the file of rejects, empty without one.

    Raises FileNotFoundError for a file that is missing, and for a pipe or a device.
    """
    if rejects is None:
        return ""
    if not rejects.is_file():
        raise FileNotFoundError(rejects)
    return f"{rejects.resolve()} {sha256(rejects)}"
