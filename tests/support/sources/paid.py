"""Endpoints that answer an unpaid request in one way each, and what a probe should make of it."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.support.running import Json
from tests.support.sources.feeds import Behaviour, Exchange, failing, redirecting, sending

PAYEE, ASSET = (
    "0x00000000000000000000000000000000000000b1",
    "0x00000000000000000000000000000000000000a1",
)
ENTRY_1 = {
    "scheme": "exact",
    "network": "base",
    "maxAmountRequired": "1000",
    "asset": ASSET,
    "payTo": PAYEE,
}
ENTRY_2 = {
    "scheme": "exact",
    "network": "eip155:8453",
    "amount": "2000",
    "asset": ASSET,
    "payTo": PAYEE,
}
QUOTE_1 = {
    "scheme": "exact",
    "network": "base",
    "asset": ASSET,
    "amount": "1000",
    "payTo": PAYEE,
    "x402Version": 1,
}
QUOTE_2 = QUOTE_1 | {"network": "eip155:8453", "amount": "2000", "x402Version": 2}
TEXT_1 = json.dumps({"x402Version": 1, "error": "payment required", "accepts": [ENTRY_1]}).encode()
TEXT_2 = json.dumps({"x402Version": 2, "resource": {}, "accepts": [ENTRY_2]}).encode()


class Answer(NamedTuple):
    """The members of an observation that tell behaviours apart."""

    outcome: str
    status: int | None = None
    quotes: tuple[Json, ...] = ()
    wildcard: bool | None = None


class Case(NamedTuple):
    """A behaviour of an endpoint, and of the paths that nobody lists."""

    paid: Behaviour
    answer: Answer
    robots: Behaviour = failing(404)
    other: Behaviour = failing(404)


def challenge(body: bytes = b"", header: bytes | str = b"", **headers: str) -> Behaviour:
    """Respond with 402, and with the header of version 2 if it is given, encoded if it is bytes."""
    if header:
        encoded = header if isinstance(header, str) else b64encode(header).decode()
        headers["Payment-Required"] = encoded
    return lambda exchange: exchange.respond(body, 402, headers)


def explode(exchange: Exchange) -> None:
    """Respond with 402 and a bomb that is made in a tenth of the time that the prober waits."""
    body = gzip.compress(TEXT_2 + b" " * 2**24, 1)
    challenge(body, **{"Content-Encoding": "gzip"})(exchange)


def entries(*accepts: Any, version: Any = 2) -> bytes:
    """Return the JSON of a 402 with these entries."""
    return json.dumps({"x402Version": version, "accepts": [*accepts]}).encode()


def raw(*pieces: bytes) -> Behaviour:
    """Write bytes in place of a response, and close the connection."""

    def behave(exchange: Exchange) -> None:
        for piece in pieces:
            exchange.wfile.write(piece)
        exchange.hang_up()

    return behave


def dripping(start: bytes, piece: bytes) -> Behaviour:
    """Write a start, then a piece for as long as the client reads."""
    return lambda exchange: exchange.drip(start, piece)


def quoted(*quotes: Json) -> Answer:
    return Answer("quoted", 402, quotes, wildcard=False)


def answered(status: int = 402) -> Answer:
    return Answer("answered", status, wildcard=False)


def blocked(status: int) -> Answer:
    return Answer("blocked", status, wildcard=False)


UNREACHABLE = Answer("unreachable", wildcard=False)
NEVER_CONNECTED = Answer("unreachable")
DISALLOWED = Answer("blocked")
NOT_PROBED = Answer("not_probed")
WITHOUT_AMOUNT = {name: value for name, value in QUOTE_2.items() if name != "amount"}
ok = sending({"ok": True})
ask = challenge(TEXT_2)
HEAD = b"HTTP/1.1 402 Payment Required\r\n"

CASES: dict[str, Case] = {
    "version-1": Case(challenge(TEXT_1), quoted(QUOTE_1)),
    "version-2": Case(challenge(b"{}", TEXT_2), quoted(QUOTE_2)),
    "version-2-in-body": Case(challenge(TEXT_2), quoted(QUOTE_2)),
    "header-and-the-same-body": Case(challenge(TEXT_2, TEXT_2), quoted(QUOTE_2)),
    "header-and-body-of-version-1": Case(challenge(TEXT_1, TEXT_2), quoted(QUOTE_2, QUOTE_1)),
    "base64-of-urls-without-padding": Case(
        challenge(header=urlsafe_b64encode(TEXT_2 + b" ").decode().rstrip("=")), quoted(QUOTE_2)
    ),
    "header-that-is-no-base64": Case(challenge(TEXT_1, "%%%"), quoted(QUOTE_1)),
    "header-that-is-no-json": Case(challenge(TEXT_1, b"\xff\x00"), quoted(QUOTE_1)),
    "several-entries": Case(
        challenge(entries(ENTRY_2, ENTRY_2, ENTRY_2 | {"network": "solana:5eykt4"})),
        quoted(QUOTE_2, QUOTE_2 | {"network": "solana:5eykt4"}),
    ),
    "entries-of-other-types": Case(
        challenge(entries(None, 7, "exact", [], {}, {"extra": {}}, ENTRY_2)), quoted(QUOTE_2)
    ),
    "unknown-scheme": Case(
        challenge(entries(ENTRY_2 | {"scheme": "barter"})), quoted(QUOTE_2 | {"scheme": "barter"})
    ),
    "unknown-version": Case(
        challenge(entries({"scheme": "exact"}, version="two")), quoted({"scheme": "exact"})
    ),
    "negative-amount": Case(challenge(entries(ENTRY_2 | {"amount": "-5"})), quoted(WITHOUT_AMOUNT)),
    "fractional-amount": Case(
        challenge(entries(ENTRY_2 | {"amount": 0.5})), quoted(WITHOUT_AMOUNT)
    ),
    "amount-of-many-digits": Case(
        challenge(entries(ENTRY_2 | {"amount": "9" * 500})), quoted(WITHOUT_AMOUNT)
    ),
    "amount-that-is-a-number": Case(
        challenge(entries(ENTRY_2 | {"amount": 2000})), quoted(QUOTE_2)
    ),
    "control-characters": Case(
        challenge(entries(ENTRY_2 | {"scheme": "ex\x1b[31mact"})),
        quoted({name: value for name, value in QUOTE_2.items() if name != "scheme"}),
    ),
    "no-entries": Case(challenge(entries()), answered()),
    "accepts-that-is-no-list": Case(challenge(b'{"accepts":{"scheme":"exact"}}'), answered()),
    "empty": Case(challenge(), answered()),
    "html": Case(challenge(b"<p>Pay!</p>"), answered()),
    "malformed-json": Case(challenge(TEXT_2[:-1]), answered()),
    "deep-json": Case(
        challenge(b'{"accepts":' + b"[" * 100_000 + b"]" * 100_000 + b"}"), answered()
    ),
    "nan": Case(challenge(b'{"x":NaN,' + TEXT_2[1:]), answered()),
    "lone-surrogate": Case(challenge(b'{"x":"\\ud800",' + TEXT_2[1:]), answered()),
    "not-utf-8": Case(challenge(b'{"x":"\xff",' + TEXT_2[1:]), answered()),
    "huge-body": Case(challenge(TEXT_2 + b" " * 2**21), answered()),
    "huge-body-beside-the-header": Case(challenge(b" " * 2**21, TEXT_2), quoted(QUOTE_2)),
    "gzip": Case(challenge(gzip.compress(TEXT_2), **{"Content-Encoding": "gzip"}), quoted(QUOTE_2)),
    "gzip-before-endless-bytes": Case(
        dripping(HEAD + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(TEXT_2), b"x"),
        quoted(QUOTE_2),
    ),
    "gzip-bomb": Case(explode, answered()),
    "damaged-gzip": Case(
        challenge(b"\x1f\x8b" + TEXT_2, **{"Content-Encoding": "gzip"}), answered()
    ),
    "unknown-coding": Case(challenge(TEXT_2, **{"Content-Encoding": "br"}), answered()),
    "truncated-body": Case(raw(HEAD + b"Content-Length: 5000\r\n\r\n" + TEXT_2[:20]), answered()),
    "body-that-drips": Case(dripping(HEAD + b"Content-Length: 50000\r\n\r\n", b" "), answered()),
    "body-without-end": Case(
        dripping(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n%b\r\n" % (b" " * 2**16)),
        answered(),
    ),
    "head-without-end": Case(dripping(HEAD, b"X-Header: %b\r\n" % (b"x" * 2**16)), UNREACHABLE),
    "silence": Case(lambda exchange: exchange.drip(b"", b""), UNREACHABLE),
    "reset": Case(Exchange.hang_up, UNREACHABLE),
    "no-http": Case(raw(b"220 mail.example ESMTP\r\n"), UNREACHABLE),
    "invalid-header": Case(raw(HEAD + b"X Header\x00: 1\r\n\r\n"), UNREACHABLE),
    "http-1-0": Case(raw(b"HTTP/1.0 402 Payment Required\r\n\r\n" + TEXT_1), quoted(QUOTE_1)),
    "unknown-status": Case(raw(b"HTTP/1.1 999 What\r\n\r\n"), answered(999)),
    "invalid-status": Case(raw(b"HTTP/1.1 099 What\r\n\r\n"), UNREACHABLE),
    "early-hints": Case(
        raw(b"HTTP/1.1 103 Early Hints\r\n\r\n", HEAD + b"Connection: close\r\n\r\n" + TEXT_1),
        quoted(QUOTE_1),
    ),
    "content": Case(ok, answered(200)),
    "no-content": Case(raw(b"HTTP/1.1 204 No Content\r\n\r\n"), answered(204)),
    "redirect": Case(redirecting("https://elsewhere.example/paid", 301), answered(301)),
    "redirect-to-a-private-address": Case(redirecting("http://10.0.0.1/", 307), answered(307)),
    "redirect-to-nowhere": Case(redirecting("http://[::1/", 308), answered(308)),
    "unauthorized": Case(failing(401), blocked(401)),
    "forbidden": Case(failing(403), blocked(403)),
    "not-found": Case(failing(404), answered(404)),
    "method-not-allowed": Case(failing(405), blocked(405)),
    "gone": Case(failing(410), answered(410)),
    "too-many-requests": Case(failing(429, {"Retry-After": "3600"}), blocked(429)),
    "server-error": Case(failing(500), answered(500)),
    "unavailable": Case(failing(503), answered(503)),
    "robots-disallow": Case(ask, DISALLOWED, robots=sending(b"User-agent: *\nDisallow: /\n")),
    "robots-disallow-this-agent": Case(
        ask,
        DISALLOWED,
        robots=sending(b"User-agent: Ratecard-Probe\nDisallow: /p*d$\nUser-agent: *\nAllow: /\n"),
    ),
    "robots-fail": Case(ask, DISALLOWED, robots=failing(503)),
    "robots-limited": Case(ask, DISALLOWED, robots=failing(429)),
    "robots-reset": Case(ask, DISALLOWED, robots=Exchange.hang_up),
    "robots-ask-for-long-pauses": Case(
        ask, DISALLOWED, robots=sending(b"User-agent: *\nCrawl-delay: 86400\n")
    ),
    "robots-in-an-unknown-coding": Case(
        ask, DISALLOWED, robots=sending(b"x", {"Content-Encoding": "br"})
    ),
    "robots-moved-elsewhere": Case(
        ask, quoted(QUOTE_2), robots=redirecting("https://elsewhere.example/robots.txt")
    ),
    "robots-moved-out-of-reach": Case(
        ask, DISALLOWED, robots=redirecting("http://robots-moved-out-of-reach.example:1/")
    ),
    "robots-moved-to-no-url": Case(ask, quoted(QUOTE_2), robots=redirecting("http://[::1/")),
    "robots-in-a-circle": Case(ask, quoted(QUOTE_2), robots=redirecting("/robots.txt")),
    "robots-paid": Case(ask, quoted(QUOTE_2), robots=challenge(TEXT_1)),
    "robots-of-a-page": Case(ask, quoted(QUOTE_2), robots=sending(b"<html>Disallow: /</html>")),
    "wildcard": Case(ask, Answer("quoted", 402, (QUOTE_2,), wildcard=True), other=ask),
    "wildcard-unknown": Case(
        ask, Answer("quoted", 402, (QUOTE_2,), wildcard=None), other=Exchange.hang_up
    ),
    "wildcard-disallowed": Case(
        ask,
        Answer("quoted", 402, (QUOTE_2,), wildcard=None),
        robots=sending(b"User-agent: *\nDisallow: /\nAllow: /paid\n"),
    ),
}
"""By the first label of the host, whose endpoint is at `/paid`."""

WHEREABOUTS: dict[str, tuple[str, Answer]] = {
    "no such name": ("http://no-such-name.example/paid", NEVER_CONNECTED),
    "a label of 64 letters": (f"http://{'a' * 64}.example/paid", NOT_PROBED),
    "a name that IDNA refuses": ("http://xn--zz--.example/paid", NEVER_CONNECTED),
    "a closed port": ("http://closed.example:1/paid", NEVER_CONNECTED),
    "a server without TLS": ("https://plain.example:{port}/paid", NEVER_CONNECTED),
    "a certificate of its own": ("https://localhost:{tls}/paid", NEVER_CONNECTED),
    "a metadata address": ("http://metadata.example/paid", NOT_PROBED),
    "a template": ("http://content.example:{port}/{{id}}/paid", NOT_PROBED),
    "a template in Express style": ("http://content.example:{port}/:id/paid", NOT_PROBED),
    "no URL": ("/paid", NOT_PROBED),
}
"""Endpoints whose URL decides: the URL, by what it names."""


def serve_cases(exchange: Exchange) -> None:
    """Answer as the case of the host does."""
    case = CASES[exchange.headers["Host"].partition(".")[0]]
    path = exchange.path.partition("?")[0]
    behaviours: dict[str, Callable[[Exchange], None]] = {
        "/robots.txt": case.robots,
        "/paid": case.paid,
    }
    behaviours.get(path, case.other)(exchange)
