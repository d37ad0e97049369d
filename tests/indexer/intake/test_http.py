"""Requests of a feed: deadline, retries, limits, redirects and credentials."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import cache
from pathlib import Path

import httpx
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import indexer.intake
from indexer.errors import SourceError
from indexer.intake.http import redirect_target
from indexer.options import Limits
from service.arrays.files import zstd
from tests.indexer.intake.test_fetch import FATAL
from tests.support.sources.feeds import (
    QUICK,
    RESOURCES,
    WHOLE,
    Behaviour,
    Exchange,
    Server,
    failing,
    failure,
    fetch_feed,
    in_turn,
    items_of,
    misbehaving,
    redirecting,
    sending,
    source_of,
)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record the seconds between attempts instead of waiting for them."""
    recorded: list[float] = []
    sleep = asyncio.sleep

    async def record(seconds: float) -> None:
        if seconds:
            recorded.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", record)
    return recorded


HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
DRIPS = {
    "the headers": (b"HTTP/1.1 200 OK\r\nX: ", b"x"),
    "the body": (HEAD + b"\r\n", b"1\r\n[\r\n"),
    "blanks before nothing": (HEAD + b"\r\n", b"1\r\n \r\n"),
    "padding of an empty gzip file": (
        HEAD + b"\r\n14\r\n" + gzip.compress(b"") + b"\r\n",
        b"1\r\n\0\r\n",
    ),
    "nothing at all": (b"", b""),
}


@pytest.mark.parametrize("part", DRIPS)
def test_a_slow_response_is_ended_by_the_deadline(part: str, cache: Path) -> None:
    limits = Limits(seconds=0.2, backoff=0.001)
    error = failure(lambda exchange: exchange.drip(*DRIPS[part]), cache, limits)
    assert "was not read completely within the 0.2 seconds that a feed may take" in error


def test_the_deadline_includes_decompression(cache: Path) -> None:
    limits = Limits(seconds=0.2)
    body = bomb(16) * 64  # one gigabyte in 64 members
    error = failure(sending(body), cache, limits)
    assert "was not read completely within the 0.2 seconds that a feed may take" in error


def test_a_request_without_a_response_is_retried(cache: Path) -> None:
    limits = Limits(silence=0.2, backoff=0.001, attempts=20)
    with misbehaving(in_turn(lambda exchange: exchange.drip(b"", b""), WHOLE)) as server:
        assert items_of(fetch_feed(server.url, cache, limits)) == RESOURCES


@cache
def bomb(mebibytes: int) -> bytes:
    """Return zeros, compressed to a thousandth."""
    compressor = zlib.compressobj(9, wbits=31)
    zeros = bytes(2**20)
    chunks = [compressor.compress(zeros) for _ in range(mebibytes)]
    return b"".join([*chunks, compressor.flush()])


@pytest.mark.parametrize("layers", [1, 2])
def test_a_gzip_bomb_is_decompressed_no_further_than_the_limit(layers: int, cache: Path) -> None:
    limits = msgspec.structs.replace(QUICK, bytes=2**20)
    body = bomb(64) if layers == 1 else gzip.compress(bomb(64))
    headers = {} if layers == 1 else {"Content-Encoding": "gzip"}
    error = failure(sending(body, headers), cache, limits)
    assert "is longer than the 1,048,576 bytes that are allowed" in error


def test_a_zstd_bomb_is_decompressed_no_further_than_the_limit(cache: Path) -> None:
    limits = msgspec.structs.replace(QUICK, bytes=2**20)
    error = failure(sending(zstd.compress(bytes(2**26))), cache, limits)
    assert "is longer than the 1,048,576 bytes that are allowed" in error


def test_a_damaged_zstd_body_is_retried(cache: Path) -> None:
    error = failure(sending(zstd.compress(bytes(2**20))[:-3]), cache)
    assert "the compressed data is damaged or cut short after 3 attempts" in error


@pytest.mark.parametrize(
    "body",
    [gzip.compress(b"[]")[:9], gzip.compress(b"[]") + b"x", b"\x1f\x8b\x01" + bytes(20)],
    ids=["cut short", "followed by other data", "of an unknown method"],
)
def test_a_damaged_gzip_body_is_retried(body: bytes, cache: Path) -> None:
    error = failure(sending(body), cache)
    assert "the compressed data is damaged or cut short after 3 attempts" in error


