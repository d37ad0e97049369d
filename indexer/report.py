"""The report of a build: its data, and the report of the last build, kept for the next one."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from indexer.catalogue.outliers import Outlier
from indexer.publishing.publication import Pushed
from indexer.segments.store import SegmentCounts
from indexer.snapshot.compare import Changes
from indexer.sources.fingerprint import Fingerprint
from indexer.sources.rejects import OTHER_REASONS, Reject, Rejects, Tally
from service.errors import SnapshotUnavailable
from service.snapshot.manifest import Manifest, sha256
from service.snapshot.publication import read_current

LAST = "last.json"
"""The file in the artifacts folder that holds the fingerprint and the report of the last build."""
FUTURE = "is more than an hour in the future"


class Report(Struct, rename="camel"):
    """The outcome of a build; `changes` is None where there was no snapshot to compare with.

    reused_records: source records that the last build had validated
    indexed: services whose texts were indexed anew
    segments: segments of the snapshot; 0 where the snapshot existed
    merged: segments that were merged to fewer
    pushed: what was pushed to each bucket
    downloads: bytes of the archives; 0 without them
    patches: bytes of the patches from the snapshot before
    loaded: bytes of the postings in a cluster; 0 where none were loaded
    """

    snapshot: str
    changed: bool
    services: int
    endpoints: int
    resources: int
    payments: int
    reused_records: int
    bytes: int
    encoder: str
    indexed: int
    segments: int
    merged: int
    seconds: float
    stages: dict[str, float]
    sources: list[Tally]
    changes: Changes | None
    suspicious_prices: list[Outlier]
    unused_overlays: list[str]
    notes: list[str]
    rejects: int
    first_rejects: list[Reject]
    downloads: int = 0
    patches: int = 0
    pushed: list[Pushed] = []
    loaded: int = 0

    @property
    def depends_on_time(self) -> bool:
        """Whether a later build of the same inputs may differ: a payment was in the future."""
        reasons = [reason for source in self.sources for reason in source.reasons]
        return any(FUTURE in reason or reason == OTHER_REASONS for reason in reasons)


class LastBuild(Struct):
    """The last build as `remember` stores it; `rejects` is the state of the file of rejects."""

    outline: str
    digest: str
    rejects: str
    report: Report


_last_build = msgspec.json.Decoder(LastBuild)


def make_report(
    manifest: Manifest,
    rejects: Rejects,
    before: str,
    changes: Changes | None,
    outliers: list[Outlier],
    reused_records: int,
    segments: SegmentCounts,
) -> Report:
    """Return the report of a build of this manifest; `before` is the id that was served."""
    for tally in rejects.tallies:
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
        reused_records=reused_records,
        bytes=sum(file.bytes for file in manifest.files.values()),
        encoder=manifest.encoder,
        indexed=segments.indexed,
        segments=segments.segments,
        merged=segments.merged,
        seconds=0.0,
        stages={},
        sources=rejects.tallies,
        changes=changes,
        suspicious_prices=outliers,
        unused_overlays=rejects.unused_overlays,
        notes=rejects.notes,
        rejects=rejects.count,
        first_rejects=rejects.first,
    )


def recall(artifacts: Path, fingerprint: Fingerprint | None, rejects: Path | None) -> Report | None:
    """Return the report of the last build if this one would repeat it, else None.

    The fingerprint, the served snapshot and the file of rejects must be those of the last build.
    """
    if fingerprint is None:
        return None
    try:
        last = _last_build.decode((artifacts / LAST).read_bytes())
        if fingerprint.outline != last.outline:
            return None
        published = (_state_of(rejects), read_current(artifacts).id)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, SnapshotUnavailable):
        return None
    is_same = published == (last.rejects, last.report.snapshot)
    if not is_same or fingerprint.digest != last.digest:
        return None
    return msgspec.structs.replace(
        last.report, changed=False, changes=None, reused_records=0, indexed=0, merged=0, loaded=0
    )


def remember(
    artifacts: Path,
    staging: Path,
    fingerprint: Fingerprint | None,
    rejects: Path | None,
    report: Report,
) -> None:
    """Keep the report for `recall`, or remove an earlier one where it must not be recalled.

    An input that changed while it was read is not what was hashed. Errors are suppressed, since
    the snapshot is published.
    """
    path, staged = artifacts / LAST, staging / LAST
    with suppress(OSError):
        if fingerprint is None or report.depends_on_time or not fingerprint.is_current():
            path.unlink(missing_ok=True)
            return
        last = LastBuild(fingerprint.outline, fingerprint.digest, _state_of(rejects), report)
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
