"""Settings: each is an environment variable and a command-line option."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Annotated, Any, Self

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import FieldInfo, fields, force_setattr

PREFIX = "RATECARD_"
SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable of the folder in which the workers of one port share their metrics."""
HOSTS_EXAMPLE = (
    "write names, IPv4 addresses or [IPv6] addresses, with or without a port, separated by commas: "
    "catalogue.example,127.0.0.1:8000,[::1]"
)
FQDN = r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z](?:[a-z0-9-]{0,61}[a-z0-9])"
_host = re.compile(r"(?:\[[0-9a-f:]+\]|[a-z0-9_-]+(?:\.[a-z0-9_-]+)*)(?::[0-9]{1,5})?")
_registry = re.compile(rf"https?://{FQDN}(?::[0-9]{{1,5}})?(?:/[!-~]*)?")


class Settings(Struct, frozen=True, kw_only=True):
    """Settings of the service; `RATECARD_ARTIFACTS` sets `artifacts`, and so on.

    `artifacts` may be given as a Path.
    """

    artifacts: Annotated[str, Meta(description="the folder that the indexer publishes to")] = (
        "artifacts"
    )
    max_age: Annotated[
        int,
        Meta(ge=0, description="seconds for which caches reuse a response; 0: none without asking"),
    ] = 60
    cache_bytes: Annotated[
        int, Meta(ge=0, description="memory of each worker for cached responses")
    ] = 64 << 20
    max_lag: Annotated[
        float,
        Meta(ge=0, description="seconds of event loop lag above which searches get 503; 0: never"),
    ] = 1.0
    log_requests: Annotated[
        bool, Meta(description="write one line of JSON for each request to standard output")
    ] = False
    page: Annotated[
        bool, Meta(description="serve the pages for people; `false` leaves the JSON API alone")
    ] = True
    icons: Annotated[
        bool,
        Meta(description="let browsers load the icons of services, which tells sellers who looks"),
    ] = False
    downloads: Annotated[
        bool, Meta(description="serve the files that `ratecard fetch` and mirrors copy")
    ] = True
    mcp: Annotated[
        bool, Meta(description="serve MCP, for agents, at `/mcp`; needs the extra `mcp`")
    ] = False
    mcp_hosts: Annotated[
        str,
        Meta(description="names of hosts, separated by commas, whose requests `/mcp` answers"),
    ] = "localhost,127.0.0.1,[::1]"
    ard_registries: Annotated[
        str,
        Meta(description="addresses of searches of other ARD registries, with commas, to refer to"),
    ] = ""
    opensearch_url: Annotated[
        str,
        Meta(
            description="nodes of an OpenSearch cluster that searches, with commas: "
            "https://user:password@a.example:9200; needs the extra `opensearch`"
        ),
    ] = ""
    opensearch_prefix: Annotated[
        str, Meta(description="beginning of the names of the indexes of this catalogue")
    ] = "ratecard"
    opensearch_timeout: Annotated[
        float,
        Meta(gt=0, le=300, description="seconds after which a search of the cluster is given up"),
    ] = 5.0

    def __post_init__(self) -> None:
        if hasattr(self.artifacts, "__fspath__"):
            force_setattr(self, "artifacts", os.fspath(self.artifacts))
        for field in FIELDS:
            _convert(field, getattr(self, field.name), strict=True)
        parse_hosts(self.mcp_hosts)
        parse_registries(self.ard_registries)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Read the variables that are set; raises ValueError for a value that is not valid."""
        return cls(
            **{
                field.name: _convert(field, environment[variable(field.name)], strict=False)
                for field in FIELDS
                if variable(field.name) in environment
            }
        )


FIELDS = fields(Settings)


def parse_hosts(hosts: str) -> list[str]:
    """Return the hosts of `mcp_hosts` in lower case; raises ValueError for what is no host."""
    names = [host.strip().lower() for host in hosts.split(",")]
    for name in names:
        if not _host.fullmatch(name):
            raise ValueError(f"{variable('mcp_hosts')}: `{name[:100]}` is no host; {HOSTS_EXAMPLE}")
    return names


def parse_registries(urls: str) -> list[str]:
    """Return the URLs of `ard_registries`; raises ValueError for what is none."""
    addresses = urls.replace(",", " ").split()
    if wrong := [url for url in addresses if not _registry.fullmatch(url)]:
        reason = "is no address of a registry; write https://registry.example/search"
        raise ValueError(f"{variable('ard_registries')}: `{wrong[0][:100]}` {reason}")
    return addresses


def _convert(field: FieldInfo, value: object, *, strict: bool) -> Any:
    """Convert a value to the type of its setting; raises ValueError."""
    try:
        return msgspec.convert(value, field.type, strict=strict)
    except msgspec.ValidationError as error:
        raise ValueError(f"{variable(field.name)}: {error}") from error


def variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + name.upper()


def option(name: str) -> str:
    """Return the command-line option of a setting."""
    return "--" + name.replace("_", "-")


def describe(field: FieldInfo) -> str:
    """Return the one-line description of a setting."""
    (meta,) = field.type.__metadata__
    return str(meta.description)


def as_text(value: object) -> str:
    """Return a value as an environment variable has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
