"""The folders of published snapshots, and ways to damage their files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def snapshots(artifacts: Path) -> set[str]:
    """Return the ids of the snapshots on disk."""
    return {path.name for path in (artifacts / "snapshots").iterdir()}


def current(artifacts: Path) -> str:
    """Return the id of the published snapshot."""
    return (artifacts / "CURRENT").read_text().strip()


def folder(artifacts: Path) -> Path:
    """Return the folder of the published snapshot."""
    return artifacts / "snapshots" / current(artifacts)


def flip_a_bit(path: Path) -> None:
    """Damage a file without changing its size."""
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


HARMS: dict[str, Callable[[bytes], bytes]] = {
    "zeros": lambda content: bytes(len(content)),
    "ones": lambda content: b"\xff" * len(content),
    "digits": lambda content: content.translate(bytes.maketrans(b"0123456789", b"1234567890")),
    "brackets": lambda content: content.translate(bytes.maketrans(b'{}[]()"', b"[]{}{}'")),
    "shifted": lambda content: content[1:] + content[:1],
}
"""Ways to damage a file without changing its size."""
