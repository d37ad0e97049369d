"""Downloads over HTTP: ranges, conditions, resuming, and connections that end or stall."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import os
import shutil
import socket
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.__main__ import main
from service.app import create_app
from service.artifacts.downloads import KINDS, read_downloads
from service.artifacts.publishing import DOWNLOADS
from service.http.responses import IMMUTABLE, NO_CACHE
from service.settings import Settings
from tests.support.artifacts import current
from tests.support.processes import run_service
from tests.support.running import (
    Build,
    Json,
    eventually,
    examples,
    in_process,
    open_app,
    serve,
    service,
    write_lines,
)

ROOT = "/v1/snapshots"
CHUNK = 2**16
"""Bytes that a file response reads at a time."""
ENDLESS = 10**18
SLOW = 32
"""Clients that read slowly."""
TO_LETTERS = str.maketrans("0123456789", "ghijklmnop")


def archive_name(snapshot_id: str) -> str:
    return f"{snapshot_id}.tar.zst"


def lines_name(snapshot_id: str) -> str:
    return f"{snapshot_id}.jsonl.zst"


def content_of(artifacts: Path, name: str) -> bytes:
    return (artifacts / DOWNLOADS / name).read_bytes()


def error(response: httpx.Response) -> tuple[int, str]:
    """Return the status and the code of an error."""
    assert response.headers["cache-control"] == "no-store"
    return response.status_code, response.json()["error"]["code"]


def large_catalogue() -> list[Json]:
    """Return services whose texts do not compress well, so that archives have many chunks.

    Each text is one word: a number within a word parts it, and terms are slow to index.
    """
    texts = np.random.default_rng(1).bytes(500 * 1500).hex().translate(TO_LETTERS)
    return [
        service(f"s{number}", description=texts[3000 * number : 3000 * (number + 1)])
        for number in range(500)
    ]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Artifacts with a snapshot of large downloads."""
    root = tmp_path_factory.mktemp("published")
    options = ("--out", str(root / "artifacts"), "--quiet", "--no-semantic")
    source = write_lines(root / "services.jsonl", large_catalogue())
    assert main(["build", source, *options]) == 0
    return root / "artifacts"


@pytest.fixture(scope="module")
def server(published: Path) -> Iterator[httpx.Client]:
    with serve(published) as client:
        yield client


@pytest.mark.parametrize("kind", KINDS)
def test_files_are_served_whole_with_strong_tags(
    kind: str, server: httpx.Client, published: Path
) -> None:
    name = f"{current(published)}.{kind}"
    content, path = content_of(published, name), f"{ROOT}/{name}"
    response = server.get(path, headers={"Accept-Encoding": "gzip, zstd"})
    assert (response.status_code, response.content) == (200, content)
    assert response.headers["etag"] == f'"{hashlib.sha256(content).hexdigest()}"'
    assert response.headers["content-type"] == "application/zstd"
    assert response.headers["accept-ranges"] == "bytes"
    assert response.headers["cache-control"] == (NO_CACHE if kind == "tar.zst" else IMMUTABLE)
    assert "content-encoding" not in response.headers
    head = server.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert {key: head.headers[key] for key in ("etag", "content-length", "cache-control")} == {
        key: response.headers[key] for key in ("etag", "content-length", "cache-control")
    }


def test_a_file_that_was_kept_is_that_of_a_snapshot_that_was_pruned_and_built_again(
    artifacts: Path, build: Build
) -> None:
    def publish(*names: str) -> str:
        for name in names:
            assert build([service(name)], options=("--keep", "2")) == 0
        return current(artifacts)

    snapshot_id, kept = publish("a"), {}
    with open_app(artifacts) as client:
        for kind in KINDS:
            kept[kind] = client.get(f"{ROOT}/{snapshot_id}.{kind}")
        assert publish("b", "c", "a") == snapshot_id
        for kind, before in kept.items():
            again = client.get(f"{ROOT}/{snapshot_id}.{kind}")
            is_same = again.content == before.content
            assert is_same or before.headers["cache-control"] == NO_CACHE
            assert is_same == (again.headers["etag"] == before.headers["etag"])
            validated = {"If-None-Match": before.headers["etag"]}
            response = client.get(f"{ROOT}/{snapshot_id}.{kind}", headers=validated)
            assert (response.status_code == 304) == is_same
            assert response.headers["cache-control"] == before.headers["cache-control"]


