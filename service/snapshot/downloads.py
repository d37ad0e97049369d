"""The downloads of a snapshot: archives of it, and patches from the snapshot before.

    artifacts/downloads/<id>/<id>.tar.zst     the files that the service reads, one zstd frame each
    artifacts/downloads/<id>/<id>.jsonl.zst   one service a line, in order of id
    artifacts/downloads/<id>/patches.zst      what makes files from those of the snapshot before
    artifacts/downloads/<id>/manifest.json    the manifest of the copy that the archive holds
    artifacts/downloads/<id>/index.json       where each frame and patch is

The index is written last: a folder that has it is complete.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
from msgspec import Struct

from service.errors import SnapshotDamaged
from service.snapshot.manifest import MANIFEST, File, Manifest, check_files, copy_manifest

DOWNLOADS = "downloads"
INDEX = "index.json"
PATCHES = "patches.zst"


class Frame(Struct, frozen=True):
    """A range of bytes in an archive or in the file of patches, and their SHA-256."""

    offset: int
    bytes: int
    sha256: str


class Download(Struct, frozen=True):
    """The index of the downloads of a snapshot: a folder that has it is complete.

    manifest: SHA-256 of the manifest of the copy, which is the first file of the archive
    archives: the two archives by name
    frames: the zstd frame of each file of the copy in the archive, by path; that of the manifest
        is among them
    base: id of the snapshot that the patches start from, empty without patches
    patches: the patch of each file that changed, by path, where it is smaller than the frame
    patch_file: the file of the patches
    jsonl_bytes: bytes of the services as lines, not compressed
    """

    id: str
    manifest: str
    archives: dict[str, File]
    frames: dict[str, Frame]
    base: str
    patches: dict[str, Frame]
    patch_file: File
    services: int
    jsonl_bytes: int


_download = msgspec.json.Decoder(Download)


def archive_name(snapshot_id: str) -> str:
    """Return the name of the archive of all files of a snapshot."""
    return f"{snapshot_id}.tar.zst"


def lines_name(snapshot_id: str) -> str:
    """Return the name of the file of all services as lines."""
    return f"{snapshot_id}.jsonl.zst"


def read_download(folder: Path) -> Download:
    """Read the index of a folder of downloads; raises SnapshotDamaged."""
    path = folder / INDEX
    try:
        return _download.decode(path.read_bytes())
    except OSError as error:
        raise SnapshotDamaged(f"{path} cannot be read: {error.strerror}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise SnapshotDamaged(f"{path} is no index of downloads: {error}") from error


def verify_downloads(folder: Path, manifest: Manifest, threads: int = 1) -> Download:
    """Check the downloads of a snapshot against their hashes; raises SnapshotDamaged."""
    download = read_download(folder)
    content = copy_manifest(manifest)
    copied = File(len(content), hashlib.sha256(content).hexdigest())
    if (download.id, download.manifest) != (manifest.id, copied.sha256):
        raise SnapshotDamaged(f"{folder} has the downloads of another snapshot")
    files = {MANIFEST: copied, PATCHES: download.patch_file, **download.archives}
    check_files(folder, files, threads)
    return download
