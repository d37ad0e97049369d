"""Fetching the files of a snapshot: from kept snapshots, by patches, and by their sections.

    artifacts/incoming/<sha256>               a file or a section of one, verified
    artifacts/incoming/<sha256>.zst           the frame of a section, as far as it was fetched
    artifacts/incoming/<from>-<to>.patches    the patches from a kept snapshot, likewise

The folder survives a restart, so that what was fetched is not fetched again. A file is used after
its size and its hash were compared with the manifest, wherever it comes from.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path, PurePosixPath

from service.artifacts.downloads import PatchPiece
from service.artifacts.folder import read_kept
from service.artifacts.pointer import Patches
from service.errors import DownloadDamaged, FollowingFailed
from service.publishing.durable import link
from service.publishing.frames import cut, longest_frame, unpack
from service.publishing.patches import MAX_SECTIONS, apply_patch
from service.replicas.origin import FILE_MISSING, Origin
from service.snapshot.manifest import MANIFEST, File, Manifest, is_whole, sha256
from service.storage.memory_map import open_bytes

INCOMING = "incoming"
CONNECTIONS = 4
"""Sections that are fetched at a time."""
PATCHING = 2
"""Files that are patched at a time: each takes up to some 120 MB of memory."""
SPARE = 64 << 20
"""Bytes that stay free on the disk."""
MAX_FILES = 10_000

_name = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}")
_hash = re.compile(r"[0-9a-f]{64}")
_log = logging.getLogger(__name__)


def check_manifest(manifest: Manifest) -> None:
    """Check that no path leaves the folder of the snapshot; raises FollowingFailed."""
    if len(manifest.files) > MAX_FILES:
        raise FollowingFailed("manifest_refused", f"the manifest names more than {MAX_FILES} files")
    for path, file in manifest.files.items():
        if path == MANIFEST or not all(map(_name.fullmatch, path.split("/"))):
            raise FollowingFailed("manifest_refused", f"the manifest has the path {path[:100]!a}")
        if file.bytes < 0 or not _hash.fullmatch(file.sha256):
            raise FollowingFailed(
                "manifest_refused", f"the manifest has no size or SHA-256 of {path}"
            )
        if any(parent.as_posix() in manifest.files for parent in PurePosixPath(path).parents):
            raise FollowingFailed(
                "manifest_refused", f"the manifest has a file within the file of {path}"
            )


class Fetch:
    """Fetches the files of one snapshot to `incoming/`.

    digest, patches: SHA-256 of the manifest, and the patches, that the pointer names
    """

    def __init__(
        self,
        artifacts: Path,
        origin: Origin,
        manifest: Manifest,
        digest: str,
        patches: Patches | None = None,
    ) -> None:
        self._artifacts = artifacts
        self._incoming = artifacts / INCOMING
        self._origin = origin
        self._manifest = manifest
        self._digest = digest
        self._sizes = {file.sha256: file.bytes for file in manifest.files.values()}
        self._paths = {file.sha256: path for path, file in manifest.files.items()}
        self._sections: Mapping[str, list[File]] = {}
        # Published snapshots first: their files win over those of withdrawn ones.
        self._kept = read_kept(artifacts).snapshots
        self._published_patches = patches
        self._patches: Mapping[str, list[PatchPiece]] = {}
        self._base = self._patch_file = Path()

    def run(self, target: Path) -> None:
        """Make the folder of the snapshot, without its manifest.

        Raises FollowingFailed or OSError; what was fetched stays for the next attempt.
        """
        self._incoming.mkdir(exist_ok=True)
        missing = self._link_kept()
        if missing:
            self._list_sections(missing)
            self._tidy()
            self._check_space(missing)
            self._fetch_patches(missing)
            self._make_files(missing)
        for path, file in self._manifest.files.items():
            place = target / path
            place.parent.mkdir(parents=True, exist_ok=True)
            link(self._incoming / file.sha256, place)

    def _link_kept(self) -> list[str]:
        """Link files that a kept snapshot has; return the hashes of the files to get.

        Removes incomplete files of an earlier attempt.
        """
        places = {
            file.sha256: kept.folder / path
            for kept in reversed(self._kept)
            for path, file in kept.manifest.files.items()
        }
        missing = []
        for digest in self._sizes:
            target, place = self._incoming / digest, places.get(digest)
            if not self._is_whole(target, digest):
                target.unlink(missing_ok=True)
                if place is not None and self._is_whole(place, digest):
                    link(place, target)
                else:
                    missing.append(digest)
        return missing

    def _list_sections(self, missing: Iterable[str]) -> None:
        """Ask for the sections of the missing files; raises FollowingFailed."""
        listed = self._origin.sections(self._digest)
        self._sections = {digest: listed.get(self._paths[digest], []) for digest in missing}
        for digest, sections in self._sections.items():
            path, sizes = self._paths[digest], [section.bytes for section in sections]
            if (
                len(sizes) > MAX_SECTIONS
                or min(sizes, default=0) < 0
                or sum(sizes) != self._sizes[digest]
                or not all(_hash.fullmatch(section.sha256) for section in sections)
            ):
                raise FollowingFailed("file_refused", f"{path} has no valid list of sections")
            for section in sections:
                self._sizes.setdefault(section.sha256, section.bytes)
                self._paths.setdefault(section.sha256, path)

    def _tidy(self) -> None:
        """Remove what this snapshot does not need."""
        needed = {*self._sizes, *(f"{digest}.zst" for digest in self._sizes)}
        for path in self._incoming.iterdir():
            if path.name not in needed and not path.name.endswith(f"-{self._manifest.id}.patches"):
                path.unlink()

    def _check_space(self, missing: Iterable[str]) -> None:
        sizes = [self._sizes[digest] for digest in missing]
        needed = sum(sizes) + max(sizes) + SPARE  # a file stands beside its sections while joined
        free = shutil.disk_usage(self._artifacts).free
        if needed > free:
            raise FollowingFailed(
                "disk_full",
                f"{self._artifacts} has {free} bytes free, and the snapshot {self._manifest.id} "
                f"needs {needed}; make room",
            )

    def _fetch_patches(self, missing: Iterable[str]) -> None:
        """Fetch the patches that the pointer names, if a kept snapshot is their base.

        Where the patches are missing or refused, whole files are fetched instead.
        """
        for kept in self._kept:
            if self._published_patches is not None and self._published_patches.base == kept.id:
                paths = {self._paths[digest] for digest in missing} & kept.manifest.files.keys()
                try:
                    self._fetch_patches_from(kept.folder, self._published_patches, paths)
                except FollowingFailed as error:
                    if error.code not in ("file_refused", FILE_MISSING):
                        raise
                    _log.warning("no patches are used: %s", error)

    def _fetch_patches_from(self, base: Path, named: Patches, paths: AbstractSet[str]) -> None:
        """Fetch the patches of these files from a kept snapshot, if the origin has them."""
        index = self._origin.patches(named, self._manifest.id)
        if index is None or not paths & index.patches.keys():
            return
        file = self._incoming / f"{base.name}-{self._manifest.id}.patches"
        limit = sum(file.bytes for file in self._manifest.files.values())
        key = f"patches/{base.name}-{self._manifest.id}.zst"
        self._origin.download(key, file, limit)
        if sha256(file) != index.file.sha256:
            file.unlink()
            raise FollowingFailed(
                "file_refused", f"the patches from {base.name} have another SHA-256"
            )
        self._base, self._patch_file = base, file
        self._patches = {path: index.patches[path] for path in paths & index.patches.keys()}

    def _make_files(self, missing: list[str]) -> None:
        """Patch the missing files, and make the others of their sections."""
        with ThreadPoolExecutor(PATCHING, "patch") as pool:
            patched = pool.map(self._patch, missing)
            left = [digest for digest, made in zip(missing, patched, strict=True) if not made]
        self._copy_kept(left)
        users = Counter(section.sha256 for digest in left for section in self._sections[digest])
        with ThreadPoolExecutor(CONNECTIONS, "fetch") as pool:
            largest = sorted(users, key=self._sizes.__getitem__, reverse=True)
            for _ in pool.map(self._fetch_section, largest):  # raises the first error
                pass
        users.update(file.sha256 for file in self._manifest.files.values())
        for digest in left:
            self._join(digest, users)

    def _copy_kept(self, digests: Iterable[str]) -> None:
        """Copy the sections of files that kept snapshots have in the files of their paths."""
        for digest in digests:
            path = self._paths[digest]
            wanted = {section.sha256 for section in self._sections[digest]} - {digest}
            for kept in self._kept if wanted else ():
                if path in kept.manifest.files:
                    content = memoryview(open_bytes(kept.folder / path))
                    for section in (content[start:stop] for start, stop in cut(content)):
                        found = hashlib.sha256(section).hexdigest()
                        if found in wanted:
                            self._accept(found, partial(Path.write_bytes, data=section))

    def _fetch_section(self, digest: str) -> None:
        """Fetch a section; a second time if the frame of an earlier attempt was continued.

        The parts of such a frame may be of two frames of the section.
        """
        size = self._sizes[digest]
        if self._is_whole(self._incoming / digest, digest):
            return
        frame = self._incoming / f"{digest}.zst"
        for _ in range(2 if frame.exists() else 1):
            self._origin.download(f"sections/{digest}.zst", frame, longest_frame(size))
            reason = self._accept(digest, lambda fresh: unpack(open_bytes(frame), fresh, size))
            frame.unlink()
            if not reason:
                return
        raise self._refused(digest, reason)

    def _join(self, digest: str, users: Counter[str]) -> None:
        """Make a file of its sections, removing each after its last use."""
        sections = [section.sha256 for section in self._sections[digest]]
        if sections == [digest]:
            return

        def make(fresh: Path) -> None:
            with fresh.open("wb") as file:
                for section in sections:
                    place = self._incoming / section
                    file.write(open_bytes(place))
                    users[section] -= 1
                    if not users[section]:
                        place.unlink()

        if reason := self._accept(digest, make):
            raise self._refused(digest, reason)

    def _refused(self, digest: str, reason: str) -> FollowingFailed:
        message = f"{self._paths[digest]} of {self._manifest.id}: {reason}"
        return FollowingFailed("file_refused", message)

    def _patch(self, digest: str) -> bool:
        """Patch a file of a kept snapshot; return whether there was a patch, and it applied."""
        path, size = self._paths[digest], self._sizes[digest]
        if path not in self._patches:
            return False
        base, frames = self._base / path, open_bytes(self._patch_file)
        pieces = self._patches[path]
        reason = self._accept(digest, lambda fresh: apply_patch(base, pieces, frames, fresh, size))
        if reason:
            _log.warning("%s of %s is fetched whole: %s", path, self._manifest.id, reason)
        return not reason

    def _accept(self, digest: str, make: Callable[[Path], object]) -> str:
        """Make a file, and keep it if it has the hash; return its fault otherwise."""
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
        return is_whole(path, File(self._sizes[digest], digest))
