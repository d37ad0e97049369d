"""Feeds of 25 items, and reading one feed as a build reads several."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from indexer.errors import SourceError
from indexer.feeds.reader import Feed, fetch_feeds
from indexer.options import Limits
from indexer.sources.records import read_records
from tests.support.misbehaving import Behaviour, misbehaving, pages_of
from tests.support.running import Json, service

QUICK = Limits(seconds=30, backoff=0.001, attempts=3)


def resource(number: int, **fields: Any) -> Json:
    """A minimal discovered resource."""
    return {"resource": f"https://a.example/{number}", "accepts": [{"amount": "1"}]} | fields


RESOURCES = [resource(number) for number in range(25)]
SERVICES = [service(f"s{number}") for number in range(25)]
LINES = b"".join(json.dumps(record).encode() + b"\n" for record in SERVICES)
WHOLE = pages_of(RESOURCES)


def fetch_feed(url: str, cache: Path, limits: Limits = QUICK) -> Feed:
    """Read one feed."""
    [feed] = fetch_feeds([url], cache, limits)
    return feed


def items_of(feed: Feed) -> list[Any]:
    """The records of a feed that was read."""
    return [json.loads(record.text) for record in read_records(str(feed.path))]


def failure(behaviour: Behaviour, cache: Path, limits: Limits = QUICK) -> str:
    """Return the error of a feed that cannot be read; nothing may remain in the cache."""
    with misbehaving(behaviour) as server:
        with pytest.raises(SourceError) as raised:
            fetch_feed(server.url, cache, limits)
        assert str(raised.value).startswith(server.origin)
    assert [path for path in cache.rglob("*") if path.is_file()] == []
    return str(raised.value)