@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_any_range_is_that_part_of_the_archive(
    server: httpx.Client, published: Path, data: st.DataObject
) -> None:
    name = archive_name(current(published))
    content = content_of(published, name)
    size = len(content)
    position = st.integers(0, 2 * CHUNK) | st.integers(0, size + 10) | st.just(ENDLESS - 1)
    first, last = data.draw(st.none() | position), data.draw(st.none() | position)
    field = f"bytes={'' if first is None else first}-{'' if last is None else last}"
    start = max(0, size - (last or 0)) if first is None else first
    stop = size if first is None or last is None else min(last + 1, size)
    response = server.get(f"{ROOT}/{name}", headers={"Range": field})
    if (first, last) == (None, None) or (start < size and start >= stop):
        assert error(response) == (400, "bad_request")
    elif start >= size:
        assert error(response) == (416, "range_not_satisfiable")
        assert response.headers["content-range"] == f"bytes */{size}"
    else:
        assert (response.status_code, response.content) == (206, content[start:stop])
        assert response.headers["content-range"] == f"bytes {start}-{stop - 1}/{size}"


@pytest.mark.parametrize(
    ("field", "status"),
    [
        ("bytes=0-1,5-9", 206),
        ("bytes=0-1, 1-9", 206),
        ("bytes=" + ",".join(f"{2 * n}-{2 * n}" for n in range(400)), 200),
        ("lines=0-1", 200),
        ("bytes=a-b", 400),
        ("bytes=-", 400),
        ("Bytes=0-1", 206),
        ("bytes 0-1", 200),
        ("bytes=0-1;", 400),
        (f"bytes={'9' * 5000}-", 400),
        ("bytes=9-1", 400),
        ("", 200),
    ],
)
def test_odd_ranges_are_answered_and_never_fail(
    field: str, status: int, server: httpx.Client, published: Path
) -> None:
    name = lines_name(current(published))
    response = server.get(f"{ROOT}/{name}", headers=[(b"Range", field.encode())])
    assert response.status_code == status
    if status == 200:
        assert response.content == content_of(published, name)
    assert len(response.content) <= len(content_of(published, name)) + 1000


class Cut:
    """A connection that is closed after some bytes of the body."""

    def __init__(self, client: httpx.Client) -> None:
        self._address = client.base_url.host, client.base_url.port or 80

    def read(self, path: str, count: int, headers: str = "") -> tuple[bytes, dict[str, str]]:
        """Return up to `count` bytes of the body, and the headers."""
        request = f"GET {path} HTTP/1.1\r\nHost: a.example\r\n{headers}\r\n"
        with socket.create_connection(self._address, timeout=30) as connection:
            connection.sendall(request.encode())
            file = connection.makefile("rb")
            lines = iter(file.readline, b"\r\n")
            status = next(lines).split()[1].decode()
            fields = dict(line.decode().strip().lower().split(": ", 1) for line in lines)
            length = int(fields["content-length"])
            return file.read(min(count, length)), fields | {"status": status}


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.integers(0, 3 * CHUNK) | st.integers(0, 2**25), max_size=8))
def test_a_client_that_is_cut_off_at_any_byte_resumes(
    server: httpx.Client, published: Path, counts: list[int]
) -> None:
    name = archive_name(current(published))
    content, cut = content_of(published, name), Cut(server)
    received, etag = b"", ""
    for count in [*counts, len(content)]:
        if len(received) == len(content):
            break
        fields = f"Range: bytes={len(received)}-\r\nIf-Range: {etag}\r\n" if received else ""
        body, headers = cut.read(f"{ROOT}/{name}", count, fields)
        assert headers["status"] == ("206" if received else "200")
        received, etag = received + body, headers["etag"]
    assert received == content


