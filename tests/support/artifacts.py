"""Published snapshots, ways to damage their files, and the reports of builds."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

from service.snapshot.snapshot import open_snapshot
from tests.support.running import Json

STAGES = {
    "compare with the last build",
    "read",
    "merge",
    "count the payments",
    "write the services",
    "write the resources",
    "derive",
    "index",
    "learn when nothing fits",
    "make the downloads",
    "publish",
    "write the Whoosh index",
}
"""The stages of a build with payments."""


def snapshots(artifacts: Path) -> set[str]:
    """Return the ids of the snapshots on disk."""
    return {path.name for path in (artifacts / "snapshots").iterdir()}


def current(artifacts: Path) -> str:
    """Return the id of the published snapshot."""
    return (artifacts / "CURRENT").read_text().strip()


def folder(artifacts: Path) -> Path:
    """Return the folder of the published snapshot."""
    return artifacts / "snapshots" / current(artifacts)


def disk_usage(artifacts: Path) -> int:
    """Return the bytes of all files in a folder; a file with several hard links counts once."""
    states = (path.stat() for path in artifacts.rglob("*") if path.is_file())
    return sum({(state.st_dev, state.st_ino): state.st_size for state in states}.values())


def inodes(folder: Path) -> dict[str, int]:
    """Return the inodes of a folder and of all that is in it."""
    paths = (folder, *folder.rglob("*"))
    return {str(path.relative_to(folder)): path.stat().st_ino for path in paths}


def flip_a_bit(path: Path) -> None:
    """Damage a file without changing its size."""
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "zeros": lambda content: bytes(len(content)),
    "ones": lambda content: b"\xff" * len(content),
    "digits": lambda content: content.translate(bytes.maketrans(b"0123456789", b"1234567890")),
    "brackets": lambda content: content.translate(bytes.maketrans(b'{}[]()"', b"[]{}{}'")),
    "shifted": lambda content: content[1:] + content[:1],
}
"""Ways to damage a file without changing its size."""


def listed(artifacts: Path) -> list[Json]:
    """Return the services of the published snapshot, in listing order."""
    snapshot = open_snapshot(artifacts)
    return [json.loads(snapshot.find(each) or b"null") for each in snapshot.list(200).ids]


def records_of(artifacts: Path) -> dict[str, Json]:
    """Return all services of the published snapshot as they are stored, by their ids."""
    records = json.loads(b"[%b]" % (folder(artifacts) / "records.json").read_bytes())
    return {each["id"]: each for each in records}


def ids(artifacts: Path) -> list[str]:
    return [each["id"] for each in listed(artifacts)]


def reported(captured: pytest.CaptureFixture[str]) -> Json:
    """Return the JSON report of the last build."""
    report: Json = json.loads(captured.readouterr().out.splitlines()[-1])
    return report


def overlays(tmp_path: Path, patches: Any) -> tuple[str, str]:
    """Write an overlay file, and return the options of a build for it."""
    path = tmp_path / "overlay.json"
    path.write_text(json.dumps(patches))
    return ("--overlay", str(path))


def decompressed(frame: bytes) -> bytes:
    """Return the content of zstd frames."""
    return zstd.decompress(frame)
