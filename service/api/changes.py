"""Changes: the services that were added, changed and removed from one snapshot to another."""

from __future__ import annotations

import re
from contextlib import suppress

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from service.api.listing import splice, stored_list
from service.api.query_string import MAX_LIMIT, Parameters
from service.artifacts.manager import SnapshotManager
from service.errors import InvalidParameter, SnapshotGone
from service.http.context import context_of, snapshot_of
from service.http.responses import IMMUTABLE, Cacheable, json_response
from service.snapshot import Snapshot
from service.snapshot.changes import Changes, ChangesPage
from service.snapshot.cursors import changes_cursor, split_cursor
from service.snapshot.resources import MAX_PAGE
from service.snapshot_records import SNAPSHOT_ID_PATTERN

DEFAULT_CHANGES = 100
MAX_CHANGES = 1000
NO_CHANGES = ChangesPage([], [], [], 0)

_snapshot_id = re.compile(SNAPSHOT_ID_PATTERN)


class ChangesRequest(Struct, frozen=True):
    """A page of the changes from the snapshot `since` to another one, by default the served one."""

    since: str
    to: str | None
    limit: int
    start: int


async def list_changes(request: Request) -> Response:
    """List the changes from one snapshot to another, in order of id."""
    wanted = parse_changes(request.scope["query_string"])
    served = snapshot_of(request)
    snapshots = context_of(request).snapshots
    old, new = wanted.since, wanted.to or served.id
    is_open = old == new or snapshots.changes.get(old, new) is not None
    if wanted.limit > MAX_LIMIT or not is_open:
        context_of(request).load_shedder.check()
    changes = await _compare(snapshots, old, new, served)
    body = changes_body(old, new, changes, wanted)
    if wanted.to is None:
        return json_response(body)
    return Cacheable(
        body,
        etag=f"{old}-{new}-{wanted.start}-{wanted.limit}",
        cache_control=IMMUTABLE,
        snapshot_id=new,
    )


async def _compare(
    snapshots: SnapshotManager, old: str, new: str, served: Snapshot
) -> Changes | None:
    """Return the changes from one snapshot to another, None from a snapshot to itself.

    Raises SnapshotNotFound for an unknown id, and what `ChangesCache.open` raises.
    """
    if old == new:
        with suppress(SnapshotGone):
            snapshots.find(old, served)
        return None
    changes = snapshots.changes.get(old, new)
    if changes is None:
        after = snapshots.find(new, served)
        changes = await snapshots.changes.open(snapshots.find(old, served, new), after)
    return changes


def parse_changes(query_string: bytes) -> ChangesRequest:
    """Parse the parameters of a page of changes."""
    parameters = Parameters(query_string)
    since, to = _id(parameters, "since"), _id(parameters, "to")
    if since is None:
        message = "since is required: the id of the snapshot that you have, see /v1/snapshots"
        raise InvalidParameter("since", message)
    limit = min(parameters.integer("limit", DEFAULT_CHANGES, minimum=1), MAX_CHANGES)
    cursor = parameters.value("cursor")
    if cursor is None:
        return ChangesRequest(since, to, limit, 0)
    old, new, start = split_cursor(cursor)
    if old != since or new != (to or new) or not _snapshot_id.match(new):
        message = "cursor is of other snapshots; repeat the since and to that it came with"
        raise InvalidParameter("cursor", message)
    return ChangesRequest(since, new, limit, start)


def changes_body(old: str, new: str, changes: Changes | None, wanted: ChangesRequest) -> bytes:
    """Return the JSON of a `ChangeList`, with the services as they are stored."""
    page, total = NO_CHANGES, 0
    if changes is not None:
        page, total = changes.page(wanted.start, wanted.limit, MAX_PAGE), changes.total
    return splice(
        {
            "from": old,
            "to": new,
            "total": total,
            "added": stored_list(page.added),
            "changed": stored_list(page.changed),
            "removed": stored_list(page.removed),
            "cursor": changes_cursor(old, new, page.stop) if page.stop < total else None,
        }
    )


def _id(parameters: Parameters, name: str) -> str | None:
    """Return the id of a snapshot, or None if the parameter is missing."""
    value = parameters.value(name)
    if value is not None and not _snapshot_id.match(value):
        message = f"{name} must be the id of a snapshot, 20 hexadecimal digits in lower case"
        raise InvalidParameter(name, message)
    return value
