"""Host names of tests, without a name server."""

from __future__ import annotations

import socket
from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest

Resolve = Callable[..., None]


def replace_dns(monkeypatch: pytest.MonkeyPatch) -> Resolve:
    """Return a function that makes a host name resolve to some addresses, or fail without any."""
    names: dict[str, tuple[str, ...]] = {}
    system = socket.getaddrinfo

    def getaddrinfo(host: Any, port: Any, *arguments: Any, **options: Any) -> Any:
        addresses = names.get(host, (host,))
        if not addresses:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        results = [system(address, port, *arguments, **options) for address in addresses]
        return list(chain.from_iterable(results))

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return lambda name, *addresses: names.update({name: addresses})
