"""How to reach an OpenSearch cluster, for what does not need its client."""

from __future__ import annotations

import ssl
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from service.errors import needs_extra


def check_extra() -> None:
    """Raise RuntimeError where the modules of the extra are not installed."""
    if not all(map(find_spec, ("opensearchpy", "aiohttp"))):
        raise RuntimeError(needs_extra("OpenSearch", "opensearch"))


def client_arguments(urls: str) -> dict[str, Any]:
    """Return the arguments of a client of the nodes, whose URLs may have a user and a password.

    Raises ValueError for what is no URL; no message has one, as it may hold a password.
    """
    hosts = [url.strip() for url in urls.split(",")]
    for number, url in enumerate(hosts, 1):
        if not _is_url(url):
            raise ValueError(f"URL {number} of the cluster is none; write https://host:port")
    is_tls = any(url.startswith("https") for url in hosts)
    return {"hosts": hosts} | ({"ssl_context": ssl.create_default_context()} if is_tls else {})


def _is_url(text: str) -> bool:
    try:
        url = urlsplit(text)
        return url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        return False
