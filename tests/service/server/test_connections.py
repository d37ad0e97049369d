"""Hostile clients: what they send is malformed, too large, too slow or never ends."""

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

from service.records import ErrorEnvelope
from service.server.protocol import MAX_HEAD, MAX_PIPELINED
from tests.support.running import ROOT

START = b"GET /healthz HTTP/1.1\r\nhost: a.example\r\n"
HEALTH = START + b"\r\n"
LISTING = b"GET /v1/services?limit=200 HTTP/1.1\r\nhost: a.example\r\n\r\n"
UPGRADE = START + b"connection: upgrade\r\nupgrade: h2c\r\n"
DEADLINE = 20.0
RESET = struct.pack("ii", 1, 0)
SOFT_LIMIT = 256

_response = re.compile(rb"HTTP/1\.1 (\d{3}) [A-Za-z -]+\r\n((?:[a-z-]+: [\x20-\x7e]*\r\n)+)\r\n")
_envelope = msgspec.json.Decoder(ErrorEnvelope)


class Answer(NamedTuple):
    """A response with nothing before or behind it."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> str:
        return _envelope.decode(self.body).error.code

    def check(self) -> None:
        """Every answer is readable from any origin, and every refusal has the documented shape."""
        assert self.headers["access-control-allow-origin"] == "*"
        assert self.headers["x-content-type-options"] == "nosniff"
        assert self.status < 500
        if self.status >= 400:
            assert self.headers["content-type"] == "application/json"
            assert _envelope.decode(self.body).error.message


class Server(NamedTuple):
    """A running service that was started with a low soft limit of open files."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def open_files(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def memory(self) -> int:
        """Resident bytes."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * resource.getpagesize()

    def connect(self, buffer: int | None = None) -> Connection:
        return Connection(self.port, buffer)

    def ask(self, *pieces: bytes) -> list[Answer]:
        """Everything that is answered to these bytes and no others."""
        with self.connect() as connection:
            for piece in pieces:
                connection.send(piece)
            connection.socket.shutdown(socket.SHUT_WR)
            return connection.rest()


class Connection:
    """A client that checks what it is answered."""

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

    def answer(self) -> Answer | None:
        """The next answer, or None when the service has closed the connection."""
        while (found := self._parsed()) is None:
            if not (received := self.socket.recv(1 << 20)):
                assert not self._received, "the last answer is cut short"
                return None
            self._received += received
        found.check()
        return found

    def rest(self) -> list[Answer]:
        return list(iter(self.answer, None))

    def _parsed(self) -> Answer | None:
        head = _response.match(self._received)
        if head is None:
            assert b"\r\n\r\n" not in self._received, self._received
            return None
        lines = [line.split(": ", 1) for line in head[2].decode().split("\r\n")[:-1]]
        headers = dict(lines)
        assert len(headers) == len(lines), "a header is given twice"
        end = head.end() + int(headers.get("content-length", "0"))
        if len(self._received) < end:
            return None
        answer = Answer(int(head[1]), headers, self._received[head.end() : end])
        self._received = self._received[end:]
        return answer


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
def impatient(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A service that waits a second for its clients, two at the most."""
    log = tmp_path_factory.mktemp("log") / "stderr"
    with running(sample, log, "--client-timeout", "1") as server:
        assert server.ask(LISTING)[0].status == 200
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
        assert time.monotonic() < deadline, "this has not come true"
        time.sleep(0.02)


@contextmanager
def asking(server: Server) -> Iterator[list[int]]:
    """The statuses that a well-behaved client gets meanwhile on one connection."""
    statuses: list[int] = []
    stop = threading.Event()

    def ask() -> None:
        with server.connect() as connection:
            while not stop.is_set():
                connection.send(HEALTH)
                answer = connection.answer()
                statuses.append(answer.status if answer else 0)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield statuses
    finally:
        stop.set()
        thread.join()


NO_HTTP = [
    *(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    *(
        b"\x00" * 1000,
        b"junk\r\n\r\n",
        b"GET\r\n\r\n",
        b"get / HTTP/1.1\r\n\r\n",
        b"GET  / \r\n\r\n",
    ),
    *(b"GET / HTTP/9.9\r\n\r\n", b"GET / HTTP/1.1 x\r\n\r\n", b"GET x HTTP/1.1\r\n\r\n"),
    *(
        b"GET /caf\xc3\xa9 HTTP/1.1\r\n\r\n",
        b"GET /?q=\xff HTTP/1.1\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\n\r\n",
    ),
    *(b"GET http://a.example:99999/ HTTP/1.1\r\n\r\n", b"GET http://a.example HTTP/1.1\r\n\r\n"),
    *(b"CONNECT a.example:443 HTTP/1.1\r\n\r\n\x16\x03", b"GET http:/// HTTP/1.1\r\n\r\n"),
    *(START + b"a b: c\r\n\r\n", START + b": c\r\n\r\n", START + b"a: \x00\r\n\r\n"),
    START + b"content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    START + b"content-length: 4\r\ncontent-length: 5\r\n\r\nbody",
    START + b"content-length: -1\r\n\r\n",
]


@pytest.mark.parametrize("sent", NO_HTTP)
def test_what_is_no_http_is_a_400_like_every_other_error(server: Server, sent: bytes) -> None:
    (answer,) = server.ask(sent)
    assert (answer.status, answer.code) == (400, "bad_request")
    assert answer.headers["connection"] == "close"
    assert answer.headers["cache-control"] == "no-store"


def test_a_refused_client_is_answered_before_it_ends_what_it_sends(server: Server) -> None:
    with server.connect() as connection:
        connection.send(b"junk\r\n\r\n")
        assert [answer.code for answer in connection.rest()] == ["bad_request"]


def test_the_requests_before_what_is_no_http_are_answered_first(server: Server) -> None:
    answers = server.ask(LISTING + HEALTH + b"junk\r\n\r\n" + HEALTH)
    assert [answer.status for answer in answers] == [200, 200, 400]
    assert b'"services"' in answers[0].body


def test_a_scanner_does_not_fill_the_log(server: Server) -> None:
    before, files = server.log.read_text(), server.open_files()
    for sent in [*NO_HTTP, UPGRADE + b"\r\n", START + b"a: " + b"x" * MAX_HEAD]:
        assert server.ask(sent)
    for sent in (HEALTH, LISTING, b"junk\r\n\r\n"):
        for _ in range(10):
            with server.connect() as connection:
                connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                connection.send(sent)
                connection.socket.recv(1)
    with server.connect(4096) as connection:
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        connection.send(LISTING)
        for _ in range(10):  # by now the service waits for this client to read
            assert server.ask(HEALTH)
    eventually(lambda: server.open_files() <= files)
    for _ in range(5):  # by now it has noticed that the client is gone
        assert server.ask(HEALTH)
    assert server.log.read_text() == before


def padded(start: bytes, size: int) -> bytes:
    """A head of this many bytes."""
    return start + b"a: " + b"x" * (size - len(start) - 7) + b"\r\n\r\n"


LINES = START + b"a:b\r\n" * ((MAX_HEAD - len(START) - 7) // 5)


@pytest.mark.parametrize("start", [START, LINES], ids=["a long line", "many lines"])
@pytest.mark.parametrize("piece", [MAX_HEAD * 2, 16_384, 1000])
def test_a_head_has_up_to_64_kib(server: Server, start: bytes, piece: int) -> None:
    for size, status in ((MAX_HEAD, 200), (MAX_HEAD + 1, 431)):
        head = padded(start, size)
        assert len(head) == size
        pieces = [head[at : at + piece] for at in range(0, size, piece)]
        with server.connect() as connection:
            connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(2 if status == 200 else 1):
                for part in pieces:
                    connection.send(part)
                answer = connection.answer()
                assert answer is not None
                assert answer.status == status
                if status == 431:
                    assert answer.code == "head_too_large"
                    assert answer.headers["connection"] == "close"
                    assert connection.rest() == []


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /" + b"x" * MAX_HEAD * 2,
        b"\r\n" * MAX_HEAD,
        START + b"a: " + b"x" * 4_000_000,
        START + b"a: b\r\n" * 1_000_000,
    ],
    ids=["target", "nothing", "line", "lines"],
)
def test_a_client_that_sends_without_end_can_read_why_it_is_refused(
    server: Server, sent: bytes
) -> None:
    assert [answer.code for answer in server.ask(sent)] == ["head_too_large"]
    assert [answer.status for answer in server.ask(HEALTH, HEALTH, sent)] == [200, 200, 431]


SIZED = START + b"content-length: 5000000\r\n\r\n" + b"x" * 5_000_000
CHUNKED = START + b"transfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        SIZED,
        CHUNKED + b"4c4b40\r\n" + b"x" * 5_000_000 + b"\r\n0\r\n\r\n",
        CHUNKED + b"1;a=b\r\nx\r\n" * 200_000 + b"0\r\na: b\r\n\r\n",
        b"POST /v1/services HTTP/1.1\r\n" + SIZED.partition(b"\r\n")[2],
    ],
    ids=["sized", "chunk", "chunks", "post"],
)
def test_a_body_is_passed_over_and_the_connection_goes_on(server: Server, sent: bytes) -> None:
    with server.connect() as connection:
        for _ in range(2):
            connection.send(sent)
            connection.send(padded(START, MAX_HEAD))
            answer = connection.answer()
            assert answer is not None
            assert answer.status == (405 if sent.startswith(b"POST") else 200)
            assert (connection.answer() or answer).status == 200


@pytest.mark.parametrize(
    "body",
    [b"5\r\nhello\r\nzz\r\n", b"0\r\n" + b"a: b\r\n" * 30_000, b"1;" + b"x" * MAX_HEAD * 2],
    ids=["no chunk", "endless trailers", "endless extension"],
)
def test_a_request_whose_body_is_malformed_has_one_answer(server: Server, body: bytes) -> None:
    for pieces in ([CHUNKED + body + HEALTH], [CHUNKED, body + HEALTH]):
        with server.connect() as connection:
            for piece in pieces:
                connection.send(piece)
            answers = [connection.answer()]
            with suppress(ConnectionResetError):  # part of the body may be unread
                answers += connection.rest()
            assert [answer.status for answer in answers if answer] == [200]


def test_a_body_that_is_announced_is_not_asked_for(server: Server) -> None:
    with server.connect() as connection:
        connection.send(START + b"expect: 100-continue\r\ncontent-length: 9\r\n\r\n")
        (answer,) = connection.rest()
        assert (answer.status, answer.headers["connection"]) == (200, "close")


@pytest.mark.parametrize("extra", [b"", b"content-length: 0\r\n", b"http2-settings: AAMAAABk\r\n"])
def test_an_upgrade_is_answered_as_a_plain_request_and_ends_the_connection(
    server: Server, extra: bytes
) -> None:
    websocket = b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: eA==\r\n"
    for request in (UPGRADE, START + websocket):
        with server.connect() as connection:
            connection.send(request + extra + b"\r\n")
            (answer,) = connection.rest()
            assert (answer.status, answer.headers["connection"]) == (200, "close")


def test_the_body_of_an_upgrade_is_no_request(server: Server) -> None:
    length = b"content-length: %d\r\n\r\n" % len(LISTING)
    for pieces in ([UPGRADE + length + LISTING], [UPGRADE + length, LISTING]):
        with server.connect() as connection:
            answers = provoke(connection, pieces)
            assert [answer.body for answer in answers] == [b'{"status":"ok"}']


def test_pipelined_requests_are_answered_in_order(server: Server) -> None:
    paths = [b"/v1/services?limit=%d" % (1 + number * 7 % 200) for number in range(MAX_PIPELINED)]
    answers = server.ask(b"".join(b"GET %b HTTP/1.1\r\n\r\n" % path for path in paths))
    limits = [msgspec.json.decode(answer.body)["limit"] for answer in answers]
    assert limits == [1 + number * 7 % 200 for number in range(MAX_PIPELINED)]


def test_too_many_pipelined_requests_are_refused_after_those_that_fit(server: Server) -> None:
    with server.connect() as connection:
        connection.send(HEALTH * 10_000)
        answers = connection.rest()
    assert MAX_PIPELINED <= len(answers) < 10_000
    assert {answer.status for answer in answers[:-1]} == {200}
    assert answers[-1].code == "bad_request"


def test_a_client_that_has_said_everything_is_answered(server: Server) -> None:
    assert [answer.status for answer in server.ask(LISTING * 3)] == [200] * 3
    assert server.ask(START) == server.ask(b"") == []


def test_clients_that_do_not_complete_a_request_are_dropped(impatient: Server) -> None:
    before = impatient.open_files()
    with ExitStack() as stack:
        for answered, unfinished in (
            *((b"", b""), (b"", b"\r\n"), (b"", b"G"), (b"", START)),
            *((HEALTH, b"\r\n"), (HEALTH, START), (CHUNKED, b"5\r\nhe")),
            *((HEALTH + START, b""), (CHUNKED, b"")),
        ):
            connection = stack.enter_context(impatient.connect())
            connection.send(answered)
            if answered:
                assert connection.answer() is not None
            connection.send(unfinished)
        assert impatient.open_files() > before
        eventually(lambda: impatient.open_files() == before)


def test_clients_that_do_not_read_are_dropped(impatient: Server) -> None:
    before = impatient.open_files()
    with impatient.connect(4096) as open_, impatient.connect(4096) as half_closed:
        for connection in (open_, half_closed):
            connection.send(LISTING * 50)
        half_closed.socket.shutdown(socket.SHUT_WR)
        eventually(lambda: impatient.open_files() == before + 2)
        eventually(lambda: impatient.open_files() == before)


def test_a_client_that_reads_slowly_or_has_nothing_to_ask_is_waited_for(
    impatient: Server,
) -> None:
    with impatient.connect() as idle, impatient.connect(4096) as slow:
        idle.send(HEALTH)
        assert idle.answer() is not None
        slow.send(LISTING * 24)
        slow.socket.shutdown(socket.SHUT_WR)
        sizes = []
        for _ in range(24):  # longer than a client that reads nothing is waited for
            time.sleep(0.1)
            answer = slow.answer()
            assert answer is not None
            sizes.append(len(answer.body))
        assert len(set(sizes)) == 1
        assert slow.rest() == []
        idle.send(HEALTH)
        assert idle.answer() is not None


def test_a_client_that_writes_slowly_is_waited_for(impatient: Server) -> None:
    with impatient.connect() as connection:
        for letter in HEALTH:
            connection.send(bytes([letter]))
            time.sleep(0.005)
        assert connection.answer() is not None


def test_10000_connects_and_drops_disturb_nobody(server: Server) -> None:
    before = server.open_files()
    with asking(server) as statuses:
        for number in range(10_000):
            with socket.create_connection(("127.0.0.1", server.port)) as client:
                if number % 2:
                    client.sendall(START if number % 4 == 1 else HEALTH)
                if number % 3 == 0:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        asked = len(statuses)
        eventually(lambda: len(statuses) > asked + 10)
    assert set(statuses) == {200}
    eventually(lambda: server.open_files() == before)


