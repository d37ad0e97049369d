"""The public schema of errors, of the state of the service, and of the files that others copy."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from service.schema.values import Timestamp, Whole


class ErrorBody(Struct, kw_only=True):
    """Why a request failed; `parameter` names the invalid one."""

    code: str
    message: str
    parameter: str | UnsetType = UNSET


class ErrorEnvelope(Struct):
    """The shape of every error."""

    error: ErrorBody


class Health(Struct):
    """The process is up."""

    status: Literal["ok"]


class Counts(Struct):
    """The size of a snapshot."""

    services: Whole
    endpoints: Whole
    resources: Whole
    payments: Whole


class SourceState(Struct, rename="camel", kw_only=True):
    """A source of the last build: which copy was read, when, and why not the current one."""

    name: str
    state: Literal["current", "last", "skipped"]
    read_at: Timestamp | None
    failure: str = ""


class Readiness(Struct):
    """The snapshot being served; `refused` says why it is not the published one.

    `sources` are those of the last build that are not current; the key is left out without any.
    """

    status: Literal["ready"]
    snapshot: str
    counts: Counts
    built_at: Timestamp
    checked_at: Timestamp
    refused: ErrorBody | UnsetType = UNSET
    sources: list[SourceState] | UnsetType = UNSET


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
