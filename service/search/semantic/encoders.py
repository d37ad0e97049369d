"""Encoders of queries by their kind: another one is a module and a line of `ENCODERS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from service.errors import REBUILD, SnapshotUnsupported
from service.search.semantic.encoder import Encoder

ENCODERS: Mapping[str, Callable[[Path], Encoder]] = MappingProxyType({"static": Encoder})


def open_encoder(path: Path, name: str) -> Encoder:
    """Open the encoder of a snapshot, by its name in the manifest.

    Raises SnapshotUnsupported for an encoder that this version does not have.
    """
    kind = name.partition(" ")[0]
    if kind not in ENCODERS:
        raise SnapshotUnsupported(
            f"{path} is for the encoder {name!r}, this version has {', '.join(ENCODERS)}; {REBUILD}"
        )
    return ENCODERS[kind](path)
