"""Documents, and the readers of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from indexer.options import SourceOptions
from indexer.sources.records import SourceRecord
from indexer.tokens.stablecoins import KNOWN_STABLECOINS, Stablecoins

FREE = "free operations"
"""The rule that leaves out what costs nothing."""


class Document(Struct, frozen=True):
    """A document that describes services, the source that gives it, and the tokens of prices."""

    text: bytes
    source: SourceOptions
    stablecoins: Stablecoins = KNOWN_STABLECOINS


Reader = Callable[[Document], Iterator[SourceRecord]]
"""Yields the records of a document: for each operation a resource, or a fault."""
