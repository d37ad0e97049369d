"""Writing and flushing files, so that they survive a power cut; hard links."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def sync(path: Path) -> None:
    """Flush a file or a folder to the disk: a folder's entries are its content."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(path: Path) -> None:
    """Make a folder and the missing ones above it, with entries that survive a power cut."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
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
