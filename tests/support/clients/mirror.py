"""A mirror: a client that keeps a copy of the catalogue up to date by its changes."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import msgspec
from msgspec import Raw, Struct

from indexer.__main__ import main
from tests.support.artifacts import current
from tests.support.running import Json, service


class ChangesPage(Struct, rename={"since": "from"}):
    """A page of changes, with each service as it came."""

    since: str
    to: str
    total: int
    added: list[Raw]
    changed: list[Raw]
    removed: list[str]
    cursor: str | None


class _Identified(Struct):
    id: str


_page = msgspec.json.Decoder(ChangesPage)
_identified = msgspec.json.Decoder(_Identified)


def publish(artifacts: Path, records: list[Json], *options: str) -> str:
    """Publish services; returns the id of the snapshot."""
    artifacts.mkdir(exist_ok=True)
    source = artifacts.parent / "source.json"
    source.write_text(json.dumps(records))
    arguments = [
        "--out",
        str(artifacts),
        "--quiet",
        "--no-semantic",
        "--max-removed",
        "100%",
        *options,
    ]
    assert main(["build", str(source), *arguments]) == 0
    return current(artifacts)


def services(versions: str) -> list[Json]:
    """Return a service for each letter but `-`: its place is the id, the letter its version."""
    return [
        service(f"s{place}", version=version, big=2**70)
        for place, version in enumerate(versions)
        if version != "-"
    ]


def error(response: httpx.Response) -> tuple[int, str]:
    """Return the status and the code of an error."""
    return response.status_code, response.json()["error"]["code"]


def parse_page(response: httpx.Response) -> ChangesPage:
    """Return a page of changes; its snapshot must be the one that the header names."""
    assert response.status_code == 200, response.text
    page = _page.decode(response.content)
    assert response.headers["ratecard-snapshot"] == page.to
    return page


def id_of(record: bytes) -> str:
    """Return the id of a stored service."""
    return _identified.decode(record).id


def published_lines(artifacts: Path, snapshot: str | None = None) -> dict[str, bytes]:
    """Return the services of a snapshot on disk, by default the published one, as stored."""
    folder = artifacts / "snapshots" / (snapshot or current(artifacts))
    records = msgspec.json.decode(b"[%b]" % (folder / "records.json").read_bytes(), type=list[Raw])
    return {id_of(bytes(record)): bytes(record) for record in records}


class Mirror:
    """A copy of a catalogue: the id of its snapshot, and its services as they are stored."""

    def __init__(self, snapshot: str, lines: dict[str, bytes]) -> None:
        self.snapshot = snapshot
        self.lines = dict(lines)

    @property
    def text(self) -> bytes:
        """The services written in order of id."""
        return b"".join(b"%b\n" % self.lines[each] for each in sorted(self.lines))

    def follow(self, client: httpx.Client, limit: int = 1000, to: str | None = None) -> int:
        """Apply all changes up to a snapshot, by default the served one; return their number."""
        params = {"since": self.snapshot, "limit": str(limit)} | ({"to": to} if to else {})
        lines, ids, first = dict(self.lines), list[str](), None
        while True:
            page = parse_page(client.get("/v1/changes", params=params))
            first = first or page
            assert (page.since, page.to, page.total) == (self.snapshot, first.to, first.total)
            texts = [bytes(each) for each in (*page.added, *page.changed)]
            new = {id_of(text): text for text in texts}
            assert lines.keys().isdisjoint(map(id_of, map(bytes, page.added)))
            assert 0 < len(new) + len(page.removed) <= limit or page.total == 0
            for service_id in page.removed:
                del lines[service_id]
            lines |= new
            ids += sorted([*new, *page.removed])
            if page.cursor is None:
                break
            params = params | {"cursor": page.cursor}
        assert ids == sorted(set(ids))
        assert len(ids) == first.total
        self.snapshot, self.lines = first.to, lines
        return len(ids)
