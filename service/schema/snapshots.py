"""The public schema of the served snapshot and the files that others copy."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from service.schema.status import Counts
from service.schema.values import Timestamp, Whole

SnapshotId = Annotated[
    str,
    Meta(pattern=r"^[0-9a-f]{20}$(?!\n)", description="20 hexadecimal digits in lower case."),
]


class SnapshotFile(Struct):
    """A file to copy, by its address relative to that of the answer that names it."""

    path: str
    bytes: Whole
    sha256: str


class SnapshotDescription(Struct, kw_only=True):
    """A snapshot: when it was built, and when a build last found it up to date.

    `files` are the snapshot as an archive, its services as lines in order of id, and an index of
    these lines: the id of each service and the SHA-256 of its line. Empty where they were not made.
    """

    id: SnapshotId
    built_at: Timestamp
    checked_at: Timestamp
    counts: Counts
    files: list[SnapshotFile]


class SnapshotEnvelope(Struct):
    """The snapshot that is being served."""

    snapshot: SnapshotDescription
