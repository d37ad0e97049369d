"""The engine that searches an OpenSearch cluster; needs the extra `opensearch`."""

from __future__ import annotations

import re
import ssl
from importlib.util import find_spec
from typing import TYPE_CHECKING

from service.errors import needs_extra
from service.schema.values import Json

if TYPE_CHECKING:
    from service.settings import Settings
    from service.snapshot.snapshot import Connector

URL = re.compile(
    r"https?://([^/@?#\s]*@)?([\w.-]+|\[[\da-fA-F:.]+\])(:[1-9]\d{0,3}|:[1-6]\d{4})?(/.*)?"
)


def connector_of(settings: Settings) -> Connector | None:
    """Return the connector to a cluster, None without one; raises as `client_arguments`."""
    if not settings.opensearch_url:
        return None
    arguments = client_arguments(settings.opensearch_url)
    from service.opensearch.engine import OpenSearch  # noqa: PLC0415  # optional dependencies

    return OpenSearch(arguments, settings.opensearch_timeout, settings.opensearch_prefix)


def client_arguments(urls: str) -> Json:
    """Return the arguments of a client of the nodes, whose URLs may have a user and a password.

    Raises RuntimeError without the extra, and ValueError for what is no URL; no message has one,
    as it may hold a password.
    """
    if not all(map(find_spec, ("opensearchpy", "aiohttp"))):
        raise RuntimeError(needs_extra("OpenSearch", "opensearch"))
    hosts = [url.strip() for url in urls.split(",")]
    for number, url in enumerate(hosts, 1):
        if not URL.fullmatch(url):
            raise ValueError(
                f"URL {number} of the cluster is none; write https://host:port, and a # or ? of a "
                "password as %23 or %3F"
            )
    is_tls = any(url.startswith("https") for url in hosts)
    return {"hosts": hosts} | ({"ssl_context": ssl.create_default_context()} if is_tls else {})
