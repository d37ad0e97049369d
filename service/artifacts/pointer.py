"""The pointer: a small file that says which snapshot is published, possibly signed.

    {"pointer": "<the JSON text of a Pointer>", "signature": "<hex>" or null}

The signature is Ed25519 over the bytes of that text, so that nobody has to encode it alike
(`service.replicas.signatures`).
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

SnapshotId = Annotated[str, Meta(pattern=r"^[0-9a-f]{20}$(?!\n)")]
Sha256 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$(?!\n)")]


class Copy(Struct, frozen=True):
    """A snapshot, and the SHA-256 of the manifest of its copies."""

    id: SnapshotId
    manifest: Sha256


class Pointer(Struct, frozen=True, kw_only=True):
    """A publication; each has a higher serial than the one before, also a rollback.

    `kept` are the snapshots that can be fetched, newest first, this one included. The serial is 0
    where a service names what it serves, without a publication.
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
