"""Hot swaps in a running service: new snapshots, rollbacks, damaged snapshots."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import shutil
import threading
import time
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from indexer.__main__ import main
from service.app import create_app
from service.settings import Settings
from tests.support.artifacts import current, flip_a_bit
from tests.support.processes import ServiceProcess, run_service
from tests.support.publishing import publish_service
from tests.support.running import Build, eventually, open_client, payment, serve, service

ALL_OPERATIONS = (
    "/v1/services",
    "/v1/services?sort=price&category=Data&facets=network",
    "/v1/services?endpoints=none",
    "/v1/services/first",
    "/v1/search/services?q=harbour+weather",
    "/v1/search/services?q=haarbour+wea&match=all",
    "/v1/ecosystem/overview",
    "/v1/ecosystem/stats",
    "/v1/ecosystem/transactions",
    "/openapi.json",
    "/?q=harbour",
    "/endpoints?q=harbour",
    "/services/first",
    "/ecosystem",
    "/listed?url=https://a.example/",
)


def serves(client: httpx.Client, snapshot: str) -> bool:
    """Return whether the service has swapped in this snapshot."""
    return bool(client.get("/healthz").headers["ratecard-snapshot"] == snapshot)


def has_refused(client: httpx.Client) -> bool:
    return "refused" in client.get("/readyz").json()


def metric(client: httpx.Client, name: str) -> float:
    (line,) = (line for line in client.get("/metrics").text.splitlines() if line.startswith(name))
    return float(line.rpartition(" ")[2])


def mapped(server: ServiceProcess, snapshot: str) -> bool:
    return snapshot in Path(f"/proc/{server.process.pid}/maps").read_text()


def open_files(server: ServiceProcess) -> int:
    return len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))


@pytest.mark.parametrize("workers", [1, 2])
def test_every_worker_swaps_in_a_published_snapshot(workers: int, artifacts: Path) -> None:
    publish_service(artifacts, "a")
    with run_service(artifacts, workers=workers) as server, server.client() as client:
        for name in ("b", "c"):
            publish_service(artifacts, name)
            eventually(lambda: serves(client, current(artifacts)))
            path = f"/v1/services/{name}"
            for _ in range(8):  # each on a new connection, which reaches any worker
                eventually(lambda path=path: client.get(path).status_code == 200)  # type: ignore[misc]  # mypy does not infer lambdas with defaults


def test_an_old_snapshot_is_unmapped_and_its_files_are_closed(
    artifacts: Path, build: Build
) -> None:
    record = service("first", name="Harbour", description="The weather of harbours")
    assert build([record], payments=[payment()]) == 0
    with (
        run_service(artifacts) as server,
        open_client(f"http://127.0.0.1:{server.port}") as client,
    ):
        for path in ALL_OPERATIONS:
            assert client.get(path).status_code == 200
        before = current(artifacts)
        assert mapped(server, before)
        files = open_files(server)
        assert build([service("b")], payments=[payment()]) == 0
        eventually(lambda: serves(client, current(artifacts)))
        eventually(lambda: not mapped(server, before))
        assert open_files(server) == files


def test_a_damaged_snapshot_is_refused_and_reported_until_it_is_repaired(
    artifacts: Path, tmp_path: Path
) -> None:
    new = publish_service(artifacts, "new")
    moved = new.rename(tmp_path / new.name)
    publish_service(artifacts, "old")
    old = current(artifacts)
    with serve(artifacts) as client:
        before = client.get("/v1/services").content
        shutil.copytree(moved, new)
        flip_a_bit(new / "records.json")
        (artifacts / "CURRENT").write_text(new.name)
        eventually(lambda: has_refused(client))
        ready = client.get("/readyz")
        assert (ready.status_code, ready.json()["snapshot"]) == (200, old)
        refusal = ready.json()["refused"]
        assert refusal["code"] == "snapshot_damaged"
        assert "is not what was published; rebuild it with" in refusal["message"]
        eventually(lambda: metric(client, "ratecard_snapshot_refused") == 1)
        assert metric(client, "ratecard_snapshot_refusals_total") == 1
        assert client.get("/v1/services").content == before

        shutil.rmtree(new)
        moved.rename(new)
        eventually(lambda: serves(client, new.name))
        eventually(lambda: not has_refused(client))
        eventually(lambda: metric(client, "ratecard_snapshot_refused") == 0)
        assert client.get("/v1/services/new").status_code == 200


def test_a_start_with_a_damaged_snapshot_serves_the_previous_one(
    artifacts: Path,
) -> None:
    publish_service(artifacts, "a")
    (publish_service(artifacts, "b") / "manifest.json").unlink()
    with serve(artifacts) as client:
        assert client.get("/v1/services/a").status_code == 200
        assert client.get("/readyz").json()["refused"]["code"] == "snapshot_damaged"


def test_a_rollback_is_swapped_in(artifacts: Path) -> None:
    for name in ("a", "b"):
        publish_service(artifacts, name)
    with serve(artifacts) as client:
        assert client.get("/v1/services/b").status_code == 200
        assert main(["rollback", str(artifacts)]) == 0
        eventually(lambda: serves(client, current(artifacts)))
        assert client.get("/v1/services/a").status_code == 200


def test_a_running_service_serves_without_its_artifacts_folder(
    artifacts: Path, build: Build
) -> None:
    record = service("first", name="Harbour", description="The weather of harbours")
    assert build([record], payments=[payment()]) == 0
    with serve(artifacts) as client, serve(artifacts) as idle:
        before = {path: client.get(path).content for path in ALL_OPERATIONS}
        shutil.rmtree(artifacts)
        eventually(lambda: has_refused(client))
        assert client.get("/readyz").json()["refused"]["code"] == "snapshot_missing"
        for path in ALL_OPERATIONS:
            assert client.get(path).content == before[path]
            assert idle.get(path).content == before[path]


def test_readiness_has_the_time_of_the_last_build_without_changes(
    artifacts: Path, build: Build
) -> None:
    assert build([service("a")]) == 0
    os.utime(artifacts / "CURRENT", (10**9, 10**9))
    with serve(artifacts) as client:
        first = client.get("/readyz").json()
        assert first["checked_at"] == "2001-09-09T01:46:40.000Z"
        assert build([service("a")]) == 0
        eventually(lambda: client.get("/readyz").json()["checked_at"] > first["built_at"])
        assert client.get("/readyz").json()["built_at"] == first["built_at"]
        assert metric(client, "ratecard_snapshot_swaps_total") == 0


def test_a_mounted_application_swaps_in_new_snapshots(artifacts: Path) -> None:
    outer = Starlette(routes=[Mount("/shop", create_app(Settings(artifacts=str(artifacts))))])
    publish_service(artifacts, "a")

    async def check() -> None:
        transport = httpx.ASGITransport(outer)
        async with httpx.AsyncClient(transport=transport, base_url="http://a.example") as client:
            assert (await client.get("/shop/v1/services/a")).status_code == 200
            await asyncio.to_thread(publish_service, artifacts, "b")
            deadline = time.monotonic() + 30
            while (await client.get("/shop/v1/services/b")).status_code != 200:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.02)

    asyncio.run(check())


def test_the_watcher_ends_with_its_application(artifacts: Path) -> None:
    publish_service(artifacts, "a")
    before = set(threading.enumerate())

    async def check() -> None:
        transport = httpx.ASGITransport(create_app(Settings(artifacts=str(artifacts))))
        async with httpx.AsyncClient(transport=transport, base_url="http://a.example") as client:
            body = json.loads((await client.get("/v1/services")).content)
            assert body["total"] == 1

    asyncio.run(check())
    gc.collect()  # Starlette's middleware stack has reference cycles
    eventually(lambda: set(threading.enumerate()) <= before)
