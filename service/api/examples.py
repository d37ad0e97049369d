"""Examples: what a reader of the documentation can ask of the snapshot that is served."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from msgspec import Struct

from service.api.parameters import MAX_QUERY
from service.snapshot.snapshot import Snapshot


class Examples(NamedTuple):
    """What a reader can ask at once: a query that finds something, and an id where there is one."""

    query: str = "weather forecast"
    service_id: str | None = None


USUAL = Examples()


def examples(snapshot: Snapshot) -> Examples:
    """Examples that a snapshot has answers to, from its best known service."""
    first = snapshot.list(limit=1).ordinals
    if not first:
        return USUAL
    known = _known.decode(snapshot.summaries.view(first[0]))
    finds = snapshot.search(USUAL.query, limit=1).total > 0
    query = USUAL.query if finds else known.name[:MAX_QUERY].strip()
    return Examples(query or USUAL.query, known.id)


class _Known(Struct):
    id: str
    name: str


_known = msgspec.json.Decoder(_Known)
