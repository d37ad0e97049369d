"""The envelope of a list: stored JSON spliced into one body."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from service.api.parameters import ListRequest
from service.filtering.facets import FacetCounts
from service.records import Explanation
from service.snapshot import Snapshot
from service.snapshot.data import Hits


def list_body(snapshot: Snapshot, listing: ListRequest, hits: Hits) -> bytes:
    """Return the JSON of a `ServiceList`, with the services as they are stored."""
    page = listing.page
    store = snapshot.services if listing.with_endpoints else snapshot.summaries
    records = store.run(hits.ordinals)
    services: list[bytes | memoryview] = [b","] * (2 * len(records) - 1)
    services[::2] = records
    added = format_additions(hits.facets, hits.explanations)
    numbers = b'],"total":%d,"limit":%d,"offset":%d' % (hits.total, page.limit, page.offset)
    return b"".join((b'{"services":[', *services, numbers, added, b"}"))


async def find(snapshot: Snapshot, listing: ListRequest) -> Hits:
    """Return the requested page of services."""
    page, filters = listing.page, listing.filters
    if listing.query is None:
        return snapshot.list(page.limit, page.offset, filters)
    return await snapshot.engine.search(listing.query, page.limit, page.offset, filters)


def format_additions(
    facets: FacetCounts | None, explanations: Sequence[Explanation] | None
) -> bytes:
    """Return the members that a page of a list has on request."""
    members = {"facets": facets, "explanations": explanations}
    return b"".join(
        b',"%b":%b' % (name.encode(), _encoder.encode(value))
        for name, value in members.items()
        if value is not None
    )


_encoder = msgspec.json.Encoder()
