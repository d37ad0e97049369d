"""URLs of feeds, of their pages and of redirects."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlencode

import httpx

from indexer.errors import SourceError
from service.urls import DEFAULT_PORTS

MAX_SHOWN = 200  # characters of a URL


def parse_feed_url(text: str) -> httpx.URL:
    """Parse the URL of a feed; raises SourceError unless it is http or https with a valid host."""
    try:
        url = httpx.URL(text)
        _ = url.host  # decodes IDNA, which httpx itself does later without handling the error
    except (httpx.InvalidURL, UnicodeError) as error:
        raise feed_error(text, "is not a valid URL; check its spelling") from error
    if url.scheme not in DEFAULT_PORTS:
        raise feed_error(text, "feeds are read over http and https only")
    if not url.raw_host or not 0 < origin(url)[2] < 2**16:
        raise feed_error(text, "is a URL without a valid host and port")
    return url


def shown_url(url: str | httpx.URL) -> str:
    """Return a URL for messages and reports: without user, password, query and fragment."""
    try:
        shown = str(httpx.URL(url).copy_with(userinfo=b"", query=None, fragment=None))
    except (httpx.InvalidURL, UnicodeError):
        rest = str(url).rpartition("@")[2]  # no part of a password, wherever the error is
        shown = re.split("[?#]", rest)[0]
    return shown[:MAX_SHOWN]


def feed_error(url: str | httpx.URL, fault: str) -> SourceError:
    """Return an error of a feed without the secrets of its URL.

    All errors of feeds are made here, as each is published: in `sources.json` and at `/readyz`.

    fault: without text of the server, which may repeat a secret of the request
    """
    return SourceError(f"{shown_url(url)}: {fault}")


def origin(url: httpx.URL) -> tuple[str, str, int]:
    """Return scheme, host and port, which two URLs of one server share."""
    port = DEFAULT_PORTS[url.scheme] if url.port is None else url.port
    return url.scheme, url.raw_host.decode(), port


def with_parameters(url: httpx.URL, parameters: Mapping[str, str | int]) -> httpx.URL:
    """Return a URL with parameters set; all others stay as written."""
    if not parameters:
        return url
    others = [
        parameter
        for parameter in url.query.decode().split("&")
        if parameter and parameter.partition("=")[0] not in parameters
    ]
    return url.copy_with(query="&".join([*others, urlencode(parameters)]).encode())


def redirect_target(url: httpx.URL, location: str) -> httpx.URL:
    """Resolve a `Location` header; raises SourceError for a URL that may not be requested."""
    shown = shown_url(location)
    try:
        target = parse_feed_url(str(url.join(location)))
    except (SourceError, httpx.InvalidURL, UnicodeError) as error:
        raise feed_error(url, f"redirects to {shown!r}, which cannot be requested") from error
    if url.scheme == "https" and target.scheme != "https":
        raise feed_error(url, f"redirects from https to {shown!r}, which is not encrypted")
    return target.copy_with(userinfo=b"", fragment=None)


def next_target(feed: httpx.URL, page: httpx.URL, link: str) -> httpx.URL:
    """Resolve the link of a page to the next one, which is on the server of the page or the feed.

    Raises SourceError for any other link.
    """
    try:
        target = parse_feed_url(str(page.join(link)))
    except (SourceError, httpx.InvalidURL, UnicodeError) as error:
        fault = f"names {shown_url(link)!r} as the next page, which cannot be requested"
        raise feed_error(feed, fault) from error
    if origin(target) not in {origin(page), origin(feed)}:
        raise feed_error(
            feed,
            f"names {shown_url(target)!r} as the next page, which has another origin (scheme, "
            "host and port); to read the feed from there, give that URL as the source",
        )
    return target.copy_with(userinfo=b"", fragment=None)
