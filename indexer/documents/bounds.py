"""Bounds on the resources that one document gives."""

from __future__ import annotations

from indexer.errors import LeftOut
from indexer.x402.rules import SIZE

MAX_RESOURCES = 64 * 2**20  # bytes of the resources of a document


class Bounds:
    """Counts the paid operations of a document, and the bytes of their resources."""

    def __init__(self, operations: int) -> None:
        self._operations = operations
        self._count = self._bytes = 0

    def count(self, place: str) -> None:
        """Count the paid operation at a JSON path; raises LeftOut beyond the most."""
        if self._count >= self._operations:
            reason = f"follows {self._operations:,} paid operations, the most of one document"
            raise LeftOut(SIZE, place, reason)
        self._count += 1

    def fit(self, content: bytes, place: str) -> bytes:
        """Return a resource that fits in those of the document; raises LeftOut."""
        if self._bytes + len(content) > MAX_RESOURCES:
            reason = f"exceeds the {MAX_RESOURCES:,} bytes that the resources of a document have"
            raise LeftOut(SIZE, place, reason)
        self._bytes += len(content)
        return content
