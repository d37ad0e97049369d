"""Addresses: where a URL leads, however it is spelt, and whether everybody can go there."""

from __future__ import annotations

import re
import socket
from ipaddress import IPv4Address, IPv6Address, IPv6Network
from urllib.parse import SplitResult, unquote, urlsplit

from msgspec import Struct

from indexer.errors import IndexerError

LONGEST_URL = 4096
LONGEST_HOST = 253
DEFAULT_PORTS = {"http": 80, "https": 443}

# Top-level names that are no part of the public domain name system.
_PRIVATE_NAMES = "corp home internal intranet lan local localdomain localhost private"
PRIVATE_NAMES = frozenset(_PRIVATE_NAMES.split())
RELAYING = IPv6Network("2002::/16")  # 6to4: any IPv4 address hides in one of these
NAT64 = IPv6Network("64:ff9b::/96")  # these stand for the IPv4 address in their last 32 bits

_host = re.compile(r"[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")
_number = re.compile(r"(?:^|\.)(?:\d+|0x[0-9a-f]*)$")


class Address(Struct, frozen=True):
    """Where a URL leads: `host` in lower case and ASCII, an IP address in its usual form.

    `port` is None where it goes without saying; `rest` is the path and the query.
    """

    scheme: str
    host: str
    port: int | None
    rest: str
    is_private: bool
    has_credentials: bool

    @property
    def domain(self) -> str:
        """The host, with the port where it must be said."""
        return self.host if self.port is None else f"{self.host}:{self.port}"

    @property
    def identity(self) -> str:
        """The same for two spellings of one URL."""
        return f"{self.scheme}://{self.domain}{self.rest}"


def read_address(url: str) -> Address:
    """Where this URL leads; raises ValueError with the reason when it is no URL with a host."""
    if len(url) > LONGEST_URL:
        raise ValueError(f"is longer than the {LONGEST_URL:,} characters of a URL")
    if not url.isprintable() or not {" ", "\\", '"', "<", ">"}.isdisjoint(url):
        raise ValueError("holds a character that is in no URL")
    try:
        split = urlsplit(url)
        port = split.port
    except ValueError as error:
        raise ValueError(f"is no URL: {error}") from error
    if not split.scheme or not split.hostname:
        raise ValueError("is no URL with a host")
    try:
        host = _ip_address(split) or _name(split.hostname)
    except (ValueError, OSError) as error:
        raise ValueError("names no host that there can be") from error
    query = f"?{split.query}" if split.query else ""
    return Address(
        scheme=split.scheme,
        host=host.exploded if isinstance(host, IPv6Address) else str(host),
        port=None if port == DEFAULT_PORTS.get(split.scheme) else port,
        rest=(split.path or "/") + query,
        is_private=_is_private(host),
        has_credentials="@" in split.netloc,
    )


def ascii_host(name: str) -> str:
    """Return a host name in lower case and ASCII: IDNA 2008 after the mapping of UTS 46.

    Raises ValueError for a name that has no such form, and IndexerError where `idna` is missing.
    """
    if name.isascii():
        return name.lower()
    try:
        import idna  # noqa: PLC0415  # an optional dependency, for names beyond ASCII only
    except ImportError as error:
        raise IndexerError(
            f"{name}: names beyond ASCII need the package idna, which is not installed: "
            "pip install 'ratecard[indexer]'"
        ) from error
    labels = idna.uts46_remap(name, std3_rules=False).split(".")
    return ".".join(label if label.isascii() else idna.alabel(label).decode() for label in labels)


def is_public(ip: IPv4Address | IPv6Address) -> bool:
    """Whether an IP address can be reached from anywhere, by itself or by what it stands for."""
    if isinstance(ip, IPv6Address):
        if ip in NAT64:  # where there is no IPv4, every host without IPv6 is at one of these
            return is_public(IPv4Address(int(ip) & 0xFFFF_FFFF))
        if ip.ipv4_mapped is not None:
            return is_public(ip.ipv4_mapped)
        if ip in RELAYING or ip.is_site_local:
            return False
    return ip.is_global and not ip.is_multicast and not ip.is_reserved


def _ip_address(split: SplitResult) -> IPv6Address | None:
    if not split.netloc.rpartition("@")[2].startswith("["):
        return None
    address = IPv6Address(split.hostname or "")
    if address.scope_id is not None:
        raise ValueError  # it is for one machine to understand
    return address


def _name(given: str) -> IPv4Address | str:
    """The host that a browser would go to, which decodes, folds and maps before it looks up."""
    name = ascii_host(unquote(given, errors="strict")).removesuffix(".")
    if len(name) > LONGEST_HOST or not _host.fullmatch(name):
        raise ValueError
    if _number.search(name):
        return IPv4Address(socket.inet_aton(name))  # it knows 127.1, 0x7f000001 and 2130706433
    return name


def _is_private(host: IPv4Address | IPv6Address | str) -> bool:
    if isinstance(host, str):
        top = host.rpartition(".")
        return not top[1] or top[2] in PRIVATE_NAMES or host.endswith(".home.arpa")
    return not is_public(host)
