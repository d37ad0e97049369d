"""A snapshot in service."""

from __future__ import annotations

from service.http.cache import Cache
from service.http.headers import EVERY_RESPONSE
from service.http.metrics import Counts
from service.settings import Settings
from service.snapshot.snapshot import Snapshot


class Serving:
    """A snapshot, what its responses begin with, and those that were made from it so far.

    `lines` are the headers that all have, `cacheable` those of what may be kept.
    """

    def __init__(self, snapshot: Snapshot, settings: Settings, counts: Counts) -> None:
        self.snapshot = snapshot
        self.responses = Cache(settings.cache_bytes, counts)
        self.lines = b"%bratecard-snapshot: %b\r\n" % (EVERY_RESPONSE, snapshot.name)
        self.cacheable = b"%bvary: Accept-Encoding\r\ncache-control: %b\r\n" % (
            self.lines,
            cache_control(settings.max_age),
        )


def cache_control(max_age: int) -> bytes:
    """How long a client or gateway may use an answer without asking, in seconds."""
    return b"public, max-age=%d" % max_age if max_age else b"no-cache"
