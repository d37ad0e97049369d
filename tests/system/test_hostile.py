"""Hostile requests and records have documented responses and inject nothing.

Text of a request or a record may appear in response bodies as JSON, but not in response headers,
the log, metrics or file names.
"""

from __future__ import annotations

import gzip
import importlib
import json
import os
import re
import socket
import string
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.api.documents.openapi import document
from service.errors import STATUSES
from service.schema import demand, discovery, ecosystem, listings, records, responses, status
from service.schema.discovery import DiscoveryError
from service.schema.responses import ServiceList
from service.schema.status import ErrorEnvelope
from service.serve import main as run_service
from tests.support.running import (
    ROOT,
    SOAK,
    Json,
    address_of,
    endpoint,
    eventually,
    forked,
    payment,
    plain_environment,
    run_indexer,
    service,
    write_lines,
)

CANARY = "canary"
"""A marker in every injection attempt."""
HEADERS = {
    *("access-control-allow-headers", "access-control-allow-methods", "access-control-max-age"),
    *("access-control-allow-origin", "access-control-expose-headers", "allow", "cache-control"),
    *("connection", "content-encoding", "content-length", "content-type", "date", "etag"),
    *("content-security-policy", "referrer-policy"),
    *(
        "link",
        "ratecard-fit",
        "ratecard-similar",
        "ratecard-snapshot",
        "retry-after",
        "vary",
        "x-content-type-options",
        "x-request-id",
    ),
}
HTML_PATHS = re.compile(r"/|/ecosystem|/services/[^/]+|/assets/.+", re.DOTALL)
HTML = "text/html; charset=utf-8"
DISCOVERY = ("/discovery/", "/v2/x402/", "/platform/v2/x402/")
MAX_URL = 60_000
"""Bytes with which a head is still within the limit."""
REQUEST_ID = re.compile(r"[\w.:/+=@-]{1,128}", re.ASCII)
OPENAPI: Json = json.loads(document(""))
GETS: Json = {path: each["get"] for path, each in OPENAPI["paths"].items()}
_header = re.compile(rb"([a-z-]+): ([\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)")
_error = msgspec.json.Decoder(ErrorEnvelope)
_discovery_error = msgspec.json.Decoder(DiscoveryError)
_zstd = importlib.import_module(
    "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
)


ERRORS = {(status, code) for code, status in STATUSES.items()} - {(500, "internal_error")}


class Envelope(NamedTuple):
    """The schemas of which a response satisfies one."""

    decoders: list[msgspec.json.Decoder[Any]]

    def decode(self, body: bytes) -> Any:
        """Decode a body by the first schema that it satisfies; raises as the last one does."""
        for decoder in self.decoders[:-1]:
            with suppress(msgspec.ValidationError):
                return decoder.decode(body)
        return self.decoders[-1].decode(body)


def _envelope(path: str) -> Envelope:
    (content,) = GETS[path]["responses"]["200"]["content"].values()
    schema = content["schema"]
    names = [each["$ref"].rpartition("/")[2] for each in schema.get("oneOf", [schema])]
    modules = records, responses, ecosystem, status, discovery, demand, listings
    types = {name: module for module in modules for name in vars(module)}
    return Envelope([msgspec.json.Decoder(vars(types[name])[name]) for name in names])


ENVELOPES = {path: _envelope(path) for path in GETS}
for other in ("/openapi.json", "/ard/agents/{identifier}"):  # ARD and OpenAPI specify these
    ENVELOPES[other] = Envelope([msgspec.json.Decoder(dict[str, Any])])
PATHS = sorted(ENVELOPES)
QUERY_PARAMETERS = {
    path: [each["name"] for each in operation["parameters"] if each["in"] == "query"]
    for path, operation in GETS.items()
}


ARD_CODES = {400: "INVALID_ARGUMENT", 405: "INVALID_ARGUMENT", 404: "NOT_FOUND"}


class Response(NamedTuple):
    """A response with its body decompressed."""

    status: int
    headers: dict[str, str]
    body: bytes