def test_delays_follow_the_backoff_or_retry_after(cache: Path, waits: list[float]) -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=300), usegmt=True)
    behaviours = [
        *[failing(500)] * 2,
        failing(503, {"Retry-After": "7"}),
        failing(429, {"Retry-After": soon}),
        failing(429, {"Retry-After": "when it suits"}),
        failing(429, {"Retry-After": format_datetime(datetime(1999, 1, 1, tzinfo=UTC))}),
        failing(429, {"Retry-After": "Mon, 01 Jan 99999999999999999999 00:00:00 GMT"}),
        failing(429, {"Retry-After": soon.replace("GMT", "-0000")}),  # a time without a zone
    ]
    with misbehaving(in_turn(*behaviours, sending([]))) as server:
        fetch_feed(server.url, cache, Limits(attempts=9, backoff=0.5))
    assert 0.5 <= waits[0] <= 1
    assert 1 <= waits[1] <= 1.5
    assert waits[2] == 7
    assert 200 < waits[3] <= 300
    assert 8 <= waits[4] <= 8.5
    assert 16 <= waits[5] <= 16.5
    assert 32 <= waits[6] <= 32.5
    assert 200 < waits[7] <= 300


@pytest.mark.parametrize(
    "delay",
    ["3600", "9" * 400, format_datetime(datetime.now(UTC) + timedelta(days=1), usegmt=True)],
    ids=["an hour", "for ever", "a day by its date"],  # pytest-xdist needs constant names
)
def test_a_delay_beyond_the_deadline_fails_at_once(
    delay: str, cache: Path, waits: list[float]
) -> None:
    error = failure(failing(503, {"Retry-After": delay}), cache)
    assert "answers 503 Service Unavailable; the server asks to wait" in error
    assert "longer than is left of the 30 that a feed may take" in error
    assert waits == []


