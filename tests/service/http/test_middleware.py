"""Middleware: headers of every response, load shedding, and middleware added by a host."""

from __future__ import annotations

import asyncio
import inspect
import os
import shutil
import socket
import subprocess
import sys
import threading
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Mount
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.app import create_app
from service.http.middleware import LARGE_BODY
from service.settings import Settings
from service.snapshot.manager import SnapshotManager
from tests.support.processes import run_service
from tests.support.running import (
    ROOT,
    Build,
    eventually,
    in_process,
    open_client,
    serve_process,
    service,
)

PATHS = (
    "/healthz",
    "/readyz",
    "/metrics",
    "/v1/services",
    "/v1/services/tidewatch-example",
    "/v1/search/services?q=tide",
    "/",
    "/nowhere",
)


class DenyAll:
    """Middleware of a host application that responds with 401 to every request."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 401, "headers": []})
        await send({"type": "http.response.body", "body": b""})


class AddHeader:
    """Middleware of a host application that edits response headers in place."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_header(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).append("x-host", "host")
            await send(message)

        await self.app(scope, receive, send_with_header)


class ReplaceBody:
    """Middleware of a host that changes messages in place, as Starlette's GZipMiddleware does."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_suffix(message: Message) -> None:
            if message["type"] == "http.response.start":
                del MutableHeaders(scope=message)["content-length"]
            else:
                message["body"] += b"!"
            await send(message)

        await self.app(scope, receive, send_with_suffix)


def client_of(app: ASGIApp) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://a.example")


@pytest.mark.parametrize("path", PATHS)
def test_middleware_of_a_host_applies_to_every_path(path: str, sample: Path) -> None:
    app = create_app(Settings(artifacts=str(sample)))
    app.add_middleware(DenyAll)
    with in_process(app) as client:
        for _ in range(2):
            assert client.get(path).status_code == 401


def test_middleware_of_a_host_applies_to_cached_responses_once_each(sample: Path) -> None:
    app = create_app(Settings(artifacts=str(sample)))
    app.add_middleware(AddHeader)
    with in_process(app) as client:
        for path in PATHS * 3:
            response = client.get(path)
            assert response.headers.get_list("x-host") == ["host"]
            assert len(response.headers.get_list("x-request-id")) == 1


def test_middleware_of_a_host_may_change_messages_without_changing_the_cache(sample: Path) -> None:
    app = create_app(Settings(artifacts=str(sample)))
    app.add_middleware(ReplaceBody)
    with in_process(app) as client:
        client.headers["accept-encoding"] = "identity"
        first, *others = [client.get("/v1/services?limit=1").text for _ in range(3)]
        assert first.endswith("}!")
        assert others == [first, first]


@pytest.mark.parametrize("path", PATHS)
def test_the_cors_policy_of_a_host_replaces_that_of_the_application(
    path: str, sample: Path
) -> None:
    app = create_app(Settings(artifacts=str(sample)), allows_any_origin=False)
    policy = Middleware(CORSMiddleware, allow_origins=["https://shop.example"])
    outer = Starlette(routes=[Mount("/shop", app)], middleware=[policy])
    with in_process(outer) as client:
        for origin, allowed in (("https://shop.example", True), ("https://x.example", False)):
            for method in ("GET", "OPTIONS") * 2:
                response = client.request(method, f"/shop{path}", headers={"origin": origin})
                given = {name for name in response.headers if name.startswith("access-con")}
                assert given == ({"access-control-allow-origin"} if allowed else set())


def test_no_part_of_a_path_has_two_parameters() -> None:
    """Matching them takes quadratic time: of a path of 60,000 characters three seconds."""
    pytest.importorskip("mcp", reason="the extra `mcp` is not installed")
    paths = {getattr(route, "path", "") for route in create_app(Settings(mcp=True)).routes}
    assert [path for path in paths if any(part.count("{") > 1 for part in path.split("/"))] == []


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/services", 200),
        ("GET", "/v1/services?limit=0", 400),
        ("GET", "/nowhere", 404),
        ("GET", "/metrics%0a", 404),
        ("GET", "/v1/services/tidewatch-example%0A", 404),
        ("POST", "/v1/services", 405),
        ("OPTIONS", "/v1/services", 204),
        ("OPTIONS", "/nowhere", 404),
        ("HEAD", "/", 200),
    ],
)
def test_every_response_has_its_headers_once(
    method: str, path: str, status: int, client: httpx.Client
) -> None:
    for _ in range(2):
        response = client.request(method, path)
        assert response.status_code == status
        for name in (
            "x-request-id",
            "ratecard-snapshot",
            "access-control-allow-origin",
            "access-control-expose-headers",
            "x-content-type-options",
            "cache-control",
        ):
            assert len(response.headers.get_list(name)) == 1, name


def test_a_mounted_application_does_not_open_its_snapshot_on_the_event_loop(
    artifacts: Path,
) -> None:
    """Use a named pipe in place of a slow disk: a reader blocks until a writer has closed it."""
    artifacts.mkdir()
    os.mkfifo(artifacts / "CURRENT")
    (artifacts / "file").write_text("nothing")
    app = Starlette(routes=[Mount("/shop", create_app(Settings(artifacts=str(artifacts))))])

    def end_the_delay() -> None:
        with (artifacts / "CURRENT").open("w"):
            (artifacts / "file").replace(artifacts / "CURRENT")

    async def check() -> None:
        async with client_of(app) as client:
            request = asyncio.create_task(client.get("/shop/v1/services"))
            for _ in range(100):
                await asyncio.sleep(0)
            assert not request.done()
            writer = threading.Thread(target=end_the_delay)
            writer.start()
            assert (await asyncio.wait_for(request, 30)).status_code == 503
            writer.join()

    asyncio.run(check())


def test_a_restarted_lifespan_follows_new_snapshots(artifacts: Path, build: Build) -> None:
    app = create_app(Settings(artifacts=str(artifacts)))
    assert build([service("a")]) == 0

    async def wait_for_service(service_id: str) -> None:
        async with app.router.lifespan_context(app), client_of(app) as client:
            while (await client.get(f"/v1/services/{service_id}")).status_code != 200:
                await asyncio.sleep(0.02)

    asyncio.run(asyncio.wait_for(wait_for_service("a"), 30))
    assert build([service("b")]) == 0
    asyncio.run(asyncio.wait_for(wait_for_service("b"), 30))
    assert build([service("c")]) == 0
    asyncio.run(asyncio.wait_for(wait_for_service("c"), 30))


def test_a_lifespan_that_fails_leaves_no_thread_running(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: SnapshotManager) -> None:
        raise RuntimeError("no more threads")

    app = create_app(Settings(artifacts=str(sample), log_requests=True))

    async def start() -> None:
        async with client_of(app) as client:  # whose first request starts the watcher and the log
            assert (await client.get("/healthz")).status_code == 200
            assert {*threading.enumerate()} - before
            monkeypatch.setattr(SnapshotManager, "start", fail)
            async with app.router.lifespan_context(app):
                pytest.fail("the lifespan started")

    before = {*threading.enumerate()}
    with pytest.raises(RuntimeError, match="no more threads"):
        asyncio.run(start())
    assert not {*threading.enumerate()} - before


def test_an_idle_connection_does_not_keep_an_old_snapshot_mapped(
    artifacts: Path, build: Build
) -> None:
    assert build([service("a")]) == 0
    old = (artifacts / "CURRENT").read_text().strip()
    with run_service(artifacts) as server, open_client(server.address) as client:
        assert client.get("/v1/services/a").status_code == 200  # its connection stays open
        maps = Path(f"/proc/{server.pid}/maps")
        assert old in maps.read_text()
        assert build([service("b")]) == 0
        eventually(lambda: old not in maps.read_text())
        assert client.get("/v1/services/b").status_code == 200


def test_searches_and_filtered_lists_are_shed_and_plain_lists_are_not(sample: Path) -> None:
    app = create_app(Settings(artifacts=str(sample), max_lag=1e-9))
    cheap = ("/v1/services?offset=3", "/v1/services?sort=price", "/v1/services/tidewatch-example")
    expensive = (
        "/v1/services?maxPrice=0.01",
        "/v1/services?category=Data",
        "/v1/services?enriched=true",
        "/v1/services?facets=category",
        "/v1/search/services?q=tide",
        "/v1/services/tidewatch-example/openapi.json",
        "/v1/listings?url=https://api.tidewatch.example/unknown",
        "/?maxPrice=0.01",
        "/?q=tide",
    )
    with in_process(app) as client:
        assert client.get(expensive[0]).status_code == 503  # any lag exceeds the limit
        for path in cheap:
            assert client.get(path).status_code == 200
        assert client.post("/ard/search", json={"query": {"text": "tide"}}).status_code == 503
        for path in expensive:
            response = client.get(path)
            assert (response.status_code, response.headers["retry-after"]) == (503, "1")


def test_a_stalled_reader_of_the_access_log_does_not_block_the_service(sample: Path) -> None:
    reading, writing = os.pipe()
    try:
        with serve_process(sample, "--log-requests", stdout=writing) as (client, _):
            fill_log(client.base_url)
            os.close(reading)
            reading = -1
    finally:
        os.close(writing)
        if reading >= 0:
            os.close(reading)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_sigterm_ends_a_service_whose_logs_nobody_reads(sample: Path, workers: str) -> None:
    """Standard output and standard error are one pipe, which is full."""
    reading, writing = os.pipe()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = httpx.URL(f"http://127.0.0.1:{listener.getsockname()[1]}")
    command = [sys.executable, "-m", "service", "--artifacts", str(sample), "--log-requests"]
    command += ["--port", str(address.port), "--workers", workers]
    process = subprocess.Popen(command, cwd=ROOT, stdout=writing, stderr=writing)
    try:
        with open_client(address) as client:
            eventually(lambda: answers(client))
        fill_log(address)
        process.terminate()
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        os.close(reading)
        os.close(writing)


def fill_log(address: httpx.URL) -> None:
    """Send requests of some 250 KB of log, where a pipe holds 64 KB."""
    with closing(HTTPConnection(address.netloc.decode(), timeout=30)) as connection:
        for number in range(1_000):
            connection.request("GET", f"/v1/services?limit=1&n={number}")
            response = connection.getresponse()
            assert (response.status, response.read()[:1]) == (200, b"{")


def answers(client: httpx.Client) -> bool:
    try:
        return client.get("/healthz").status_code == 200
    except httpx.TransportError:
        return False


def test_a_new_release_has_new_entity_tags_for_the_same_snapshot(
    sample: Path, tmp_path: Path, client: httpx.Client
) -> None:
    shutil.copytree(Path(inspect.getfile(create_app)).parent, tmp_path / "service")
    with (tmp_path / "service" / "errors.py").open("a") as file:
        file.write("# another release\n")
    with serve_process(sample, cwd=tmp_path) as (released, _):
        for path in ("/v1/services", "/v1/services/tidewatch-example", "/v1/ecosystem/overview"):
            tag = client.get(path).headers["etag"]
            assert client.get(path, headers={"if-none-match": tag}).status_code == 304
            assert released.get(path, headers={"if-none-match": tag}).status_code == 200


def test_large_lists_at_once_are_all_answered(artifacts: Path, build: Build) -> None:
    assert build([service(f"s{n}", description=f"{n} " * 1500) for n in range(100)]) == 0
    app = create_app(Settings(artifacts=str(artifacts)))

    async def ask() -> list[httpx.Response]:
        async with client_of(app) as client:
            targets = (
                (f"/v1/services?limit=200&x={n}", {"accept-encoding": coding})
                for n in range(10)
                for coding in ("gzip", "identity")
            )
            return await asyncio.gather(
                *(client.get(path, headers=headers) for path, headers in targets)
            )

    responses = asyncio.run(ask())
    assert {response.status_code for response in responses} == {200}
    assert len({response.content for response in responses}) == 1
    assert len(responses[0].content) > LARGE_BODY
