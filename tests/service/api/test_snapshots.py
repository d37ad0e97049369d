"""`/v1/snapshots` over HTTP: the snapshots that are kept, and the one being served."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx
import msgspec
import pytest

from service.app import create_app
from service.settings import Settings
from service.snapshot.manifest import MANIFEST, sha256
from service.snapshot_records import SnapshotEnvelope, SnapshotList
from tests.support.artifacts import current, folder
from tests.support.running import Build, eventually, serve, service

_list = msgspec.json.Decoder(SnapshotList)
_envelope = msgspec.json.Decoder(SnapshotEnvelope)


def listed(client: httpx.Client) -> list[str]:
    """Return the ids of the listed snapshots."""
    response = client.get("/v1/snapshots")
    assert (response.status_code, response.headers["cache-control"]) == (200, "no-store")
    return [snapshot.id for snapshot in _list.decode(response.content).snapshots]


def test_the_current_snapshot_is_described_as_its_manifest_and_readiness_do(
    client: httpx.Client, sample: Path
) -> None:
    response = client.get("/v1/snapshots/current")
    described = response.json()["snapshot"]
    ready = client.get("/readyz").json()
    assert described["id"] == ready["snapshot"] == response.headers["ratecard-snapshot"]
    assert [described[each] for each in ("built_at", "checked_at", "counts")] == [
        ready[each] for each in ("built_at", "checked_at", "counts")
    ]
    assert client.get("/v1/snapshots").json() == {"snapshots": [described]}
    _envelope.decode(response.content)
    manifest = json.loads((folder(sample) / MANIFEST).read_bytes())
    archives = [file["path"] for file in described["downloads"]]
    assert archives == [f"{described['id']}.jsonl.zst", f"{described['id']}.tar.zst"]
    for file in described["downloads"]:
        archive = client.get(f"/v1/snapshots/{file['path']}")
        assert (file["bytes"], f'"{file["sha256"]}"') == (
            len(archive.content),
            archive.headers["etag"],
        )
    paths = [file["path"] for file in described["files"]]
    assert paths == sorted(manifest["files"])
    for file in described["files"]:
        path = folder(sample) / file["path"]
        assert (file["bytes"], file["sha256"]) == (path.stat().st_size, sha256(path))


def test_kept_snapshots_are_listed_newest_first_while_builds_publish_and_remove(
    artifacts: Path, build: Build
) -> None:
    assert build([service("a")]) == 0
    published = [current(artifacts)]
    with serve(artifacts) as client:
        assert listed(client) == published
        for name in "bc":
            assert build([service(name)], options=("--keep", "2")) == 0
            published.insert(0, current(artifacts))
            eventually(lambda: listed(client) == published[:2])
        assert build([service("c")], options=("--keep", "1")) == 0  # nothing changed
        eventually(lambda: listed(client) == published[:1])
        assert client.get("/v1/snapshots/current").json()["snapshot"]["id"] == published[0]


def test_a_served_snapshot_that_was_removed_is_still_listed(artifacts: Path, build: Build) -> None:
    assert build([service("a")]) == 0
    app = create_app(Settings(artifacts=str(artifacts)))

    async def ask() -> None:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://a.example") as client:
            await client.get("/healthz")
            artifacts.rename(artifacts.with_name("moved"))
            app.state.context.snapshots.poll()
            for path in ("/v1/snapshots", "/v1/snapshots/current"):
                assert app.state.context.snapshots.opened.id in (await client.get(path)).text

    asyncio.run(ask())


@pytest.mark.parametrize("path", ["/v1/snapshots", "/v1/snapshots/current"])
def test_without_a_snapshot_they_are_unavailable(path: str, tmp_path: Path) -> None:
    app = create_app(Settings(artifacts=str(tmp_path)))

    async def ask() -> None:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://a.example") as client:
            response = await client.get(path)
            assert (response.status_code, response.json()["error"]["code"]) == (
                503,
                "snapshot_missing",
            )

    asyncio.run(ask())
