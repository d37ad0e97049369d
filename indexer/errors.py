"""Errors of the indexer; those that end a command have its exit status."""

from __future__ import annotations

from typing import ClassVar


class IndexerError(Exception):
    """Base of the errors that end a command; the published snapshot stays."""

    status: ClassVar[int] = 1


class SourceError(IndexerError):
    """A source is missing, unreadable, cut short or of no known format."""


class Misuse(IndexerError):
    """The options contradict each other or would destroy data."""

    status = 2


class TooManyRejects(IndexerError):
    """The share of malformed records in one source exceeds `--max-rejects`."""

    status = 3


class SourceFailed(TooManyRejects):
    """A source lost or changed more listings than `max_removed` allows."""


class EncoderDamaged(IndexerError):
    """The data file of an encoder is missing, damaged, or not the one that is described."""


class InvalidRecord(Exception):  # not an IndexerError: the record is rejected, the build goes on
    """A record that cannot be indexed, with the JSON path of the fault and the reason."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class LeftOut(InvalidRecord):
    """A valid record that a rule leaves out: which rule, the JSON path and the reason."""

    def __init__(self, rule: str, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.args = (rule, path, reason)  # as the exception is made again from its pickle
        self.rule = rule

    @property
    def shown(self) -> tuple[str, str]:
        """The JSON path and the reason as sellers see them."""
        return self.path, self.reason
