"""The engine that searches an OpenSearch cluster; needs the extra `opensearch`."""

from __future__ import annotations

import ssl
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from service.errors import needs_extra

if TYPE_CHECKING:
    from service.settings import Settings
    from service.snapshot.snapshot import Connector


def connector_of(settings: Settings) -> Connector | None:
    """Return the connector of snapshots to a cluster, None for the embedded engine.

    Raises as `client_arguments`.
    """
    if not settings.opensearch_url:
        return None
    arguments = client_arguments(settings.opensearch_url)
    from service.opensearch.engine import OpenSearch  # noqa: PLC0415  # optional dependencies

    return OpenSearch(arguments, settings.opensearch_timeout, settings.opensearch_prefix)


def client_arguments(urls: str) -> dict[str, Any]:
    """Return the arguments of a client of the nodes, whose URLs may have a user and a password.

    Raises RuntimeError without the extra, and ValueError for what is no URL; no message has one,
    as it may hold a password.
    """
    if not all(map(find_spec, ("opensearchpy", "aiohttp"))):
        raise RuntimeError(needs_extra("OpenSearch", "opensearch"))
    hosts = [url.strip() for url in urls.split(",")]
    for number, url in enumerate(hosts, 1):
        try:
            parts = urlsplit(url)
            is_url = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            is_url = False
        if not is_url:
            raise ValueError(f"URL {number} of the cluster is none; write https://host:port")
    is_tls = any(url.startswith("https") for url in hosts)
    return {"hosts": hosts} | ({"ssl_context": ssl.create_default_context()} if is_tls else {})
