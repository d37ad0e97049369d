"""Connections to servers that others named, to checked addresses only."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import Future
from functools import cache, partial
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TypeVar

import httpcore
import httpx

from service.urls import is_ip_address, is_metadata, is_public

T = TypeVar("T")

AddressCheck = Callable[[str, int, IPv4Address | IPv6Address], None]
"""Raises ForbiddenAddress unless a host and port may be reached at an address."""


class ForbiddenAddress(Exception):
    """A host has an address that it may not be read from; the message says why and what to do."""


def check_feed(
    host: str,
    port: int,
    ip: IPv4Address | IPv6Address,
    *,
    feed: tuple[str, int],
    allow_private: bool,
) -> None:
    """Raise ForbiddenAddress for an address that a feed may not be read from.

    feed: host and port of its URL; other hosts are targets of redirects, and must be public

    An IP address that the operator wrote is allowed, and so is `localhost`. Other names must have
    public addresses, or with `allow_private` private ones, but never those of instance metadata.
    """
    if (host, port) != feed:
        advice = "to read the feed from there, give that URL as the source"
        check_listed(host, port, ip, allow_private=False, act="redirects to ", advice=f"; {advice}")
    elif not is_ip_address(host) and not (host == "localhost" and ip.is_loopback):
        advice = "if the feed is in a private network, add --allow-private-feeds"
        if is_metadata(ip):
            advice = "clouds serve credentials there; check the name, or give the address instead"
        check_listed(host, port, ip, allow_private=allow_private, advice=f"; {advice}")


def check_listed(
    host: str,
    _port: int,
    ip: IPv4Address | IPv6Address,
    *,
    allow_private: bool,
    act: str = "names ",
    advice: str = "",
) -> None:
    """Raise ForbiddenAddress unless a host that others name has a public address.

    With `allow_private` the address may be private, but never one of instance metadata.
    """
    if is_metadata(ip) or not (allow_private or is_public(ip)):
        where = host if is_ip_address(host) else f"{host} at {ip}"
        raise ForbiddenAddress(f"{act}{where}, which is not a public address{advice}")


class Transport(httpx.AsyncBaseTransport):
    """HTTP/1.1 over `CheckedBackend`; raises the exceptions of httpcore.

    `AsyncHTTPTransport` has no parameter for a network backend. No proxy is used, since a proxy
    would connect to an address that was never checked.
    """

    def __init__(self, check: AddressCheck) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=_ssl_context(), network_backend=CheckedBackend(check)
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; the body of the response is streamed."""
        url = request.url
        target = httpcore.URL(
            scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
        )
        response = await self._pool.handle_async_request(
            httpcore.Request(
                request.method,
                target,
                headers=request.headers.raw,
                content=request.stream,
                extensions=request.extensions,
            )
        )
        return httpx.Response(
            response.status, headers=response.headers, stream=_Body(response), request=request
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._pool.aclose()


class _Body(httpx.AsyncByteStream):
    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._response.aiter_stream():
            yield chunk

    async def aclose(self) -> None:
        await self._response.aclose()


# The certificates are loaded once: that takes longer than many feeds.
_ssl_context = cache(httpx.create_ssl_context)


class CheckedBackend(httpcore.AsyncNetworkBackend):
    """Resolve a host, check its addresses and connect to one of these.

    Since the checked address is the one connected to, a second answer of the name server (DNS
    rebinding) changes nothing. Raises ForbiddenAddress, and UnicodeError for a name that has no
    form in the DNS.
    """

    def __init__(self, check: AddressCheck) -> None:
        self._check = check
        self._backend = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first address of a host that accepts the connection."""
        addresses = await _resolve(host, port)
        for address in addresses:
            self._check(host, port, ip_address(address))
        failure: Exception = httpcore.ConnectError(f"{host} has no address")
        for address in addresses:
            try:
                return await self._backend.connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure


async def run_in_thread(function: Callable[[], T]) -> T:
    """Return the result of a function that runs in a daemon thread of its own.

    The executor of asyncio, and Python at its exit, would wait for a function that outlasts the
    deadline of its request.
    """
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # a cancelled future would refuse the late result

    def run() -> None:
        try:
            result = function()
        except Exception as error:  # noqa: BLE001  # raised where the function is awaited
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=run, daemon=True).start()
    return await asyncio.wrap_future(future)


async def _resolve(host: str, port: int) -> list[str]:
    """Look up the addresses of a host."""
    if is_ip_address(host):
        return [host]
    look_up = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    try:
        found = await run_in_thread(look_up)
    except OSError as error:
        raise httpcore.ConnectError(f"{host} cannot be resolved: {error}") from error
    return [str(address[0]) for *_, address in found]
