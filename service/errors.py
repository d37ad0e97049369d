"""Errors of the service, each with its stable code and HTTP status."""

from __future__ import annotations

from typing import ClassVar

from msgspec import UNSET, UnsetType

REBUILD = "rebuild it with `make index` or `ratecard build SOURCE`"


def needs_extra(user: str, extra: str) -> str:
    """Return a message that a function needs an extra, and how to install it."""
    return f"{user} needs the extra `{extra}`; in the clone: .venv/bin/pip install -e '.[{extra}]'"


class RatecardError(Exception):
    """Base class of the errors that clients and operators see.

    code: stable, for programs
    status: of the response
    retry_after: seconds after which a client may try again
    parameter: the invalid one of a query string
    see: a path of this service that helps
    """

    code: ClassVar[str] = "internal_error"
    status: ClassVar[int] = 500
    retry_after: ClassVar[int | None] = None
    parameter: str | UnsetType = UNSET
    see: str = ""

    def message(self, root: str) -> str:
        """Return the text for clients of a service whose paths begin with `root`."""
        return f"{self}; see {root}{self.see}" if self.see else str(self)

    def __init_subclass__(
        cls, code: str, status: int | None = None, retry_after: int | None = None
    ) -> None:
        """Set what a subclass declares; the rest is as in its base class."""
        cls.code, cls.status = code, status or cls.status
        cls.retry_after = retry_after or cls.retry_after


class InvalidParameter(RatecardError, code="invalid_parameter", status=400):
    """A query parameter is invalid; `parameter` names it."""

    def __init__(self, parameter: str, message: str) -> None:
        super().__init__(message)
        self.parameter: str = parameter


class ServiceNotFound(RatecardError, code="service_not_found", status=404):
    """No service of this snapshot has the id."""


class DownloadNotFound(RatecardError, code="download_not_found", status=404):
    """There is no file of this name to copy."""

    see = "/v1/snapshots/current"


class DownloadsDisabled(RatecardError, code="downloads_disabled", status=404):
    """The service offers no downloads."""


class PathNotFound(RatecardError, code="path_not_found", status=404):
    """The path of a request is none of the documented ones."""

    see = "/openapi.json"

    def __init__(self, message: str = "no resource has this path") -> None:
        super().__init__(message)


class PinsRemoved(RatecardError, code="snapshot_pins_removed", status=410):
    """A request names another snapshot than the one that is served."""

    def __init__(self, served: str) -> None:
        super().__init__(
            f"answers come from the served snapshot alone, {served}; leave `snapshot` out, and "
            "start again where the header Ratecard-Snapshot changes"
        )


class PathRemoved(RatecardError, code="path_removed", status=410):
    """The path of a request was one of an earlier release; the message names its successor."""

    see = "/v1/snapshots/current"


class MethodNotAllowed(RatecardError, code="method_not_allowed", status=405):
    """The path does not answer the method of the request."""


class BadRequest(RatecardError, code="bad_request", status=400):
    """The bytes received are no HTTP/1.1 request, or one of too many parameters."""


class HeadTooLarge(RatecardError, code="head_too_large", status=431):
    """The request line and the headers exceed the size limit."""


class SnapshotUnavailable(RatecardError, code="snapshot_unavailable", status=503, retry_after=5):
    """No snapshot can be served. Base class of the reasons.

    A message names files, for the operator; clients get the default one of the class.
    """

    public: ClassVar[str] = "no snapshot can be served now; the readiness check says why"

    def __init__(self, message: str = "") -> None:
        super().__init__(message or self.public)


class SnapshotMissing(SnapshotUnavailable, code="snapshot_missing"):
    """No snapshot was published."""

    public = "no snapshot was published here yet; run `make index` or `ratecard build SOURCE`"


class SnapshotDamaged(SnapshotUnavailable, code="snapshot_damaged"):
    """A file of the snapshot is missing, truncated or not what the manifest says."""

    public = f"the published snapshot is damaged; {REBUILD}"


class SnapshotUnsupported(SnapshotUnavailable, code="snapshot_unsupported"):
    """The snapshot has a format, or postings in an engine, that this service does not read."""

    public = (
        "the published snapshot has a format or an engine that this service does not read; "
        f"{REBUILD}"
    )


class EngineUnavailable(RatecardError, code="engine_unavailable", status=503, retry_after=2):
    """The cluster that searches does not answer, not in time, or not for all of the catalogue."""


class IndexMissing(EngineUnavailable, code="index_missing"):
    """The cluster has no index of the name that the snapshot has."""


class Overloaded(RatecardError, code="overloaded", status=503, retry_after=1):
    """The event loop lags, so that expensive requests are refused."""


class Draining(RatecardError, code="draining", status=503, retry_after=5):
    """The service is about to stop; requests belong elsewhere."""


class SlowClient(Exception):  # no response has it
    """A client reads its response too slowly: the server closes the connection."""


class PublishingFailed(Exception):  # no response has it
    """A snapshot could not be published, or a power cut may undo that."""


class ArtifactsBusy(PublishingFailed):
    """Another process that publishes holds the lock of the artifacts folder."""
