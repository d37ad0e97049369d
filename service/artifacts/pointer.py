"""The pointer: a small file that says which snapshot is published, possibly signed.

    {"pointer": "<the JSON text of a Pointer>", "signature": "<hex>" or null}

The signature is Ed25519 over the bytes of that text, so that nobody has to encode it alike
(`service.artifacts.signatures`).
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta, Struct

from service.schema.snapshots import SnapshotId
from service.snapshot.manifest import FORMAT

Sha256 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$(?!\n)")]


class Patches(Struct, frozen=True):
    """The snapshot that patches start from, and the SHA-256 of the list of their pieces."""

    base: SnapshotId
    index: Sha256


class Copy(Struct, frozen=True, omit_defaults=True):
    """A snapshot, the SHA-256 of the manifest of its copies, and the patches that make it."""

    id: SnapshotId
    manifest: Sha256
    patches: Patches | None = None


class Pointer(Struct, frozen=True, kw_only=True):
    """A publication; each has a higher serial than the one before, also a rollback.

    `kept` are the snapshots that can be fetched, newest first, this one included.
    """

    format: int
    id: SnapshotId
    manifest: Sha256
    serial: Annotated[int, Meta(ge=0)]
    published_at: Annotated[datetime, Meta(tz=True)]
    kept: list[Copy] = []


class PointerFile(Struct, frozen=True):
    """The content of the file."""

    pointer: str
    signature: str | None = None


pointer_decoder = msgspec.json.Decoder(Pointer)
pointer_file_decoder = msgspec.json.Decoder(PointerFile)


class ReadPointer(NamedTuple):
    """A pointer, and the content of its file."""

    pointer: Pointer
    is_signed: bool
    content: bytes


def read_publication(path: Path) -> ReadPointer | None:
    """Read a pointer to a snapshot of this format; None where the file is absent or damaged."""
    try:
        content = path.read_bytes()
        file = pointer_file_decoder.decode(content)
        pointer = pointer_decoder.decode(file.pointer)
    except (OSError, msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return ReadPointer(pointer, bool(file.signature), content) if pointer.format == FORMAT else None
