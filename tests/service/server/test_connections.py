"""Requests that are malformed, too large, slow or endless, over real sockets."""

from __future__ import annotations

import errno
import itertools
import re
import resource
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Self

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.schema.status import ErrorEnvelope
from service.server.protocol import MAX_FIELDS, MAX_HEAD, MAX_PIPELINED
from tests.support.running import ROOT, examples

START = b"GET /healthz HTTP/1.1\r\nhost: a.example\r\n"
HEALTH = START + b"\r\n"
LISTING = b"GET /v1/services?limit=200 HTTP/1.1\r\nhost: a.example\r\n\r\n"
UPGRADE = START + b"connection: upgrade\r\nupgrade: h2c\r\n"
DEADLINE = 20.0
RESET = struct.pack("ii", 1, 0)
SOFT_LIMIT = 256

_response = re.compile(rb"HTTP/1\.1 (\d{3}) [A-Za-z -]+\r\n((?:[a-z-]+: [\x20-\x7e]*\r\n)+)\r\n")
_envelope = msgspec.json.Decoder(ErrorEnvelope)


class Response(NamedTuple):
    """A response of a connection."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> str:
        return _envelope.decode(self.body).error.code

    def check(self) -> None:
        """Check the headers that every response has, and the envelope of an error."""
        assert self.headers["access-control-allow-origin"] == "*"
        assert self.headers["x-content-type-options"] == "nosniff"
        assert self.status < 500
        if self.status >= 400:
            assert self.headers["content-type"] == "application/json"
            assert _envelope.decode(self.body).error.message


class Server(NamedTuple):
    """A running service that started with a low soft limit of open files."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def open_files(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def memory(self) -> int:
        """Return the resident bytes."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * resource.getpagesize()

    def connect(self, buffer: int | None = None) -> Connection:
        return Connection(self.port, buffer)

    def exchange(self, *pieces: bytes) -> list[Response]:
        """Send these bytes, end the stream, and return all responses."""
        with self.connect() as connection:
            for piece in pieces:
                connection.send(piece)
            connection.socket.shutdown(socket.SHUT_WR)
            return connection.read_responses()


class Connection:
    """A connection that checks every response."""

    def __init__(self, port: int, buffer: int | None = None) -> None:
        self.socket = socket.socket()
        self.socket.settimeout(DEADLINE)
        if buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self.socket.connect(("127.0.0.1", port))
        self._received = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def read_response(self) -> Response | None:
        """Return the next response, or None when the service has closed the connection."""
        while (response := self._parse()) is None:
            if not (received := self.socket.recv(1 << 20)):
                assert not self._received, "the last response is truncated"
                return None
            self._received += received
        response.check()
        return response

    def read_responses(self) -> list[Response]:
        """Return all responses until the service closes the connection."""
        return list(iter(self.read_response, None))

    def _parse(self) -> Response | None:
        head = _response.match(self._received)
        if head is None:
            assert b"\r\n\r\n" not in self._received, self._received
            return None
        lines = [line.split(": ", 1) for line in head[2].decode().split("\r\n")[:-1]]
        headers = dict(lines)
        assert len(headers) == len(lines), "a header is repeated"
        end = head.end() + int(headers.get("content-length", "0"))
        if len(self._received) < end:
            return None
        response = Response(int(head[1]), headers, self._received[head.end() : end])
        self._received = self._received[end:]
        return response


@contextmanager
def running(artifacts: Path, log: Path, *arguments: str) -> Iterator[Server]:
    options = ["--artifacts", str(artifacts), "--port", "0", *arguments]
    limited = f'ulimit -S -n {SOFT_LIMIT}; exec "$0" "$@"'
    command = ["sh", "-c", limited, sys.executable, "-m", "service", *options]
    with log.open("wb") as output, subprocess.Popen(command, cwd=ROOT, stderr=output) as process:
        try:
            eventually(lambda: "running on" in log.read_text() or process.poll() is not None)
            match = re.search(r"running on http://127\.0\.0\.1:(\d+)", log.read_text())
            assert match, log.read_text()
            yield Server(process, int(match[1]), log)
        finally:
            process.terminate()
            process.wait(DEADLINE)


@pytest.fixture(scope="module")
def server(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(sample, tmp_path_factory.mktemp("log") / "stderr") as server:
        yield server


@pytest.fixture(scope="module")
def short_timeout(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A service that drops a client after one to two seconds without progress."""
    log = tmp_path_factory.mktemp("log") / "stderr"
    with running(sample, log, "--client-timeout", "1") as server:
        assert server.exchange(LISTING)[0].status == 200
        yield server


