"""The fingerprint of a build: a hash of its inputs, its settings and the code that reads them."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from threading import Event

import msgspec

import indexer
import service
from indexer.errors import SourceError
from indexer.intake.lists import STANDARD_INPUT
from indexer.intake.sources import Inputs
from indexer.processes.pool import wait_for
from indexer.text import printable
from service.snapshot.manifest import BuildInputs

DEPENDENCIES = (
    *("duckdb", "idna", "msgspec", "numpy", "publicsuffixlist"),
    *("whoosh3", "Whoosh-Reloaded", "Whoosh"),  # distributions of one import name
)
"""Distributions whose versions can change what a build makes of the same inputs."""
CHUNK = 2**20  # bytes


FileAttributes = tuple[int, ...]
"""The attributes of a file that change when its content does."""
HashedFiles = tuple[str, dict[str, FileAttributes]]
"""A hash of the contents of files, and the state of each by its path when it was hashed."""


class Fingerprint:
    """The inputs of a build; the contents of the sources are hashed in a thread.

    settings: hash of the options, and of names and sizes of the sources; a difference is known
        before the contents are hashed
    """

    def __init__(self, settings: str, files: Future[HashedFiles]) -> None:
        self.settings = settings
        self._files = files

    def inputs(self) -> BuildInputs:
        """Return the inputs, as soon as the sources are hashed.

        Raises SourceError for a source without access.
        """
        contents, _ = wait_for(self._files)
        return BuildInputs(self.settings, contents, hash_own_code(), program_versions())

    def is_current(self) -> bool:
        """Whether the files are still those that were hashed."""
        try:
            _, states = wait_for(self._files)
            return all(_state(Path(path).stat()) == state for path, state in states.items())
        except (OSError, SourceError):
            return False


@contextmanager
def take_fingerprint(inputs: Inputs, settings: object) -> Iterator[Fingerprint | None]:
    """Hash the inputs, the settings (encodable by msgspec), the program and its dependencies.

    Yields None when an input is no regular file, and so cannot be read twice. The thread ends with
    the `with` statement.
    """
    if any(path == STANDARD_INPUT or not Path(path).is_file() for path in inputs.paths):
        yield None
        return
    names = [source.name for source in inputs.sources]
    kinds = (inputs.sources, inputs.payments, inputs.overlays, inputs.probes)
    roles = [len(kind) for kind in kinds]
    sizes = [Path(path).stat().st_size for path in inputs.paths]
    outline = msgspec.json.encode([settings, names, roles, sizes])
    is_over = Event()
    with ThreadPoolExecutor(1) as thread:
        files = thread.submit(_hash_files, inputs.paths, is_over)
        try:
            yield Fingerprint(hashlib.sha256(outline).hexdigest(), files)
        finally:
            is_over.set()


@cache
def program_versions() -> dict[str, str]:
    """Return the versions of Python and of the dependencies that are installed."""
    versions = {"Python": sys.version}
    for distribution in DEPENDENCIES:
        with suppress(metadata.PackageNotFoundError):
            versions[distribution] = metadata.version(distribution)
    return versions


def hash_program() -> str:
    """Hash the code of this program, and the versions of Python and of the dependencies."""
    return hashlib.sha256(msgspec.json.encode([program_versions(), hash_own_code()])).hexdigest()


@cache
def hash_own_code() -> str:
    """Hash the Python modules of this program."""
    return hash_code([*indexer.__path__, *service.__path__])


def hash_code(folders: Iterable[str]) -> str:
    """Hash the Python modules in these folders and the folders below."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(Path(folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _hash_files(paths: Iterable[str], is_over: Event) -> HashedFiles:
    """Hash files by BLAKE2b, which is faster than SHA-256 in software; gives up if all is over."""
    digest = hashlib.sha256()
    states: dict[str, FileAttributes] = {}
    for path in paths:
        content = hashlib.blake2b()
        try:
            with Path(path).open("rb", buffering=0) as file:
                states[path] = _state(os.fstat(file.fileno()))
                while not is_over.is_set() and (chunk := file.read(CHUNK)):
                    content.update(chunk)
        except OSError as error:
            raise SourceError(f"{path}: cannot be read: {error.strerror or error}") from error
        digest.update(f"{printable(path)} {content.hexdigest()}\n".encode())
    return digest.hexdigest(), states


def _state(stat: os.stat_result) -> FileAttributes:
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns
