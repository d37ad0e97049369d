"""Errors of the service, each with its stable code and HTTP status."""

from __future__ import annotations

import re
from typing import ClassVar

from msgspec import UNSET, UnsetType

REBUILD = "rebuild it with `make index` or `ratecard build SOURCE`"
MAX_MESSAGE = 300
"""Characters of a message that may quote another server."""

_credentials = re.compile(r"(?<=://)[^/]*@|\?[^\s\"')>]*")


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
    """No kept snapshot has the download."""

    see = "/v1/snapshots"


class DownloadsDisabled(RatecardError, code="downloads_disabled", status=404):
    """The service offers no downloads."""


class RangeNotSatisfiable(RatecardError, code="range_not_satisfiable", status=416):
    """The range of a request begins after the end of the download."""

    def __init__(self, size: int) -> None:
        super().__init__(f"the range begins after the end, at {size} bytes")
        self.size = size


class PathNotFound(RatecardError, code="path_not_found", status=404):
    """The path of a request is none of the documented ones."""

    see = "/openapi.json"

    def __init__(self, message: str = "no resource has this path") -> None:
        super().__init__(message)


class SnapshotNotFound(RatecardError, code="snapshot_not_found", status=404):
    """No snapshot that is remembered had the id."""

    see = "/v1/snapshots"


class SnapshotGone(RatecardError, code="snapshot_gone", status=410):
    """The snapshot was served, and is no longer kept; `instead` is one to start from."""

    def __init__(self, snapshot_id: str, instead: str) -> None:
        super().__init__(
            f"the snapshot {snapshot_id} is no longer kept; copy {instead}, then ask for the "
            f"changes since {instead}"
        )
        self.see = f"/v1/snapshots/{instead}"


class SnapshotWithdrawn(RatecardError, code="snapshot_withdrawn", status=410):
    """The snapshot was served, and is no longer answered from: `served` is."""

    def __init__(self, snapshot_id: str, served: str) -> None:
        super().__init__(
            f"the snapshot {snapshot_id} is no longer answered from; ask the served one, {served}, "
            "or leave `snapshot` out"
        )


class MethodNotAllowed(RatecardError, code="method_not_allowed", status=405):
    """The path does not answer the method of the request."""


class BadRequest(RatecardError, code="bad_request", status=400):
    """The bytes received are no HTTP/1.1 request, or one of too many parameters."""


class NotAcceptable(RatecardError, code="not_acceptable", status=406):
    """The client does not accept the media type of the response."""


class UnsupportedMediaType(RatecardError, code="unsupported_media_type", status=415):
    """The body of a request has another media type than the path takes."""


class HostNotAllowed(RatecardError, code="host_not_allowed", status=421):
    """The `Host` of a request is none that the MCP server answers."""


class OriginNotAllowed(RatecardError, code="origin_not_allowed", status=403):
    """The `Origin` of a request is none that the MCP server answers."""


class BodyTooLarge(RatecardError, code="body_too_large", status=413):
    """The body of a request exceeds the size limit."""


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


class DownloadDamaged(Exception):  # no response has it
    """A frame, a patch or an archive is not what it should be."""


class FollowingFailed(Exception):  # no response has it
    """A failed look at the origin: its publication was not fetched.

    The message is cut to MAX_MESSAGE printable characters: parts of it are text of the origin.

    code: `origin_unavailable`, `pointer_missing`, `pointer_refused`, `manifest_refused`,
        `file_refused`, `file_missing`, `state_damaged`, `downloads_failed`, `artifacts_busy`,
        `disk_full` or `disk_failed`
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(shorten(message))
        self.code = code


def shorten(message: str) -> str:
    """Return a message on one line of at most MAX_MESSAGE printable characters."""
    start = message[:MAX_MESSAGE]
    return "".join(letter if letter.isprintable() else " " for letter in start)


def without_credentials(text: str) -> str:
    """Return a text without the user and the query of the URLs in it."""
    return _credentials.sub("", text)
