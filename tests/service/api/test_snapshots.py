"""`/v1/snapshots` over HTTP: the snapshots that are kept, and the one being served."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx
import msgspec
import pytest

from service.app import create_app
from service.schema.snapshots import SnapshotEnvelope, SnapshotList
from service.settings import Settings
from service.snapshot.manifest import MANIFEST, read_manifest, sha256
from tests.support.artifacts import current, folder
from tests.support.running import Build, eventually, serve, service

_list = msgspec.json.Decoder(SnapshotList)
_envelope = msgspec.json.Decoder(SnapshotEnvelope)


def listed(client: httpx.Client) -> list[str]:
    """Return the ids of the listed snapshots."""
    response = client.get("/v1/snapshots")
    assert (response.status_code, response.headers["cache-control"]) == (200, "no-cache")
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


def test_each_kept_snapshot_is_described_as_in_the_list(artifacts: Path, build: Build) -> None:
    for name in "abc":
        assert build([service(name)], options=("--keep", "2")) == 0
    with serve(artifacts) as client:
        items = client.get("/v1/snapshots").json()["snapshots"]
        assert len(items) == 2
        for item in items:
            response = client.get(f"/v1/snapshots/{item['id']}")
            assert response.json() == {"snapshot": item}
            assert response.headers["ratecard-snapshot"] == item["id"]
        unknown = client.get(f"/v1/snapshots/{'0' * 20}")
        assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "snapshot_not_found")
        (removed,) = read_manifest(folder(artifacts)).earlier[:1]
        gone = client.get(f"/v1/snapshots/{removed}")
        assert (gone.status_code, gone.json()["error"]["code"]) == (410, "snapshot_gone")


def test_the_list_is_cached_and_compressed_until_a_snapshot_comes_or_goes(
    artifacts: Path, build: Build
) -> None:
    assert build([service("a")]) == 0
    with serve(artifacts) as client:
        before = client.get("/v1/snapshots", headers={"Accept-Encoding": "gzip"})
        assert before.headers["content-encoding"] == "gzip"
        known = {"If-None-Match": before.headers["etag"], "Accept-Encoding": "gzip"}
        assert client.get("/v1/snapshots?unknown", headers=known).status_code == 304
        assert "ratecard_cache_hits_total 1.0" in client.get("/metrics").text
        assert build([service("a")]) == 0  # which changes nothing but `checked_at`
        eventually(lambda: client.get("/v1/snapshots", headers=known).status_code == 200)


def test_the_newest_snapshots_are_listed_and_the_others_described_by_their_ids(
    artifacts: Path, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.api.snapshots.MAX_LISTED", 2)
    published = []
    for name in "abc":
        assert build([service(name)]) == 0
        published.append(current(artifacts))

    async def ask() -> None:
        transport = httpx.ASGITransport(create_app(Settings(artifacts=str(artifacts))))
        async with httpx.AsyncClient(transport=transport, base_url="http://a.example") as client:
            response = await client.get("/v1/snapshots")
            listed = [snapshot.id for snapshot in _list.decode(response.content).snapshots]
            assert listed == published[:0:-1]
            oldest = await client.get(f"/v1/snapshots/{published[0]}")
            assert _envelope.decode(oldest.content).snapshot.id == published[0]

    asyncio.run(ask())


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
