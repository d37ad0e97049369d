"""How far a replica is behind its origin: `following.json` of an artifacts folder."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from msgspec import Struct

from service.storage.json_file import read_json

FOLLOWING = "following.json"


class Failure(Struct, frozen=True):
    """Why a replica could not fetch what its origin publishes."""

    code: str
    message: str


class Following(Struct, kw_only=True):
    """The state of following, written by the follower after each look at the origin.

    origin: URL without credentials
    id, manifest, serial, published_at: of the last pointer that was accepted; survive restarts, so
        that an earlier one is refused
    behind_since: time of the first publication that is not served here; None where the replica was
        up to date at the last contact
    contacted_at: the last time at which the origin answered
    failures: looks at the origin that failed
    bytes: bytes fetched
    """

    origin: str
    id: str = ""
    manifest: str = ""
    serial: int = 0
    published_at: datetime | None = None
    behind_since: datetime | None = None
    contacted_at: datetime | None = None
    error: Failure | None = None
    failures: int = 0
    bytes: int = 0

    def seconds_behind(self, now: datetime) -> float:
        """Return for how long the origin has published what the replica does not have."""
        if self.behind_since is None:
            return 0.0
        return max(0.0, (now - self.behind_since).total_seconds())


def read_following(artifacts: Path) -> Following | None:
    """Return the state that the follower wrote last; None without one, or where it is damaged."""
    return read_json(artifacts / FOLLOWING, Following)
