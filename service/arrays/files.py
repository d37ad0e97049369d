"""Files: hashed, written so that they survive a power cut, linked, decoded, compressed."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from itertools import chain, takewhile
from pathlib import Path
from typing import TypeVar

import msgspec

if sys.version_info >= (3, 14):
    from compression import zstd as zstd  # noqa: PLC0414  # exported
else:
    from backports import zstd as zstd  # noqa: PLC0414  # exported

T = TypeVar("T")


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_json(path: Path, kind: type[T]) -> T | None:
    """Decode a file; None where it is absent or damaged."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def sync(path: Path) -> None:
    """Flush a file or a folder to the disk: a folder's entries are its content."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(path: Path) -> None:
    """Make a folder and the missing ones above it, with entries that survive a power cut."""
    missing = [*takewhile(lambda each: not each.exists(), chain([path], path.parents))]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        sync(folder.parent)


def write_durably(path: Path, content: bytes) -> None:
    """Write a file and flush its content; the caller flushes the folder that names it."""
    path.write_bytes(content)
    sync(path)


def replace_durably(path: Path, content: bytes, draft: Path) -> None:
    """Replace a file: a power cut leaves the earlier one or the new one, and perhaps the draft."""
    write_durably(draft, content)
    draft.replace(path)
    sync(path.parent)


def link(source: Path, target: Path) -> None:
    """Link a file, or copy it where the file system has no hard links, or none to spare."""
    try:
        os.link(source, target)
    except FileExistsError:
        raise
    except OSError:
        shutil.copyfile(source, target)
