"""Whoosh indexes of small catalogues."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from whoosh.searching import Searcher

from indexer.cli.query import parse_query
from indexer.record_store import write_records
from indexer.whoosh_index import FIELDS, open_whoosh_index, update_whoosh_index
from service.artifacts.publishing import LOCK, stage

Texts = tuple[str, str, str]
"""Name, description and category."""
Catalogue = Mapping[str, Texts]
"""The texts of services by their ids."""


def write_snapshot(artifacts: Path, snapshot_id: str, services: Catalogue) -> None:
    """Write the records of these services, in a folder of artifacts."""
    folder = artifacts / "snapshots" / snapshot_id
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (artifacts / LOCK).touch()
    records = (
        {"id": service_id, "endpoints": [], **dict(zip(FIELDS, texts, strict=True))}
        for service_id, texts in services.items()
    )
    write_records(folder, (json.dumps(record).encode() for record in records))


def write_index(artifacts: Path, snapshot_id: str, services: Catalogue) -> None:
    """Bring the index up to date with a snapshot of these services."""
    write_snapshot(artifacts, snapshot_id, services)
    with stage(artifacts, keep=None):
        assert update_whoosh_index(artifacts, snapshot_id) == []


def ids_of(artifacts: Path, snapshot_id: str, query: str) -> set[str]:
    """Return the ids of the services that match a query."""
    with open_whoosh_index(artifacts, snapshot_id).searcher() as searcher:
        return matches(searcher, query)


def matches(searcher: Searcher, query: str) -> set[str]:
    """Return the ids of the services that match a query."""
    hits = [hit["id"] for hit in searcher.search(parse_query(query), limit=None)]
    assert len(hits) == len(set(hits))
    return set(hits)