@pytest.fixture
def many_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(0.02)


@contextmanager
def polling(server: Server) -> Iterator[list[int]]:
    """Yield the statuses that a well-behaved client receives meanwhile on one connection."""
    statuses: list[int] = []
    stop = threading.Event()

    def poll() -> None:
        with server.connect() as connection:
            while not stop.is_set():
                connection.send(HEALTH)
                response = connection.read_response()
                statuses.append(response.status if response else 0)

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield statuses
    finally:
        stop.set()
        thread.join()


HOST = b"host: a.example\r\n\r\n"
MALFORMED = [
    *(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    *(b"\x00" * 1000, b"junk\r\n\r\n", b"GET\r\n\r\n", b"GET  / \r\n\r\n"),
    *(
        target + HOST
        for target in (
            *(b"get / HTTP/1.1\r\n", b"GET / HTTP/9.9\r\n", b"GET / HTTP/1.1 x\r\n"),
            *(b"GET x HTTP/1.1\r\n", b"GET /caf\xc3\xa9 HTTP/1.1\r\n", b"GET /\x00 HTTP/1.1\r\n"),
            *(b"GET /?q=\xff HTTP/1.1\r\n", b"GET http://a.example:99999/ HTTP/1.1\r\n"),
            *(b"GET http://a.example HTTP/1.1\r\n", b"GET http:/// HTTP/1.1\r\n"),
            b"CONNECT a.example:443 HTTP/1.1\r\n",
        )
    ),
    *(START + b"a b: c\r\n\r\n", START + b": c\r\n\r\n", START + b"a: \x00\r\n\r\n"),
    START + b"content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    START + b"content-length: 4\r\ncontent-length: 5\r\n\r\nbody",
    START + b"content-length: -1\r\n\r\n",
]


@pytest.mark.parametrize("data", MALFORMED)
def test_a_malformed_request_is_400_with_the_error_envelope(server: Server, data: bytes) -> None:
    (response,) = server.exchange(data)
    assert (response.status, response.code) == (400, "bad_request")
    assert response.headers["connection"] == "close"
    assert response.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "data",
    [
        b"GET /healthz HTTP/1.1\r\n\r\n",
        b"GET http://a.example/healthz HTTP/1.1\r\n\r\n",
        START + b"host: a.example\r\n\r\n",
        START.replace(b"1.1", b"1.0") + b"Host: a.example\r\n\r\n",
    ],
    ids=["none", "in the target", "two", "two in HTTP/1.0"],
)
def test_a_request_without_its_one_host_header_is_400(server: Server, data: bytes) -> None:
    first, second = server.exchange(HEALTH + data + HEALTH)
    assert (first.status, second.status, second.code) == (200, 400, "bad_request")
    assert "Host" in _envelope.decode(second.body).error.message


def test_http_1_0_needs_no_host(server: Server) -> None:
    assert [each.status for each in server.exchange(b"GET /healthz HTTP/1.0\r\n\r\n")] == [200]


def test_a_malformed_request_is_answered_before_the_client_closes(server: Server) -> None:
    with server.connect() as connection:
        connection.send(b"junk\r\n\r\n")
        assert [response.code for response in connection.read_responses()] == ["bad_request"]


