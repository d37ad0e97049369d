"""The envelope of a list: stored JSON spliced into one body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec
import orjson

from service.snapshot.data import Hits
from service.snapshot.engine import EndpointHits

BodyPiece: TypeAlias = bytes | memoryview


class StoredList(NamedTuple):
    """A list of stored JSON: pieces of its items, with commas between these."""

    pieces: Sequence[BodyPiece]


def stored_list(texts: Sequence[BodyPiece]) -> StoredList:
    """Return a list of stored texts, each of which is one item or several joined ones."""
    pieces: list[BodyPiece] = [b","] * (2 * len(texts) - 1)
    pieces[::2] = texts
    return StoredList(pieces)


def splice(members: Mapping[str, Any]) -> bytes:
    """Return a JSON object of encoded members, and of lists and texts that are stored as JSON."""
    pieces: list[BodyPiece] = []
    for name, value in members.items():
        pieces.append(b'%b"%b":' % (b"," if pieces else b"{", name.encode()))
        if isinstance(value, StoredList):
            pieces.append(b"[")
            pieces += value.pieces
            pieces.append(b"]")
        elif isinstance(value, memoryview):
            pieces.append(value)
        else:
            pieces.append(orjson.dumps(value, default=msgspec.to_builtins))
    pieces.append(b"}")
    return b"".join(pieces)


def additions(hits: Hits | EndpointHits) -> dict[str, Any]:
    """Return the members that a page of a list has on request."""
    members = {"facets": hits.facets, "explanations": hits.explanations}
    return {name: value for name, value in members.items() if value is not None}