def besiege(server: Server) -> None:
    """1,000 clients that send nothing, send too slowly or do not read, until all are dropped."""
    before = server.open_files()
    with ExitStack() as stack, asking(server) as statuses:
        silent = [stack.enter_context(server.connect()) for _ in range(600)]
        slow = [stack.enter_context(server.connect()) for _ in range(380)]
        unread = [stack.enter_context(server.connect(4096)) for _ in range(20)]
        for connection in unread:
            connection.send(LISTING * 20)
        eventually(lambda: server.open_files() > before + 900)
        asked = len(statuses)
        deadline = time.monotonic() + DEADLINE
        told = select.poll()
        for connection in slow:
            told.register(connection.socket, select.POLLIN)
        while server.open_files() > before + 1:  # that of the well-behaved client
            assert time.monotonic() < deadline
            dropped = {number for number, _ in told.poll(0)}
            for connection in slow:
                if connection.socket.fileno() not in dropped:
                    connection.socket.send(b"x")
            time.sleep(0.1)
        assert len(statuses) > asked + 10
        assert [connection.answer() for connection in silent] == [None] * len(silent)
    assert set(statuses) == {200}


@pytest.mark.usefixtures("many_files")
def test_1000_clients_that_keep_the_service_waiting_disturb_nobody(impatient: Server) -> None:
    besiege(impatient)
    before = impatient.memory()
    besiege(impatient)
    assert impatient.memory() < before + 8_000_000


def test_as_many_files_may_be_open_as_the_system_allows(server: Server) -> None:
    limits = Path(f"/proc/{server.process.pid}/limits").read_text()
    soft, hard = re.findall(r"Max open files +(\d+) +(\d+)", limits)[0]
    assert int(soft) == int(hard) > SOFT_LIMIT


VALID = [
    *(HEALTH, LISTING, UPGRADE + b"\r\n", CHUNKED + b"5\r\nhello\r\n0\r\n\r\n"),
    b"POST / HTTP/1.1\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello",
    b"GET http://a.example/v1/search/services?q=weather%20&limit=3 HTTP/1.0\r\nAccept: */*\r\n\r\n",
    b'OPTIONS * HTTP/1.1\r\nHost: a\r\nIf-None-Match: W/"a", *\r\nAccept-Encoding: gzip\r\n\r\n',
    b"GET /v1/ecosystem/stats?timeframe=7 HTTP/1.1\r\nX-Request-Id: a\r\nConnection: close\r\n\r\n",
]


@st.composite
def spoilt(draw: st.DrawFn) -> bytes:
    """Requests with some of their bytes replaced, repeated or left out."""
    sent = b"".join(draw(st.lists(st.sampled_from(VALID), min_size=1, max_size=3)))
    for _ in range(draw(st.integers(1, 4))):
        start, end = sorted((draw(st.integers(0, len(sent))), draw(st.integers(0, len(sent)))))
        end = min(end, start + draw(st.sampled_from([0, 1, 2, 20, 200])))
        token = st.sampled_from([b"\r\n", b"\n", b" ", b":", b"\x00", b"%", b"?", b"0", b"\xff"])
        sent = sent[:start] + draw(token | st.binary(max_size=8)) + sent[end:]
    return sent


def provoke(connection: Connection, pieces: list[bytes]) -> list[Answer]:
    """What is answered before the connection is closed, or reset as more is sent than is read."""
    answers: list[Answer] = []
    try:
        for piece in pieces:
            connection.send(piece)
        connection.socket.shutdown(socket.SHUT_WR)
        answers.extend(iter(connection.answer, None))
    except OSError as error:
        assert error.errno in {errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN}, error  # noqa: PT017  # a hang has no number
    return answers


@settings(max_examples=200, deadline=None)
@given(sent=st.binary(max_size=200) | spoilt(), cuts=st.lists(st.integers(0, 200), max_size=3))
def test_whatever_is_sent_is_answered_in_the_documented_shape_or_not_at_all(
    server: Server, sent: bytes, cuts: list[int]
) -> None:
    before = server.log.read_text()
    ends = [0, *sorted(cuts), len(sent)]
    with server.connect() as connection:
        answers = provoke(connection, [sent[a:b] for a, b in itertools.pairwise(ends)])
    assert all(answer.headers.get("connection") != "close" for answer in answers[:-1])
    assert server.log.read_text() == before