def test_pipelined_requests_before_a_malformed_one_are_answered(server: Server) -> None:
    responses = server.exchange(LISTING + HEALTH + b"junk\r\n\r\n" + HEALTH)
    assert [response.status for response in responses] == [200, 200, 400]
    assert b'"services"' in responses[0].body


def test_malformed_requests_and_resets_log_nothing(server: Server) -> None:
    before, files = server.log.read_text(), server.open_files()
    for data in [*MALFORMED, UPGRADE + b"\r\n", START + b"a: " + b"x" * MAX_HEAD]:
        assert server.exchange(data)
    for data in (HEALTH, LISTING, b"junk\r\n\r\n"):
        for _ in range(10):
            with server.connect() as connection:
                connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                connection.send(data)
                connection.socket.recv(1)
    with server.connect(4096) as connection:
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        connection.send(LISTING)
        for _ in range(10):  # until the service waits for this client to read
            assert server.exchange(HEALTH)
    eventually(lambda: server.open_files() <= files)
    for _ in range(5):  # until the service has noticed the reset
        assert server.exchange(HEALTH)
    assert server.log.read_text() == before


def padded(start: bytes, size: int) -> bytes:
    """Return a request head of this many bytes."""
    return start + b"a: " + b"x" * (size - len(start) - 7) + b"\r\n\r\n"


LINES = START + b"a: %b\r\n" % (b"x" * 600) * (MAX_FIELDS - 2)


@pytest.mark.parametrize("start", [START, LINES], ids=["a long line", "many lines"])
@pytest.mark.parametrize("piece", [MAX_HEAD * 2, 16_384, 1000])
def test_a_request_head_may_have_64_kib(server: Server, start: bytes, piece: int) -> None:
    for size, status in ((MAX_HEAD, 200), (MAX_HEAD + 1, 431)):
        head = padded(start, size)
        assert len(head) == size
        pieces = [head[at : at + piece] for at in range(0, size, piece)]
        with server.connect() as connection:
            connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(2 if status == 200 else 1):
                for part in pieces:
                    connection.send(part)
                response = connection.read_response()
                assert response is not None
                assert response.status == status
                if status == 431:
                    assert response.code == "head_too_large"
                    assert response.headers["connection"] == "close"
                    assert connection.read_responses() == []


def test_a_request_may_have_100_header_fields(server: Server) -> None:
    full = START + b"a:b\r\n" * (MAX_FIELDS - 1)
    statuses = [each.status for each in server.exchange(full + b"\r\n" + full + b"a:b\r\n\r\n")]
    assert statuses == [200, 431]
    with server.connect() as connection:
        connection.send(full + b"a:b\r\na:")
        assert [each.code for each in connection.read_responses()] == ["head_too_large"]


@pytest.mark.parametrize(
    "data",
    [
        b"GET /" + b"x" * MAX_HEAD * 2,
        b"\r\n" * MAX_HEAD,
        START + b"a: " + b"x" * 4_000_000,
        START + b"a: b\r\n" * 1_000_000,
    ],
    ids=["target", "nothing", "line", "lines"],
)
def test_an_endless_head_is_431_and_the_response_can_be_read(server: Server, data: bytes) -> None:
    assert [response.code for response in server.exchange(data)] == ["head_too_large"]
    assert [response.status for response in server.exchange(HEALTH, HEALTH, data)] == [
        200,
        200,
        431,
    ]


SIZED = START + b"content-length: 5000000\r\n\r\n" + b"x" * 5_000_000
CHUNKED = START + b"transfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "data",
    [
        SIZED,
        CHUNKED + b"4c4b40\r\n" + b"x" * 5_000_000 + b"\r\n0\r\n\r\n",
        CHUNKED + b"1;a=b\r\nx\r\n" * 200_000 + b"0\r\na: b\r\n\r\n",
        b"POST /v1/services HTTP/1.1\r\n" + SIZED.partition(b"\r\n")[2],
    ],
    ids=["sized", "chunk", "chunks", "post"],
)
def test_a_request_body_is_skipped_and_the_connection_is_kept_alive(
    server: Server, data: bytes
) -> None:
    with server.connect() as connection:
        for _ in range(2):
            connection.send(data)
            connection.send(padded(START, MAX_HEAD))
            response = connection.read_response()
            assert response is not None
            assert response.status == (405 if data.startswith(b"POST") else 200)
            assert (connection.read_response() or response).status == 200


@pytest.mark.parametrize(
    "body",
    [b"5\r\nhello\r\nzz\r\n", b"0\r\n" + b"a: b\r\n" * 30_000, b"1;" + b"x" * MAX_HEAD * 2],
    ids=["no chunk", "endless trailers", "endless extension"],
)
def test_a_request_with_a_malformed_body_has_one_response(server: Server, body: bytes) -> None:
    for pieces in ([CHUNKED + body + HEALTH], [CHUNKED, body + HEALTH]):
        with server.connect() as connection:
            for piece in pieces:
                connection.send(piece)
            responses = [connection.read_response()]
            with suppress(ConnectionResetError):  # part of the body may be unread
                responses += connection.read_responses()
            assert [response.status for response in responses if response] == [200]


def test_expect_100_continue_is_answered_without_the_body(server: Server) -> None:
    with server.connect() as connection:
        connection.send(START + b"expect: 100-continue\r\ncontent-length: 9\r\n\r\n")
        (response,) = connection.read_responses()
        assert (response.status, response.headers["connection"]) == (200, "close")


@pytest.mark.parametrize("extra", [b"", b"content-length: 0\r\n", b"http2-settings: AAMAAABk\r\n"])
def test_an_upgrade_is_ignored_and_the_connection_is_closed(server: Server, extra: bytes) -> None:
    websocket = b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: eA==\r\n"
    for request in (UPGRADE, START + websocket):
        with server.connect() as connection:
            connection.send(request + extra + b"\r\n")
            (response,) = connection.read_responses()
            assert (response.status, response.headers["connection"]) == (200, "close")


def test_the_body_of_an_upgrade_is_not_parsed_as_a_request(server: Server) -> None:
    length = b"content-length: %d\r\n\r\n" % len(LISTING)
    with server.connect() as connection:
        connection.send(UPGRADE + length + LISTING)
        assert [response.body for response in connection.read_responses()] == [b'{"status":"ok"}']
    with server.connect() as connection:
        responses = exchange_until_close(connection, [UPGRADE + length, LISTING])
        # A body that arrives after the close resets the connection, which may discard the response.
        assert [response.body for response in responses] in ([b'{"status":"ok"}'], [])


def test_pipelined_requests_are_answered_in_order(server: Server) -> None:
    paths = [b"/v1/services?limit=%d" % (1 + number * 7 % 200) for number in range(MAX_PIPELINED)]
    responses = server.exchange(b"".join(b"GET %b HTTP/1.1\r\n" % path + HOST for path in paths))
    limits = [msgspec.json.decode(response.body)["limit"] for response in responses]
    assert limits == [1 + number * 7 % 200 for number in range(MAX_PIPELINED)]


def test_pipelined_requests_over_the_limit_are_400(server: Server) -> None:
    with server.connect() as connection:
        connection.send(HEALTH * 10_000)
        responses = connection.read_responses()
    assert MAX_PIPELINED <= len(responses) < 10_000
    assert {response.status for response in responses[:-1]} == {200}
    assert responses[-1].code == "bad_request"


def test_clients_that_pipeline_and_close_log_nothing(server: Server) -> None:
    before, files = server.log.read_text(), server.open_files()
    (response,) = server.exchange(b"GET /v1/snapshots/current HTTP/1.1\r\n" + HOST)
    archive = msgspec.json.decode(response.body)["snapshot"]["files"][0]["path"]
    download = b"GET /v1/snapshots/%b HTTP/1.1\r\n" % archive.encode() + HOST
    for request, count in ((LISTING, 12), (download, 12), (LISTING + download, 6)):
        for _ in range(10):
            with server.connect(4096) as connection:
                connection.send(request * count)
                connection.socket.recv(1)
    eventually(lambda: server.open_files() <= files)
    assert server.exchange(HEALTH)
    assert server.log.read_text() == before


def test_requests_that_wait_take_little_memory(server: Server) -> None:
    """A service that kept reading would hold 4 MB of heads for each of these connections."""
    heads = HEALTH * 20 + LISTING * (MAX_PIPELINED - 21)
    padded_heads = heads.replace(b"\r\n\r\n", b"\r\na: %b\r\n\r\n" % (b"x" * 50_000))
    with ExitStack() as stack:
        before = server.memory()
        for _ in range(6):
            connection = stack.enter_context(server.connect(4096))
            connection.socket.settimeout(0.3)
            with suppress(TimeoutError):
                connection.send(padded_heads)
        assert server.exchange(HEALTH)
        assert server.memory() < before + 6 * 2_000_000


def test_a_reset_connection_takes_no_memory(server: Server) -> None:
    """A service that kept the last request of each would hold 60 MB."""
    request = LISTING.replace(b"?limit=200", b"?limit=1&x=" + b"x" * 60_000)
    sizes = []
    for _ in range(2):
        for _ in range(300):
            with server.connect() as connection:
                connection.send(request)
                assert connection.read_response()
                connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        sizes.append(server.memory())
    assert sizes[1] < sizes[0] + 10_000_000


def test_a_half_closed_connection_is_answered(server: Server) -> None:
    assert [response.status for response in server.exchange(LISTING * 3)] == [200] * 3
    assert server.exchange(START) == server.exchange(b"") == []


def test_clients_that_do_not_complete_a_request_time_out(short_timeout: Server) -> None:
    before = short_timeout.open_files()
    with ExitStack() as stack:
        for complete, partial in (
            *((b"", b""), (b"", b"\r\n"), (b"", b"G"), (b"", START)),
            *((HEALTH, b"\r\n"), (HEALTH, START), (CHUNKED, b"5\r\nhe")),
            *((HEALTH + START, b""), (CHUNKED, b"")),
        ):
            connection = stack.enter_context(short_timeout.connect())
            connection.send(complete)
            if complete:
                assert connection.read_response() is not None
            connection.send(partial)
        assert short_timeout.open_files() > before
        eventually(lambda: short_timeout.open_files() <= before)


def test_clients_that_do_not_read_their_response_time_out(short_timeout: Server) -> None:
    before = short_timeout.open_files()
    with short_timeout.connect(4096) as open_, short_timeout.connect(4096) as half_closed:
        for connection in (open_, half_closed):
            connection.send(LISTING * 50)
        half_closed.socket.shutdown(socket.SHUT_WR)
        eventually(lambda: short_timeout.open_files() <= before + 2)
        eventually(lambda: short_timeout.open_files() <= before)


def test_slow_readers_and_idle_keep_alive_connections_do_not_time_out(
    short_timeout: Server,
) -> None:
    with short_timeout.connect() as idle, short_timeout.connect(4096) as slow:
        idle.send(HEALTH)
        assert idle.read_response() is not None
        slow.send(LISTING * 24)
        slow.socket.shutdown(socket.SHUT_WR)
        sizes = []
        for _ in range(24):  # longer than the client timeout
            time.sleep(0.1)
            response = slow.read_response()
            assert response is not None
            sizes.append(len(response.body))
        assert len(set(sizes)) == 1
        assert slow.read_responses() == []
        idle.send(HEALTH)
        assert idle.read_response() is not None


def test_a_slow_writer_does_not_time_out(short_timeout: Server) -> None:
    with short_timeout.connect() as connection:
        for letter in HEALTH:
            connection.send(bytes([letter]))
            time.sleep(0.005)
        assert connection.read_response() is not None


def test_10000_dropped_connections_do_not_disturb_other_clients(server: Server) -> None:
    before = server.open_files()
    with polling(server) as statuses:
        for number in range(10_000):
            with socket.create_connection(("127.0.0.1", server.port)) as client:
                if number % 2:
                    client.sendall(START if number % 4 == 1 else HEALTH)
                if number % 3 == 0:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        count = len(statuses)
        eventually(lambda: len(statuses) > count + 10)
    assert set(statuses) == {200}
    eventually(lambda: server.open_files() == before)


def stall_1000_clients(server: Server) -> None:
    """Open 1,000 clients that send nothing, send slowly or do not read, until all are dropped."""
    before = server.open_files()
    with ExitStack() as stack, polling(server) as statuses:
        count = len(statuses)
        silent = [stack.enter_context(server.connect()) for _ in range(600)]
        slow = [stack.enter_context(server.connect()) for _ in range(380)]
        unread = [stack.enter_context(server.connect(4096)) for _ in range(20)]
        for connection in unread:
            connection.send(LISTING * 20)
        deadline = time.monotonic() + DEADLINE
        dropped = select.poll()
        for connection in slow:
            dropped.register(connection.socket, select.POLLIN)
        while server.open_files() > before + 1:  # one connection is the well-behaved client's
            assert time.monotonic() < deadline
            closed = {number for number, _ in dropped.poll(0)}
            for connection in slow:
                if connection.socket.fileno() not in closed:
                    connection.socket.send(b"x")
            time.sleep(0.1)
        # Also waits for those that the service accepts after the loop.
        assert [connection.read_response() for connection in silent] == [None] * len(silent)
        assert len(statuses) > count + 10
    assert set(statuses) == {200}


@pytest.mark.usefixtures("many_files")
def test_1000_stalled_clients_do_not_disturb_others(short_timeout: Server) -> None:
    stall_1000_clients(short_timeout)
    before = short_timeout.memory()
    stall_1000_clients(short_timeout)
    assert short_timeout.memory() < before + 8_000_000


def test_the_service_raises_its_limit_of_open_files_to_the_hard_limit(server: Server) -> None:
    limits = Path(f"/proc/{server.process.pid}/limits").read_text()
    soft, hard = re.findall(r"Max open files +(\d+) +(\d+)", limits)[0]
    assert int(soft) == int(hard) > SOFT_LIMIT


VALID = [
    *(HEALTH, LISTING, UPGRADE + b"\r\n", CHUNKED + b"5\r\nhello\r\n0\r\n\r\n"),
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello",
    b"GET http://a.example/v1/search/services?q=weather%20&limit=3 HTTP/1.0\r\nAccept: */*\r\n\r\n",
    b'OPTIONS * HTTP/1.1\r\nHost: a\r\nIf-None-Match: W/"a", *\r\nAccept-Encoding: gzip\r\n\r\n',
    b"GET /v1/ecosystem/stats HTTP/1.1\r\nHost: a\r\nX-Request-Id: a\r\nConnection: close\r\n\r\n",
]


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


def exchange_until_close(connection: Connection, pieces: list[bytes]) -> list[Response]:
    """Return the responses before the service closes or resets the connection."""
    responses: list[Response] = []
    try:
        for piece in pieces:
            connection.send(piece)
        connection.socket.shutdown(socket.SHUT_WR)
        responses.extend(iter(connection.read_response, None))
    except OSError as error:
        assert error.errno in {errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN}, error  # noqa: PT017  # a timeout has no errno
    return responses


@settings(max_examples=examples(200), deadline=None)
@given(
    data=st.binary(max_size=200) | mutated_requests(),
    cuts=st.lists(st.integers(0, 200), max_size=3),
)
def test_any_bytes_have_documented_responses_or_none(
    server: Server, data: bytes, cuts: list[int]
) -> None:
    before = server.log.read_text()
    ends = [0, *sorted(cuts), len(data)]
    with server.connect() as connection:
        responses = exchange_until_close(
            connection, [data[a:b] for a, b in itertools.pairwise(ends)]
        )
    assert all(response.headers.get("connection") != "close" for response in responses[:-1])
    assert server.log.read_text() == before
