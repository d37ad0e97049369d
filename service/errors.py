"""Errors of the service, each with its stable code and HTTP status."""

from __future__ import annotations

from typing import ClassVar

from msgspec import UNSET, UnsetType

CODES = {
    400: ("invalid_parameter", "bad_request"),
    404: ("service_not_found", "download_not_found", "downloads_disabled", "path_not_found"),
    405: ("method_not_allowed",),
    410: ("path_removed", "snapshot_pins_removed"),
    416: ("range_not_satisfiable",),
    500: ("internal_error",),
    503: (
        "overloaded",
        "engine_unavailable",
        "index_missing",
        "snapshot_missing",
        "snapshot_damaged",
        "snapshot_unsupported",
        "snapshot_unavailable",
    ),
}
"""The codes of errors by the status of the response."""
STATUSES = {code: status for status, codes in CODES.items() for code in codes}
REBUILD = "rebuild it with `ratecard build SOURCE --out FOLDER`"


def needs_extra(user: str, extra: str) -> str:
    """Return a message that a function needs an extra, and how to install it."""
    clone, wheel = f"-e '.[{extra}]'", f"'ratecard-….whl[{extra}]'"
    ways = f"in the clone: .venv/bin/pip install {clone}; of a wheel: pip install {wheel}"
    return f"{user} needs the extra `{extra}`; {ways}"


class RatecardError(Exception):
    """An error that clients and operators see; a subclass is for callers that catch its code.

    code: stable, for programs; one of CODES
    status: of the response
    retry_after: seconds after which a client may try again
    parameter: the invalid one of a query string
    see: a path of this service that helps
    """

    code: str = "internal_error"
    status: int = 500
    retry_after: ClassVar[int | None] = None
    parameter: str | UnsetType = UNSET

    def __init__(self, message: str = "", code: str = "", see: str = "") -> None:
        super().__init__(message)
        self.code = code or self.code
        self.status = STATUSES[self.code]
        self.see = see

    def __init_subclass__(cls, code: str, retry_after: int | None = None) -> None:
        """Set what a subclass declares; the rest is as in its base class."""
        cls.code, cls.status = code, STATUSES[code]
        cls.retry_after = retry_after or cls.retry_after

    def message(self, root: str) -> str:
        """Return the text for clients of a service whose paths begin with `root`."""
        return f"{self}; see {root}{self.see}" if self.see else str(self)


class InvalidParameter(RatecardError, code="invalid_parameter"):
    """A query parameter is invalid; `parameter` names it."""

    def __init__(self, parameter: str, message: str) -> None:
        super().__init__(message)
        self.parameter: str = parameter


class ServiceNotFound(RatecardError, code="service_not_found"):
    """No service of this snapshot has the id."""


class MethodNotAllowed(RatecardError, code="method_not_allowed"):
    """The path does not answer the method of the request."""


class RangeNotSatisfiable(RatecardError, code="range_not_satisfiable"):
    """The request asks for a range that begins beyond the end of a file of this size."""

    def __init__(self, size: int) -> None:
        super().__init__(f"the range begins beyond the end of the file, which has {size} bytes")
        self.size = size


class SnapshotUnavailable(RatecardError, code="snapshot_unavailable", retry_after=5):
    """No snapshot can be served. Base class of the reasons.

    A message names files, for the operator; clients get the default one of the class.
    """

    public: ClassVar[str] = "no snapshot can be served now; the readiness check says why"

    def __init__(self, message: str = "") -> None:
        super().__init__(message or self.public)


class SnapshotMissing(SnapshotUnavailable, code="snapshot_missing"):
    """No snapshot was published."""

    public = "no snapshot was published here yet; run `ratecard build SOURCE --out FOLDER`"


class SnapshotDamaged(SnapshotUnavailable, code="snapshot_damaged"):
    """A file of the snapshot is missing, truncated or not what the manifest says."""

    public = f"the published snapshot is damaged; {REBUILD}"


class SnapshotUnsupported(SnapshotUnavailable, code="snapshot_unsupported"):
    """The snapshot has a format that this service does not read."""

    public = f"the published snapshot has a format that this service does not read; {REBUILD}"


class EngineUnavailable(RatecardError, code="engine_unavailable", retry_after=2):
    """The cluster that searches does not answer, not in time, or not for all of the catalogue."""


class IndexMissing(EngineUnavailable, code="index_missing"):
    """The cluster has no index of the name that the snapshot has."""


class Overloaded(RatecardError, code="overloaded", retry_after=1):
    """The event loop lags, so that expensive requests are refused."""


class PublishingFailed(Exception):  # no response has it
    """A snapshot could not be published, or a power cut may undo that."""


class ArtifactsBusy(PublishingFailed):
    """Another process that publishes holds the lock of the artifacts folder."""
