"""The fingerprint of a build: a hash of its inputs, its settings and the code that reads them."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache, cached_property
from importlib import metadata
from pathlib import Path

import msgspec

import indexer
import service
from indexer.intake.lists import STANDARD_INPUT
from indexer.intake.sources import Inputs
from indexer.text import printable
from service.snapshot.manifest import BuildInputs

DEPENDENCIES = (
    *("duckdb", "idna", "msgspec", "numpy", "publicsuffixlist"),
    *("whoosh3", "Whoosh-Reloaded", "Whoosh"),  # distributions of one import name
)
"""Distributions whose versions can change what a build makes of the same inputs."""


class Fingerprint:
    """The inputs of a build; the contents of the sources are hashed when they are asked for.

    settings: hash of the options (encodable by msgspec), and of names and sizes of the sources
    """

    def __init__(self, inputs: Inputs, settings: object) -> None:
        names = [source.name for source in inputs.sources]
        kinds = (inputs.sources, inputs.payments, inputs.overlays, inputs.probes)
        self._paths = {each.name: each.path for each in inputs.all}
        self._states = {path: _state(path) for path in inputs.paths}
        sizes = [self._states[path][2:3] for path in inputs.paths]
        outline = msgspec.json.encode([settings, names, [len(kind) for kind in kinds], sizes])
        self.settings = hashlib.sha256(outline).hexdigest()

    def inputs(self) -> BuildInputs | None:
        """Return the inputs, None if one has changed since it was found, or is read only once."""
        digest = hashlib.sha256()
        for path, state in self._states.items():
            if path not in self._contents or state != _state(path):
                return None
            digest.update(f"{printable(path)} {self._contents[path]}\n".encode())
        return BuildInputs(self.settings, digest.hexdigest(), hash_own_code(), program_versions())

    def contents(self) -> dict[str, str]:
        """Return the hashes of inputs by name, without those that `inputs` returns None for."""
        return {
            name: self._contents[path]
            for name, path in self._paths.items()
            if path in self._contents and self._states[path] == _state(path)
        }

    @cached_property
    def _contents(self) -> dict[str, str]:
        """The hashes of regular files by path."""
        return {path: hashed for path in self._states if (hashed := _hash_file(path))}


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


def _hash_file(path: str) -> str:
    """Hash a regular file by BLAKE2b, which is faster than SHA-256 in software; "" for another."""
    with suppress(OSError):
        if path != STANDARD_INPUT and Path(path).is_file():
            with Path(path).open("rb", buffering=0) as file:
                return hashlib.file_digest(file, hashlib.blake2b).hexdigest()
    return ""


def _state(path: str) -> tuple[int, ...]:
    """Return the attributes of a file that change when its content does; none if it is gone."""
    try:
        stat = Path(path).stat()
    except OSError:
        return ()
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns
