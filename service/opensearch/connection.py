"""How to reach a cluster: its nodes, credentials and certificates, never shown in messages."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from msgspec import Struct

from service.errors import needs_extra
from service.settings import Settings
from service.urls import DEFAULT_PORTS

MODULES = ("opensearchpy", "aiohttp", "pyroaring")
"""The modules of the extra."""
CONNECTIONS = 32
"""Connections to one node; further searches wait for one."""
NEEDS_EXTRA = needs_extra("OpenSearch", "opensearch")


class ClusterAddress(Struct, frozen=True):
    """The address of a cluster.

    urls: of nodes, separated by commas, each perhaps with a user and a password
    credentials: file with `user:password`, empty for none
    ca: file of certificate authorities, empty for those of the system
    timeout: seconds for one request
    """

    urls: str
    credentials: str = ""
    ca: str = ""
    timeout: float = 5.0

    def __repr__(self) -> str:
        return f"ClusterAddress({', '.join(self.nodes)})"

    @property
    def nodes(self) -> list[str]:
        """The nodes without credentials, for people."""
        return [
            f"{url.scheme}://{_location(url)}{url.path.rstrip('/')}" for url in _split(self.urls)
        ]

    def client_arguments(self) -> dict[str, Any]:
        """Return the arguments of a client of opensearch-py that reach the nodes.

        Raises ValueError for a malformed URL, and OSError where a file cannot be read.
        """
        login = Path(self.credentials).read_text().strip() if self.credentials else ""
        if self.credentials and ":" not in login:
            raise ValueError(f"{self.credentials} must hold `user:password`")
        hosts = []
        for url in _split(self.urls):
            host: dict[str, Any] = {
                "host": url.hostname,
                "port": url.port or DEFAULT_PORTS[url.scheme],
                "use_ssl": url.scheme == "https",
                "url_prefix": url.path.strip("/"),
            }
            own = f"{unquote(url.username)}:{unquote(url.password or '')}" if url.username else ""
            if own or login:
                host["http_auth"] = _latin(own or login)
            hosts.append(host)
        arguments: dict[str, Any] = {
            "hosts": hosts,
            "http_compress": False,
        }
        if any(host["use_ssl"] for host in hosts):
            arguments["ssl_context"] = _context(self.ca)
        return arguments


def address_of(settings: Settings) -> ClusterAddress:
    """Return the address that settings have."""
    return ClusterAddress(
        settings.opensearch_url,
        settings.opensearch_credentials,
        settings.opensearch_ca,
        settings.opensearch_timeout,
    )


def shown(urls: str) -> str:
    """Return URLs without credentials, for people."""
    try:
        return ", ".join(ClusterAddress(urls).nodes)
    except ValueError:
        return "not valid"


def _context(ca: str) -> ssl.SSLContext:
    """Return a context that verifies certificates by a file of authorities, or the system's."""
    try:
        return ssl.create_default_context(cafile=ca or None)
    except ssl.SSLError as error:
        raise ValueError(f"{ca} holds no certificates in PEM") from error


def _latin(login: str) -> str:
    """Check that credentials can stand in a header."""
    try:
        login.encode("latin-1")
    except UnicodeEncodeError:
        raise ValueError("the credentials of the cluster must be Latin-1 text") from None
    return login


def _split(urls: str) -> list[SplitResult]:
    """Split URLs; a message names the place of a bad one, as its text may hold a password."""
    split = []
    for number, text in enumerate(urls.split(","), 1):
        try:
            url = urlsplit(text.strip())
            is_valid = url.scheme in DEFAULT_PORTS and bool(url.hostname) and url.port != 0
        except ValueError:
            is_valid = False
        if not is_valid or url.query or url.fragment:
            raise ValueError(
                f"URL {number} of the cluster is none; write https://host:port, with commas between"
            )
        split.append(url)
    return split


def _location(url: SplitResult) -> str:
    host = url.hostname or ""
    name = f"[{host}]" if ":" in host else host
    return f"{name}:{url.port or DEFAULT_PORTS[url.scheme]}"
