"""The public schema of errors, and of the state of the service."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from service.schema.values import Timestamp, Whole


class ErrorBody(Struct, kw_only=True):
    """Why a request failed; `parameter` names the invalid one."""

    code: str
    message: str
    parameter: str | UnsetType = UNSET


class ErrorEnvelope(Struct):
    """The shape of every error."""

    error: ErrorBody


class ArdError(Struct, rename="camel"):
    """The shape of every error below `/ard`."""

    error_code: str
    message: str


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
