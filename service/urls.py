"""URLs and IP addresses: where they lead, and whether that is public."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Iterator
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from string import ascii_letters, digits, punctuation
from urllib.parse import SplitResult, quote, unquote, urlsplit

from msgspec import Struct

MAX_URL = 4096  # characters
MAX_HOST = 253
DEFAULT_PORTS = {"http": 80, "https": 443}

# Top-level names outside the public DNS.
_PRIVATE_NAMES = """
alt consul corp home internal intranet invalid lan local localdomain localhost onion private svc
test
"""
PRIVATE_NAMES = frozenset(_PRIVATE_NAMES.split())
NAT64 = IPv6Network("64:ff9b::/96")  # holds an IPv4 address in its last 32 bits
UNRESERVED = frozenset(ascii_letters + digits + "-._~")  # of RFC 3986
# Where clouds serve instance metadata outside the link-local ranges.
METADATA = frozenset(
    map(
        ip_address,
        (
            "100.100.100.200",  # Alibaba
            "168.63.129.16",  # Azure
            "192.0.0.192",  # Oracle
            "fd00:ec2::254",  # AWS
            "fd20:ce::254",  # Google
        ),
    )
)

_host = re.compile(r"[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")
# A URL in normal form, without a port, whose host is no number: most are, and `urlsplit` is slow.
_plain = re.compile(
    r"(https?)://((?:[a-z0-9_-]{1,63}\.)+[a-z][a-z0-9_-]{0,62})"
    r"((?:/[\w/.:@~%!$&'()*+,;={}-]*(?:\?[\w/?.:@~%!$&'()*+,;=-]+)?)?)",
    re.ASCII,
)
_blanks = "".join(each for each in map(chr, range(0x3001)) if each.isspace() or each < " ")
_line_ends = str.maketrans(dict.fromkeys("\t\n\r"))
PATH_PARAMETER = re.compile(r"\{(\w+)\}|(?<=/):([A-Za-z_]\w*)")
"""A placeholder of a URL."""

_web = re.compile("(https?):/*", re.IGNORECASE)
_unescaped = re.compile('[ "<>]')
_scheme = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_escape = re.compile("%([0-9A-Fa-f]{2})?")
_placeholder = re.compile(r"(?<=/)(?:\{([^{}/?]+)\}|\[([^\[\]/?]+)\]|%7B([^/?]+?)%7D)(?=[/?]|$)")
_placeholder_of_segment = re.compile(r"\{[^{}]+\}|^(?:\[[^\[\]]+\]|%7B.+%7D)$|^:[A-Za-z_]\w*")
_route = re.compile(r"/[A-Za-z0-9_/:.~%-]+")
_number = re.compile(r"(?:^|\.)(?:\d+|0x[0-9a-f]*)$")


class ParsedUrl(Struct, frozen=True):
    """A URL with its host in lower case and ASCII, or as an IP address in full.

    `port` is None for the default port of the scheme; `rest` is the path and the query, without
    dot segments and with escapes as in RFC 3986, section 6.2.2.
    """

    scheme: str
    host: str
    port: int | None
    rest: str
    is_private: bool
    has_credentials: bool

    @property
    def domain(self) -> str:
        """The host, followed by the port unless it is the default."""
        return self.host if self.port is None else f"{self.host}:{self.port}"

    @property
    def identity(self) -> str:
        """The normalised URL, equal for all spellings of one URL."""
        return f"{self.scheme}://{self.domain}{self.rest}"

    @property
    def key(self) -> str:
        """The normalised URL, equal for all spellings of its placeholders as well."""
        return key_of(self.identity)


def is_url(name: str) -> bool:
    """Whether the name of a source is a URL, of any scheme, rather than a path."""
    return _scheme.match(name) is not None


@lru_cache(maxsize=64)  # a build parses the URL of an item when it is read, judged and listed
def parse_url(url: str) -> ParsedUrl:
    """Parse an absolute URL; raises ValueError with the reason if it is not valid."""
    if len(url) > MAX_URL:
        raise ValueError(f"is longer than the {MAX_URL:,} characters of a URL")
    plain = _plain.fullmatch(url)
    if plain is not None and len(plain[2]) <= MAX_HOST:
        scheme, name, rest = plain.groups()
        rest = _normalise(rest) if "%" in rest or "/." in rest else rest or "/"
        return ParsedUrl(scheme, name, None, rest, _is_private(name), has_credentials=False)
    if not url.isprintable() or not {" ", "\\", '"', "<", ">"}.isdisjoint(url):
        raise ValueError("holds a character that is not allowed in a URL")
    try:
        split = urlsplit(url)
        hostname, port = split.hostname, split.port
    except ValueError as error:
        raise ValueError(f"is not a URL: {error}") from error
    if not split.scheme or not hostname:
        raise ValueError("is not a URL with a host")
    try:
        host = _ipv6_address(split) or _parse_host(hostname)
    except (ValueError, OSError) as error:
        raise ValueError("names a host that is not valid") from error
    query = f"?{split.query}" if split.query else ""
    return ParsedUrl(
        scheme=split.scheme,
        host=host.exploded if isinstance(host, IPv6Address) else str(host),
        port=None if port == DEFAULT_PORTS.get(split.scheme) else port,
        rest=_normalise(split.path + query),
        is_private=_is_private(host),
        has_credentials="@" in split.netloc,
    )


def find_url(text: str) -> ParsedUrl | None:
    """Return a URL as `parse_url` does, None for a text that is none."""
    try:
        return parse_url(text)
    except ValueError:
        return None


def as_clients_read(text: str) -> str:
    """Return a text for a URL as the URL Standard reads it: without blanks around it or tabs.

    Backslashes are slashes, and any number of them, or none, may follow `https:`.
    """
    text = text.strip(_blanks).translate(_line_ends).replace("\\", "/")
    match = _web.match(text)
    if match is None:
        return text
    rest = _unescaped.sub(lambda each: quote(each[0]), text[match.end() :])
    return f"{match[1]}://{rest}"


def key_of(identity: str) -> str:
    """Return a normalised URL with its placeholders in one spelling, as in `/items/:id`."""
    return _placeholder.sub(r":\1\2\3", identity)


def path_parameters(url: str) -> list[str]:
    """Return the names of the placeholders of a URL."""
    return [match[1] or match[2] for match in PATH_PARAMETER.finditer(url.partition("#")[0])]


def with_route(url: str, route: object) -> str:
    """Replace the path of a URL by its route template, such as `/v1/:id`, if the path matches."""
    if not isinstance(route, str) or not _route.fullmatch(route) or ".." in unquote(route):
        return url
    try:
        split = urlsplit(url)
    except ValueError:
        return url
    template, path = route.split("/"), split.path.split("/")
    matches = len(template) == len(path) and all(
        part == given or (part.startswith(":") and given)
        for part, given in zip(template, path, strict=True)
    )
    templated = split._replace(path=route).geturl()
    return templated if matches and len(templated) <= MAX_URL else url


def count_filled(url: str, templates: Iterable[str]) -> Iterator[int]:
    """Count the placeholders of each template that a URL fills in; 0 if the URL is no call of it.

    All are normalised. A template without a query is called with any.
    """
    path, _, query = url.partition("?")
    segments = path.split("/")
    for template in templates:
        wanted, _, wanted_query = template.partition("?")
        filled = 0
        if wanted.count("/") == len(segments) - 1:
            pairs = [*zip(segments, wanted.split("/"), strict=True)]
            for segment, part in [*pairs, (query, wanted_query)] if wanted_query else pairs:
                literals = _placeholder_of_segment.split(part)
                if not _fits(segment, literals):
                    filled = 0
                    break
                filled += len(literals) - 1
        yield filled


def ascii_host(name: str) -> str:
    """Return a host name in lower case and ASCII: IDNA 2008 after the mapping of UTS 46.

    Raises ValueError for a name that has no such form.
    """
    if name.isascii():
        return name.lower()
    import idna  # noqa: PLC0415  # large tables, for names beyond ASCII only

    labels = idna.uts46_remap(name, std3_rules=False).split(".")
    return ".".join(label if label.isascii() else idna.alabel(label).decode() for label in labels)


def is_ip_address(host: str) -> bool:
    """Whether a host is an IP address, in the usual notation and without brackets."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_public(ip: IPv4Address | IPv6Address) -> bool:
    """Whether an address, and the IPv4 address embedded in it, is reachable on the internet."""
    ip = _without_translation(ip)
    if isinstance(ip, IPv6Address) and (ip.sixtofour is not None or ip.is_site_local):
        return False
    return ip.is_global and not ip.is_multicast and not ip.is_reserved


