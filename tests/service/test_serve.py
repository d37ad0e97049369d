"""Options of uvicorn are passed through, heads are bounded, and any bytes are safe."""

from __future__ import annotations

import asyncio
import itertools
import re
import resource
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.types import Receive, Scope, Send
from uvicorn import Config
from uvicorn.server import ServerState

from service.serve import MAX_HEAD, BoundedProtocol, main
from tests.support.processes import ServiceProcess, run_service
from tests.support.running import examples, plain_environment, run_fork

HOST = b"host: a.example\r\n\r\n"
START = b"GET /healthz HTTP/1.1\r\nhost: a.example\r\n"
HEALTH = START + b"\r\n"
LISTING = b"GET /v1/services?limit=200 HTTP/1.1\r\n" + HOST
UPGRADE = START + b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: eA==\r\n\r\n"
SIZED = START + b"content-length: 5000000\r\n\r\n" + b"x" * 5_000_000
CHUNKED = START + b"transfer-encoding: chunked\r\n\r\n"
VALID = [
    *(HEALTH, LISTING, UPGRADE, CHUNKED + b"5\r\nhello\r\n0\r\n\r\n"),
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello",
    b"GET http://a.example/v1/search/services?q=weather%20&limit=3 HTTP/1.0\r\nAccept: */*\r\n\r\n",
    b'OPTIONS * HTTP/1.1\r\nHost: a\r\nIf-None-Match: W/"a", *\r\nAccept-Encoding: gzip\r\n\r\n',
    b"GET /v1/ecosystem/stats HTTP/1.1\r\nHost: a\r\nX-Request-Id: a\r\nConnection: close\r\n\r\n",
]
_status = re.compile(rb"HTTP/1\.1 (\d{3}) [A-Za-z -]*\r\n")


@pytest.fixture(scope="module")
def server(sample: Path) -> Iterator[ServiceProcess]:
    with run_service(sample) as server:
        yield server
        assert "Traceback" not in server.log
        assert "ERROR" not in server.log


def exchange(server: ServiceProcess, *pieces: bytes) -> list[int]:
    """Send these bytes and end the stream; return the statuses until the service closes."""
    received = b""
    with server.connect() as connection, suppress(ConnectionError):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            connection.sendall(piece)
        while data := connection.recv(1 << 20):
            received += data
    return [int(status) for status in _status.findall(received)]


def closing(request: bytes) -> bytes:
    return request.replace(b"host: a.example\r\n", b"host: a.example\r\nconnection: close\r\n", 1)


def resident_memory(server: ServiceProcess) -> int:
    pages = int(Path(f"/proc/{server.pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


@pytest.mark.parametrize("size", [1000, 16_384, MAX_HEAD])
def test_a_head_may_have_64_kib(server: ServiceProcess, size: int) -> None:
    head = closing(START)
    head += b"a: " + b"x" * (MAX_HEAD - len(head) - 7) + b"\r\n\r\n"
    assert len(head) == MAX_HEAD
    assert exchange(server, *(head[at : at + size] for at in range(0, len(head), size))) == [200]


class Connection(asyncio.Transport):
    """A connection that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""

    def write(self, data: Any) -> None:
        if not self.is_closing():
            self.written += data

    def is_closing(self) -> bool:
        return b"connection: close" in self.written

    def close(self) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


async def respond(data: bytes) -> bytes:
    """Return the responses to what is received in one read, which are otherwise 204."""

    async def application(_: Scope, __: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 204})
        await send({"type": "http.response.body"})

    state, connection = ServerState(), Connection()
    config = Config(application, log_config=None, proxy_headers=False)
    protocol = BoundedProtocol(config, state, {})
    protocol.connection_made(connection)
    protocol.data_received(data)
    while state.tasks:
        await asyncio.wait(state.tasks)
    return connection.written


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n",
        START + b"a: " + b"x" * 120_000 + b"\r\n\r\n",
        START + b"a: b\r\n" * (70_000 // 6) + b"\r\n",
    ],
    ids=["target", "line", "lines"],
)
def test_a_longer_head_is_refused_although_it_came_at_once(head: bytes) -> None:
    assert asyncio.run(respond(HEALTH * 2)).startswith(b"HTTP/1.1 204 ")
    for before in (b"", HEALTH, CHUNKED + b"5\r\nhello\r\n0\r\n\r\n"):
        written = asyncio.run(respond(before + head))
        assert _status.findall(written)[0] == b"400"
        assert written.endswith(b"exceed 65536 bytes.")


@pytest.mark.parametrize(
    "endless",
    [
        b"GET /" + b"x" * 20_000_000,
        b"\r\n" * 10_000_000,
        START + b"a: " + b"x" * 20_000_000,
        START + b"a: b\r\n" * 3_000_000,
        CHUNKED + b"0\r\n" + b"a: b\r\n" * 3_000_000,
        CHUNKED + b"1;" + b"x" * 20_000_000,
    ],
    ids=["target", "nothing", "line", "lines", "trailers", "extension of a chunk"],
)
def test_an_endless_head_is_cut_and_takes_no_memory(server: ServiceProcess, endless: bytes) -> None:
    before = resident_memory(server)
    assert set(exchange(server, endless)) <= {200, 400}
    assert resident_memory(server) < before + 8_000_000
    assert exchange(server, closing(HEALTH)) == [200]


@pytest.mark.parametrize(
    "request_",
    [
        SIZED,
        CHUNKED + b"4c4b40\r\n" + b"x" * 5_000_000 + b"\r\n0\r\n\r\n",
        CHUNKED + b"1;a=b\r\nx\r\n" * 200_000 + b"0\r\na: b\r\n\r\n",
    ],
    ids=["sized", "chunk", "chunks"],
)
def test_a_body_is_skipped_and_the_connection_is_kept(
    server: ServiceProcess, request_: bytes
) -> None:
    assert exchange(server, request_, request_, closing(HEALTH)) == [200, 200, 200]


def test_many_requests_of_a_connection_are_no_endless_head(server: ServiceProcess) -> None:
    count = 2 * MAX_HEAD // len(HEALTH)
    with server.connect() as connection:
        for _ in range(count):
            connection.sendall(HEALTH)
            assert b" 200 " in connection.recv(1 << 16)


def test_an_upgrade_is_ignored(server: ServiceProcess) -> None:
    with server.connect() as connection:
        connection.sendall(UPGRADE)
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200 ")


@st.composite
def mutated_requests(draw: st.DrawFn) -> bytes:
    """Draw requests with some of their bytes replaced, repeated or left out."""
    data = b"".join(draw(st.lists(st.sampled_from(VALID), min_size=1, max_size=3)))
    for _ in range(draw(st.integers(1, 4))):
        start, end = sorted((draw(st.integers(0, len(data))), draw(st.integers(0, len(data)))))
        end = min(end, start + draw(st.sampled_from([0, 1, 2, 20, 200])))
        token = st.sampled_from([b"\r\n", b"\n", b" ", b":", b"\x00", b"%", b"?", b"0", b"\xff"])
        data = data[:start] + draw(token | st.binary(max_size=8)) + data[end:]
    return data


@settings(max_examples=examples(200), deadline=None)
@given(
    data=st.binary(max_size=200) | mutated_requests(),
    cuts=st.lists(st.integers(0, 200), max_size=3),
)
def test_any_bytes_have_documented_responses_or_none(
    server: ServiceProcess, data: bytes, cuts: list[int]
) -> None:
    ends = [0, *sorted(cuts), len(data)]
    statuses = []
    with server.connect() as connection, suppress(ConnectionError):
        for start, end in itertools.pairwise(ends):
            connection.sendall(data[start:end])
        with suppress(OSError):  # the service has closed it
            connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as stream:
            statuses = [int(status) for status in _status.findall(stream.read())]
    assert set(statuses) <= {100, 200, 204, 304, 400, 404, 405, 406}
    with server.client() as client:
        assert client.get("/healthz").status_code == 200
    assert "Traceback" not in server.log


def test_variables_of_uvicorn_are_read_and_its_options_win(sample: Path) -> None:
    environ = plain_environment() | {"UVICORN_PORT": "a", "UVICORN_HOST": "nowhere.invalid"}
    command = ["--artifacts", str(sample), "--workers", "nine"]

    def end(*arguments: str) -> subprocess.CompletedProcess[str]:
        return run_fork(main, *command, *arguments, environ=environ)

    assert "'--port': 'a' is not a valid integer" in end("--workers", "1").stderr
    assert "'--workers': 'nine' is not" in end("--port", "0").stderr
    assert "the port 65536 is none" in end("--port", "65536", "--workers", "1").stderr
    started = end("--port", "0", "--workers", "1")
    assert started.returncode == 3
    assert "Name or service not known" in started.stderr


def test_a_variable_that_is_no_setting_is_a_warning(sample: Path) -> None:
    environ = plain_environment() | {"RATECARD_HOST": "7", "RATECARD_ENGINE": "x"}
    process = run_fork(main, "--artifacts", sample, "--max-age", "x", environ=environ)
    *warnings, error = process.stderr.splitlines()
    assert error.startswith("error: RATECARD_MAX_AGE: ")
    assert warnings == [
        f"warning: {name} has no effect; it is no setting of this version"
        for name in ("RATECARD_ENGINE", "RATECARD_HOST")
    ]
