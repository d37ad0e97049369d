"""Patches: a file made from an earlier one by zstd, which has the earlier file as prefix."""

from __future__ import annotations

from pathlib import Path

from service.publishing.frames import Buffer


def make_patch(base: Path, target: Path) -> bytes:
    """Return what `apply_patch` makes a file from an earlier one with."""
    raise NotImplementedError


def apply_patch(base: Path, patch: Buffer, target: Path, size: int) -> None:
    """Make a file of `size` bytes, never more, from an earlier one and a patch.

    Raises FrameDamaged or OSError. The caller compares the hash of the file: an earlier file that
    is not the one that the patch was made from makes another file.
    """
    raise NotImplementedError
