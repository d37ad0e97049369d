"""Fetching the files of a snapshot: from kept snapshots, by patches, and whole.

    artifacts/incoming/<sha256>               a file, verified
    artifacts/incoming/<sha256>.zst           the frame of a file, as far as it was fetched
    artifacts/incoming/<from>-<to>.patches    the patches from a kept snapshot, likewise

The folder survives a restart, so that what was fetched is not fetched again. A file is used after
its size and its hash were compared with the manifest, wherever it comes from.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path, PurePosixPath
from threading import Semaphore

from service.artifacts.downloads import Frame
from service.errors import DownloadDamaged, SnapshotUnavailable
from service.publishing.artifacts import kept_snapshots
from service.publishing.frames import map_file, unpack
from service.publishing.patches import apply_patch
from service.replicas.failures import FollowingFailed
from service.replicas.origin import Origin
from service.snapshot.manifest import MANIFEST, Manifest, read_manifest, sha256
from service.snapshot.publication import SNAPSHOTS

INCOMING = "incoming"
CONNECTIONS = 4
"""Files that are fetched at a time."""
PATCHING = 2
"""Files that are patched at a time: each takes up to some 250 MB of memory."""
SPARE = 64 << 20
"""Bytes that stay free on the disk."""
MAX_FILES = 10_000

_name = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}")
_hash = re.compile(r"[0-9a-f]{64}")
_log = logging.getLogger(__name__)


def check_manifest(manifest: Manifest) -> None:
    """Check that no path leaves the folder of the snapshot; raises FollowingFailed."""
    if len(manifest.files) > MAX_FILES:
        raise FollowingFailed("manifest_refused", f"it names more than {MAX_FILES} files")
    for path, file in manifest.files.items():
        if path == MANIFEST or not all(map(_name.fullmatch, path.split("/"))):
            raise FollowingFailed("manifest_refused", f"it has the path {path[:100]!a}")
        if file.bytes < 0 or not _hash.fullmatch(file.sha256):
            raise FollowingFailed("manifest_refused", f"it has no size or SHA-256 of {path}")
        if any(parent.as_posix() in manifest.files for parent in PurePosixPath(path).parents):
            raise FollowingFailed("manifest_refused", f"it has a file within the file of {path}")


class Fetch:
    """Fetches the files of one snapshot to `incoming/`."""

    def __init__(self, artifacts: Path, origin: Origin, manifest: Manifest) -> None:
        self._artifacts = artifacts
        self._incoming = artifacts / INCOMING
        self._origin = origin
        self._manifest = manifest
        self._sizes = {file.sha256: file.bytes for file in manifest.files.values()}
        self._paths = {file.sha256: path for path, file in manifest.files.items()}
        self._kept = _read_kept(artifacts)
        self._patches: Mapping[str, Frame] = {}
        self._base = self._patch_file = Path()
        self._patching = Semaphore(PATCHING)

    def run(self, target: Path) -> None:
        """Make the folder of the snapshot, without its manifest.

        Raises FollowingFailed or OSError; what was fetched stays for the next attempt.
        """
        self._incoming.mkdir(exist_ok=True)
        missing = self._link_kept(self._tidy())
        self._check_space(missing)
        if missing:
            self._fetch_patches(missing)
            self._fetch_files(missing)
        for path, file in self._manifest.files.items():
            place = target / path
            place.parent.mkdir(parents=True, exist_ok=True)
            link(self._incoming / file.sha256, place)

    def _tidy(self) -> list[str]:
        """Remove what this snapshot does not need; return the hashes of the files to get."""
        present = set()
        for path in self._incoming.iterdir():
            if path.name in self._sizes and self._is_whole(path, path.name):
                present.add(path.name)
            elif not self._is_partial(path):
                path.unlink()
        return [digest for digest in self._sizes if digest not in present]

    def _is_partial(self, path: Path) -> bool:
        if path.suffix == ".zst":
            return path.stem in self._sizes
        return path.name.endswith(f"-{self._manifest.id}.patches")

    def _link_kept(self, missing: Iterable[str]) -> list[str]:
        """Link files that a kept snapshot has; return the hashes of the others."""
        places = {
            file.sha256: folder / path
            for folder, manifest in reversed(self._kept)
            for path, file in manifest.files.items()
        }
        left = []
        for digest in missing:
            place = places.get(digest)
            if place is not None and self._is_whole(place, digest):
                link(place, self._incoming / digest)
            else:
                left.append(digest)
        return left

    def _check_space(self, missing: Iterable[str]) -> None:
        needed = sum(self._sizes[digest] for digest in missing) + SPARE
        free = shutil.disk_usage(self._artifacts).free
        if needed > free:
            raise FollowingFailed(
                "disk_full",
                f"{self._artifacts} has {free} bytes free, and the snapshot {self._manifest.id} "
                f"needs {needed}; make room",
            )

    def _fetch_patches(self, missing: Iterable[str]) -> None:
        """Fetch the patches from the first kept snapshot from which the origin has some.

        Patches that cannot be had are no reason to fail: whole files do as well.
        """
        paths = {self._paths[digest] for digest in missing}
        for folder, manifest in self._kept:
            if folder.name == self._manifest.id:
                continue
            try:
                if self._fetch_patches_from(folder, paths & manifest.files.keys()):
                    return
            except FollowingFailed as error:
                if error.code not in ("file_refused", "file_missing"):
                    raise
                _log.warning("no patches are used: %s", error)

    def _fetch_patches_from(self, base: Path, paths: AbstractSet[str]) -> bool:
        """Fetch the patches of these files from a kept snapshot; return whether there are some."""
        pair = base.name, self._manifest.id
        patches = self._origin.patches(*pair)
        usable = patches.keys() & paths
        if not usable:
            return False
        end = max(patch.offset + patch.bytes for patch in patches.values())
        if end > sum(self._sizes.values()):
            raise FollowingFailed("file_refused", f"those from {base.name} exceed the snapshot")
        file = self._incoming / f"{base.name}-{self._manifest.id}.patches"
        self._origin.download_patches(*pair, file, end)
        self._base, self._patch_file = base, file
        self._patches = {path: patches[path] for path in usable}
        return True

    def _fetch_files(self, missing: Iterable[str]) -> None:
        with ThreadPoolExecutor(CONNECTIONS, "fetch") as pool:
            largest = sorted(missing, key=self._sizes.__getitem__, reverse=True)
            futures = [pool.submit(self._fetch_file, digest) for digest in largest]
            try:
                for future in futures:
                    future.result()
            finally:
                pool.shutdown(cancel_futures=True)

    def _fetch_file(self, digest: str) -> None:
        path, size = self._paths[digest], self._sizes[digest]
        if path in self._patches and self._patch(digest, path):
            return
        frame = self._incoming / f"{digest}.zst"
        was_begun = frame.exists()
        reason = self._fetch_frame(digest, frame, size)
        if reason and was_begun:  # the parts may be of two frames of the same file
            reason = self._fetch_frame(digest, frame, size)
        if reason:
            raise FollowingFailed("file_refused", f"{path} of {self._manifest.id}: {reason}")

    def _fetch_frame(self, digest: str, frame: Path, size: int) -> str:
        """Fetch a file whole; return what is wrong with it."""
        limit = size + (size >> 7) + (1 << 16)  # more than zstd makes of incompressible bytes
        self._origin.download_object(digest, frame, limit)
        reason = self._accept(digest, lambda fresh: unpack(map_file(frame), fresh, size))
        frame.unlink()
        return reason

    def _patch(self, digest: str, path: str) -> bool:
        """Make a file from that of a kept snapshot; return whether it is what it should be."""
        base, range_ = self._base / path, self._patches[path]
        patches = memoryview(map_file(self._patch_file))
        patch = patches[range_.offset : range_.offset + range_.bytes]
        size = self._sizes[digest]
        with self._patching:
            reason = self._accept(digest, lambda fresh: apply_patch(base, patch, fresh, size))
        if reason:
            _log.warning("%s of %s is fetched whole: %s", path, self._manifest.id, reason)
        return not reason

    def _accept(self, digest: str, make: Callable[[Path], None]) -> str:
        """Make a file, and keep it if it has the hash; return what is wrong otherwise."""
        fresh = self._incoming / f"{digest}.new"
        try:
            make(fresh)
        except DownloadDamaged as error:
            reason = str(error)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            reason = str(error)
        else:
            reason = "its SHA-256 is not that of the manifest"
            if self._is_whole(fresh, digest):
                fresh.replace(self._incoming / digest)
                return ""
        fresh.unlink(missing_ok=True)
        return reason

    def _is_whole(self, path: Path, digest: str) -> bool:
        size = self._sizes[digest]
        with suppress(OSError):
            return path.stat().st_size == size and sha256(path) == digest
        return False


def link(source: Path, target: Path) -> None:
    """Link a file, or copy it where the file system has no hard links, or none to spare."""
    try:
        os.link(source, target)
    except FileExistsError:
        raise
    except OSError:
        shutil.copyfile(source, target)


def _read_kept(artifacts: Path) -> list[tuple[Path, Manifest]]:
    """Return the folders of the kept snapshots with their manifests: the served one first."""
    kept = []
    for snapshot_id in kept_snapshots(artifacts):
        folder = artifacts / SNAPSHOTS / snapshot_id
        with suppress(SnapshotUnavailable):
            kept.append((folder, read_manifest(folder)))
    return kept
