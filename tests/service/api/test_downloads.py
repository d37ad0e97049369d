"""Downloads over HTTP: ranges, conditions, resuming, and what replicas copy."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import json
import os
import shutil
import socket
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from service.http.file_ranges import CHUNK, MAX_TRANSFERS
from service.publishing import frames
from service.publishing.frames import unpack
from service.publishing.patches import apply_patch

from indexer.__main__ import main
from service.app import create_app
from service.artifacts.downloads import (
    DOWNLOADS,
    POINTER,
    Download,
    PatchPiece,
    archive_name,
    lines_name,
    read_download,
)
from service.errors import SlowClient
from service.http import file_ranges
from service.http.responses import IMMUTABLE
from service.settings import Settings
from service.snapshot.manifest import FORMAT, copy_manifest, read_manifest
from service.snapshot.publication import SNAPSHOTS
from tests.support.artifacts import current, decompressed, flip_a_bit, folder
from tests.support.clients.mirror import Mirror, id_of, publish, services
from tests.support.processes import run_service
from tests.support.running import (
    Build,
    Json,
    eventually,
    examples,
    serve,
    service,
    write_lines,
)

ROOT = "/v1/snapshots"
POINTER_PATH = f"{ROOT}/pointer-{FORMAT}.json"
ENDLESS = 10**18
TO_LETTERS = str.maketrans("0123456789", "ghijklmnop")


def large_catalogue(count: int = 500) -> list[Json]:
    """Return services whose texts do not compress well, so that archives have many chunks.

    Each text is one word: a number within a word parts it, and terms are slow to index.
    """
    texts = np.random.default_rng(1).bytes(count * 1500).hex().translate(TO_LETTERS)
    return [
        service(f"s{number}", description=texts[3000 * number : 3000 * (number + 1)])
        for number in range(count)
    ]


@pytest.fixture(scope="module")
def artifacts_of_two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Artifacts with two snapshots, of which the second is served."""
    root = tmp_path_factory.mktemp("two")
    artifacts = root / "artifacts"
    options = ("--out", str(artifacts), "--quiet", "--no-endpoints", "--no-semantic")
    for changed in (0, 5):
        records = large_catalogue()
        for each in records[:changed]:
            each["description"] = "changed"
        assert main(["build", write_lines(root / "services.jsonl", records), *options]) == 0
    return artifacts


@pytest.fixture(scope="module")
def server(artifacts_of_two: Path) -> Iterator[httpx.Client]:
    with serve(artifacts_of_two) as client:
        yield client


@pytest.fixture
def index(artifacts_of_two: Path) -> Download:
    return read_download(artifacts_of_two / DOWNLOADS / current(artifacts_of_two))


def content_of(artifacts: Path, name: str) -> bytes:
    return (artifacts / DOWNLOADS / name.partition(".")[0] / name).read_bytes()


@pytest.mark.parametrize("name", [archive_name, lines_name])
def test_archives_are_served_whole_with_strong_tags(
    name: Any, server: httpx.Client, artifacts_of_two: Path, index: Download
) -> None:
    file = name(index.id)
    content = content_of(artifacts_of_two, file)
    for path in (f"{ROOT}/{file}", f"{ROOT}/{index.id}/{file}"):
        response = server.get(path, headers={"Accept-Encoding": "gzip, zstd"})
        assert (response.status_code, response.content) == (200, content)
        assert response.headers["etag"] == f'"{hashlib.sha256(content).hexdigest()}"'
        assert response.headers["content-type"] == "application/zstd"
        assert response.headers["accept-ranges"] == "bytes"
        assert response.headers["cache-control"] == IMMUTABLE
        assert "content-encoding" not in response.headers
        head = server.head(path, headers={"Range": "bytes=1-2"})
        assert (head.status_code, head.content) == (200, b"")
        assert {key: head.headers[key] for key in ("etag", "content-length", "cache-control")} == {
            key: response.headers[key] for key in ("etag", "content-length", "cache-control")
        }


def test_a_known_archive_is_not_sent_again(server: httpx.Client, index: Download) -> None:
    path = f"{ROOT}/{archive_name(index.id)}"
    etag = server.head(path).headers["etag"]
    for field in (etag, f'"other", {etag}', "*", f"W/{etag}"):
        response = server.get(path, headers={"If-None-Match": field, "Range": "bytes=0-1"})
        assert (response.status_code, response.content) == (304, b"")
        assert response.headers["etag"] == etag
    assert server.get(path, headers={"If-None-Match": '"other"'}).status_code == 200