def is_metadata(ip: IPv4Address | IPv6Address) -> bool:
    """Whether an address is link-local, or otherwise where clouds serve instance metadata.

    Instance metadata include credentials of the machine.
    """
    ip = _without_translation(ip)
    if isinstance(ip, IPv6Address):
        ip = ip.sixtofour or ip
    return ip.is_link_local or ip in METADATA


def _normalise(rest: str) -> str:
    """Return a path and a query in their normal form; characters beyond ASCII are escaped."""
    path, mark, query = _escape.sub(_normalise_escape, quote(rest, safe=punctuation)).partition("?")
    if "/." in path:
        path = _without_dot_segments(path)
    return f"{path or '/'}{mark}{query}"


def _normalise_escape(escape: re.Match[str]) -> str:
    letter = chr(int(escape[1] or "25", 16))
    return letter if letter in UNRESERVED else f"%{ord(letter):02X}"


def _without_dot_segments(path: str) -> str:
    segments: list[str] = []
    for segment in path.split("/")[1:]:
        if segment == "..":
            del segments[-1:]
        elif segment != ".":
            segments.append(segment)
    is_folder = path.endswith(("/.", "/.."))
    return "/".join(["", *segments, *[""] * is_folder])


def _fits(segment: str, literals: list[str]) -> bool:
    """Whether a segment has these literals in this order, and between any two some characters.

    The leftmost place of each is enough; a regular expression would try all of them.
    """
    first, *others = literals
    if not others:
        return segment == first
    *middle, last = others
    if not segment.startswith(first) or not segment.endswith(last):
        return False
    end = len(first)
    for literal in middle:
        start = segment.find(literal, end + 1)
        if start < 0:
            return False
        end = start + len(literal)
    return end < len(segment) - len(last)


def _without_translation(ip: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the IPv4 address that an IPv6 address is mapped or translated to."""
    if not isinstance(ip, IPv6Address):
        return ip
    return IPv4Address(int(ip) & 0xFFFF_FFFF) if ip in NAT64 else ip.ipv4_mapped or ip


def _ipv6_address(split: SplitResult) -> IPv6Address | None:
    if not split.netloc.rpartition("@")[2].startswith("["):
        return None
    address = IPv6Address(split.hostname or "")
    if address.scope_id is not None:
        raise ValueError("has a zone, which only one machine can resolve")
    return address


def _parse_host(text: str) -> IPv4Address | str:
    """Decode and normalise a host as browsers do."""
    name = ascii_host(unquote(text, errors="strict")).removesuffix(".")
    if len(name) > MAX_HOST or not _host.fullmatch(name):
        raise ValueError("is not a host name")
    if _number.search(name):
        return IPv4Address(socket.inet_aton(name))  # also 127.1, 0x7f000001 and 2130706433
    return name


def _is_private(host: IPv4Address | IPv6Address | str) -> bool:
    if isinstance(host, str):
        _, dot, top = host.rpartition(".")
        return not dot or top in PRIVATE_NAMES or host.endswith(".home.arpa")
    return not is_public(host)
