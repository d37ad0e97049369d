"""Large lists: whole, compressed and cached, with memory that clients share."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import httpx
import numpy as np
import pytest

from indexer.catalogue.records import MAX_SERVICE
from service.app import create_app
from service.settings import Settings
from service.snapshot.resources import MAX_PAGE
from tests.support.memory import anonymous_memory
from tests.support.processes import run_service
from tests.support.running import (
    Build,
    Json,
    build_records,
    eventually,
    in_process,
    serve,
    service,
)

COUNT = 12
LISTING, SEARCH = "/v1/services?limit=200", "/v1/search/services?q=harbour&limit=200"
CLIENTS = 40


def large_services(name: str = "Harbour") -> list[Json]:
    """Return services of nearly the largest size."""
    texts = np.random.default_rng(1).bytes(COUNT * MAX_SERVICE // 2).hex()
    step = MAX_SERVICE - 2000
    return [
        service(f"s{n:02}", name=name, unknown=texts[n * step : (n + 1) * step])
        for n in range(COUNT)
    ]


@pytest.fixture(scope="module")
def artifacts_of_large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_records(tmp_path_factory.mktemp("large"), large_services())


@pytest.fixture(scope="module")
def client(artifacts_of_large: Path) -> Iterator[httpx.Client]:
    with serve(artifacts_of_large) as client:
        yield client


@pytest.mark.parametrize("coding", ["gzip", "identity"])
@pytest.mark.parametrize("path", [LISTING, SEARCH])
def test_every_record_of_a_large_list_is_whole(
    path: str, coding: str, client: httpx.Client
) -> None:
    found: list[Json] = []
    for limit in (8, 200):
        target = f"{path}&offset={len(found)}"
        response = client.get(target, headers={"Accept-Encoding": coding})
        page = response.json()
        assert (page["total"], page["limit"], page["offset"]) == (COUNT, limit, len(found))
        found += page["services"]
        assert len(response.content) / len(page["services"]) > 0.9 * MAX_SERVICE
        assert len(response.content) < MAX_PAGE + 100
        assert response.headers.get("content-encoding", "identity") == coding
        assert int(response.headers["content-length"]) == response.num_bytes_downloaded
    assert len(found) == COUNT
    for record in found:
        assert record == client.get(f"/v1/services/{record['id']}").json()["service"]


@pytest.mark.parametrize("path", [LISTING, f"{LISTING}&endpoints=none", f"{SEARCH}&explain=true"])
def test_a_list_of_services_larger_than_a_page_goes_on_after_its_limit(
    path: str, artifacts_of_large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []
    with in_process(create_app(Settings(artifacts=str(artifacts_of_large)))) as client:
        whole = [each["id"] for each in client.get(path.replace("200", "7")).json()["services"]]
        for size, count in ((1000, 1), (2 * MAX_SERVICE, 2), (10 * MAX_SERVICE, 4)):
            monkeypatch.setattr("service.api.listing.MAX_PAGE", size)
            page = client.get(f"{path.replace('200', '4')}&offset={len(found)}").json()
            assert page["limit"] == count
            assert len(page.get("explanations", page["services"])) == count
            found += [each["id"] for each in page["services"]]
    assert found == whole


def test_the_largest_list_of_the_sample_is_compressed_to_a_fraction(sample: Path) -> None:
    with serve(sample) as client:
        response = client.get("/v1/services?limit=200", headers={"Accept-Encoding": "gzip"})
    assert response.num_bytes_downloaded < len(response.content) / 6
    assert len(response.content) > 2**20


@pytest.mark.parametrize("path", [LISTING, SEARCH])
def test_clients_that_read_nothing_of_a_large_list_share_its_memory(
    path: str, artifacts_of_large: Path
) -> None:
    path = path.replace("200", "6")
    with run_service(artifacts_of_large) as server, server.client() as client, ExitStack() as stack:
        assert client.get(path, headers={"Accept-Encoding": "identity"}).status_code == 200
        before = anonymous_memory(server.pid)
        for _ in range(CLIENTS):
            stalled = stack.enter_context(closing(socket.socket()))
            stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stalled.connect(("127.0.0.1", server.port))
            stalled.sendall(f"GET {path} HTTP/1.1\r\nHost: a.example\r\n\r\n".encode())
            assert stalled.recv(1)
        assert anonymous_memory(server.pid) - before < CLIENTS * MAX_SERVICE / 4


@pytest.mark.parametrize("count", [1, 4])
def test_a_client_that_pipelines_and_does_not_read_does_not_keep_an_old_snapshot_mapped(
    count: int, artifacts: Path, build: Build
) -> None:
    padding = "x" * (MAX_SERVICE * 3 // 4)
    assert build([service(f"a{number}", padding=padding) for number in range(count)]) == 0
    old = (artifacts / "CURRENT").read_text().strip()
    with (
        run_service(artifacts) as server,
        server.client() as client,
        closing(socket.socket()) as stalled,
    ):
        stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stalled.connect(("127.0.0.1", server.port))
        stalled.sendall(b"GET /v1/services HTTP/1.1\r\nHost: a.example\r\n\r\n" * 12)
        assert stalled.recv(1)
        assert build([service("b")], keys={"max_removed": "100%"}) == 0
        maps = Path(f"/proc/{server.pid}/maps")
        eventually(lambda: old not in maps.read_text(), 20)
        assert client.get("/v1/services/b").status_code == 200