@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_any_range_is_that_part_of_the_archive(
    server: httpx.Client, artifacts_of_two: Path, data: st.DataObject
) -> None:
    name = lines_name(current(artifacts_of_two))
    content = content_of(artifacts_of_two, name)
    size = len(content)
    position = st.integers(0, 2 * CHUNK) | st.integers(0, size + 10) | st.just(ENDLESS - 1)
    first, last = data.draw(st.none() | position), data.draw(st.none() | position)
    field = f"bytes={'' if first is None else first}-{'' if last is None else last}"
    expected = content
    if first is None and last is not None:
        expected = content[max(0, size - last) :] if last else b""
    elif first is not None and (last is None or last >= first):
        expected = content[first : None if last is None else last + 1]
    response = server.get(f"{ROOT}/{name}", headers={"Range": field})
    if not expected:
        assert response.status_code == 416
        assert response.headers["content-range"] == f"bytes */{size}"
        assert response.json()["error"]["code"] == "range_not_satisfiable"
        return
    assert response.content == expected
    is_range = (first, last) != (None, None) and (first is None or last is None or first <= last)
    assert response.status_code == (206 if is_range else 200)
    if is_range:
        start = size - len(expected) if first is None else first
        spans = f"bytes {start}-{start + len(expected) - 1}/{size}"
        assert response.headers["content-range"] == spans


@pytest.mark.parametrize(
    "field",
    [
        "bytes=0-1,5-9",
        "bytes=0-1, 5-9",
        "lines=0-1",
        "bytes=a-b",
        "bytes=-",
        "bytes 0-1",
        "bytes=0-1;",
        "bytes=\u0661-2",
        f"bytes={'9' * 100}-",
        "",
    ],
)
def test_other_ranges_are_ignored(
    field: str, server: httpx.Client, artifacts_of_two: Path, index: Download
) -> None:
    name = lines_name(index.id)
    response = server.get(f"{ROOT}/{name}", headers=[(b"Range", field.encode())])
    assert response.status_code == 200
    assert response.content == content_of(artifacts_of_two, name)


def test_the_unit_of_a_range_is_compared_without_case(
    server: httpx.Client, artifacts_of_two: Path, index: Download
) -> None:
    name = lines_name(index.id)
    response = server.get(f"{ROOT}/{name}", headers={"Range": "BYTES=3-8"})
    assert response.status_code == 206
    assert response.content == content_of(artifacts_of_two, name)[3:9]


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
    server: httpx.Client, artifacts_of_two: Path, counts: list[int]
) -> None:
    name = archive_name(current(artifacts_of_two))
    content, cut = content_of(artifacts_of_two, name), Cut(server)
    received, etag = b"", ""
    for count in [*counts, len(content)]:
        if len(received) == len(content):
            break
        fields = f"Range: bytes={len(received)}-\r\nIf-Range: {etag}\r\n" if received else ""
        body, headers = cut.read(f"{ROOT}/{name}", count, fields)
        assert headers["status"] == ("206" if received else "200")
        received, etag = received + body, headers["etag"]
    assert received == content


