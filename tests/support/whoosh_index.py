"""Whoosh indexes of small catalogues."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from whoosh.query import Query

from indexer.columns.records import Contents
from indexer.processes.pool import Pool
from indexer.record_store import KEY_SIZE
from indexer.segments.postings import GONE
from indexer.segments.segment import SegmentParameters, SegmentWriter
from indexer.whoosh_index.files import open_whoosh_index
from indexer.whoosh_index.schema import parse_query
from indexer.whoosh_index.update import publish_whoosh_index, start_whoosh_index
from service.artifacts.publishing import WHOOSH, stage
from service.storage.texts import write_ids
from tests.support.artifacts import current, listed

Texts = tuple[str, str, str]
"""Name, description and category."""
Catalogue = Mapping[str, Texts]
"""The texts of services by their ids."""


def write_index(
    artifacts: Path, snapshot_id: str, services: Catalogue, before: str = "", segments: int = 1
) -> None:
    """Write the index of a snapshot with these services, and the ids if there is no snapshot.

    The services are in `segments` segments, each with a service that is gone.
    """
    ids = list(services)
    if not (folder := artifacts / "snapshots" / snapshot_id).exists():
        folder.mkdir(parents=True)
        write_ids(folder, ids)
    with TemporaryDirectory() as temporary, stage(artifacts, keep=None):
        written = []
        for number in range(segments):
            own = np.arange(number, len(ids), segments, dtype=np.int32)
            path = Path(temporary, str(number))
            gone = ("gone", ("gone", "gone", "gone"))
            _write_segment(path, [(ids[n], services[ids[n]]) for n in own.tolist()] + [gone])
            written.append((path, np.append(own, np.int32(GONE))))
        with Pool(segments, 2**30) as pool:
            parts = start_whoosh_index(pool, artifacts, before, folder, written)
            publish_whoosh_index(artifacts, snapshot_id, parts)


def index_published(artifacts: Path) -> Path:
    """Write the index of the published snapshot; returns its folder."""
    texts = {
        each["id"]: (each["name"], each["description"], each.get("category", ""))
        for each in listed(artifacts)
    }
    write_index(artifacts, current(artifacts), texts)
    return artifacts / WHOOSH / current(artifacts)


def ids_of(artifacts: Path, snapshot_id: str, query: str | Query) -> set[str]:
    """Return the ids of the services that match a query."""
    parsed = parse_query(query) if isinstance(query, str) else query
    with open_whoosh_index(artifacts, snapshot_id).searcher() as searcher:
        hits = [hit["id"] for hit in searcher.search(parsed, limit=None)]
    assert len(hits) == len(set(hits))
    return set(hits)


def _write_segment(path: Path, services: Sequence[tuple[str, Texts]]) -> None:
    writer = SegmentWriter(path, SegmentParameters(""), None)
    for service_id, (name, description, category) in services:
        text = repr((service_id, name, description, category)).encode()
        key = hashlib.sha256(text).digest()[:KEY_SIZE]
        writer.add(key, Contents((name, description, category, "", ""), []))
    writer.finish()
