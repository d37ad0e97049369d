"""The envelope of a list: stored JSON spliced into one answer."""

from __future__ import annotations

import orjson

from service.api.parameters import Listing
from service.snapshot.snapshot import Hits, Snapshot


def answer_listing(snapshot: Snapshot, asked: Listing) -> bytes:
    """The JSON of a `ServiceList`, the services as they are stored."""
    hits, page = find(snapshot, asked), asked.page
    store = snapshot.services if asked.with_endpoints else snapshot.summaries
    texts = store.run(hits.ordinals)
    services: list[bytes | memoryview] = [b","] * (2 * len(texts) - 1)
    services[::2] = texts
    facets = b"" if hits.facets is None else b',"facets":%b' % orjson.dumps(hits.facets)
    rest = b'],"total":%d,"limit":%d,"offset":%d%b}'
    end = rest % (hits.total, page.limit, page.offset, facets)
    return b"".join((b'{"services":[', *services, end))


def find(snapshot: Snapshot, asked: Listing) -> Hits:
    """The services of the page that is asked for."""
    page, narrowing = asked.page, asked.narrowing
    if asked.query is None:
        return snapshot.list(page.limit, page.offset, narrowing)
    return snapshot.search(asked.query, page.limit, page.offset, narrowing)
