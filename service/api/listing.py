"""The envelope of a list: stored JSON spliced into one body."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias

import msgspec
import orjson

from service.snapshot.resources import MAX_PAGE

BodyPiece: TypeAlias = bytes | memoryview


class StoredList(NamedTuple):
    """A list of stored JSON: each text is one item or several joined ones, or pieces of one."""

    texts: Sequence[BodyPiece | list[BodyPiece]]


def fitting(texts: Sequence[list[BodyPiece]]) -> int:
    """Return how many of the first texts have at most MAX_PAGE bytes together, at least one."""
    sizes = accumulate(sum(map(len, text)) for text in texts)
    return max(bisect_right(list(sizes), MAX_PAGE), 1)


def splice(members: Mapping[str, Any]) -> bytes:
    """Return a JSON object of encoded members, and of lists and texts that are stored as JSON.

    Members that are None are left out.
    """
    pieces: list[BodyPiece] = []
    for name, value in members.items():
        if value is None:
            continue
        pieces.append(b'%b"%b":' % (b"," if pieces else b"{", name.encode()))
        if isinstance(value, StoredList):
            for position, text in enumerate(value.texts):
                pieces.append(b"," if position else b"[")
                pieces += text if isinstance(text, list) else (text,)
            pieces.append(b"]" if value.texts else b"[]")
        elif isinstance(value, memoryview):
            pieces.append(value)
        else:
            pieces.append(orjson.dumps(value, default=msgspec.to_builtins))
    pieces.append(b"}")
    return b"".join(pieces)
