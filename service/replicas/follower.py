"""The follower: keeps an artifacts folder as its origin publishes, one look after the other.

A look can be cut at any instant: the next look finds the files that were fetched. A snapshot is
published as by a build, and the served one stays until the next one was verified file by file.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import shutil
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from service.artifacts.downloads import DOWNLOADS, INDEX, POINTER
from service.artifacts.file_states import FileState, states_below
from service.artifacts.following import FOLLOWING, Failure, Following, read_following
from service.artifacts.pointer import Pointer, check_pointer, decode_pointer
from service.errors import (
    ArtifactsBusy,
    FollowingFailed,
    PublishingFailed,
    SnapshotUnavailable,
    shorten,
)
from service.publishing.artifacts import (
    KEPT,
    make_current,
    publish,
    stage,
    write_current,
    write_pointer,
)
from service.publishing.downloads import make_downloads
from service.publishing.durable import replace_durably
from service.replicas.fetching import INCOMING, Fetch, check_manifest
from service.replicas.origin import Origin
from service.snapshot.manifest import FORMAT, Manifest, copy_manifest, read_manifest, verify
from service.snapshot.publication import SNAPSHOTS, read_current

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

LONGEST_PAUSE = 6
"""The longest pause after failures, in intervals."""
MOST_SKIPPED = 64
"""The most looks from one attempt to make downloads that failed to the next."""
DOWNLOADS_FAILED = "downloads_failed"
"""Code of the failure of a replica that serves what it cannot pass on."""
STATE_DAMAGED = "state_damaged"
"""Code of the failure of a replica that trusts a key, and has lost the last serial."""

_log = logging.getLogger(__name__)
_manifest = msgspec.json.Decoder(Manifest)


class Follower:
    """Follows an origin into an artifacts folder, where the last `keep` snapshots stay.

    trust: the key that must have signed a pointer
    max_age: seconds after which a pointer is too old; 0 for never
    downloads: whether others can fetch from here what was fetched
    """

    def __init__(
        self,
        artifacts: Path,
        origin: Origin,
        keep: int = KEPT,
        *,
        trust: Ed25519PublicKey | None = None,
        max_age: int = 0,
        downloads: bool = False,
    ) -> None:
        self._artifacts = artifacts
        self._origin = origin
        self._keep = keep
        self._trust = trust
        self._max_age = max_age
        self._downloads = downloads
        self._verified: tuple[str, dict[Path, FileState]] | None = None
        self._failed_looks = 0
        self._is_recalled = False
        self.state = Following(origin=origin.name)

    def look(self) -> bool:
        """Look at the origin once, fetch and publish what is new; return whether that worked.

        The outcome is in `state` and in `following.json`.
        """
        failure = self._attempt()
        self._failed_looks = self._failed_looks + 1 if failure else 0
        if failure:
            self.state.failures += 1
            self._origin.forget_pointer()
            if self._failed_looks == 1 or failure != self.state.error:
                _log.warning("%s is not followed: %s", self._origin.name, failure.message)
        elif self.state.error:
            _log.info("%s is followed again", self._origin.name)
        self.state.error = failure
        with suppress(OSError):  # a full disk is reported where it matters
            self._write_state()
        return failure is None

    def pause(self, interval: float, chance: float) -> float:
        """Return the seconds until the next look, longer after each failure.

        A chance between 0 and 1 keeps replicas of one origin apart.
        """
        longest = min(1 << min(self._failed_looks, LONGEST_PAUSE), LONGEST_PAUSE) * interval
        return interval + (longest - interval) * chance

    def _attempt(self) -> Failure | None:
        try:
            self._follow()
        except FollowingFailed as error:
            return Failure(error.code, str(error))
        except ArtifactsBusy as error:
            return Failure("artifacts_busy", str(error))
        except PublishingFailed as error:
            return Failure("disk_failed", str(error))
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                return Failure("disk_full", f"{self._artifacts}: {error}; make room")
            return Failure("disk_failed", f"{self._artifacts}: {error}; check the disk")
        except Exception as error:  # noqa: BLE001  # whatever an origin sends, the follower goes on
            _log.exception("a look at %s failed", self._origin.name)
            return Failure("internal_error", shorten(repr(error)))
        return None

    def _follow(self) -> None:
        self._artifacts.mkdir(parents=True, exist_ok=True)
        if not self._is_recalled:
            self._recall()
        content = self._origin.pointer()
        self.state.contacted_at = datetime.now(UTC)
        pointer = decode_pointer(content, self._trust)
        check_pointer(pointer, self.state.serial, self._max_age, self.state.contacted_at)
        self._note(pointer)
        if self._is_served(pointer):
            self.state.behind_since = None
            if not self._needs_downloads(pointer.id) and self._keeps(content):
                return
        with stage(self._artifacts, self._keep) as staging:
            before = self._served_id()
            if not self._is_served(pointer):
                if self._is_kept(pointer):
                    make_current(self._artifacts, pointer.id)
                else:
                    self._fetch(pointer, staging)
                _log.info("serving snapshot %s of %s", pointer.id, self._origin.name)
            write_current(self._artifacts, pointer.id, pointer.published_at)
            self.state.behind_since = None
            self._write_state()
            if self._needs_downloads(pointer.id):
                self._make_downloads(pointer.id, before)
            write_pointer(self._artifacts, pointer.id, content)

    def _recall(self) -> None:
        """Restore the state that the last run wrote, or the serial of the pointer without one.

        Raises FollowingFailed for a damaged state where a key is trusted: an earlier publication
        with a valid signature would be accepted.
        """
        path = self._artifacts / FOLLOWING
        state = read_following(self._artifacts)
        is_lost = path.exists() if state is None else _is_lost(state)
        serial = 0
        with suppress(OSError, FollowingFailed):
            serial = decode_pointer((self._artifacts / POINTER).read_bytes(), self._trust).serial
        if is_lost and self._trust is not None:
            raise FollowingFailed(
                STATE_DAMAGED,
                f"{path} is damaged, and with it the last serial: remove it to accept publications "
                f"from serial {serial} on",
            )
        if state is None:
            self.state.serial = serial
        elif state.origin == self._origin.name:
            self.state = state
        self._is_recalled = True

    def _keeps(self, content: bytes) -> bool:
        """Return whether this replica already passes the pointer of the origin on."""
        with suppress(OSError):
            return (self._artifacts / POINTER).read_bytes() == content
        return False

    def _needs_downloads(self, snapshot_id: str) -> bool:
        """Return whether the downloads of a snapshot are to be made by this look.

        Raises the last failure again in the looks between two attempts, twice as many after each
        failure: an attempt compresses the whole snapshot.
        """
        if not self._downloads or (self._artifacts / DOWNLOADS / snapshot_id / INDEX).exists():
            return False
        error, looks = self.state.error, self._failed_looks
        is_due = looks & (looks - 1) == 0 or looks % MOST_SKIPPED == 0
        if error is not None and error.code == DOWNLOADS_FAILED and not is_due:
            raise FollowingFailed(error.code, error.message)
        return True

    def _make_downloads(self, snapshot_id: str, base: str) -> None:
        """Let others fetch the snapshot from here, after it is served; raises FollowingFailed."""
        folder = self._artifacts / SNAPSHOTS / snapshot_id
        try:
            make_downloads(self._artifacts, folder, read_manifest(folder), base)
        except (OSError, SnapshotUnavailable) as error:
            raise FollowingFailed(
                DOWNLOADS_FAILED,
                f"{snapshot_id} is served, but its downloads cannot be made: {error}; others "
                "cannot fetch it from here",
            ) from error

    def _note(self, pointer: Pointer) -> None:
        """Remember an accepted pointer before it is followed, so that no earlier one is."""
        state = self.state
        if self._served_id() != pointer.id and state.behind_since is None:
            state.behind_since = pointer.published_at
        if (state.published_at, state.manifest) == (pointer.published_at, pointer.manifest):
            return
        state.id, state.manifest = pointer.id, pointer.manifest
        state.serial = max(state.serial, pointer.serial)
        state.published_at = pointer.published_at
        self._write_state()

    def _fetch(self, pointer: Pointer, staging: Path) -> None:
        manifest = self._read_manifest(pointer)
        built = staging / pointer.id
        built.mkdir()
        patches = next((each.patches for each in pointer.kept if each.id == pointer.id), None)
        Fetch(self._artifacts, self._origin, manifest, pointer.manifest, patches).run(built)
        publish(self._artifacts, built, manifest)
        self._verified = pointer.manifest, states_below(self._artifacts / SNAPSHOTS / pointer.id)
        shutil.rmtree(self._artifacts / INCOMING, ignore_errors=True)

    def _read_manifest(self, pointer: Pointer) -> Manifest:
        content = self._origin.manifest(pointer.manifest)
        try:
            manifest = _manifest.decode(content)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise FollowingFailed(
                "manifest_refused", f"the manifest cannot be read: {error}"
            ) from error
        if manifest.format != FORMAT or manifest.id != pointer.id:
            raise FollowingFailed(
                "manifest_refused",
                f"the manifest describes {manifest.id} in format {manifest.format}, "
                f"not {pointer.id} in format {FORMAT}",
            )
        if copy_manifest(manifest) != content:
            raise FollowingFailed(
                "manifest_refused",
                "the manifest has members that this release of Ratecard does not know; upgrade",
            )
        check_manifest(manifest)
        return manifest

    def _is_served(self, pointer: Pointer) -> bool:
        return self._served_id() == pointer.id and self._is_kept(pointer)

    def _served_id(self) -> str:
        try:
            return read_current(self._artifacts).id
        except SnapshotUnavailable:
            return ""

    def _is_kept(self, pointer: Pointer) -> bool:
        """Return whether the snapshot of a pointer is on disk, whole."""
        verified = pointer.manifest, states_below(self._artifacts / SNAPSHOTS / pointer.id)
        if verified == self._verified:
            return True
        try:
            manifest = verify(self._artifacts / SNAPSHOTS / pointer.id)
        except SnapshotUnavailable:
            return False
        if hashlib.sha256(copy_manifest(manifest)).hexdigest() != pointer.manifest:
            return False
        self._verified = verified
        return True

    def _write_state(self) -> None:
        """Replace the state on disk: a power cut leaves this one or the one before."""
        self.state.bytes += self._origin.take_bytes()
        content = msgspec.json.format(msgspec.json.encode(self.state), indent=2)
        path = self._artifacts / FOLLOWING
        replace_durably(path, content, path.with_name(f"{FOLLOWING}.new"))


def _is_lost(state: Following) -> bool:
    """Return whether a state was written after a damaged one, and has no serial for that reason."""
    return state.error is not None and state.error.code == STATE_DAMAGED