def test_a_download_that_changed_starts_again(
    artifacts: Path, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert build([service("a")]) == 0
    path = f"{ROOT}/{archive_name(current(artifacts))}"
    with serve(artifacts) as client:
        first = client.get(path)
        fields = {"Range": "bytes=10-", "If-Range": first.headers["etag"]}
        assert client.get(path, headers=fields).status_code == 206
        monkeypatch.setattr(frames, "LEVEL", 19)  # as another release of zstd
        shutil.rmtree(artifacts / DOWNLOADS)
        assert build([service("a")]) == 0
        second = client.get(path, headers=fields)
        assert second.status_code == 200
        name = archive_name(current(artifacts))
        assert second.content == content_of(artifacts, name) != first.content
        for other in (f"W/{second.headers['etag']}", "Wed, 21 Oct 2015 07:28:00 GMT"):
            response = client.get(path, headers={"Range": "bytes=10-", "If-Range": other})
            assert response.status_code == 200


def test_concurrent_downloads_are_equal(server: httpx.Client, artifacts_of_two: Path) -> None:
    name = archive_name(current(artifacts_of_two))
    content = content_of(artifacts_of_two, name)
    with ThreadPoolExecutor(8) as pool:
        bodies = pool.map(lambda _: server.get(f"{ROOT}/{name}").content, range(16))
        assert all(body == content for body in bodies)


@settings(max_examples=examples(12), deadline=None)
@given(st.lists(st.text("-ab", min_size=4, max_size=4), min_size=2, max_size=3))
def test_an_old_download_with_all_changes_applied_equals_the_new_one(
    tmp_path_factory: pytest.TempPathFactory, history: list[str]
) -> None:
    artifacts = tmp_path_factory.mktemp("history") / "artifacts"
    first = publish(artifacts, services(history[0]))
    with serve(artifacts) as client:
        text = downloaded_lines(client, first)
        mirror = Mirror(first, {id_of(line): line for line in text.splitlines()})
        assert mirror.text == text
        for versions in history[1:]:
            published = publish(artifacts, services(versions))
            mirror.follow(client, limit=2, to=wait_until_kept(client, published))
            assert mirror.text == downloaded_lines(client, published)


def wait_until_kept(client: httpx.Client, snapshot_id: str) -> str:
    """Wait until the service knows a snapshot; returns its id."""
    eventually(lambda: snapshot_id in client.get(ROOT).text)
    return snapshot_id


def downloaded_lines(client: httpx.Client, snapshot_id: str) -> bytes:
    content = client.get(f"{ROOT}/{lines_name(snapshot_id)}").content
    return decompressed(content)


def test_everything_that_a_replica_copies_is_served_by_its_hash(
    server: httpx.Client, artifacts_of_two: Path, index: Download, tmp_path: Path
) -> None:
    response = server.get(POINTER_PATH)
    assert response.headers["cache-control"] == "no-cache"
    file = response.json()
    pointer = json.loads(file["pointer"])
    assert (pointer["id"], pointer["format"], pointer["serial"]) == (index.id, FORMAT, 2)
    assert file["signature"] is None
    manifest = server.get(f"{ROOT}/manifests/{pointer['manifest']}.json")
    assert manifest.content == copy_manifest(read_manifest(folder(artifacts_of_two)))
    assert manifest.headers["cache-control"] == IMMUTABLE
    made = tmp_path / "made"
    sections = server.get(f"{ROOT}/sections/{pointer['manifest']}.json")
    assert sections.headers["cache-control"] == IMMUTABLE
    for path in manifest.json()["files"]:
        content = b""
        for section in sections.json()["sections"][path]:
            packed = server.get(f"{ROOT}/sections/{section['sha256']}.zst")
            assert packed.headers["cache-control"] == IMMUTABLE
            assert packed.headers["etag"] == f'"{hashlib.sha256(packed.content).hexdigest()}"'
            unpack(packed.content, made, section["bytes"])
            content += made.read_bytes()
        assert content == (folder(artifacts_of_two) / path).read_bytes()
    patches = server.get(f"{ROOT}/patches/{index.base}-{index.id}.json").json()
    assert (patches["from"], patches["to"]) == (index.base, index.id)
    assert "records.json" in patches["patches"]
    base = artifacts_of_two / SNAPSHOTS / index.base
    frames = server.get(f"{ROOT}/patches/{index.base}-{index.id}.zst").content
    for path, listed in patches["patches"].items():
        pieces = msgspec.convert(listed, list[PatchPiece])
        apply_patch(base / path, pieces, frames, made, manifest.json()["files"][path]["bytes"])
        assert made.read_bytes() == (folder(artifacts_of_two) / path).read_bytes()


def test_a_range_of_a_section_is_within_its_frame(
    server: httpx.Client, artifacts_of_two: Path
) -> None:
    file = read_manifest(folder(artifacts_of_two)).files["records.json"]
    path = f"{ROOT}/sections/{file.sha256}.zst"
    content = server.get(path).content
    for start, stop in ((0, 1), (7, len(content) + 10**6), (len(content) - 1, len(content) - 1)):
        response = server.get(path, headers={"Range": f"bytes={start}-{stop}"})
        assert response.content == content[start : stop + 1]
    beyond = server.get(path, headers={"Range": f"bytes={len(content)}-"})
    assert beyond.status_code == 416


def test_the_package_describes_the_archives(server: httpx.Client, index: Download) -> None:
    response = server.get(f"{ROOT}/{index.id}/datapackage.json")
    package = response.json()
    assert [each["name"] for each in package["resources"]] == ["services", "snapshot"]
    for each in package["resources"]:
        archive = server.get(f"{ROOT}/{index.id}/{each['path']}").content
        assert each["bytes"] == len(archive)
        assert each["hash"] == f"sha256:{hashlib.sha256(archive).hexdigest()}"
    fields = {"If-None-Match": response.headers["etag"]}
    assert server.get(f"{ROOT}/{index.id}/datapackage.json", headers=fields).status_code == 304


@pytest.mark.parametrize(
    "path",
    [
        "0000.tar.zst",
        "0000.jsonl.zst",
        "..%2f.tar.zst",
        "{id}.tar.gz.zst.tar.zst",
        "{id}/index.json",
        "{id}/manifest.json",
        "{id}/patches.zst",
        "0000/datapackage.json",
        "pointer-1.json",
        "pointer-x.json",
        "manifests/0000.json",
        "sections/0000.json",
        "sections/0000.zst",
        "sections/.zst",
        "patches/{id}-{base}.json",
        "patches/{id}-{base}.zst",
        "patches/-{base}.zst",
    ],
)
def test_an_unknown_download_is_not_found(path: str, server: httpx.Client, index: Download) -> None:
    response = server.get(f"{ROOT}/{path.format(id=index.id, base=index.base)}")
    assert response.status_code == 404
    assert response.json()["error"]["code"] in {"download_not_found", "path_not_found"}


def test_the_pointer_is_that_of_the_last_publication(artifacts: Path, build: Build) -> None:
    assert build([service("a")]) == 0
    written = (artifacts / POINTER).read_text()
    with serve(artifacts) as client:
        for damage in ("", "damaged"):
            response = client.get(POINTER_PATH)
            assert response.text == written
            fields = {"If-None-Match": response.headers["etag"]}
            assert client.get(POINTER_PATH, headers=fields).status_code == 304
            (artifacts / POINTER).write_text(damage)
        shutil.rmtree(artifacts / DOWNLOADS)
        assert client.get(POINTER_PATH).status_code == 404


def test_a_download_names_its_own_snapshot(server: httpx.Client, artifacts_of_two: Path) -> None:
    index = read_download(artifacts_of_two / DOWNLOADS / current(artifacts_of_two))
    base = read_download(artifacts_of_two / DOWNLOADS / index.base)
    paths = [lines_name(base.id), archive_name(base.id), f"{base.id}/datapackage.json"]
    paths += [f"manifests/{base.manifest}.json", f"sections/{base.manifest}.json"]
    for path in paths:
        tag = ""
        for status in (200, 304):
            response = server.get(f"{ROOT}/{path}", headers={"If-None-Match": tag})
            assert (response.status_code, path) == (status, path)
            assert response.headers.get_list("ratecard-snapshot") == [base.id]
            tag = response.headers["etag"]
    for suffix in ("json", "zst"):
        patches = server.get(f"{ROOT}/patches/{base.id}-{index.id}.{suffix}")
        assert patches.headers.get_list("ratecard-snapshot") == [index.id]


def test_an_origin_names_the_last_publication_whatever_it_serves(
    artifacts: Path, build: Build
) -> None:
    assert build([service("a")]) == 0
    with serve(artifacts) as client:
        assert build([service("b")]) == 0
        flip_a_bit(folder(artifacts) / "records.json")
        assert client.get(POINTER_PATH).text == (artifacts / POINTER).read_text()


def lose_the_downloads(folder: Path) -> None:
    shutil.rmtree(folder)


def cut_the_archive(folder: Path) -> None:
    os.truncate(folder / archive_name(folder.name), 7)


def lose_the_lines(folder: Path) -> None:
    (folder / lines_name(folder.name)).unlink()


@pytest.mark.parametrize("damage", [lose_the_downloads, cut_the_archive, lose_the_lines])
def test_an_origin_names_an_earlier_publication_where_the_downloads_of_the_last_are_damaged(
    damage: Callable[[Path], None], artifacts: Path, build: Build
) -> None:
    assert build([service("a")]) == 0
    first, written = current(artifacts), (artifacts / POINTER).read_text()
    assert build([service("b")]) == 0
    second = current(artifacts)
    with serve(artifacts) as client:
        assert client.get(POINTER_PATH).text == (artifacts / POINTER).read_text()
        damage(artifacts / DOWNLOADS / second)
        assert client.get(POINTER_PATH).text == written
        damage(artifacts / DOWNLOADS / first)
        assert client.get(POINTER_PATH).status_code == 404


def test_an_origin_does_not_name_a_snapshot_that_was_withdrawn(
    artifacts: Path, build: Build
) -> None:
    for name in "ab":
        assert build([service(name)]) == 0
    assert main(["rollback", str(artifacts)]) == 0
    shutil.rmtree(artifacts / DOWNLOADS / current(artifacts))
    with serve(artifacts) as client:
        assert client.get(POINTER_PATH).status_code == 404


def test_an_origin_names_no_unsigned_publication_where_one_is_signed(
    artifacts: Path, build: Build, tmp_path: Path
) -> None:
    key = tmp_path / "key.pem"
    private = Ed25519PrivateKey.generate()
    key.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    assert build([service("a")], options=("--sign", str(key))) == 0
    first, signed = current(artifacts), (artifacts / POINTER).read_text()
    assert build([service("b")]) == 0
    with serve(artifacts) as client:
        assert client.get(POINTER_PATH).text == signed
        (artifacts / DOWNLOADS / first / lines_name(first)).unlink()
        assert client.get(POINTER_PATH).status_code == 404


def test_without_downloads_of_the_served_snapshot_there_is_no_pointer(
    artifacts: Path, build: Build
) -> None:
    assert build([service("a")], options=("--no-downloads",)) == 0
    with serve(artifacts) as client:
        for path in (POINTER_PATH, f"{ROOT}/{lines_name(current(artifacts))}"):
            response = client.get(path)
            assert response.status_code == 404
            assert response.json()["error"]["code"] == "download_not_found"


def test_a_setting_switches_downloads_off(sample: Path) -> None:
    with serve(sample, "--no-downloads") as client:
        for path in (archive_name(current(sample)), POINTER_PATH.rpartition("/")[2]):
            response = client.get(f"{ROOT}/{path}")
            assert response.status_code == 404
            assert response.json()["error"]["code"] == "downloads_disabled"


def test_downloads_are_counted_and_not_cached(sample: Path) -> None:
    with serve(sample) as client:
        for _ in range(3):
            assert client.get(f"{ROOT}/{archive_name(current(sample))}").status_code == 200
        metrics = client.get("/metrics").text
    assert 'ratecard_requests_total{route="/v1/snapshots/{id}.tar.zst",status="200"} 3.0' in metrics
    assert "ratecard_cache_hits_total 0.0" in metrics
    assert "ratecard_cache_misses_total 0.0" in metrics


def test_a_client_that_stops_reading_is_dropped(artifacts_of_two: Path, index: Download) -> None:
    with serve(artifacts_of_two, "--client-timeout", "1") as client, socket.socket() as stalled:
        stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stalled.connect((client.base_url.host, client.base_url.port or 80))
        path = f"{ROOT}/{archive_name(index.id)}"
        stalled.sendall(f"GET {path} HTTP/1.1\r\nHost: a.example\r\n\r\n".encode())
        assert stalled.recv(1)
        in_flight = "\nratecard_requests_in_flight 1.0\n"  # the request for metrics
        eventually(lambda: in_flight in client.get("/metrics").text)


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
    artifacts: Path, build: Build
) -> None:
    assert build(large_catalogue(400)) == 0
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
                assert build([service(f"s{number}")], options=("--max-removed", "100%")) == 0
            assert not (artifacts / DOWNLOADS / name.partition(".")[0]).exists()
            await asyncio.to_thread(snapshots.poll)
            gc.collect()
            assert served() is None
            exchange.reading.set()
            await exchange.task
            assert (exchange.status, exchange.body) == (200, content)

    asyncio.run(run())


