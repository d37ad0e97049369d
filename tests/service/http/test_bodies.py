"""Long bodies: lists above 1 MiB, sent as they lie in the snapshot."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.__main__ import main
from indexer.catalogue.record import MAX_SERVICE
from indexer.processes.resources import anonymous_memory
from service.errors import SlowClient
from service.http import bodies
from service.http.bodies import MAX_JOINED, SLICE, LongBody, join
from tests.support.processes import run_service
from tests.support.running import (
    Build,
    Json,
    eventually,
    serve,
    serve_process,
    service,
    write_lines,
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
    folder = tmp_path_factory.mktemp("large")
    source = write_lines(folder / "source.jsonl", large_services())
    options = ("--out", str(folder / "artifacts"), "--quiet", "--no-downloads")
    assert main(["build", source, *options]) == 0
    return folder / "artifacts"


@pytest.fixture(scope="module")
def client(artifacts_of_large: Path) -> Iterator[httpx.Client]:
    with serve(artifacts_of_large) as client:
        yield client


@pytest.mark.parametrize("path", [LISTING, SEARCH])
def test_every_record_of_a_long_list_is_whole(path: str, client: httpx.Client) -> None:
    response = client.get(path, headers={"Accept-Encoding": "gzip"})
    page = response.json()
    assert (page["total"], page["limit"], page["offset"]) == (COUNT, 200, 0)
    assert len(page["services"]) == COUNT
    for record in page["services"]:
        assert record == client.get(f"/v1/services/{record['id']}").json()["service"]
    assert len(response.content) > COUNT * 0.9 * MAX_SERVICE
    assert int(response.headers["content-length"]) == len(response.content)
    assert "content-encoding" not in response.headers


@pytest.mark.parametrize("offset", range(0, COUNT + 5, 5))
def test_a_long_list_has_all_records_up_to_its_limit(offset: int, client: httpx.Client) -> None:
    for path in (LISTING, SEARCH):
        for limit in (1, 2, 7):
            page = client.get(f"{path}&offset={offset}".replace("=200", f"={limit}")).json()
            assert len(page["services"]) == min(limit, max(0, COUNT - offset))


@pytest.mark.parametrize("path", [LISTING, SEARCH])
def test_a_long_list_has_an_entity_tag(path: str, client: httpx.Client) -> None:
    head = client.head(path)
    response = client.get(path)
    for name in ("etag", "content-length", "cache-control", "vary", "content-type"):
        assert head.headers[name] == response.headers[name]
    assert (head.status_code, head.content) == (200, b"")
    known = client.get(path, headers={"If-None-Match": response.headers["etag"]})
    assert (known.status_code, known.content) == (304, b"")


def test_a_long_list_is_not_cached(client: httpx.Client) -> None:
    def hits() -> str:
        lines = client.get("/metrics").text.splitlines()
        return next(line for line in lines if line.startswith("ratecard_cache_hits_total"))

    before = hits()
    for _ in range(3):
        assert client.get(LISTING).status_code == 200
    assert hits() == before


@pytest.mark.parametrize("path", [LISTING, SEARCH])
def test_clients_that_read_nothing_of_a_long_list_take_hardly_any_memory(
    path: str, artifacts_of_large: Path
) -> None:
    with run_service(artifacts_of_large) as server, server.client() as client, ExitStack() as stack:
        assert client.get(path).status_code == 200
        before = anonymous_memory(server.process.pid)
        for number in range(CLIENTS):
            stalled = stack.enter_context(closing(socket.socket()))
            stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stalled.connect(("127.0.0.1", server.port))
            request = f"GET {path}&x={number} HTTP/1.1\r\nHost: a.example\r\n\r\n"
            stalled.sendall(request.encode())
            assert stalled.recv(1)
        assert f"ratecard_requests_in_flight {CLIENTS + 1}.0" in client.get("/metrics").text
        assert anonymous_memory(server.process.pid) - before < CLIENTS * MAX_SERVICE / 4


def test_a_client_that_pipelines_and_does_not_read_does_not_keep_an_old_snapshot_mapped(
    artifacts: Path, build: Build
) -> None:
    assert build([service("a", padding="x" * (MAX_JOINED * 3 // 4))]) == 0
    old = (artifacts / "CURRENT").read_text().strip()
    with serve_process(artifacts) as (client, process), closing(socket.socket()) as stalled:
        stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stalled.connect((client.base_url.host, client.base_url.port or 80))
        stalled.sendall(b"GET /v1/services HTTP/1.1\r\nHost: a.example\r\n\r\n" * 12)
        assert stalled.recv(1)
        assert build([service("b")], options=("--max-removed", "100%")) == 0
        maps = Path(f"/proc/{process.pid}/maps")
        eventually(lambda: old not in maps.read_text(), 20)
        assert "ratecard_requests_in_flight 2.0" in client.get("/metrics").text


@settings(deadline=None)
@given(st.lists(st.integers(0, 3 * SLICE), max_size=9), st.booleans())
def test_the_slices_of_a_body_are_its_bytes(sizes: list[int], is_long: bool) -> None:
    content = bytes(range(251)) * (10**6 // 251)
    pieces = [memoryview(content)[size : 2 * size] for size in sizes]
    pieces += [memoryview(content)] * 2 * is_long
    body = join(pieces)
    assert bytes(body) == b"".join(pieces)
    assert len(body) == len(b"".join(pieces))
    assert isinstance(body, LongBody) == (len(body) > MAX_JOINED)
    if isinstance(body, LongBody):
        slices = list(body)
        assert b"".join(slices) == bytes(body)
        assert max(map(len, slices)) <= SLICE


@pytest.mark.parametrize("reads", [0, 19, 20])
def test_a_client_that_reads_a_long_body_too_slowly_is_dropped(
    reads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "GRACE", 0.0)
    monkeypatch.setattr(bodies, "MIN_RATE", 2**40)
    sent: list[int] = []

    async def send(message: Any) -> None:
        sent.append(len(message["body"]))
        if len(sent) > reads:
            await asyncio.Event().wait()

    body = join([bytes(SLICE)] * 20)
    assert isinstance(body, LongBody)
    with pytest.raises(SlowClient):
        asyncio.run(body.send(send))
    assert sent == [*[SLICE] * 20, 0][: reads + 1]
