"""Cursors: places in a ranking or among changes, bound to snapshots and to one search."""

from __future__ import annotations

import re
from hashlib import blake2b

import msgspec

from service.errors import InvalidParameter

DIGEST = 8  # bytes

_cursor = re.compile(r"([0-9a-f]+\.)[0-9a-f]+\.([0-9]{1,15})")


def cursor_prefix(snapshot_id: str, search: object) -> str:
    """Return the start of all cursors of a search, which names the snapshot and the search."""
    digest = blake2b(msgspec.json.encode(search), digest_size=DIGEST).hexdigest()
    return f"{snapshot_id}.{digest}."


def parse_cursor(cursor: str | None, prefix: str, name: str = "cursor") -> int:
    """Return the start of the page that a cursor means, 0 without one; `name` is the parameter."""
    if cursor is None:
        return 0
    match = _cursor.fullmatch(cursor)
    if match is None:
        reason = f"is not a {name}; take the one of the last response"
    elif not prefix.startswith(match[1]):
        reason = "is of another snapshot, as the catalogue has changed; search again without it"
    elif not cursor.startswith(prefix):
        reason = "is of another query or other filters; repeat those that it came with"
    else:
        return int(match[2])
    raise InvalidParameter(name, f"{name} {reason}")
