"""The manifest of a snapshot, and the verification of its files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from service.arrays.files import sha256
from service.errors import REBUILD, SnapshotDamaged, SnapshotUnsupported
from service.schema.status import Counts
from service.schema.values import GivenTime, Whole

FORMAT = 17
"""Version of the files of a snapshot: raise it when an older service could not read them."""
MANIFEST = "manifest.json"
ID_DIGITS = 20


FileName = Annotated[
    str,
    Meta(pattern=r"\A(?:[A-Za-z0-9_-][A-Za-z0-9._-]*(?:/(?!\Z)|\Z))+\Z", max_length=64),
]
"""A path in the folder: the manifest of a copy must not lead out of it, as `/dev/zero` does."""


class File(Struct):
    """The size and the SHA-256 of a file."""

    bytes: Whole
    sha256: str


class Source(Struct):
    """The counts of records of one source."""

    name: str
    records: int
    rejected: int


class BuildInputs(Struct, frozen=True):
    """The inputs of a build: a later one with the same makes the same snapshot.

    settings: hash of the options, and of the names and sizes of the sources
    sources: hash of the contents of the sources
    program: hash of the code
    versions: of Python and of the dependencies
    """

    settings: str
    sources: str
    program: str
    versions: dict[str, str]


class Manifest(Struct):
    """The description of a snapshot, written last: a folder that has it is complete.

    id: hash of the hashes of all files, as `identify` returns it
    files: each file by its path in the folder, but for the manifest
    denials: hashes of the denials that the build applied, sorted
    encoder: name of the encoder of the vectors, empty without vectors: its kind, a blank and a hash
    threshold: the least score of a first row that fits a query of very many words, None in a
        catalogue too small to learn one
    inputs: None in a copy, and where a later build of the same inputs may differ
    """

    format: int
    id: str
    built_at: GivenTime
    counts: Counts
    sources: list[Source]
    files: dict[FileName, File]
    denials: list[str] = []
    encoder: str = ""
    threshold: Annotated[float, Meta(ge=0.01, le=10_000)] | None = None
    inputs: BuildInputs | None = None


class _Format(Struct):
    """The part of a manifest that every format has."""

    format: int


_format = msgspec.json.Decoder(_Format)
_manifest = msgspec.json.Decoder(Manifest)


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a snapshot folder; raises SnapshotDamaged or SnapshotUnsupported."""
    path = folder / MANIFEST
    try:
        text = path.read_bytes()
        version = _format.decode(text).format
        if version != FORMAT:
            remedy = " and needs an update" if version > FORMAT else f"; {REBUILD}"
            raise SnapshotUnsupported(
                f"{path} has format {version}, this version reads format {FORMAT}{remedy}"
            )
        return _manifest.decode(text)
    except OSError as error:
        raise SnapshotDamaged(f"{path} cannot be read: {error.strerror}; {REBUILD}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise SnapshotDamaged(f"{path} is not a manifest: {error}; {REBUILD}") from error


def identify(files: Mapping[str, File]) -> str:
    """Return the id of a snapshot of these files: the same id is the same bytes."""
    lines = [f"{name} {file.sha256}" for name, file in sorted(files.items())]
    digest = hashlib.sha256("\n".join([str(FORMAT), *lines]).encode())
    return digest.hexdigest()[:ID_DIGITS]


def list_files(folder: Path) -> dict[str, File]:
    """Return each file of a folder by its path in it."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): hash_file(path) for path in paths}


def verify(folder: Path) -> Manifest:
    """Check every file of a snapshot against its size and hash; raises SnapshotUnavailable.

    100,000 services are some 330 MB, a quarter of a second.
    """
    manifest = read_manifest(folder)
    if manifest.id != folder.name:
        raise SnapshotDamaged(f"{folder} holds the snapshot {manifest.id}; {REBUILD}")
    if identify(manifest.files) != manifest.id:
        raise SnapshotDamaged(f"{folder / MANIFEST} names other files than its id; {REBUILD}")
    check_files(folder, manifest.files)
    return manifest


def check_files(folder: Path, files: Mapping[str, File]) -> None:
    """Check files against their sizes and hashes; raises SnapshotDamaged."""
    for name, file in files.items():
        path = folder / name
        try:
            size = path.stat().st_size
            if size != file.bytes:
                raise SnapshotDamaged(f"{path} has {size} bytes, not {file.bytes}; {REBUILD}")
            if sha256(path) != file.sha256:
                raise SnapshotDamaged(f"{path} is not what was published; {REBUILD}")
        except OSError as error:
            raise SnapshotDamaged(f"{path} cannot be read: {error.strerror}; {REBUILD}") from error


def hash_file(path: Path) -> File:
    """Return the size and the hash of a file."""
    return File(path.stat().st_size, sha256(path))
