"""Starting the service, serving without a snapshot, and mounting the application."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from openapi_spec_validator import validate
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp, Message

import service.app
from service.api.documents.openapi import document
from service.app import create_app
from service.serve import main as run_service
from service.settings import Settings
from service.snapshot import Snapshot, manager
from service.snapshot.manager import SnapshotManager, open_served
from tests.support.artifacts import folder
from tests.support.running import ROOT, Build, eventually, in_process, open_app, run_fork
from tests.support.running import service as record


def fetch(app: ASGIApp, path: str, root_path: str = "") -> httpx.Response:
    with in_process(app, root_path) as client:
        return client.get(path)


def test_without_a_snapshot_operations_are_503_and_health_is_200(tmp_path: Path) -> None:
    with open_app(tmp_path) as client:
        assert client.get("/healthz").json() == {"status": "ok"}
        assert client.get("/nowhere").status_code == 404
        for path in ("/v1/services", "/v1/services/a", "/readyz", "/openapi.json"):
            response = client.get(path)
            assert response.status_code == 503
            assert int(response.headers["retry-after"]) > 0
            assert "ratecard-snapshot" not in response.headers
            error = response.json()["error"]
            assert error["code"] == "snapshot_missing"
            assert "run `ratecard build SOURCE" in error["message"]


def test_a_first_snapshot_is_served_without_a_restart(artifacts: Path, build: Build) -> None:
    with open_app(artifacts) as client:
        assert client.get("/readyz").status_code == 503
        assert build([record("a")]) == 0
        eventually(lambda: client.get("/v1/services/a").status_code == 200)


def test_a_request_does_not_wait_for_the_watcher_to_open_the_first_snapshot(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = create_app(Settings(artifacts=str(sample)))
    snapshots: SnapshotManager = app.state.context.snapshots
    opening, may_open = threading.Event(), threading.Event()

    def open_slowly(*arguments: Any) -> Snapshot:
        opening.set()
        assert may_open.wait(20)
        return open_served(*arguments)

    monkeypatch.setattr(manager, "open_served", open_slowly)
    snapshots.start()
    try:
        assert opening.wait(20)
        assert fetch(app, "/v1/services").status_code == 503
        may_open.set()
        eventually(lambda: fetch(app, "/v1/services").status_code == 200)
    finally:
        may_open.set()
        snapshots.stop()


@pytest.mark.parametrize("name", ["manifest.json", "services.arrays"])
def test_a_damaged_file_of_unchanged_size_is_not_served_until_it_is_repaired(
    name: str, artifacts: Path, build: Build
) -> None:
    assert build([record("a")]) == 0
    (path,) = (artifacts / "snapshots").glob(f"*/{name}")
    path.write_bytes(b"\xff" * path.stat().st_size)
    with open_app(artifacts) as client:
        response = client.get("/v1/services")
        assert (response.status_code, response.json()["error"]["code"]) == (503, "snapshot_damaged")
        assert "rebuild it" in response.json()["error"]["message"]
        assert build([record("a")]) == 0
        eventually(lambda: client.get("/v1/services/a").status_code == 200)


@pytest.mark.parametrize("damage", ["no snapshot", "a cut manifest"])
def test_only_readiness_names_files_of_the_operator(
    damage: str, artifacts: Path, build: Build
) -> None:
    artifacts.mkdir()
    if damage == "a cut manifest":
        assert build([record("a")]) == 0
        os.truncate(folder(artifacts) / "manifest.json", 10)
    with open_app(artifacts) as client:
        assert str(artifacts) in client.get("/readyz").json()["error"]["message"]
        for path in ("/v1/services", "/v1/search/services?q=a", "/v1/snapshots/current", "/"):
            response = client.get(path, headers={"Accept": "text/html"})
            assert response.status_code == 503
            assert artifacts.name not in response.text


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_port_in_use_is_a_startup_error(workers: str, sample: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = str(listener.getsockname()[1])
        arguments = ["--artifacts", str(sample), "--port", port, "--workers", workers]
        process = run_fork(run_service, *arguments)
    assert process.returncode == 3
    assert "address already in use" in process.stderr.lower()
    assert "Traceback" not in process.stderr


def test_importing_the_module_builds_no_application() -> None:
    program = (
        "import sys, threading, service.app; assert 'app' not in vars(service.app); "
        "assert threading.active_count() == 1 and 'mcp' not in sys.modules"
    )
    environment = os.environ | {
        "RATECARD_MAX_AGE": "oops",
        "RATECARD_LOG_REQUESTS": "true",
        "RATECARD_MCP": "true",
    }
    command = [sys.executable, "-c", program]
    assert subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode == 0


def test_the_application_of_the_module_is_created_once(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATECARD_ARTIFACTS", str(sample))
    monkeypatch.delitem(vars(service.app), "app", raising=False)
    app = service.app.app
    assert fetch(app, "/readyz").status_code == 200
    assert service.app.app is app
    with pytest.raises(AttributeError, match="no attribute `nothing`"):
        service.app.nothing  # noqa: B018  # the look-up is the test
    monkeypatch.delitem(vars(service.app), "app")


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize("target", ["run", "serve"])
def test_make_passes_a_port_only_when_one_is_given(target: str) -> None:
    def dry_run(*arguments: str) -> str:
        inherited = {"PORT", "MAKEFLAGS", "MAKELEVEL", "MFLAGS"}
        environment = {name: os.environ[name] for name in os.environ if name not in inherited}
        command = ["make", "--dry-run", "--no-print-directory", target, *arguments]
        return subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        ).stdout

    assert "-m service" in dry_run()
    assert "--port" not in dry_run()
    assert "-m service --port 8781" in dry_run("PORT=8781")


def test_a_mounted_application_serves_its_paths_under_the_prefix(sample: Path) -> None:
    outer = Starlette(routes=[Mount("/shop", create_app(Settings(artifacts=str(sample))))])
    with in_process(outer) as client:
        listing = client.get("/shop/v1/services?limit=1")
        assert listing.status_code == 200
        service_id = listing.json()["services"][0]["id"]
        assert client.get(f"/shop/v1/services/{service_id}").status_code == 200
        assert client.get("/shop/healthz").json() == {"status": "ok"}
        assert client.get("/shop/nowhere").json()["error"]["code"] == "path_not_found"
        openapi = client.get("/shop/openapi.json").json()
        assert openapi["servers"] == [{"url": "/shop"}]
        assert client.get("/v1/services").status_code == 404


@pytest.mark.parametrize("path", ["/healthz", "/api/healthz"])
def test_health_is_served_with_and_without_the_root_path_in_the_path(
    path: str, tmp_path: Path
) -> None:
    app = create_app(Settings(artifacts=str(tmp_path)))
    assert fetch(app, path, root_path="/api").status_code == 200
    assert fetch(app, "/api/readyz", root_path="/api").status_code == 503


@pytest.mark.parametrize(
    ("root_path", "server"),
    [("", "/"), ("/", "/"), ("/api", "/api"), ("/api/", "/api"), ("/a b/{c}", "/a%20b/%7Bc%7D")],
)
def test_the_openapi_document_names_the_mount_path_as_its_server(
    root_path: str, server: str
) -> None:
    openapi = json.loads(document(root_path))
    assert openapi["servers"] == [{"url": server}]
    assert openapi["openapi"] == "3.1.0"


def test_openapi_descriptions_of_responses_are_not_class_docstrings() -> None:
    for response in json.loads(document(""))["components"]["responses"].values():
        assert "Base of" not in response["description"]
        assert "the base of" not in response["description"]


def test_the_openapi_document_names_the_tenant_in_a_mount_path(sample: Path) -> None:
    app = create_app(Settings(artifacts=str(sample)))
    outer = Starlette(routes=[Mount("/t/{tenant}", app)])
    for tenant in ("a", "b", "ü"):
        response = fetch(outer, f"/t/{tenant}/openapi.json")
        assert response.json()["servers"] == [{"url": f"/t/{quote(tenant)}"}]


@pytest.mark.parametrize("path", ["/\udcff", "/v1/services/\udcff", "/v1/\ud800/x"])
def test_a_path_with_a_lone_surrogate_is_404(sample: Path, path: str) -> None:
    """Call the application directly: some ASGI servers pass such paths, uvicorn does not."""
    messages: list[Any] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        messages.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": []}
    asyncio.run(create_app(Settings(artifacts=str(sample)))(scope, receive, send))
    assert messages[0]["status"] == 404
    assert json.loads(messages[1]["body"])["error"]["code"].endswith("_not_found")


def test_the_application_imports_without_the_dependencies_of_the_indexer() -> None:
    program = (
        "import sys; sys.modules.update(duckdb=None, httpx=None, rich=None); "
        "import service.app, service.snapshot; assert 'indexer' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0


def test_a_served_application_keeps_its_modules_out_of_garbage_collections() -> None:
    program = (
        "import gc, service.app; assert not gc.get_freeze_count(); "
        "service.app.app; assert gc.get_freeze_count() > len(gc.get_objects())"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0


def test_the_openapi_document_is_valid_and_its_paths_are_served(client: httpx.Client) -> None:
    openapi = client.get("/openapi.json").json()
    validate(openapi)
    assert openapi["openapi"] == "3.1.0"
    assert openapi["info"]["version"] == "1.0.0"
    for path, operations in openapi["paths"].items():
        for method, operation in operations.items():
            parameters = operation["parameters"]
            named = [each for each in parameters if each["in"] == "path"]
            ids = {each["name"]: each["example"] for each in named}
            assert client.request(method, path.format(**ids)).status_code in {200, 400}
            assert operation["summary"]
            assert {"200", "405", "500"} <= operation["responses"].keys()
            assert all(parameter["description"] for parameter in operation["parameters"])