def test_retries_print_nothing(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with misbehaving(in_turn(failing(500), WHOLE)) as server:
        fetch_feed(server.url, cache)
    assert capsys.readouterr() == ("", "")


def test_redirects_are_followed_for_every_page(cache: Path) -> None:
    def behave(exchange: Exchange) -> None:
        if exchange.path.startswith("/discovery"):
            redirecting("/v2" + exchange.path, 308)(exchange)
        else:
            WHOLE(exchange)

    with misbehaving(behave) as server:
        assert items_of(fetch_feed(server.url, cache)) == RESOURCES


REDIRECTS = {
    "in a circle": (
        in_turn(redirecting("/b"), redirecting("/discovery/resources")),
        "redirects in a circle",
    ),
    "to itself": (redirecting("?"), "redirects in a circle"),
    "to an empty location": (redirecting(""), "redirects in a circle"),
    "without a location": (failing(302), "answers 302 Found; check what the server requires"),
    "without end": (
        lambda exchange: redirecting(exchange.path + "x")(exchange),
        "redirects more than 5 times",
    ),
    "to a file": (
        redirecting("file:///etc/passwd"),
        "'file:/etc/passwd', which cannot be requested",
    ),
    "to an invalid URL": (redirecting("http://[bad]/"), "which cannot be requested"),
    "to an invalid host": (redirecting("http://xn--a.example/"), "which cannot be requested"),
    "to an invalid port": (redirecting("http://a.example:99999/"), "which cannot be requested"),
    "with a password": (
        redirecting("ftp://user:secret@a.example/"),
        "'ftp://a.example/', which cannot",
    ),
    "to this machine": (redirecting("http://127.0.0.1:1/"), "127.0.0.1, which is not a public"),
    "to this machine by name": (redirecting("http://localhost:1/"), "localhost at "),
    "to this machine by number": (
        redirecting("http://2130706433/"),
        "2130706433 at 127.0.0.1, which",
    ),
    "to this machine in IPv6": (
        redirecting("http://[::ffff:127.0.0.1]/"),
        "which is not a public address",
    ),
    "to a private network": (
        redirecting("https://10.0.0.1/"),
        "10.0.0.1, which is not a public address",
    ),
    "to instance metadata": (
        redirecting("http://169.254.169.254/"),
        "which is not a public address",
    ),
}


@pytest.mark.parametrize("where", REDIRECTS)
def test_a_redirect_is_not_followed(where: str, cache: Path) -> None:
    behaviour, message = REDIRECTS[where]
    error = failure(behaviour, cache)
    assert message in error
    assert "secret" not in error


def test_the_body_of_a_redirect_is_not_read(cache: Path) -> None:
    def behave(exchange: Exchange) -> None:
        if exchange.path == "/feed":
            exchange.respond(RESOURCES)
        else:
            exchange.drip(b"HTTP/1.1 302 Found\r\nLocation: /feed\r\n\r\n", bytes(2**16))

    with misbehaving(behave) as server:
        assert items_of(fetch_feed(server.url, cache)) == RESOURCES


@settings(deadline=None)
@given(location=st.text(st.characters(min_codepoint=33, max_codepoint=126)))
def test_any_location_of_a_redirect_is_a_target_or_an_error_of_the_feed(location: str) -> None:
    url = httpx.URL("https://a.example/x")
    try:
        target = redirect_target(url, location)
    except SourceError:
        return
    assert target.scheme == "https"
    assert not target.userinfo


def test_a_redirect_never_leaves_https() -> None:
    secure = httpx.URL("https://a.example/x")
    assert str(redirect_target(secure, "//user:pass@b.example/y#z")) == "https://b.example/y"
    with pytest.raises(SourceError, match=r"from https to .*, which is not encrypted"):
        redirect_target(secure, "http://b.example/")


SECRETS = ("hush-user", "hush-query", "hush-param", "hush-header")


def repeating(head: str) -> Behaviour:
    """Respond with a head that repeats the secrets of the request, and end the connection."""

    def behave(exchange: Exchange) -> None:
        text = f"{exchange.path.partition('?')[2]}&{exchange.headers['X-Key']}"
        exchange.wfile.write(head.format(text).encode() + b"\r\nContent-Length: 0\r\n\r\n")
        exchange.hang_up()

    return behave


REVEALING: dict[str, Behaviour] = {
    "a reason": repeating("HTTP/1.1 403 {}"),
    "a reason of a transient fault": repeating("HTTP/1.1 500 {}"),
    "a content coding": repeating("HTTP/1.1 200 OK\r\nContent-Encoding: {}"),
    "an illegal status line": repeating("GET {} HTTP/1.1"),
    "an illegal header": repeating("HTTP/1.1 200 OK\r\n{} x: y"),
    "an illegal value of a header": repeating("HTTP/1.1 200 OK\r\nX: {}\x01"),
    "a redirect to an invalid port": repeating("HTTP/1.1 302 Found\r\nLocation: http://x:abc/?{}"),
    "a redirect to an invalid host": repeating("HTTP/1.1 302 Found\r\nLocation: http://[/?{}"),
    "a redirect to another scheme": repeating("HTTP/1.1 302 Found\r\nLocation: ftp://x/?{}"),
    "a redirect in a circle": repeating("HTTP/1.1 302 Found\r\nLocation: ?{}"),
    "a redirect with a user": repeating("HTTP/1.1 302 Found\r\nLocation: http://{}@localhost/"),
    "a next page elsewhere": lambda exchange: exchange.respond(
        {"items": RESOURCES, "next": f"https://b.example{exchange.path}"}
    ),
    "a next page that is no URL": lambda exchange: exchange.respond(
        {"items": RESOURCES, "next": f"http://x:abc{exchange.path}"}
    ),
    "a message": lambda exchange: exchange.respond({"error": exchange.path}),
    "text": lambda exchange: exchange.respond(exchange.path.encode()),
    "a web page": lambda exchange: exchange.respond(b"<p>" + exchange.path.encode()),
}


@pytest.mark.parametrize("case", [*REVEALING, *FATAL])
def test_no_error_has_a_secret_of_the_source_even_if_the_server_repeats_it(
    case: str, cache: Path
) -> None:
    behaviour = REVEALING[case] if case in REVEALING else FATAL[case][0]
    with misbehaving(behaviour) as server:
        source = source_of(
            server.url.replace("//", "//hush-user:hush-user@") + "?key=hush-query",
            headers={"X-Key": "hush-header"},
            params={"apikey": "hush-param"},
        )
        limits = msgspec.structs.replace(QUICK, page_bytes=5000, silence=1)
        with pytest.raises(SourceError) as raised:
            fetch_feed(source, cache, limits)
    assert str(raised.value).startswith(f"{server.url}")
    assert not [secret for secret in SECRETS if secret in str(raised.value)]


def test_all_errors_of_feeds_are_made_by_the_function_that_hides_secrets() -> None:
    folder = Path(indexer.intake.__file__).parent
    modules = [folder / f"{name}.py" for name in ("http", "connections", "walk", "fetch")]
    assert not any("SourceError(" in path.read_text() for path in modules)


def redirecting_to(server: Server) -> Behaviour:
    return lambda exchange: redirecting(server.origin + exchange.path)(exchange)


def test_a_password_is_sent_to_its_server_only_and_never_printed(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.intake.connections.is_public", lambda _: True)
    with misbehaving(WHOLE) as other, misbehaving(redirecting_to(other)) as server:
        url = server.url.replace("//", "//us%40er:secret@")
        feed = fetch_feed(url, cache)
        server.behaviour = failing(500)
        with pytest.raises(SourceError) as raised:
            fetch_feed(url, cache, QUICK)
    sent = {request.headers["Authorization"] for request in server.requests}
    assert sent == {"Basic dXNAZXI6c2VjcmV0"}
    assert {request.headers["Authorization"] for request in other.requests} == {None}
    assert items_of(feed)
    stored = [path.read_text() + str(path) for path in cache.rglob("*") if path.is_file()]
    assert not any("secret" in text or "er:" in text for text in [str(raised.value), *stored])
