"""Why a replica does not follow, with stable codes."""

from __future__ import annotations


class FollowingFailed(Exception):
    """A look at the origin that did not end with what it publishes.

    code: `origin_unavailable`, `pointer_missing`, `pointer_refused`, `manifest_refused`,
        `file_refused`, `artifacts_busy`, `disk_full` or `disk_failed`
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