def test_sending_ends_when_the_client_is_gone(artifacts: Path, build: Build) -> None:
    assert build([service("a")]) == 0
    name = archive_name(current(artifacts))

    async def run() -> None:
        app = create_app(Settings(artifacts=str(artifacts)))
        async with app.router.lifespan_context(app):
            exchange = Exchange(app, f"{ROOT}/{name}")
            await exchange.begun.wait()
            exchange.gone.set()
            exchange.reading.set()
            await exchange.task
            assert len(exchange.body) < len(content_of(artifacts, name))

    asyncio.run(run())


def test_too_many_downloads_at_once_are_refused(artifacts: Path, build: Build) -> None:
    assert build([service("a")]) == 0
    path = f"{ROOT}/{archive_name(current(artifacts))}"

    async def run() -> None:
        app = create_app(Settings(artifacts=str(artifacts)))
        async with app.router.lifespan_context(app):
            running = [Exchange(app, path) for _ in range(MAX_TRANSFERS)]
            for each in running:
                await each.begun.wait()
            refused = Exchange(app, path)
            refused.reading.set()
            await refused.task
            assert refused.status == 503
            assert json.loads(refused.body)["error"]["code"] == "overloaded"
            for each in running:
                each.gone.set()
                each.reading.set()
                await each.task
            again = Exchange(app, path)
            again.reading.set()
            await again.task
            assert again.status == 200

    asyncio.run(run())


