"""Visits of one origin: robots.txt, a path that nobody lists, then each endpoint once."""

from __future__ import annotations

import asyncio
import math
import re
import secrets
import zlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from time import monotonic
from typing import Any

import httpcore
import httpx
from msgspec import Struct
from protego import Protego

from indexer.intake.connections import ForbiddenAddress, Transport, check_listed
from indexer.intake.http import ENCODINGS
from indexer.probes.observation import REFUSED, Observation, Outcome
from indexer.probing.options import ProbeOptions
from indexer.probing.quotes import read_quotes
from indexer.probing.targets import Target
from indexer.resources.names import registrable_domain
from service.cli import version
from service.schema.values import format_timestamp
from service.urls import DEFAULT_PORTS

AGENT = "ratecard-probe"
"""The product token of the `User-Agent` header, which robots.txt names, and the prober's name."""
UNCONNECTED = (httpcore.ConnectError, httpcore.ConnectTimeout, UnicodeError, httpx.InvalidURL)
"""Faults before a connection; a host name may have no form in the DNS."""
FAULTS = (
    *UNCONNECTED,
    OSError,  # of TLS after the handshake, and the deadline
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.TimeoutException,
    zlib.error,
)
GZIP = zlib.MAX_WBITS | 16
MAX_DELAY = 60
"""Seconds between two requests; a site that wants more counts as one that wants no visits."""
MAX_SILENT = 5
"""Requests in a row without a response, after which a host is left alone until the next run."""
MAX_ROBOTS_REDIRECTS = 5  # of robots.txt, within one site
MAX_RULES = 5_000
"""Lines of robots.txt; the file of a site that has more counts as one that disallows everything."""
DISALLOW_ALL = b"User-agent: *\nDisallow: /"

_version = re.compile(r"(?im)^([ \t]*user-agent[ \t]*:[ \t]*[A-Za-z_-]+)/\S*")


class NoResponse(Exception):
    """A request without a response; `is_connected` says whether the server was connected to."""

    def __init__(self, *, is_connected: bool) -> None:
        super().__init__(is_connected)
        self.is_connected = is_connected


class Response(Struct, frozen=True):
    """A response, with its body if that was asked for.

    latency: milliseconds from the request, look-up and connecting included, to the head
    body: decompressed; None where it is too long or ends early
    """

    status: int
    headers: httpx.Headers
    latency: int
    body: bytes | None = b""


class ProbeClient:
    """Requests to the servers of listed endpoints; redirects are not followed.

    A connection serves one request: most sites are asked once, and a body that nobody reads is
    cut off by closing. `has_connected` says whether any server was ever connected to.
    """

    def __init__(self, options: ProbeOptions) -> None:
        self._options = options
        self._headers = {
            "Accept": "application/json, */*;q=0.1",
            "Accept-Encoding": "gzip",
            "Connection": "close",
            "User-Agent": f"{AGENT}/{version()} (+{options.contact})",
        }
        self._transport = Transport(partial(check_listed, allow_private=options.allow_private))
        self.has_connected = False

    async def aclose(self) -> None:
        """Close all connections."""
        await self._transport.aclose()

    async def request(
        self,
        method: str,
        url: str,
        body: bytes | None = None,
        media_type: str = "",
        *,
        read: int | None = None,
    ) -> Response:
        """Request a URL, and read the body of a response with the status `read`.

        Raises NoResponse, or ForbiddenAddress for a host that may not be visited.
        """
        headers = self._headers | ({"Content-Type": media_type} if media_type else {})
        timeouts = dict.fromkeys(("connect", "read", "write", "pool"), self._options.silence)
        deadline = asyncio.get_running_loop().time() + self._options.seconds
        started = monotonic()
        try:
            request = httpx.Request(
                method, url, headers=headers, content=body, extensions={"timeout": timeouts}
            )
            async with asyncio.timeout_at(deadline):
                response = await self._transport.handle_async_request(request)
        except FAULTS as error:
            is_connected = not isinstance(error, UNCONNECTED)
            self.has_connected |= is_connected
            raise NoResponse(is_connected=is_connected) from error
        self.has_connected = True
        latency = round((monotonic() - started) * 1000)
        content: bytes | None = b""
        if response.status_code == read:
            try:
                async with asyncio.timeout_at(deadline):
                    content = await self._receive(response)
            except FAULTS:
                content = None  # the head alone is an answer
        await response.aclose()
        return Response(response.status_code, response.headers, latency, content)

    async def _receive(self, response: httpx.Response) -> bytes | None:
        """Return the decompressed body, None where it is too long or ends early."""
        encoding = response.headers.get("content-encoding", "").strip().lower()
        if encoding not in ENCODINGS:
            return None
        unzip = zlib.decompressobj(GZIP) if encoding.endswith("gzip") else None
        content = bytearray()
        async for chunk in response.aiter_raw():
            room = self._options.bytes - len(content) + 1
            content += unzip.decompress(chunk, room) if unzip else chunk[:room]
            if len(content) > self._options.bytes:
                return None
            if unzip and unzip.eof:  # what follows is no part of the body
                break
        return None if unzip and not unzip.eof else bytes(content)


class OriginVisit:
    """The visit of some endpoints of one origin (scheme, host and port).

    delay: seconds between two requests, until robots.txt asks for more
    end: time of the monotonic clock from which no other endpoint is visited
    """

    def __init__(
        self,
        client: ProbeClient,
        targets: Sequence[Target],
        record: Callable[[Observation], None],
        delay: float,
        end: float = math.inf,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client, self._targets, self._record = client, targets, record
        self._delay, self._end, self._sleep = delay, end, sleep
        self._origin = targets[0].origin
        self._wildcard: bool | None = None  # whether any path is answered with 402

    async def run(self) -> None:
        """Make the requests, each followed by a pause."""
        if monotonic() >= self._end:
            return
        try:
            robots = await self._read_robots()
        except ForbiddenAddress:
            self._record_all(self._targets, Outcome.NOT_PROBED)
            return
        except NoResponse as error:  # without a connection none of the endpoints has one either
            outcome = Outcome.BLOCKED if error.is_connected else Outcome.UNREACHABLE
            self._record_all(self._targets, outcome)
            await self._sleep(self._delay)
            return
        allowed: list[Target] = []
        blocked: list[Target] = []
        for target in self._targets:
            is_allowed = robots.can_fetch(self._origin + target.rest, AGENT)
            (allowed if is_allowed else blocked).append(target)
        self._record_all(blocked, Outcome.BLOCKED)
        unlisted = f"{self._origin}/{AGENT}-{secrets.token_hex(8)}"
        if allowed and robots.can_fetch(unlisted, AGENT):
            with suppress(NoResponse, ForbiddenAddress):  # the endpoints may answer all the same
                response = await self._request("GET", unlisted)
                self._wildcard = response.status == HTTPStatus.PAYMENT_REQUIRED
        silent = 0
        for target in allowed:
            if monotonic() >= self._end:
                return
            observation = await self._visit(target)
            self._record(observation)
            silent = silent + 1 if observation.status is None else 0
            if silent == MAX_SILENT or observation.status == HTTPStatus.TOO_MANY_REQUESTS:
                return

    async def _read_robots(self) -> Protego:
        """Read robots.txt, whose redirects are followed within the site, and its delay.

        Raises NoResponse and ForbiddenAddress of the origin itself.
        """
        url, robots = f"{self._origin}/robots.txt", parse_robots(b"")
        for hop in range(1 + MAX_ROBOTS_REDIRECTS):
            try:
                response = await self._client.request("GET", url, read=HTTPStatus.OK)
            except (NoResponse, ForbiddenAddress):
                if not hop:
                    raise
                return parse_robots(DISALLOW_ALL)
            robots = _rules(response)
            delay = robots.crawl_delay(AGENT) or 0
            if delay > MAX_DELAY:
                robots = parse_robots(DISALLOW_ALL)
            else:
                self._delay = max(self._delay, delay)
            await self._sleep(self._delay)
            url = _redirect(url, response)
            if not url:
                break
        return robots

    async def _request(self, method: str, url: str, *body: Any, **options: Any) -> Response:
        try:
            return await self._client.request(method, url, *body, **options)
        finally:
            await self._sleep(self._delay)

    async def _visit(self, target: Target) -> Observation:
        """Return how an endpoint answers; a redirect is an answer like others.

        A payment goes to the listed URL, so that the quote of another one would say nothing of it.
        """
        paid, url = HTTPStatus.PAYMENT_REQUIRED, target.origin + target.rest
        try:
            response = await self._request(
                target.method, url, target.body, target.media_type, read=paid
            )
        except ForbiddenAddress:  # since robots.txt was read
            return observe(target, Outcome.NOT_PROBED)
        except NoResponse:
            return observe(target, Outcome.UNREACHABLE, wildcard=self._wildcard)
        status = response.status
        quotes = read_quotes(response.headers, response.body or b"") if status == paid else []
        outcome = Outcome.BLOCKED if status in REFUSED else Outcome.ANSWERED
        return observe(
            target,
            Outcome.QUOTED if quotes else outcome,
            status=status,
            latency_ms=response.latency,
            quotes=quotes,
            wildcard=self._wildcard,
        )

    def _record_all(self, targets: Sequence[Target], outcome: Outcome) -> None:
        for target in targets:
            self._record(observe(target, outcome))


def observe(endpoint: Target, outcome: Outcome, **facts: Any) -> Observation:
    """Return an observation of an endpoint that is made now."""
    return Observation(
        url=endpoint.url,
        method=endpoint.method,
        observed_at=format_timestamp(datetime.now(UTC)),
        outcome=outcome,
        prober=AGENT,
        **facts,
    )


def parse_robots(content: bytes) -> Protego:
    """Return the rules of robots.txt.

    A version behind the name of an agent, which RFC 9309 does not know, is ignored.
    """
    if content.count(b"\n") > MAX_RULES:
        content = DISALLOW_ALL
    return Protego.parse(_version.sub(r"\1", content.decode("utf-8-sig", "replace")))


def _rules(response: Response) -> Protego:
    """Return the rules of robots.txt: none where a client error says that there is no file."""
    status = response.status
    is_fault = status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.TOO_MANY_REQUESTS
    if is_fault or response.body is None:
        return parse_robots(DISALLOW_ALL)
    return parse_robots(response.body if status == HTTPStatus.OK else b"")


def _redirect(url: str, response: Response) -> str:
    """Return the target of a redirect within one site, or an empty string."""
    if not HTTPStatus.MOVED_PERMANENTLY <= response.status < HTTPStatus.BAD_REQUEST:
        return ""
    try:
        source = httpx.URL(url)
        target = source.join(response.headers["location"])
    except (httpx.InvalidURL, UnicodeError, KeyError):
        return ""
    sites = {registrable_domain(each.raw_host.decode()) for each in (source, target)}
    return str(target) if len(sites) == 1 and target.scheme in DEFAULT_PORTS else ""
