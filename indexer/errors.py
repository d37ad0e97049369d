"""What stops a build, each error with the exit status that it ends with."""

from __future__ import annotations

from typing import ClassVar


class IndexerError(Exception):
    """Base of every error that ends a command; what was published before stays."""

    status: ClassVar[int] = 1


class SourceError(IndexerError):
    """A source is missing, unreadable, cut short or not in a known format."""


class Misuse(IndexerError):
    """The command line asks for what would do harm."""

    status = 2


class TooManyRejects(IndexerError):
    """More of one source was malformed than the operator allows."""

    status = 3


class Busy(IndexerError):
    """Another build holds the artifacts folder."""


class InvalidRecord(Exception):  # not an IndexerError: the record is rejected, the build goes on
    """A record that cannot be indexed, with the JSON path of the fault and the reason."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason
