"""URLs of feeds, of their pages and of redirects."""

from __future__ import annotations

import httpx

from indexer.errors import SourceError
from indexer.urls import DEFAULT_PORTS

MAX_SHOWN = 200  # characters of a URL that a server chose


def parse_feed_url(text: str) -> httpx.URL:
    """Parse the URL of a feed; raises SourceError unless it is http or https with a valid host."""
    try:
        url = httpx.URL(text)
        _ = url.host  # decodes IDNA, which httpx itself does later without handling the error
    except (httpx.InvalidURL, UnicodeError) as error:
        rest = text.rpartition("@")[2]  # no part of a password, wherever the syntax error is
        raise SourceError(f"{rest}: is not a valid URL; check its spelling") from error
    if url.scheme not in DEFAULT_PORTS:
        raise SourceError(f"{without_credentials(text)}: feeds are read over http and https only")
    if not url.raw_host or not 0 < origin(url)[2] < 2**16:
        raise SourceError(f"{without_credentials(text)}: is a URL without a valid host and port")
    return url


def without_credentials(text: str) -> str:
    """Return a URL without its user and password, fit for messages and reports."""
    scheme, slashes, rest = text.partition("//")
    host, slash, path = rest.partition("/")
    return f"{scheme}{slashes}{host.rpartition('@')[2]}{slash}{path}"


def origin(url: httpx.URL) -> tuple[str, str, int]:
    """Return scheme, host and port, which two URLs of one server share."""
    port = DEFAULT_PORTS[url.scheme] if url.port is None else url.port
    return url.scheme, url.raw_host.decode(), port


def page_url(url: httpx.URL, limit: int, offset: int) -> httpx.URL:
    """Return the URL of one page; all other parameters stay as written."""
    parameters = [
        parameter
        for parameter in url.query.decode().split("&")
        if parameter and parameter.partition("=")[0] not in {"limit", "offset"}
    ]
    query = "&".join([*parameters, f"limit={limit}", f"offset={offset}"])
    return url.copy_with(query=query.encode())


def redirect_target(url: httpx.URL, location: str) -> httpx.URL:
    """Resolve a `Location` header; raises SourceError for a URL that may not be requested."""
    shown = without_credentials(location)[:MAX_SHOWN]
    try:
        target = parse_feed_url(str(url.join(location)))
    except (SourceError, httpx.InvalidURL, UnicodeError) as error:
        raise SourceError(f"{url}: redirects to {shown!r}, which cannot be requested") from error
    if url.scheme == "https" and target.scheme != "https":
        raise SourceError(f"{url}: redirects from https to {shown!r}, which is not encrypted")
    return target.copy_with(userinfo=b"", fragment=None)
