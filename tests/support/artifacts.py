"""The folders of published snapshots, and ways to damage their files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def snapshots(artifacts: Path) -> set[str]:
    return {path.name for path in (artifacts / "snapshots").iterdir()}


def folder(artifacts: Path) -> Path:
    return artifacts / "snapshots" / (artifacts / "CURRENT").read_text().strip()


HARMS: dict[str, Callable[[bytes], bytes]] = {
    "zeros": lambda content: bytes(len(content)),
    "ones": lambda content: b"\xff" * len(content),
    "digits": lambda content: content.translate(bytes.maketrans(b"0123456789", b"1234567890")),
    "brackets": lambda content: content.translate(bytes.maketrans(b'{}[]()"', b"[]{}{}'")),
    "shifted": lambda content: content[1:] + content[:1],
}
