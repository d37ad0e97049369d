"""The outcome of a push, for the report of a build."""

from __future__ import annotations

from msgspec import Struct


class Pushed(Struct, rename="camel"):
    """The outcome of a push to one bucket.

    put: objects that were put, of `bytes` in all
    reused: objects that were there
    removed: objects that no kept snapshot names
    """

    url: str
    put: int
    bytes: int
    reused: int
    removed: int

    def __str__(self) -> str:
        counts = f"{self.put} objects of {self.bytes / 1e6:.1f} MB, {self.reused} were there"
        return f"pushed to {self.url}: {counts}, {self.removed} old ones removed"
