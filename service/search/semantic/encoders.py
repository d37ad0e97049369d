"""Encoders of queries by their kind: another one is a module and a line of `ENCODERS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from service.errors import REBUILD, SnapshotUnsupported
from service.search.semantic.encoder import Encoder, WordVector


class QueryEncoder(Protocol):
    """Encodes the words of queries; a query has the sum of their vectors.

    `indexer.encoder.encoding.DocumentEncoder` encodes documents to the same `dimensions`.
    """

    @property
    def dimensions(self) -> int:
        """The number of components of a vector."""

    def word(self, word: str) -> WordVector | None:
        """Return the vector of a folded word, or None where it has none."""


ENCODERS: Mapping[str, Callable[[Path], QueryEncoder]] = MappingProxyType({"static": Encoder})


def open_encoder(folder: Path, name: str) -> QueryEncoder:
    """Open the encoder in a folder of a snapshot, by its name in the manifest.

    Raises SnapshotUnsupported for an encoder that this version does not have.
    """
    kind = name.partition(" ")[0]
    if kind not in ENCODERS:
        raise SnapshotUnsupported(
            f"{folder} is for the encoder {name!r}, this version has {', '.join(ENCODERS)}; "
            f"{REBUILD}"
        )
    return ENCODERS[kind](folder)