class RawConnection:
    """A keep-alive connection that sends any bytes, where a library would encode or refuse them."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._socket: socket.socket | None = None
        self._received = b""

    def send(self, request: bytes, method: str = "GET") -> Response:
        """Send one request, and return its response after checking that it is well-formed HTTP."""
        if self._socket is None:
            self._socket = socket.create_connection(self._address, timeout=30)
        self._socket.sendall(request)
        head = self._read_until(b"\r\n\r\n")
        status_line, *lines = head.split(b"\r\n")
        matched = [_header.fullmatch(line) for line in lines]
        assert all(matched), head
        pairs = [(match[1].decode(), match[2].decode()) for match in matched if match]
        headers = dict(pairs)
        assert len(headers) == len(pairs), head
        assert status_line.startswith(b"HTTP/1.1 "), head
        status = int(status_line.split(b" ")[1])
        empty = method == "HEAD" or status in {204, 304}
        body = self._read_exactly(0 if empty else int(headers["content-length"]))
        if headers.get("connection") == "close":
            self.close()
        match headers.get("content-encoding", "") if body else "":
            case "gzip":
                body = gzip.decompress(body)
            case "zstd":
                body = _zstd.decompress(body)
        return Response(status, headers, body)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket, self._received = None, b""

    def _read_until(self, end: bytes) -> bytes:
        while end not in self._received:
            self._receive()
        head, _, self._received = self._received.partition(end)
        return head

    def _read_exactly(self, size: int) -> bytes:
        while len(self._received) < size:
            self._receive()
        body, self._received = self._received[:size], self._received[size:]
        return body

    def _receive(self) -> None:
        assert self._socket is not None
        received = self._socket.recv(1 << 20)
        assert received, "closed without a response"
        self._received += received


class LoggedService(NamedTuple):
    """A running service with an access log."""

    address: tuple[str, int]
    log: Path

    def get(self, target: str) -> Response:
        with closing(RawConnection(self.address)) as connection:
            return connection.send(f"GET {target} HTTP/1.1\r\nhost: a\r\n\r\n".encode())


@contextmanager
def serve_logged(artifacts: Path) -> Iterator[LoggedService]:
    log = artifacts.with_name("service.log")
    log.touch()
    # Without load shedding, as the machine may be busy.
    options = ("--port", "0", "--log-requests", "--max-lag", "0")
    command = ["--artifacts", str(artifacts), *options]
    with forked(run_service, command, (log, log), plain_environment()):
        eventually(lambda: address_of(log.read_text()) != "")
        host, _, port = address_of(log.read_text()).removeprefix("http://").partition(":")
        yield LoggedService((host, int(port)), log)


@pytest.fixture(scope="module")
def server(sample: Path) -> Iterator[LoggedService]:
    """A service that serves the sample catalogue."""
    with serve_logged(sample) as server:
        yield server


def check(response: Response, method: str, target: str) -> None:  # noqa: C901  # a kind of answer each
    """Check that the contract has this response for a request; `target` is in origin form."""
    status, headers, body = response
    assert headers.keys() <= HEADERS
    if not reaches_application(response):
        return
    assert headers["access-control-allow-origin"] == "*"
    assert headers["x-content-type-options"] == "nosniff"
    if (status, method) == (204, "OPTIONS"):
        return
    path = unquote(target.partition("?")[0].partition("#")[0])
    decoder = decoder_for(path)
    exists = decoder is not None or HTML_PATHS.fullmatch(path) is not None
    if status in {200, 304}:
        assert exists
        assert method in {"GET", "HEAD"}
    if status == 304:
        assert "etag" in headers
        return
    if headers["content-type"].startswith("text/"):
        assert decoder is None
        assert status in {200, 400, 404, 405}
        assert not re.search(rb"<(?:script|img|svg)[^<>]*(?:canary|onload|src=x)", body)
        assert headers["content-type"] != HTML or headers["content-security-policy"]
        return
    assert headers["content-type"] == "application/json"
    if method == "HEAD":
        assert status in {200, 400, 404, 410, 416}
    elif status == 200 and decoder is not None:
        envelope = decoder.decode(body)
        if isinstance(envelope, ServiceList):
            assert len(envelope.services) <= envelope.limit <= 200
    elif path.startswith(DISCOVERY):
        refusal = _discovery_error.decode(body)
        assert refusal.error == refusal.error_message != ""
        assert (status, refusal.error_type) in {
            *((400, "invalid_request"), (405, "invalid_request"), (404, "not_found")),
        }
        assert isinstance(refusal.parameter, str) == (status == 400)
        assert "allow" in headers or status != 405
    elif path.startswith("/ard/"):
        assert msgspec.json.decode(body)["errorCode"] == ARD_CODES[status]
    else:
        error = _error.decode(body).error
        assert (status, error.code) in ERRORS
        assert exists or status != 400 or error.code == "bad_request"
        assert "allow" in headers or status != 405
        assert isinstance(error.parameter, str) == (error.code == "invalid_parameter")


def reaches_application(response: Response) -> bool:
    """Return whether the application made a response, and not the HTTP parser."""
    if request_id := response.headers.get("x-request-id"):
        assert REQUEST_ID.fullmatch(request_id)
    else:
        assert response.status == 400
        assert response.headers["connection"] == "close"
    return bool(request_id)


def decoder_for(path: str) -> Envelope | None:
    """Return the decoder of the responses of a decoded path, or None for an unknown path."""
    if path in ENVELOPES:
        return ENVELOPES[path] if "{" not in path else ENVELOPES["/v1/services/{id}"]
    parent, _, service_id = path.rpartition("/")
    return ENVELOPES["/v1/services/{id}"] if parent == "/v1/services" and service_id else None


VALUES = r"""
%20 %09 %0b + %c2%a0 %e3%80%80 %e2%80%8b
% %% %2 %zz %u0041 %c0%ae %c1%9c %ff%fe %e2%82 %80 %f0%9f %ed%a0%80 %ed%bf%bf%ed%a0%80
%f4%90%80%80 %f8%88%80%80%80 %252e%252e%252f %2525 %25%30%30 %2500 %25250a %26limit=0 %3d %23
. .. ../ ..%2f..%2fCURRENT %2e%2e/%2e%2e/etc/passwd ..;/ ..%5c..%5c ....// ~ /etc/passwd
file:///etc/passwd %2fproc%2fself%2fenviron manifest.json
%00 a%00 %00canary a%00.json %01 %07 %08 %1b %1f %7f
%0d %0a %0d%0a x%0d%0aX-Canary:%20yes x%0aSet-Cookie:%20canary=1 x%0d%20X-Canary:%20yes
%0d%0a%0d%0aHTTP/1.1%20200%20OK%0d%0a%0d%0acanary %e5%98%8a%e5%98%8dcanary %c2%85 %e2%80%a8canary
%1b[31mcanary %1b]0;canary%07 %9b31m %c2%9b31m
%e2%80%aecanary %e2%81%a6a%e2%81%a9 %ef%bb%bf %ef%bf%bf %ef%bf%be
<script>canary</script> '><img%20src=x> "><svg/onload=canary> javascript:canary
'%20OR%201=1-- ';DROP%20TABLE%20a;-- $%7Bjndi:ldap://127.0.0.1/canary%7D {{7*7}} %s%n%x %25s%25n
`id` $(id) |id * a* ? ((( [] {} \ ^ |
0 -0 -1 +1 1.0 1e9 1e999 0x10 010 1_000 1,000 NaN -inf null true [object] __proto__
2147483648 9223372036854775808 18446744073709551616 %d9%a3 %ef%bc%91 %c2%b2 1%00 1%0a %201 1%20
0.1 .5 5. 1e-400 1.7976931348623157e309
name price relevance all none any 1P 3p category category,network
""".split()  # noqa: SIM905  # a list would be two pages long
VALUES += ["", "9" * 400, "9" * 5000, "1" + "0" * 99, "0" * 99 + ".1", "0." + "0" * 99 + "1"]
VALUES += ["a" * 256, "a" * 257, "a" * 2000, "a" * 2001, "a+" * 1500, "%00" * 700, "e%cc%81" * 300]
VALUES += ["%f0%9f%a6%8a" * 500, "0" * 20, f"{'0' * 20}.{'f' * 20}.1"]
NAMES = sorted({name for names in QUERY_PARAMETERS.values() for name in names})
NAMES += [
    "LIMIT",
    "limit[]",
    "limit[$gt]",
    "%6cimit",
    "limit%00",
    "__proto__",
    "%ff",
    "",
    "a" * 300,
]
URLS = 25_000 if SOAK else 3_000


def hostile_urls(count: int) -> list[str]:
    """Return targets in origin form, half of them random mutations; the same in every run."""
    random = Random(6)  # noqa: S311  # repeats itself on purpose
    systematic = list(systematic_urls())
    urls = random.sample(systematic, min(len(systematic), count // 2))
    return urls + [_mutated(random) for _ in range(count - len(urls))]


def systematic_urls() -> Iterator[str]:
    """Yield every parameter and every path with every value, and long ones."""
    for path, names in QUERY_PARAMETERS.items():
        query = "q=weather&query=weather&" if "search" in path else ""
        query += f"since={'0' * 20}&" if "changes" in path else ""
        for name in names:
            yield from (
                f"{path}?{'' if name in {'q', 'query', 'since'} else query}{name}={value}"
                for value in VALUES
            )
    for name in QUERY_PARAMETERS["/v1/search/services"]:
        yield from (f"/?{name}={value}" for value in VALUES)
    prefixes = ("/v1/services/", "/", "/v1/services/a/", "/services/", "/assets/")
    for value in VALUES:
        yield from (f"{path}{value}" for path in (*PATHS, *prefixes))
    for length in (1, 255, 256, 257, 4096, MAX_URL - 100):
        for text in ("a", "/", "%2e", "%f0%9f%a6%8a", "&q", "="):
            yield f"/v1/services/{(text * length)[:length]}"
            yield f"/v1/search/services?q={(text * length)[:length]}"


def _mutated(random: Random) -> str:
    path = random.choice((*PATHS, "/", "/services/{id}")).replace("{id}", random.choice(VALUES))
    for _ in range(random.choice((0, 0, 1, 2))):
        at = random.randrange(len(path) + 1)
        letter = path[at : at + 1]
        piece = random.choice(
            (*VALUES, "/", "//", "/./", f"%{letter.encode().hex()}", letter.upper())
        )
        path = path[:at] + piece + path[at + random.randrange(2) :]
    separator = random.choice(("&",) * 8 + ("&&", ";", "&amp;", "%26", "?"))
    pairs = [
        f"{random.choice(NAMES)}{random.choice(('=',) * 9 + ('', '==', '%3d'))}"
        + random.choice((random.choice(VALUES), quote(random.randbytes(random.randrange(12)))))
        for _ in range(random.choice((0, 1, 1, 2, 3, 8)))
    ]
    pairs *= random.choice((1,) * 20 + (2, 50))
    path = path if path.startswith("/") else f"/{path}"
    return f"{path.replace('#', '')}?{separator.join(pairs)}"[:MAX_URL]


@pytest.mark.soak
def test_hostile_urls_have_documented_responses_and_inject_nothing(
    server: LoggedService,
) -> None:
    urls = hostile_urls(URLS)
    assert all(url.isascii() and url.isprintable() and " " not in url for url in urls)
    deadline = time.monotonic() + 120
    lines = len(read_access_log(server.log))

    def request_all(part: Sequence[str]) -> int:
        with closing(RawConnection(server.address)) as connection:
            return sum(request(connection, url) for url in part)

    def request(connection: RawConnection, url: str) -> bool:
        assert time.monotonic() < deadline
        response = connection.send(f"GET {url} HTTP/1.1\r\nhost: a\r\n\r\n".encode())
        try:
            check(response, "GET", url)
            assert CANARY not in str(response.headers)
            assert reaches_application(response)
        except Exception as error:
            message = f"{response.status} to {url[:300]}: {response.body[:300]!r}"
            raise AssertionError(message) from error
        return True

    with ThreadPoolExecutor(4) as threads:
        count = sum(threads.map(request_all, [urls[part::4] for part in range(4)]))
    wait_until_logged(server, lines + count)
    assert CANARY not in server.get("/metrics").body.decode()


def read_access_log(log: Path) -> list[Json]:
    """Return the requests in the log, after checking that every line is printable ASCII."""
    text, _, _ = log.read_text("ascii").rpartition("\n")
    lines = text.split("\n")
    assert all(line.isprintable() for line in lines)
    assert {line.partition(":")[0] for line in lines if line[:1] != "{"} <= {"INFO", "WARNING"}
    return [json.loads(line) for line in lines if line[:1] == "{"]


def wait_until_logged(server: LoggedService, count: int) -> None:
    """Wait for lines of the access log, which are written after the response is sent."""
    eventually(lambda: len(read_access_log(server.log)) >= count)


TARGET = "".join(map(chr, range(0x21, 0x7F)))
NAME = string.ascii_letters + string.digits + "!#$%&'*+-.^_`|~"
FIELD = bytes((9, *range(0x20, 0x7F), *range(0x80, 0x100)))
FRAMING = ("Content-Length", "Transfer-Encoding")
HEADER_VALUES = {
    "Accept": ["", "text/html", "image/*;q=0", "application/json;q=9", "*/*" + ";a=b" * 2000],
    "Accept-Encoding": [
        "gzip",
        "zstd",
        "gzip;q=0",
        "*;q=0.5",
        "identity;q=0",
        "gzip;q=9, br, ,;",
        "a," * 3000,
    ],
    "If-None-Match": ["*", 'W/"a"', '"a", "b"', '"' * 999, "W/", "*" * 5000, 'W/W/"'],
    "Range": ["bytes=0-0", "bytes=-1", "bytes=9999999999-", "bytes=" + "0-1," * 3000],
    "Host": ["", "a", "127.0.0.1:0", "[::1]", "a:99999", "canary/../", "a, b", "@"],
    "Content-Length": ["0", "5", "5, 5", "-1", "+5", "0x5", "99999999999999999999", "5 5", "\x00"],
    "Transfer-Encoding": ["chunked", "gzip, chunked", "identity", "chunked, chunked", "xchunked"],
    "X-Forwarded-For": ["127.0.0.1", "canary", "unknown, ::1", "a" * 3000, ","],
    "X-Forwarded-Proto": ["https", "canary", "ws", "javascript"],
    "X-Forwarded-Host": ["canary"],
    "X-Forwarded-Prefix": ["/canary"],
    "X-Request-Id": ["a", "a b", "a" * 128, "a" * 129, "a,b", '"', "\xe9"],
    "Connection": ["close", "keep-alive", "upgrade", "close, upgrade", "x"],
    "Upgrade": ["websocket", "h2c", "TLS/1.0"],
    "Expect": ["100-continue", "200-ok"],
    "Origin": ["null", "https://canary.example"],
    "X-Http-Method-Override": ["DELETE"],
}
field_values = st.lists(st.sampled_from(FIELD), max_size=30).map(lambda codes: bytes(codes).strip())
header_fields = st.one_of(
    st.sampled_from(
        [
            (name, value.encode("latin-1"))
            for name, values in HEADER_VALUES.items()
            for value in values
        ]
    ),
    st.tuples(st.sampled_from(sorted(HEADER_VALUES)), field_values),
    st.tuples(st.text(NAME, min_size=1, max_size=20), field_values),
)
targets = st.one_of(
    st.sampled_from(PATHS),
    st.builds("{}{}".format, st.sampled_from(PATHS), st.text(TARGET, max_size=40)),
    st.builds(
        "{}?{}={}".format,
        st.sampled_from(PATHS),
        st.sampled_from(NAMES),
        st.one_of(st.sampled_from(VALUES), st.text(TARGET, max_size=40)),
    ),
    st.text(TARGET, max_size=60).map("/".__add__),
)
methods = st.sampled_from(
    ["GET"] * 6 + ["HEAD", "HEAD", "OPTIONS", "POST", "DELETE", "TRACE", "LOCK"]
)


@pytest.mark.soak
@settings(max_examples=20_000 if SOAK else 500, deadline=None, derandomize=not SOAK)
@given(methods, targets, st.lists(header_fields, max_size=6))
def test_any_target_and_headers_have_a_documented_response(
    server: LoggedService, method: str, target: str, headers: list[tuple[str, bytes]]
) -> None:
    lines = b"".join(b"%b: %b\r\n" % (name.encode(), value) for name, value in headers)
    names = [name.title() for name, _ in headers]
    has_body = any(name in FRAMING for name in names)
    host = "" if "Host" in names else "host: a\r\n"
    request = f"{method} {target} HTTP/1.1\r\n{host}".encode() + lines + b"\r\n"
    with closing(RawConnection(server.address)) as connection:
        response = connection.send(request + b"hello" * has_body, method)
    check(response, method, target)
    assert reaches_application(response) or has_body or names.count("Host") > 1
    headers_but_id = {k: v for k, v in response.headers.items() if k != "x-request-id"}
    assert CANARY not in str(headers_but_id)


def test_each_request_is_logged_on_one_line_of_printable_text(server: LoggedService) -> None:
    target = "/v1/services/%0d%0a%1b[31m"
    values = [b"a", b"a b", b"a" * 129, b'","id":"', b"\xe2\x80\xae", b"\x9b31m", b"\t%0a\\n"]
    with closing(RawConnection(server.address)) as connection:
        for value in values:
            request = f"GET {target} HTTP/1.1\r\nhost: a\r\nx-forwarded-for: ".encode() + value
            connection.send(request + b"\r\nx-request-id: " + value + b"\r\n\r\n")

    def logged() -> list[Json]:  # earlier requests of other tests may be logged late
        return [line for line in read_access_log(server.log) if line["target"] == target]

    eventually(lambda: len(logged()) >= len(values))
    assert len(logged()) == len(values)
    assert all(REQUEST_ID.fullmatch(line["id"]) for line in logged())


TEXTS = [
    *("x\r\nX-Canary: yes", "x\nSet-Cookie: canary=1", "\x00canary", "\x1b[31mcanary"),
    *("\x9b31mcanary", "\u202ecanary", "\u2066canary", "\u2028canary", "\ufeffcanary"),
    *("\ufffecanary", "\x85canary\x7f", "../../canary", "..\\canary", "/canary", "canary/../x"),
    *("%2e%2e%2fcanary", "<script>canary</script>", '"><img src=x onerror=canary>'),
    *("</script><!--canary", "javascript:canary", "${jndi:ldap://canary}", "{{canary}}"),
    *("%s%n canary", "`canary`", "';DROP TABLE canary;--", "canary" * 6_000),
]
LEGAL_IDS = ["-", "~", "_", "...", "..a", "CURRENT", "manifest.json", "con", "a.b", "a" * 256]


def hostile_record(number: int, text: str) -> Json:
    """Return a record with the same text in every open field."""
    pricing = {"network": text, "scheme": text}
    parameter = {"group": "query", "name": text, "type": "string", "example": text, text: text}
    return service(
        f"hostile-{number}",
        name=text,
        description=f"harbour {text}",
        category=text,
        provider=text,
        providerUrl=text,
        domain=text,
        networks=[text],
        tags=[text, text * 2],
        serviceName=text,
        iconUrl=text,
        endpoints=[
            endpoint(currency=text, **pricing)
            | {"url": text, "method": text, "description": text, "parameters": [parameter]}
        ],
    ) | {text: {text: [text]}}


def test_text_of_records_is_not_in_headers_logs_metrics_or_file_names(tmp_path: Path) -> None:
    accepted = [hostile_record(number, text) for number, text in enumerate(TEXTS)]
    accepted += [service(each) for each in LEGAL_IDS]
    rejected = [service(text) for text in (*TEXTS, "%")]
    rejected += [service(integrationType=text) for text in TEXTS]
    derived = [service(None, domain=text) for text in TEXTS]
    payments = [
        payment(
            tx_hash=text, log_index=1, chain=text, sender=text, recipient=text, facilitator_id=text
        )
        for text in TEXTS
    ]
    output = build(tmp_path / "hostile", [*accepted, *rejected, *derived], payments)
    assert "Invalid enum value" in output
    assert all(line.isprintable() and line[:2] != "X-" for line in output.split("\n")), output
    harmless = tmp_path / "harmless"
    build(harmless, [service("a")], [payment()])
    artifacts = tmp_path / "hostile" / "artifacts"
    assert file_names(artifacts) == file_names(harmless / "artifacts")
    with serve_logged(artifacts) as server, closing(RawConnection(server.address)) as connection:

        def get(path: str, **params: str) -> Json:
            query = "&".join(f"{name}={quote(value)}" for name, value in params.items())
            target = f"{path}?{query}" if query else path
            response = connection.send(f"GET {target} HTTP/1.1\r\nhost: a\r\n\r\n".encode())
            check(response, "GET", target)
            assert response.status == 200, target
            assert CANARY not in str(response.headers)
            body: Json = json.loads(response.body)
            return body

        for record in accepted:
            assert record.items() <= get(f"/v1/services/{record['id']}")["service"].items()
        facets = "category,network,scheme,integrationType,tag,provider"
        listing = get("/v1/services", limit="200", facets=facets)
        assert {record["id"] for record in accepted} <= {each["id"] for each in listing["services"]}
        assert get("/v1/search/services", q="harbour")["total"] == len(TEXTS)
        get("/v1/ecosystem/transactions", limit="200")
        get("/v1/ecosystem/stats")
        get("/readyz")
        assert CANARY not in server.get("/metrics").body.decode()
        wait_until_logged(server, len(accepted) + 6)
        assert CANARY not in server.log.read_text()
        for text in TEXTS[:-1]:  # the last exceeds the size of a request
            assert get("/v1/services", category=text)["total"] >= 1


def build(folder: Path, catalogue: list[Json], transactions: list[Json]) -> str:
    """Build into `artifacts` of a new folder, and return the output."""
    folder.mkdir()
    source = write_lines(folder / "source.jsonl", catalogue)
    payments = write_lines(folder / "payments.jsonl", transactions)
    options = ("--out", folder / "artifacts", "--max-rejects", "100%")
    process = run_indexer("build", source, "--transactions", payments, *options)
    assert process.returncode == 0, process.stderr
    return process.stdout + process.stderr


def file_names(artifacts: Path) -> set[str]:
    """Return the relative paths of all files, without the id of the snapshot."""
    (snapshot,) = (artifacts / "snapshots").iterdir()
    assert re.fullmatch("[0-9a-f]{20}", snapshot.name)
    names = {path.relative_to(artifacts).as_posix() for path in artifacts.rglob("*")}
    # Whoosh names its files randomly, what the next build reuses by hashes, and an accepted
    # copy by the path of its source.
    random = re.compile("MAIN_[0-9a-z]{16}|(?<=reuse/)[0-9a-f]{64}|(?<=sources/)[^/]+")
    return {random.sub("", name.replace(snapshot.name, "")) for name in names}


# `facets=` can mean an empty list (valid) or a list of an empty name (invalid): skip both. OpenAPI
# cannot say that a query is required unless there is a filter, nor which cursors there are: give
# all requests a query, and none a cursor that might be one. Nor can OpenAPI say that listings are
# asked for by one of three parameters, of which only an address has no form, nor which URLs are
# listed.
HOOKS = """
import schemathesis

REQUIRED = {"/v1/search/endpoints": "q", "/discovery/search": "query"}

@schemathesis.hook
def filter_query(context, query):
    return not query or query.get("facets") not in ("", [""])

@schemathesis.hook
def before_call(context, case, kwargs):
    required = REQUIRED.get(case.operation.path)
    if required is not None:
        case.query = {required: "weather"} | (case.query or {})
    if case.query and case.query.get("cursor"):
        del case.query["cursor"]
    if case.operation.path == "/v1/listings":
        case.query = {"payTo": "0x12"} | (case.query or {})
        for name in ("url", "host"):
            case.query.pop(name, None)
    if case.operation.path == "/v1/endpoints/alternatives" and "url" in (case.query or {}):
        case.query |= {"url": "https://inkreader.example/v1/ocr", "method": "POST"}
"""

TABLES = ROOT / ".hypothesis"
"""Where Hypothesis finds its tables of characters, which take a second to make."""


@pytest.mark.soak
def test_the_service_conforms_to_its_openapi_document(
    server: LoggedService, tmp_path: Path
) -> None:
    (tmp_path / "schemathesis.toml").write_text('hooks = "hooks"\nwarnings = {fail-on = true}\n')
    (tmp_path / "hooks.py").write_text(HOOKS)
    host, port = server.address
    options = ["--checks", "all", "--no-color", "--max-examples", "500" if SOAK else "4"]
    options += ["--max-time", "600"] if SOAK else ["--generation-deterministic"]
    command = [str(Path(sys.executable).with_name("schemathesis")), "run", *options]
    process = subprocess.run(
        [*command, f"http://{host}:{port}/openapi.json"],
        cwd=tmp_path,
        env=os.environ | {"HYPOTHESIS_STORAGE_DIRECTORY": str(TABLES)},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert process.returncode == 0, process.stdout
    assert "No issues found" in process.stdout
