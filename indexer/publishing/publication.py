"""A publication of copies: the pointers of the artifacts folder and of buckets."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from indexer.errors import Misuse
from indexer.progress import Progress
from indexer.publishing.pushed import Pushed
from service.artifacts.downloads import DOWNLOADS, INDEX, POINTER, read_download
from service.artifacts.pointer import (
    Copy,
    Patches,
    Pointer,
    decode_pointer,
    encode_pointer,
    read_private_key,
)
from service.errors import FollowingFailed, PublishingFailed, SnapshotUnavailable, needs_extra
from service.publishing.artifacts import kept_snapshots, write_pointer
from service.snapshot.manifest import FORMAT, copy_manifest, read_manifest
from service.snapshot.publication import SNAPSHOTS, read_current

if TYPE_CHECKING:
    from indexer.publishing.bucket import ObjectBucket, StoredPointer


class Publisher:
    """Writes the pointer to the served snapshot, and pushes the snapshot to buckets.

    Raises Misuse for a URL or a key that cannot be used. `keep` is the number of snapshots that a
    bucket keeps; None keeps all that it has.
    """

    def __init__(
        self, urls: Sequence[str] = (), key: Path | None = None, keep: int | None = None
    ) -> None:
        self._keep = keep
        self._buckets: list[ObjectBucket] = []
        try:
            self._key = read_private_key(key) if key else None
            if urls:
                from indexer.publishing.bucket import open_bucket  # noqa: PLC0415  # optional

                self._buckets = [open_bucket(url) for url in urls]
        except ModuleNotFoundError as error:
            raise Misuse(needs_extra("--publish", "replica")) from error
        except ValueError as error:
            raise Misuse(str(error)) from error

    def is_followed(self, artifacts: Path) -> bool:
        """Return whether replicas may follow this folder, or a bucket that it is pushed to."""
        return bool(self._buckets) or (artifacts / POINTER).exists()

    def point(self, artifacts: Path, snapshot_id: str) -> None:
        """Name a snapshot by the pointer of the artifacts folder; called in `stage`.

        A rollback does so before it replaces CURRENT: the pointer never names a withdrawn snapshot,
        and a rollback that was killed can be repeated.
        """
        copies, own = _copies(artifacts, snapshot_id), _read_own(artifacts)
        if self._is_due(own, copies[:1]):
            serial = 1 + (own.serial if own else 0)
            write_pointer(artifacts, snapshot_id, self._encode(serial, copies))

    def publish(self, artifacts: Path, progress: Progress) -> list[Pushed]:
        """Publish the served snapshot, if it has downloads or a pointer; called in `stage`.

        A pointer also names a snapshot without downloads: replicas that still have it switch to it.
        Signed pointers are always renewed, since replicas may refuse old ones. Raises
        PublishingFailed; what was published then stays.
        """
        served = read_current(artifacts).id
        try:
            if not _has_downloads(artifacts, served):
                if self._buckets:
                    raise PublishingFailed(
                        f"{artifacts}: the served snapshot has no downloads to push; build again"
                    )
                if not self.is_followed(artifacts):
                    return []
            copies, own = _copies(artifacts, served), _read_own(artifacts)
            stored = [bucket.pointer() for bucket in self._buckets]
            known = [None if each is None else self._decode(each) for each in stored]
            serial = 1 + max((each.serial for each in (own, *known) if each), default=0)
            if any(self._is_due(each, copies[:1]) for each in (own, *known)):
                write_pointer(artifacts, served, self._encode(serial, copies))
        except OSError as error:
            raise PublishingFailed(
                f"{artifacts / POINTER}: {error.strerror}; {served} is served, but replicas "
                "that insist on a signature do not learn of it: build again"
            ) from error
        pushed = []
        for bucket, before, last in zip(self._buckets, stored, known, strict=True):
            others = [each for each in (last.kept if last else []) if each.id != served]
            kept = [copies[0], *others]
            with progress.stage(f"push to {bucket.name}"):
                pushed.append(
                    self._push(bucket, artifacts, before, last, kept[: self._keep], serial)
                )
        return pushed

    def _push(
        self,
        bucket: ObjectBucket,
        artifacts: Path,
        before: StoredPointer | None,
        last: Pointer | None,
        kept: list[Copy],
        serial: int,
    ) -> Pushed:
        from indexer.publishing.bucket import PointerChanged  # noqa: PLC0415  # optional
        from indexer.publishing.push import collect_garbage, put_copy  # noqa: PLC0415  # optional

        now = bucket.now()
        put = put_copy(bucket, artifacts / DOWNLOADS / kept[0].id, now)
        if self._is_due(last, kept):
            try:
                bucket.replace_pointer(self._encode(serial, kept), before)
            except PointerChanged as error:
                other = bucket.pointer()
                winner = self._decode(other) if other else None
                if winner is None or winner.id != kept[0].id:
                    raise PublishingFailed(
                        f"{bucket.name}: another publisher replaced the pointer meanwhile; it "
                        f"stays, and {kept[0].id} is published here alone: let one publisher "
                        "write there, or build again"
                    ) from error
                return put
        put.removed = collect_garbage(bucket, now)
        return put

    def _is_due(self, last: Pointer | None, kept: list[Copy]) -> bool:
        """Return whether a pointer must be replaced to name these copies."""
        return self._key is not None or last is None or last.kept[: len(kept)] != kept

    def _decode(self, stored: StoredPointer) -> Pointer | None:
        """Return the pointer of a bucket, None where another key or none signed it.

        The build signs its content anew, so the pointer of an unknown author is ignored.
        """
        with suppress(FollowingFailed):
            return decode_pointer(stored.content, self._key.public_key() if self._key else None)
        return None

    def _encode(self, serial: int, kept: list[Copy]) -> bytes:
        pointer = Pointer(
            format=FORMAT,
            id=kept[0].id,
            manifest=kept[0].manifest,
            serial=serial,
            published_at=datetime.now(UTC),
            kept=kept,
        )
        return encode_pointer(pointer, self._key)


def _has_downloads(artifacts: Path, snapshot_id: str) -> bool:
    return (artifacts / DOWNLOADS / snapshot_id / INDEX).exists()


def _copies(artifacts: Path, snapshot_id: str) -> list[Copy]:
    """Return a snapshot, with or without downloads, and the other kept ones that have some."""
    copies = [_copy(artifacts, snapshot_id)]
    for each in kept_snapshots(artifacts):
        if each != snapshot_id and _has_downloads(artifacts, each):
            with suppress(SnapshotUnavailable):  # damaged: no replica can fetch it
                copies.append(_copy(artifacts, each))
    return copies


def _copy(artifacts: Path, snapshot_id: str) -> Copy:
    """Return a snapshot with the hash of the manifest that its copies have, or would have."""
    with suppress(SnapshotUnavailable):
        download = read_download(artifacts / DOWNLOADS / snapshot_id)
        index = hashlib.sha256(msgspec.json.encode(download.patch_index)).hexdigest()
        patches = Patches(download.base, index) if download.base else None
        return Copy(snapshot_id, download.manifest, patches)
    manifest = copy_manifest(read_manifest(artifacts / SNAPSHOTS / snapshot_id))
    return Copy(snapshot_id, hashlib.sha256(manifest).hexdigest())


def _read_own(artifacts: Path) -> Pointer | None:
    """Return the pointer of the artifacts folder, None without one of this format."""
    with suppress(FileNotFoundError, FollowingFailed):
        return decode_pointer((artifacts / POINTER).read_bytes())
    return None