def test_a_download_that_changed_starts_again(server: httpx.Client, published: Path) -> None:
    path = f"{ROOT}/{archive_name(current(published))}"
    etag = server.head(path).headers["etag"]
    whole = content_of(published, archive_name(current(published)))
    for known, status in ((etag, 206), (f"W/{etag}", 200), ('"other"', 200)):
        response = server.get(path, headers={"Range": "bytes=10-", "If-Range": known})
        assert response.status_code == status
        assert response.content == (whole[10:] if status == 206 else whole)


def test_a_client_that_has_a_download_is_not_sent_it_again(
    server: httpx.Client, published: Path
) -> None:
    path = f"{ROOT}/{lines_name(current(published))}"
    first = server.head(path)
    etag = first.headers["etag"]
    for known in ([etag], [f"W/{etag}"], ["*"], ['"other"', etag]):
        for method in ("GET", "HEAD"):
            fields = [("If-None-Match", each) for each in known]
            again = server.request(method, path, headers=[*fields, ("Range", "bytes=0-1")])
            assert (again.status_code, again.content) == (304, b"")
            for name in ("etag", "cache-control"):
                assert again.headers[name] == first.headers[name]
    other = {"If-None-Match": '"other"', "Range": "bytes=0-1"}
    assert server.get(path, headers=other).status_code == 206


