"""Cursors: places in a ranking or among changes, bound to snapshots and to one search."""

from __future__ import annotations

import re
from hashlib import blake2b

import msgspec

from service.errors import InvalidParameter

DIGEST = 8  # bytes

_cursor = re.compile(r"([0-9a-f]+)\.([0-9a-f]+)\.([0-9]{1,15})")


def cursor_prefix(snapshot_id: str, search: object) -> str:
    """Return the start of all cursors of a search, which names the snapshot and the search."""
    digest = blake2b(msgspec.json.encode(search), digest_size=DIGEST).hexdigest()
    return f"{snapshot_id}.{digest}."


def parse_cursor(cursor: str | None, prefix: str) -> int:
    """Return the start of the page that a cursor means, 0 without one."""
    if cursor is None:
        return 0
    snapshot, search, start = split_cursor(cursor)
    if not prefix.startswith(f"{snapshot}."):
        reason = "is of another snapshot, as the catalogue has changed; search again without cursor"
    elif prefix != f"{snapshot}.{search}.":
        reason = "is of another query or other filters; repeat those that it came with"
    else:
        return start
    raise InvalidParameter("cursor", f"cursor {reason}")


def split_cursor(cursor: str) -> tuple[str, str, int]:
    """Return the parts of a cursor: a snapshot, a search or another snapshot, and the start."""
    match = _cursor.fullmatch(cursor)
    if match is None:
        message = "cursor is not a cursor; take the one of the last response"
        raise InvalidParameter("cursor", message)
    return match[1], match[2], int(match[3])
