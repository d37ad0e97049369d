"""Encoders of queries by their kind: another one is a module and a line of `ENCODERS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from service.errors import REBUILD, SnapshotUnsupported
from service.search.semantic.encoder import Encoder, QueryVector


class QueryEncoder(Protocol):
    """Encodes queries by the pieces of their words.

    `indexer.encoder.encoding.DocumentEncoder` encodes documents to the same `dimensions`.
    """

    @property
    def dimensions(self) -> int:
        """The number of components of a vector."""

    def pieces(self, word: str) -> tuple[int, ...]:
        """Return the numbers of the pieces of a folded word, none where it has no vector."""

    def encode(self, pieces: Sequence[int]) -> QueryVector | None:
        """Return the vector of a query of these pieces, or None where they add up to nothing."""


ENCODERS: Mapping[str, Callable[[Path], QueryEncoder]] = MappingProxyType({"static": Encoder})


def open_encoder(path: Path, name: str) -> QueryEncoder:
    """Open the encoder of a snapshot, by its name in the manifest.

    Raises SnapshotUnsupported for an encoder that this version does not have.
    """
    kind = name.partition(" ")[0]
    if kind not in ENCODERS:
        raise SnapshotUnsupported(
            f"{path} is for the encoder {name!r}, this version has {', '.join(ENCODERS)}; {REBUILD}"
        )
    return ENCODERS[kind](path)
