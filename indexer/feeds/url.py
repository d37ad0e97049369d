"""Addresses of feeds and of their pages: which can be asked, and what of them may be shown."""

from __future__ import annotations

import httpx

from indexer.errors import SourceError

PORTS = {"http": 80, "https": 443}
SHOWN = 200


def read_url(address: str) -> httpx.URL:
    """The address of a feed; raises SourceError when it is none that can be asked."""
    try:
        url = httpx.URL(address)
    except httpx.InvalidURL as error:
        without_user = address.rpartition("@")[2]  # wherever the fault makes the password end
        raise SourceError(f"{without_user}: is no URL; check how it is written") from error
    if url.scheme not in PORTS:
        raise SourceError(f"{shown(address)}: feeds are read over http and https alone")
    if not url.raw_host or not 0 < origin(url)[2] < 2**16:
        raise SourceError(f"{shown(address)}: is no URL with a host and a port that there can be")
    return url


def shown(address: str) -> str:
    """A URL as it may be shown and stored: without user and password."""
    scheme, slashes, rest = address.partition("//")
    host, slash, path = rest.partition("/")
    return f"{scheme}{slashes}{host.rpartition('@')[2]}{slash}{path}"


def origin(url: httpx.URL) -> tuple[str, str, int]:
    """Scheme, host and port: what has to be the same to be the same server."""
    return url.scheme, url.raw_host.decode(), PORTS[url.scheme] if url.port is None else url.port


def page_url(url: httpx.URL, limit: int, offset: int) -> httpx.URL:
    """The address of one page; other parameters stay as they are written."""
    given = url.query.decode().split("&")
    kept = [one for one in given if one and one.partition("=")[0] not in {"limit", "offset"}]
    query = "&".join([*kept, f"limit={limit}", f"offset={offset}"])
    return url.copy_with(query=query.encode())


def redirected(url: httpx.URL, location: str) -> httpx.URL:
    """Where an answer of `url` points to; raises SourceError where nobody should go."""
    if not location:
        raise SourceError(f"{url}: redirects without saying where to")
    there = shown(location)[:SHOWN]
    try:
        target = read_url(str(url.join(location)))
    except (SourceError, httpx.InvalidURL) as error:
        raise SourceError(f"{url}: redirects to {there!r}, which cannot be asked") from error
    if url.scheme == "https" and target.scheme != "https":
        raise SourceError(f"{url}: redirects from https to {there!r}, which is not secure")
    return target.copy_with(userinfo=b"", fragment=None)
