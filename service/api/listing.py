"""The envelope of a list: stored JSON spliced into one body."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from service.api.parameters import ListRequest
from service.snapshot import Snapshot
from service.snapshot.data import Hits
from service.snapshot.engine import EndpointHits

Text: TypeAlias = bytes | memoryview


class StoredList(NamedTuple):
    """A list whose items are stored JSON, each in pieces; a piece may be several joined items."""

    items: Iterable[Sequence[Text]]


def splice(members: Mapping[str, Any]) -> bytes:
    """Return a JSON object of encoded members, and of lists and texts that are stored as JSON."""
    pieces: list[Text] = []
    for name, value in members.items():
        pieces.append(b'%b"%b":' % (b"," if pieces else b"{", name.encode()))
        if isinstance(value, StoredList):
            separator = b"["
            for item in value.items:
                pieces.append(separator)
                pieces += item
                separator = b","
            pieces.append(b"[]" if separator == b"[" else b"]")
        elif isinstance(value, memoryview):
            pieces.append(value)
        else:
            pieces.append(_encoder.encode(value))
    pieces.append(b"}")
    return b"".join(pieces)


def stored_list(texts: Iterable[Text]) -> StoredList:
    """Return a list of stored texts."""
    return StoredList((text,) for text in texts)


def list_body(snapshot: Snapshot, listing: ListRequest, hits: Hits) -> bytes:
    """Return the JSON of a `ServiceList`, with the services as they are stored."""
    store = snapshot.services if listing.with_endpoints else snapshot.summaries
    return splice(
        {
            "services": stored_list(store.run(hits.ordinals)),
            "total": hits.total,
            "limit": listing.page.limit,
            "offset": listing.page.offset,
            **additions(hits),
        }
    )


async def find(snapshot: Snapshot, listing: ListRequest) -> Hits:
    """Return the requested page of services."""
    page, filters = listing.page, listing.filters
    if listing.query is None:
        return snapshot.list(page.limit, page.offset, filters)
    return await snapshot.engine.search(listing.query, page.limit, page.offset, filters)


def additions(hits: Hits | EndpointHits) -> dict[str, Any]:
    """Return the members that a page of a list has on request."""
    members = {"facets": hits.facets, "explanations": hits.explanations}
    return {name: value for name, value in members.items() if value is not None}


_encoder = msgspec.json.Encoder()
