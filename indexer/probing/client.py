"""HTTP client of probes: one unpaid request a connection, within time and size."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Mapping
from functools import partial
from time import monotonic
from typing import Any

import httpcore
import httpx
from msgspec import Struct

from indexer.intake.connections import Transport, check_listed
from indexer.intake.http import ENCODINGS
from indexer.probing.options import ProbeOptions
from service.cli import version

AGENT = "ratecard-probe"
"""The product token of the `User-Agent` header, which robots.txt names, and the prober's name."""
JSON = {"Content-Type": "application/json"}
FAULTS = (
    TimeoutError,
    OSError,  # of TLS, after the handshake
    UnicodeError,  # of a host name that has no form in the DNS
    httpx.InvalidURL,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.TimeoutException,
    zlib.error,
)
GZIP = zlib.MAX_WBITS | 16


class NoResponse(Exception):
    """A request without a response; `is_connected` says whether the request could be sent."""

    def __init__(self, *, is_connected: bool) -> None:
        super().__init__(is_connected)
        self.is_connected = is_connected


class Response(Struct, frozen=True):
    """A response, with its body if that was asked for.

    latency: milliseconds from the request, look-up and connecting included, to the head
    body: decompressed, and cut where it is too long or ends early, as `is_whole` says
    """

    status: int
    headers: httpx.Headers
    latency: int
    body: bytes
    is_whole: bool


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
        self, method: str, url: str, body: bytes | None = None, *, read: int | None = None
    ) -> Response:
        """Request a URL, and read the body of a response with the status `read`.

        Raises NoResponse, or ForbiddenAddress for a host that may not be visited.
        """
        is_connected = False

        async def trace(event: str, _: Mapping[str, Any]) -> None:
            nonlocal is_connected
            is_connected |= event == "http11.send_request_headers.started"
            self.has_connected |= is_connected

        headers = self._headers if body is None else self._headers | JSON
        timeouts = dict.fromkeys(("connect", "read", "write", "pool"), self._options.silence)
        extensions = {"timeout": timeouts, "trace": trace}
        deadline = asyncio.get_running_loop().time() + self._options.seconds
        started = monotonic()
        try:
            request = httpx.Request(
                method, url, headers=headers, content=body, extensions=extensions
            )
            async with asyncio.timeout_at(deadline):
                response = await self._transport.handle_async_request(request)
        except FAULTS as error:
            raise NoResponse(is_connected=is_connected) from error
        latency = round((monotonic() - started) * 1000)
        content, is_whole = bytearray(), False
        try:
            async with asyncio.timeout_at(deadline):
                if response.status_code == read:
                    is_whole = await self._receive(response, content)
        except FAULTS:
            pass  # the head alone is an answer
        finally:
            await response.aclose()
        return Response(response.status_code, response.headers, latency, bytes(content), is_whole)

    async def _receive(self, response: httpx.Response, content: bytearray) -> bool:
        """Append the decompressed body to the content; returns whether that is all of it."""
        encoding = response.headers.get("content-encoding", "").strip().lower()
        if encoding not in ENCODINGS:
            return False
        unzip = zlib.decompressobj(GZIP) if encoding.endswith("gzip") else None
        async for chunk in response.aiter_raw():
            room = self._options.bytes - len(content)
            piece = chunk if unzip is None else unzip.decompress(chunk, room + 1)
            content += piece[:room]
            if len(piece) > room:
                return False
        return unzip is None or unzip.eof
