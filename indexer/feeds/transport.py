"""The network that feeds are fetched over: public addresses only, and never past a deadline."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable
from ipaddress import ip_address
from time import monotonic
from typing import Any

import httpcore
from httpcore import SOCKET_OPTION

from indexer.urls import is_public


class DeadlineExceeded(Exception):  # it ends a fetch, which says of what
    """The deadline passed."""


class PrivateAddress(Exception):  # it ends a fetch, which says how it got there
    """A host has an address that is no public one."""


class Network(httpcore.NetworkBackend):
    """Connects to one trusted host and port wherever they are, and to public addresses else.

    A name is resolved once, and what is connected to is the very address that was judged, so that
    a second answer of the name server changes nothing. Raises PrivateAddress, and DeadlineExceeded
    once `deadline`, in seconds of the monotonic clock, has passed.
    """

    def __init__(self, trusted: tuple[str, int], deadline: float) -> None:
        self._trusted = trusted
        self._deadline = deadline
        self._backend = httpcore.SyncBackend()

    def remaining(self) -> float:
        """The seconds that are left; raises DeadlineExceeded when none are."""
        seconds = self._deadline - monotonic()
        if seconds <= 0:
            raise DeadlineExceeded
        return seconds

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to the first address of a host that answers."""
        trusted = (host, port) == self._trusted
        fault: Exception = httpcore.ConnectError(f"{host} has no address")
        for address in [host] if trusted else public_addresses(host, port):
            try:
                stream = self._backend.connect_tcp(
                    address,
                    port,
                    timeout=_sooner(timeout, self.remaining()),
                    local_address=local_address,
                    socket_options=socket_options,
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                fault = error
            else:
                return _Stream(stream, self)
        raise fault


class _Stream(httpcore.NetworkStream):
    """A stream on which no single operation outlasts the deadline of the network."""

    def __init__(self, stream: httpcore.NetworkStream, network: Network) -> None:
        self._stream = stream
        self._network = network

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _sooner(timeout, self._network.remaining()))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _sooner(timeout, self._network.remaining()))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        try:
            timeout = _sooner(timeout, self._network.remaining())
        except DeadlineExceeded:
            self.close()  # nobody else knows of this stream yet
            raise
        secure = self._stream.start_tls(ssl_context, server_hostname, timeout)
        return _Stream(secure, self._network)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def public_addresses(host: str, port: int) -> list[str]:
    """The addresses of a host; raises PrivateAddress when one is not public, and ConnectError."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # the latter for a label of more than 63 letters
        raise httpcore.ConnectError(f"{host} cannot be resolved: {error}") from error
    addresses = [str(address[0]) for *_, address in found]
    for address in addresses:
        if not is_public(ip_address(address)):
            raise PrivateAddress(host if host == address else f"{host} at {address}")
    return addresses


def _sooner(timeout: float | None, remaining: float) -> float:
    return remaining if timeout is None else min(timeout, remaining)
