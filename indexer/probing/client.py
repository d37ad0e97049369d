"""HTTP client of probes: one unpaid request a connection, within time and size."""

from __future__ import annotations

import asyncio
import zlib
from functools import partial
from time import monotonic

import httpcore
import httpx
from msgspec import Struct

from indexer.intake.connections import Transport, check_listed
from indexer.intake.http import ENCODINGS
from indexer.probing.options import ProbeOptions
from service.cli import version

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
        return None if unzip and not unzip.eof else bytes(content)