def test_a_download_takes_the_place_of_one_that_is_read_slowly(
    artifacts: Path, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert build([service("a")]) == 0
    name = archive_name(current(artifacts))
    path, size = f"{ROOT}/{name}", len(content_of(artifacts, name))
    monkeypatch.setattr(file_ranges, "PATIENCE", 0.0)

    async def run() -> None:
        app = create_app(Settings(artifacts=str(artifacts)))
        async with app.router.lifespan_context(app):
            running = []
            for _ in range(MAX_TRANSFERS + 2):
                running.append(Exchange(app, path))
                await running[-1].begun.wait()
            ended = running[:2]
            assert [type(await _outcome(each.task)) for each in ended] == [SlowClient] * 2
            for each in running[2:]:
                each.reading.set()
                await each.task
                assert (each.status, len(each.body)) == (200, size)
            assert max(len(each.body) for each in ended) < size

    asyncio.run(run())


def test_clients_that_read_30_bytes_a_second_do_not_keep_others_from_downloads(
    artifacts: Path, build: Build
) -> None:
    assert build(large_catalogue(400)) == 0
    path = f"{ROOT}/{archive_name(current(artifacts))}"
    request = f"GET {path} HTTP/1.1\r\nHost: a.example\r\n\r\n".encode()
    with run_service(artifacts) as server, server.client() as client, ExitStack() as stack:
        slow = [stack.enter_context(closing(socket.socket())) for _ in range(MAX_TRANSFERS)]
        for each in slow:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            each.connect(("127.0.0.1", server.port))
            each.sendall(request)
            assert each.recv(30)

        def is_free() -> bool:
            for each in slow:
                each.recv(3)
            return client.get(path).status_code == 200

        eventually(is_free)
        assert server.log.count("\n") == server.log.count("INFO: ")


async def _outcome(task: asyncio.Future[None]) -> BaseException | None:
    await asyncio.wait([task])
    return task.exception()


@pytest.mark.parametrize("damage", [lose_the_downloads, cut_the_archive, lose_the_lines])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_file_that_is_missing_or_cut_off_is_not_found(
    damage: Callable[[Path], None], method: str, artifacts: Path, build: Build
) -> None:
    assert build([service("a")]) == 0
    name = (lines_name if damage is lose_the_lines else archive_name)(current(artifacts))
    with serve(artifacts) as client:
        assert client.request(method, f"{ROOT}/{name}").status_code == 200
        damage(artifacts / DOWNLOADS / current(artifacts))
        for path in (name, f"{current(artifacts)}/{name}"):
            response = client.request(method, f"{ROOT}/{path}")
            assert response.status_code == 404
            if method == "GET" and damage is not lose_the_downloads:
                assert name in response.json()["error"]["message"]


def test_a_manifest_that_vanished_from_the_disk_is_not_found(artifacts: Path, build: Build) -> None:
    assert build([service("a")]) == 0
    with serve(artifacts) as client:
        digest = read_download(artifacts / DOWNLOADS / current(artifacts)).manifest
        assert client.get(f"{ROOT}/manifests/{digest}.json").status_code == 200
        shutil.rmtree(artifacts / DOWNLOADS)
        assert client.get(f"{ROOT}/manifests/{digest}.json").status_code == 404
        assert client.get("/v1/services").status_code == 200
