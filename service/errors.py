"""What can go wrong while serving, each error with its stable code and HTTP status."""

from __future__ import annotations

from typing import ClassVar

REBUILD = "rebuild it with `make index` or `python -m indexer build SOURCE`"


class RatecardError(Exception):
    """Base of every error that is reported to a client or an operator."""

    code: ClassVar[str] = "internal_error"
    status: ClassVar[int] = 500
    retry_after: ClassVar[int | None] = None
    """Seconds after which asking again may help."""


class InvalidParameter(RatecardError):
    """A query parameter that cannot be honoured; `parameter` names it."""

    code = "invalid_parameter"
    status = 400

    def __init__(self, parameter: str, message: str) -> None:
        super().__init__(message)
        self.parameter = parameter


class ServiceNotFound(RatecardError):
    """No service of this snapshot has the id."""

    code = "service_not_found"
    status = 404


class PathNotFound(RatecardError):
    """The path of a request is none of the documented ones."""

    code = "path_not_found"
    status = 404

    def __init__(self, message: str = "no resource has this path; see /openapi.json") -> None:
        super().__init__(message)


class MethodNotAllowed(RatecardError):
    """The path answers GET, HEAD and OPTIONS only."""

    code = "method_not_allowed"
    status = 405


class BadRequest(RatecardError):
    """What was sent is no HTTP request."""

    code = "bad_request"
    status = 400


class HeadTooLarge(RatecardError):
    """The request line and the headers are longer than any that can be meant."""

    code = "head_too_large"
    status = 431


class SnapshotUnavailable(RatecardError):
    """No snapshot can be served; the base of the reasons why."""

    code = "snapshot_unavailable"
    status = 503
    retry_after = 5


class SnapshotMissing(SnapshotUnavailable):
    """Nothing was published yet."""

    code = "snapshot_missing"


class SnapshotDamaged(SnapshotUnavailable):
    """A file of the snapshot is absent, cut short or not what the manifest says."""

    code = "snapshot_damaged"


class SnapshotUnsupported(SnapshotUnavailable):
    """The snapshot has a format that this version does not read."""

    code = "snapshot_unsupported"


class Overloaded(RatecardError):
    """Searches are refused until requests wait less."""

    code = "overloaded"
    status = 503
    retry_after = 1


class Draining(RatecardError):
    """The service is about to stop, and should be sent nothing more."""

    code = "draining"
    status = 503
    retry_after = 5
