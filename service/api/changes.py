"""Changes: the services that were added, changed and removed from one snapshot to another."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from orjson import Fragment
from starlette.requests import Request

from service.api.listing import splice, stored_list
from service.api.query_string import MAX_LIMIT, Cursor, LongLimit, Operation, about
from service.errors import InvalidParameter, SnapshotGone
from service.http.context import Context, context_of, snapshot_of
from service.http.responses import IMMUTABLE, Cacheable
from service.schema.snapshots import SNAPSHOT_ID_PATTERN, ServiceAlerts, SnapshotId
from service.schema.values import ServiceId
from service.snapshot import Snapshot
from service.snapshot.changes import Changes, ChangesPage, find_alerts
from service.snapshot.cursors import changes_cursor, split_cursor
from service.snapshot.resources import MAX_PAGE

SINCE = Meta(
    description="The id of the snapshot to start from.",
    extra={"hint": "the id of the snapshot that you have, see /v1/snapshots"},
)
END = "The id of the snapshot to end at; the one being served by default."


class _Identified(Struct):
    id: ServiceId


_identified = msgspec.json.Decoder(_Identified)
NO_CHANGES = ChangesPage([], [], [], 0, [])


class ListChanges(Operation, frozen=True, kw_only=True):
    """List what changed from one snapshot to another, in order of id."""

    since: Annotated[SnapshotId, SINCE]
    to: Annotated[SnapshotId | None, about(END)] = None
    limit: LongLimit = 100
    cursor: Cursor | None = None

    def __post_init__(self) -> None:
        if self.cursor is None:
            return
        old, new, _ = split_cursor(self.cursor)
        if old != self.since or new != (self.to or new) or not re.match(SNAPSHOT_ID_PATTERN, new):
            message = "cursor is of other snapshots; repeat the since and to that it came with"
            raise InvalidParameter("cursor", message)

    @property
    def place(self) -> tuple[str | None, int]:
        """The snapshot to end at, None for the served one, and the number of changes to skip."""
        return (self.to, 0) if self.cursor is None else split_cursor(self.cursor)[1:]

    @property
    def is_expensive(self) -> bool:
        """Whether the page is large."""
        return self.limit > MAX_LIMIT


async def list_changes(request: Request, wanted: ListChanges) -> Cacheable:
    """List the changes from one snapshot to another, in order of id."""
    served, context = snapshot_of(request), context_of(request)
    (to, start), old, limit = wanted.place, wanted.since, wanted.limit
    new = to or served.id
    changes = await _compare(context, old, new, served)
    page, total = NO_CHANGES, 0
    if changes is not None:
        page, total = changes.page(start, limit, MAX_PAGE), changes.total
    alerts = [*_find_alerts(page)]
    body = splice(
        {
            "from": old,
            "to": new,
            "total": total,
            "added": stored_list(page.added),
            "changed": stored_list(page.changed),
            "removed": stored_list(page.removed),
            "cursor": changes_cursor(old, new, page.stop) if page.stop < total else None,
        }
        | ({"alerts": Fragment(msgspec.json.encode(alerts))} if alerts else {})
    )
    if to is None:
        return Cacheable(body)
    etag = f"{old}-{new}-{start}-{limit}"
    return Cacheable(body, etag=etag, cache_control=IMMUTABLE, snapshot_id=new)


def _find_alerts(page: ChangesPage) -> Iterator[ServiceAlerts]:
    """Yield the changed services of a page with payees or prices to look at."""
    for before, after in zip(page.before, page.changed, strict=True):
        payees, prices = find_alerts(before, after)
        if payees or prices:
            yield ServiceAlerts(_identified.decode(after).id, payees, prices)


async def _compare(context: Context, old: str, new: str, served: Snapshot) -> Changes | None:
    """Return the changes from one snapshot to another, None from a snapshot to itself.

    Raises SnapshotNotFound for an unknown id, Overloaded under load unless the changes are open,
    and what `ChangesCache.compare` raises.
    """
    snapshots = context.snapshots
    if old == new:
        with suppress(SnapshotGone):
            snapshots.find(old, served)
        return None
    changes = snapshots.changes.get((old, new))
    if changes is None:
        context.load_shedder.check()
        after = snapshots.find(new, served)
        changes = await snapshots.changes.compare(snapshots.find(old, served, new), after)
    return changes
