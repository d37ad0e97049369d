"""Settings, each from one environment variable."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from ipaddress import IPv4Address, IPv6Address
from typing import Annotated, Any, Literal, Self, get_type_hints

import msgspec
from msgspec import Meta, Struct

PREFIX = "RATECARD_"
PORTS = range(1, 65536)
HOSTS_EXAMPLE = (
    "write names, IPv4 addresses or [IPv6] addresses, with or without a port, separated by commas: "
    "catalogue.example,127.0.0.1:8000,[::1]"
)

_label = "[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_host = re.compile(
    rf"(?:\[(?P<ipv6>[0-9a-f:.]+)\]|(?P<name>{_label}(?:\.{_label})*))(?::(?P<port>[0-9]{{1,5}}))?"
)


class Settings(Struct, frozen=True, kw_only=True):
    """Settings of the application; `RATECARD_ARTIFACTS` sets `artifacts`, and so on."""

    artifacts: Annotated[str, Meta(description="the folder that the indexer publishes to")] = (
        "artifacts"
    )
    max_age: Annotated[
        int,
        Meta(
            ge=0,
            description="seconds for which clients and gateways may reuse a response without "
            "asking again (`Cache-Control`); 0 makes them revalidate every time",
        ),
    ] = 60
    cache_bytes: Annotated[
        int,
        Meta(ge=0, description="memory of each worker for cached responses"),
    ] = 64 << 20
    max_lag: Annotated[
        float,
        Meta(
            ge=0,
            description="seconds of event loop lag above which searches and filtered lists are "
            "refused with 503; 0 never refuses any",
        ),
    ] = 1.0
    drain: Annotated[
        float,
        Meta(
            ge=0,
            description="seconds between SIGTERM and stopping, in which `/readyz` answers 503 and "
            "everything else is still answered, so that gateways stop sending",
        ),
    ] = 0.0
    log_requests: Annotated[
        bool, Meta(description="write one line of JSON for each request to standard output")
    ] = False
    page: Annotated[
        bool, Meta(description="serve the pages for people; `false` leaves the JSON API alone")
    ] = True
    downloads: Annotated[
        bool,
        Meta(description="serve the files that `ratecard fetch` and mirrors copy"),
    ] = True
    mcp: Annotated[
        bool,
        Meta(description="serve MCP, for agents, at `/mcp`; needs the extra `mcp`"),
    ] = False
    mcp_hosts: Annotated[
        str,
        Meta(
            description="names of hosts, separated by commas, whose requests `/mcp` answers",
        ),
    ] = "localhost,127.0.0.1,[::1]"
    engine: Annotated[
        Literal["embedded", "opensearch"],
        Meta(
            description="what searches: `embedded`, from the files of the snapshot, or "
            "`opensearch`, a cluster; needs the extra `opensearch`",
        ),
    ] = "embedded"
    opensearch_url: Annotated[
        str,
        Meta(
            description="URLs of nodes of the cluster, separated by commas; a user and a password "
            "may stand before the host: https://user:password@search.example:9200",
        ),
    ] = ""
    opensearch_credentials: Annotated[
        str,
        Meta(description="file with `user:password` of the cluster, read at the start"),
    ] = ""
    opensearch_ca: Annotated[
        str,
        Meta(description="file of the certificates that the cluster's must be signed by"),
    ] = ""
    opensearch_timeout: Annotated[
        float,
        Meta(gt=0, le=300, description="seconds after which a search of the cluster is given up"),
    ] = 5.0

    def __post_init__(self) -> None:
        for name, kind in _types(type(self)).items():
            _convert(name, getattr(self, name), kind, strict=True)
        parse_hosts(self.mcp_hosts)
        if (self.engine == "opensearch") != bool(self.opensearch_url):
            raise ValueError(
                f"{variable('engine')}=opensearch and {variable('opensearch_url')} need each other"
            )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Read the variables that are set; raises ValueError for a value that is not valid."""
        return cls(
            **{
                name: _convert(name, environment[variable(name)], kind, strict=False)
                for name, kind in _types(cls).items()
                if variable(name) in environment
            }
        )


class ServerSettings(Settings, frozen=True, kw_only=True):
    """Settings of `python -m service`: those of the application and of the server that runs it."""

    host: Annotated[str, Meta(description="the address to listen on")] = "127.0.0.1"
    port: Annotated[
        int, Meta(ge=0, le=65535, description="the port to listen on; 0 takes a free one")
    ] = 8000
    workers: Annotated[
        int,
        Meta(
            ge=1,
            description="number of processes; they share the snapshot's memory, and one that dies "
            "is replaced",
        ),
    ] = 1
    root_path: Annotated[
        str,
        Meta(
            pattern=r"^(/[!-~]*[!-.0-~])?$",
            description="the path prefix that a gateway strips before it forwards a request",
        ),
    ] = ""
    trusted_proxies: Annotated[
        str,
        Meta(
            description="addresses or networks, separated by commas, whose `X-Forwarded-For` and "
            "`X-Forwarded-Proto` are trusted"
        ),
    ] = ""
    client_timeout: Annotated[
        int,
        Meta(
            ge=1,
            description="seconds after which a client that neither completes a request nor reads "
            "its response is disconnected",
        ),
    ] = 30


def parse_hosts(hosts: str) -> list[str]:
    """Return the hosts of `mcp_hosts` in lower case; raises ValueError for what is no host."""
    names = [host.strip().lower() for host in hosts.split(",")]
    for name in names:
        match = _host.fullmatch(name)
        if match is None or not _is_address(match) or int(match["port"] or 1) not in PORTS:
            raise ValueError(f"{variable('mcp_hosts')}: `{name[:100]}` is no host; {HOSTS_EXAMPLE}")
    return names


def _is_address(match: re.Match[str]) -> bool:
    """Return whether a host is a name, or an address with all its parts."""
    try:
        if match["ipv6"]:
            IPv6Address(match["ipv6"])
        elif match["name"].rpartition(".")[2].isdigit():
            IPv4Address(match["name"])
    except ValueError:
        return False
    return True


@cache
def _types(settings: type[Settings]) -> dict[str, Any]:
    """Return the type of each setting."""
    types = get_type_hints(settings, include_extras=True)
    return {name: types[name] for name in settings.__struct_fields__}


def _convert(name: str, value: object, kind: Any, *, strict: bool) -> Any:
    """Convert a value to the type of its setting; raises ValueError."""
    try:
        return msgspec.convert(value, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise ValueError(f"{variable(name)}: {error}") from error


def variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + name.upper()


def describe(name: str) -> str:
    """Return the one-line description of a setting."""
    (meta,) = _types(ServerSettings)[name].__metadata__
    return str(meta.description)