def test_a_file_that_a_build_removes_meanwhile_is_not_found(
    sample: Path, artifacts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(sample, artifacts)
    path = artifacts / DOWNLOADS / lines_name(current(artifacts))

    def read_and_remove(*arguments: Any) -> Any:
        files = read_downloads(*arguments)
        path.unlink()
        return files

    monkeypatch.setattr("service.api.snapshots.read_downloads", read_and_remove)
    with in_process(create_app(Settings(artifacts=str(artifacts)))) as client:
        assert error(client.get(f"{ROOT}/{path.name}")) == (404, "download_not_found")


@pytest.mark.parametrize(
    "path",
    [
        "0000.tar.zst",
        "0000.jsonl.zst",
        f"{'0' * 20}.tar.zst",
        f"{'0' * 20}.index.jsonl.zst",
        "..%2f.tar.zst",
        "..%2f..%2fdownloads%2f{id}.tar.zst",
        "%2e%2e%2f{id}.tar.zst",
        "{id}.tar.gz.zst.tar.zst",
        "{id}.json.zst.jsonl.zst",
        "{id}%00.tar.zst",
        "{id}%0a.tar.zst",
    ],
)
def test_an_unknown_download_is_not_found_and_the_message_names_the_list(
    path: str, server: httpx.Client, published: Path
) -> None:
    response = server.get(f"{ROOT}/{path.format(id=current(published))}")
    assert response.status_code in {404, 410}
    assert response.json()["error"]["message"].endswith(f"; see {ROOT}/current")


def test_the_files_of_a_kept_snapshot_are_served_and_its_own_alone(
    artifacts: Path, build: Build
) -> None:
    assert build([service("a")]) == 0
    before = current(artifacts)
    assert build([service("b")], options=("--no-downloads",)) == 0
    with open_app(artifacts) as client:
        for kind in KINDS:
            name = f"{before}.{kind}"
            assert client.get(f"{ROOT}/{name}").content == content_of(artifacts, name)
            response = client.get(f"{ROOT}/{current(artifacts)}.{kind}")
            assert response.status_code == 404
            assert response.json()["error"]["code"] == "download_not_found"


def test_a_setting_switches_downloads_off(sample: Path) -> None:
    with open_app(sample, downloads=False) as client:
        for kind in KINDS:
            response = client.get(f"{ROOT}/{current(sample)}.{kind}")
            assert response.status_code == 404
            assert response.json()["error"]["code"] == "downloads_disabled"


def test_downloads_are_counted_and_not_cached(sample: Path) -> None:
    with open_app(sample) as client:
        for _ in range(3):
            assert client.get(f"{ROOT}/{archive_name(current(sample))}").status_code == 200
        labels = 'cache="none",route="/v1/snapshots/{id}.tar.zst",status="200"'
        counted = f"ratecard_request_seconds_count{{{labels}}} 3.0"
        # A response is counted after its last byte, which the client may have before.
        eventually(lambda: counted in client.get("/metrics").text)
        assert 'cache="miss"' not in client.get("/metrics").text


class Exchange:
    """A request to the application whose response is read only while `reading` is set."""

    def __init__(self, app: Any, path: str) -> None:
        self.reading = asyncio.Event()
        self.begun = asyncio.Event()
        self.gone = asyncio.Event()
        self.status = 0
        self.body = b""
        scope = {
            "type": "http",
            "method": "GET",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": b"",
            "headers": [],
            "app": app,
        }
        self.task = asyncio.ensure_future(app(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        self.status = message.get("status", self.status)
        self.body += message.get("body", b"")
        if message.get("body"):
            self.begun.set()
            await self.reading.wait()


def test_a_download_outlasts_its_snapshot_and_does_not_hold_it(
    published: Path, artifacts: Path, build: Build
) -> None:
    shutil.copytree(published, artifacts)
    name = archive_name(current(artifacts))
    content = content_of(artifacts, name)

    async def run() -> None:
        app = create_app(Settings(artifacts=str(artifacts)))
        async with app.router.lifespan_context(app):
            snapshots = app.state.context.snapshots
            served = weakref.ref(snapshots.current())
            exchange = Exchange(app, f"{ROOT}/{name}")
            await exchange.begun.wait()
            for number in range(3):
                assert build([service(f"s{number}")], keys={"max_removed": "100%"}) == 0
            assert not (artifacts / DOWNLOADS / name).exists()
            await asyncio.to_thread(snapshots.poll)
            gc.collect()
            assert served() is None
            exchange.reading.set()
            await exchange.task
            assert (exchange.status, exchange.body) == (200, content)

    asyncio.run(run())


def test_sending_ends_when_the_client_is_gone(published: Path) -> None:
    name = archive_name(current(published))

    async def run() -> None:
        app = create_app(Settings(artifacts=str(published)))
        async with app.router.lifespan_context(app):
            exchange = Exchange(app, f"{ROOT}/{name}")
            await exchange.begun.wait()
            exchange.gone.set()
            exchange.reading.set()
            await exchange.task
            assert len(exchange.body) < len(content_of(published, name))

    asyncio.run(run())


def test_clients_that_read_30_bytes_a_second_do_not_keep_others_from_downloads(
    published: Path,
) -> None:
    path = f"{ROOT}/{archive_name(current(published))}"
    request = f"GET {path} HTTP/1.1\r\nHost: a.example\r\n\r\n".encode()
    with run_service(published) as server, server.client() as client, ExitStack() as stack:
        slow = [stack.enter_context(closing(socket.socket())) for _ in range(SLOW)]
        for each in slow:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            each.connect(("127.0.0.1", server.port))
            each.sendall(request)
            assert each.recv(30)
        for _ in range(3):
            for each in slow:
                each.recv(3)
            assert client.get(path).status_code == 200
            assert client.get("/v1/services").status_code == 200
        assert server.log.count("\n") == server.log.count("INFO: ")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("damage", [Path.unlink, lambda path: os.truncate(path, 7)])
def test_no_file_is_served_where_one_is_missing_or_cut_off(
    kind: str, method: str, damage: Callable[[Path], None], sample: Path, artifacts: Path
) -> None:
    shutil.copytree(sample, artifacts)
    names = [f"{current(artifacts)}.{each}" for each in KINDS]
    with in_process(create_app(Settings(artifacts=str(artifacts)))) as client:
        assert all(client.request(method, f"{ROOT}/{name}").is_success for name in names)
        damage(artifacts / DOWNLOADS / f"{current(artifacts)}.{kind}")
        for name in names:
            assert client.request(method, f"{ROOT}/{name}").status_code == 404
        assert client.get(f"{ROOT}/current").json()["snapshot"]["files"] == []
