"""The bounds of docs/gateway.md: hostile clients of a gateway disturb nobody."""

from __future__ import annotations

import re
import resource
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.support.gateways import BOUNDS, PREFIX, SERVICE, Instance, instances, nginx, prefixed_by
from tests.support.running import eventually, run_indexer, service, write_lines

GATEWAYS = ["nginx", "apache", "caddy"]
START = b"GET /api/healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n"
HEALTH = START + b"\r\n"
LISTING = b"GET /api/v1/services?limit=200 HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
POST = b"POST /api/v1/services HTTP/1.1\r\nhost: 127.0.0.1\r\n"
RESET = struct.pack("ii", 1, 0)
GOOD_CLIENT = "127.0.0.2"
"""The address of the client that must not notice others; theirs is 127.0.0.1."""

Bounded = tuple[httpx.Client, Instance]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Artifacts with a page of 20 MB, more than a gateway keeps in memory for a client."""
    folder = tmp_path_factory.mktemp("large")
    records = [service(f"s{n}", name="Harbour", padding="x" * 100_000) for n in range(200)]
    source = write_lines(folder / "large.jsonl", records)
    out = ("--out", folder / "artifacts", "--jobs", "1", "--no-semantic", "--quiet")
    process = run_indexer("build", source, *out)
    assert process.returncode == 0, process.stderr
    return folder / "artifacts"


@pytest.fixture(scope="module", params=GATEWAYS)
def bounded(
    request: pytest.FixtureRequest, large: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bounded]:
    """A service behind a gateway that waits for a slow client for 1 second and not for 10."""
    folder = tmp_path_factory.mktemp("bounded")
    with (
        instances(large, folder, ("--root-path", "/api")) as (one,),
        prefixed_by(request.param, folder / "gateway", one.address, shorten=True) as client,
    ):
        yield client, one


@pytest.fixture
def many_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def connect(client: httpx.Client, buffer: int = 0) -> socket.socket:
    connection = socket.socket()
    connection.settimeout(30)
    if buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    connection.connect((client.base_url.host, client.base_url.port or 80))
    return connection


def status_of(client: httpx.Client, *pieces: bytes) -> int:
    """Send these bytes, and return the status of the response, or 0 for a closed connection."""
    with connect(client) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
            head = connection.recv(1 << 16)
        except ConnectionError:
            return 0
    return int(head.split(b" ")[1]) if head else 0


def end_of(connection: socket.socket) -> bytes:
    """Wait until a gateway ends a connection, and return the status of its response, if any."""
    try:
        return connection.recv(1 << 16)[9:12]
    except ConnectionResetError:
        return b""


def burst(client: httpx.Client, count: int) -> list[int]:
    """Send requests at once over one connection, and return the statuses of the responses."""
    with connect(client) as connection:
        connection.sendall(HEALTH * (count - 1) + START + b"connection: close\r\n\r\n")
        answers = b"".join(iter(partial(connection.recv, 1 << 16), b""))
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+)", answers)]


def unsent_bytes(one: Instance) -> int:
    """Return how many bytes the kernel holds that nobody takes from a service."""
    port = f":{int(one.address.rpartition(':')[2]):04X}"
    sockets = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(int(each[4].partition(":")[0], 16) for each in sockets if each[1].endswith(port))


def open_files(process: int | None) -> int:
    return len(list(Path(f"/proc/{process}/fd").iterdir()))


@contextmanager
def polling(client: httpx.Client) -> Iterator[list[int]]:
    """Yield the statuses that a well-behaved client receives meanwhile, 20 a second at most."""
    statuses: list[int] = []
    stop = threading.Event()

    def poll() -> None:
        transport = httpx.HTTPTransport(local_address=GOOD_CLIENT)
        with httpx.Client(base_url=client.base_url, transport=transport, timeout=30) as good:
            while not stop.wait(0.05):
                statuses.append(good.get("/api/v1/services?limit=1").status_code)

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield statuses
        count = len(statuses)
        eventually(lambda: len(statuses) > count + 10)
    finally:
        stop.set()
        thread.join()
    assert set(statuses) == {200}


def test_a_head_over_the_limit_is_refused(bounded: Bounded) -> None:
    client, one = bounded
    count = len(one.log())
    for head in (
        b"GET /api/" + b"x" * 40_000 + b" HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
        START + b"a: " + b"x" * 40_000 + b"\r\n\r\n",
    ):
        assert status_of(client, head) in {0, 400, 414, 431}
    one.log_entry(one.client.get("/healthz"))
    assert len(one.log()) == count + 1


def test_a_slow_head_is_dropped(bounded: Bounded) -> None:
    client, _ = bounded
    with connect(client) as silent, connect(client) as slow:
        silent.sendall(b"G")  # Linux shows Apache a connection when it has data
        slow.sendall(START)
        for connection in (silent, slow):
            assert end_of(connection) in {b"", b"400", b"408"}


@pytest.mark.parametrize("bounded", ["nginx", "caddy"], indirect=True)
def test_a_body_over_the_limit_is_refused(bounded: Bounded) -> None:
    client, _ = bounded
    whole = POST + b"content-length: 65537\r\n\r\n" + b"x" * 65537
    # Caddy 2.6 answers 502, or 405 where the service refuses the method before the body is read.
    assert status_of(client, whole) in {405, 413, 502}
    chunk = b"ffff\r\n" + b"x" * 0xFFFF + b"\r\n"
    chunked = POST + b"transfer-encoding: chunked\r\n\r\n" + chunk + chunk + b"0\r\n\r\n"
    assert status_of(client, chunked) in {0, 400, 405, 413, 502}
    assert status_of(client, POST + b"content-length: 5\r\n\r\nhello") == 405


def test_a_slow_body_is_dropped(bounded: Bounded) -> None:
    client, _ = bounded
    with connect(client) as slow:
        slow.sendall(POST + b"content-length: 1000\r\n\r\nx")
        assert end_of(slow) in {b"", b"400", b"405", b"408", b"502"}


@pytest.mark.parametrize("bounded", ["nginx", "apache"], indirect=True)
def test_a_client_that_reads_nothing_is_dropped(bounded: Bounded) -> None:
    client, one = bounded
    with connect(client, 4096) as stalled:
        stalled.sendall(LISTING)
        eventually(lambda: unsent_bytes(one) > 0)
        eventually(lambda: unsent_bytes(one) == 0)


@pytest.fixture
def shielded(large: Path, tmp_path: Path) -> Iterator[Bounded]:
    """A service behind the documented nginx, which waits for a slow client for 1 second."""
    with (
        instances(large, tmp_path, ("--root-path", "/api")) as (one,),
        prefixed_by("nginx", tmp_path / "nginx", one.address, shorten=True) as client,
    ):
        yield client, one


@pytest.mark.usefixtures("many_files")
def test_1000_stalled_clients_do_not_disturb_others(shielded: Bounded) -> None:
    """600 send nothing, 380 a head byte by byte, and 20 do not read their response."""
    client, one = shielded
    before = open_files(one.process.pid)
    with ExitStack() as stack, polling(client):
        silent = [stack.enter_context(connect(client)) for _ in range(600)]
        slow = [stack.enter_context(connect(client)) for _ in range(380)]
        unread = [stack.enter_context(connect(client, 4096)) for _ in range(20)]
        for connection in unread:
            connection.sendall(LISTING)
        for byte in (b"G", b"E", b"T"):
            for connection in slow:
                connection.sendall(byte)
        for connection in (*silent, *slow):
            assert end_of(connection) in {b"", b"408"}
        eventually(lambda: open_files(one.process.pid) <= before + 18)  # nginx keeps 16 of them


def test_10000_dropped_connections_do_not_disturb_others(shielded: Bounded) -> None:
    client, one = shielded
    before = open_files(one.process.pid)
    with polling(client):
        for number in range(10_000):
            with connect(client) as dropped:
                if number % 2:
                    dropped.sendall(START if number % 4 == 1 else HEALTH)
                if number % 3 == 0:
                    dropped.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    eventually(lambda: open_files(one.process.pid) <= before + 18)


def test_the_requests_of_a_client_are_bounded(shielded: Bounded) -> None:
    """They are sent at once: one after the other, a slow machine would send less than it may."""
    client, _ = shielded
    statuses: list[int] = []
    with polling(client):
        while 429 not in statuses and len(statuses) < 9000:
            statuses += burst(client, 900)
    assert set(statuses) == {200, 429}
    assert statuses.index(429) >= 200


def test_the_pace_of_a_download_is_bounded(large: Path, tmp_path: Path) -> None:
    with instances(large, tmp_path, ("--root-path", "/api")) as (one,):
        replacements = {SERVICE: one.address, '"~\\.zst$" 10m': '"~\\.zst$" 1k'}
        with nginx(tmp_path / "nginx", BOUNDS + PREFIX, replacements) as client:
            described = client.get("/api/v1/snapshots/current").json()["snapshot"]
            path = described["files"][0]["path"]
            with client.stream("GET", f"/api/v1/snapshots/{path}") as response:
                assert response.status_code == 200
                first = next(response.iter_raw())
            assert len(first) < int(response.headers["content-length"])
