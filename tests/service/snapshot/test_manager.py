"""A running service takes up what is published, and nothing that is damaged."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from indexer.__main__ import main
from service.app import create_app
from service.settings import Settings
from tests.support.running import (
    Build,
    eventually,
    payment,
    serve,
    serve_process,
    service,
    write_lines,
)

EVERY_OPERATION = (
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
)


def current(artifacts: Path) -> str:
    return (artifacts / "CURRENT").read_text().strip()


def folder(artifacts: Path) -> Path:
    return artifacts / "snapshots" / current(artifacts)


def serves(client: httpx.Client, snapshot: str) -> bool:
    return bool(client.get("/healthz").headers["ratecard-snapshot"] == snapshot)


def refused(client: httpx.Client) -> bool:
    return "refused" in client.get("/readyz").json()


def metric(client: httpx.Client, name: str) -> float:
    (line,) = (line for line in client.get("/metrics").text.splitlines() if line.startswith(name))
    return float(line.rpartition(" ")[2])


def mapped(process: int, snapshot: str) -> bool:
    return snapshot in Path(f"/proc/{process}/maps").read_text()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_every_worker_takes_up_what_is_published(
    workers: str, artifacts: Path, build: Build
) -> None:
    assert build([service("a")]) == 0
    with serve(artifacts, "--workers", workers) as client:
        for name in ("b", "c"):
            assert build([service(name)]) == 0
            eventually(lambda: serves(client, current(artifacts)))
            for _ in range(8):  # connections of their own may reach another worker
                address = f"{client.base_url}/v1/services/{name}"
                eventually(lambda address=address: httpx.get(address).status_code == 200)  # type: ignore[misc]  # mypy does not infer lambdas with defaults


def test_what_is_no_longer_served_is_unmapped_and_its_files_closed(
    artifacts: Path, build: Build
) -> None:
    record = service("first", name="Harbour", description="The weather of harbours")
    assert build([record], payments=[payment()]) == 0
    with serve_process(artifacts) as (client, process):
        for path in EVERY_OPERATION:
            assert client.get(path).status_code == 200
        before = current(artifacts)
        assert mapped(process.pid, before)
        files = open_files(process.pid)
        assert build([service("b")], payments=[payment()]) == 0
        eventually(lambda: serves(client, current(artifacts)))
        eventually(lambda: not mapped(process.pid, before))
        assert open_files(process.pid) == files


def open_files(process: int) -> int:
    return len(list(Path(f"/proc/{process}/fd").iterdir()))


def cut_manifest(path: Path) -> None:
    manifest = path / "manifest.json"
    manifest.write_bytes(manifest.read_bytes()[:100])


def raise_format(path: Path) -> None:
    manifest = path / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"format": ', b'"format": 9'))


def flip_a_bit(path: Path) -> None:
    records = path / "records.json"
    content = bytearray(records.read_bytes())
    content[20] ^= 1
    records.write_bytes(content)


HARMS: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "a missing file": (lambda path: (path / "records.json").unlink(), "damaged", "cannot be read"),
    "a wrong size": (lambda path: os.truncate(path / "tags.npy", 7), "damaged", "has 7 bytes"),
    "a wrong hash": (flip_a_bit, "damaged", "is not what was published"),
    "a newer format": (raise_format, "unsupported", "this version reads format"),
    "a cut manifest": (cut_manifest, "damaged", "is not a manifest"),
    "no manifest": (lambda path: (path / "manifest.json").unlink(), "damaged", "cannot be read"),
    "no folder": (shutil.rmtree, "damaged", "cannot be read"),
}


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, httpx.Client]]:
    """Artifacts, and a client of a service that follows them."""
    artifacts = tmp_path_factory.mktemp("followed")
    publish(artifacts, "first")
    with serve(artifacts) as client:
        yield artifacts, client


def publish(artifacts: Path, name: str) -> Path:
    source = write_lines(artifacts / "source.jsonl", [service(name)])
    assert main(["build", source, "--out", str(artifacts), "--quiet"]) == 0
    return folder(artifacts)


@pytest.mark.parametrize("harm", HARMS)
def test_a_snapshot_that_does_not_verify_is_refused_until_it_is_repaired(
    harm: str, followed: tuple[Path, httpx.Client], tmp_path: Path
) -> None:
    damage, code, message = HARMS[harm]
    artifacts, client = followed
    name = harm.replace(" ", "-")
    old, new, whole = publish(artifacts, f"old-{name}"), publish(artifacts, name), tmp_path / "new"
    assert main(["rollback", str(artifacts)]) == 0
    eventually(lambda: serves(client, old.name))
    shutil.copytree(new, whole)
    before = client.get("/v1/services").content
    refusals = metric(client, "ratecard_snapshot_refusals_total")
    damage(new)
    (artifacts / "CURRENT").write_text(new.name)
    eventually(lambda: refused(client))
    ready = client.get("/readyz")
    assert (ready.status_code, ready.json()["snapshot"]) == (200, old.name)
    refusal = ready.json()["refused"]
    assert refusal["code"] == f"snapshot_{code}"
    assert message in refusal["message"]
    assert "rebuild it with" in refusal["message"]
    assert metric(client, "ratecard_snapshot_refused") == 1
    assert metric(client, "ratecard_snapshot_refusals_total") == refusals + 1
    assert client.get("/v1/services").content == before

    shutil.rmtree(new, ignore_errors=True)
    whole.rename(new)
    eventually(lambda: serves(client, new.name))
    assert not refused(client)
    assert metric(client, "ratecard_snapshot_refused") == 0
    assert client.get(f"/v1/services/{name}").status_code == 200


def test_a_snapshot_that_is_rebuilt_where_it_was_damaged_is_opened_anew(
    artifacts: Path, build: Build
) -> None:
    assert build([service("a", description="as it is")]) == 0
    flip_a_bit(folder(artifacts))
    with serve_process(artifacts) as (client, process):
        eventually(lambda: refused(client))  # hashes are checked when it is served already
        assert client.get("/v1/services").status_code == 200
        assert build([service("a", description="as it is")]) == 0
        eventually(lambda: not refused(client))
        assert "as it is" in client.get("/v1/services/a").text
        eventually(lambda: "(deleted)" not in snapshot_maps(process.pid))


def snapshot_maps(process: int) -> str:
    lines = Path(f"/proc/{process}/maps").read_text().splitlines()
    return "\n".join(line for line in lines if "/snapshots/" in line)


def test_a_service_that_starts_with_a_damaged_snapshot_serves_the_one_before_it(
    artifacts: Path, build: Build
) -> None:
    for name in ("a", "b", "c", "d"):
        assert build([service(name)]) == 0
    kept = sorted((artifacts / "snapshots").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    assert kept[-1] == folder(artifacts)
    for path in kept[1:]:
        (path / "manifest.json").unlink()
    with serve(artifacts) as client:
        assert client.get("/v1/services/b").status_code == 200
        assert client.get("/readyz").json()["refused"]["code"] == "snapshot_damaged"
        assert build([service("e")]) == 0
        eventually(lambda: serves(client, current(artifacts)))
        assert not refused(client)


def test_a_rollback_is_taken_up_like_a_build(artifacts: Path, build: Build) -> None:
    assert build([service("a")]) == 0
    assert build([service("b")]) == 0
    with serve(artifacts) as client:
        assert client.get("/v1/services/b").status_code == 200
        assert main(["rollback", str(artifacts)]) == 0
        eventually(lambda: serves(client, current(artifacts)))
        assert client.get("/v1/services/a").status_code == 200


def test_a_running_service_outlives_its_artifacts(artifacts: Path, build: Build) -> None:
    record = service("first", name="Harbour", description="The weather of harbours")
    assert build([record], payments=[payment()]) == 0
    with serve(artifacts) as client, serve(artifacts) as idle:
        before = {path: client.get(path).content for path in EVERY_OPERATION}
        shutil.rmtree(artifacts)
        eventually(lambda: refused(client))
        assert client.get("/readyz").json()["refused"]["code"] == "snapshot_missing"
        for path in EVERY_OPERATION:
            assert client.get(path).content == before[path]
            assert idle.get(path).content == before[path]


def test_readiness_tells_when_a_build_last_found_nothing_to_change(
    artifacts: Path, build: Build
) -> None:
    assert build([service("a")]) == 0
    os.utime(artifacts / "CURRENT", (10**9, 10**9))
    with serve(artifacts) as client:
        first = client.get("/readyz").json()
        assert first["checked_at"] == "2001-09-09T01:46:40.000Z"
        assert build([service("a")]) == 0
        again = client.get("/readyz").json()
        assert again["checked_at"] > again["built_at"] == first["built_at"]
        assert metric(client, "ratecard_snapshot_swaps_total") == 0


def test_a_mounted_application_follows_what_is_published(artifacts: Path, build: Build) -> None:
    outer = Starlette(routes=[Mount("/shop", create_app(Settings(artifacts=str(artifacts))))])
    assert build([service("a")]) == 0

    async def ask() -> None:
        transport = httpx.ASGITransport(outer)
        async with httpx.AsyncClient(transport=transport, base_url="http://a.example") as client:
            assert (await client.get("/shop/v1/services/a")).status_code == 200
            assert await asyncio.to_thread(build, [service("b")]) == 0
            deadline = time.monotonic() + 30
            while (await client.get("/shop/v1/services/b")).status_code != 200:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.02)

    asyncio.run(ask())


def test_an_application_that_is_forgotten_looks_no_more(artifacts: Path, build: Build) -> None:
    assert build([service("a")]) == 0
    before = set(threading.enumerate())

    async def ask() -> None:
        transport = httpx.ASGITransport(create_app(Settings(artifacts=str(artifacts))))
        async with httpx.AsyncClient(transport=transport, base_url="http://a.example") as client:
            body = json.loads((await client.get("/v1/services")).content)
            assert body["total"] == 1

    asyncio.run(ask())
    gc.collect()  # Starlette's own layers refer to each other
    eventually(lambda: set(threading.enumerate()) <= before)
