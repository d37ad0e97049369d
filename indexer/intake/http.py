"""HTTP client of one source: limits, retries, redirects, decompression, and its URLs."""

from __future__ import annotations

import asyncio
import re
import ssl
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar
from urllib.parse import urlencode

import httpcore
import httpx
from stamina import AsyncRetryingCaller
from stamina.instrumentation import set_on_retry_hooks

from indexer.errors import SourceError
from indexer.intake.connections import ForbiddenAddress, Transport, check_feed, run_in_thread
from indexer.intake.lists import LIST_KINDS
from indexer.options import Kind, Limits, SourceOptions
from indexer.text import DAMAGES, decompress
from service.urls import DEFAULT_PORTS

HEADERS = {
    "Accept": "application/json, application/x-ndjson, */*;q=0.1",
    "Accept-Encoding": "gzip",
    "User-Agent": "ratecard-indexer",
}
ENCODINGS = frozenset(("", "identity", "gzip", "x-gzip"))
MAX_REDIRECTS = 5
TRANSIENT_STATUSES = frozenset((408, 425, 429))  # and 5xx
PIECE = 2**18  # bytes decompressed at a time
MAX_SHOWN = 200  # characters of a URL
CHECK_URL = "check the URL"
CHECK_PATH = f"{CHECK_URL}: feeds are mostly at /v1/services or /discovery/resources"
UNCONDITIONAL: Mapping[str, str] = MappingProxyType({})

_bytes_of_response = re.compile(r":? (?:bytearray\()?b['\"]")

Parsed = TypeVar("Parsed")

set_on_retry_hooks(())  # by default stamina logs a line without a cause on standard error


class TransientError(Exception):
    """A fault that the next attempt may not meet, in `delay` seconds if the server said so."""

    def __init__(self, fault: str, delay: float = 0) -> None:
        super().__init__(fault)
        self.delay = delay


class PermanentError(Exception):
    """A fault of a response that the next attempt would meet again."""


class FeedClient:
    """Requests to the server of one feed, and to the servers that it redirects to.

    User, password, headers and parameters of the source are sent to the origin of the feed only.

    deadline: in seconds of the clock of the event loop
    received: bytes of the walk, which `Limits.bytes` bounds; who starts another resets the count
    on_bytes: called with the length of each chunk
    """

    def __init__(
        self,
        source: SourceOptions,
        url: httpx.URL,
        limits: Limits,
        on_bytes: Callable[[int], object],
    ) -> None:
        self.deadline = asyncio.get_running_loop().time() + limits.seconds
        self.received = 0
        self._limits, self._on_bytes, self._params = limits, on_bytes, source.params
        self._kind, self._origin = source.kind, origin(url)
        self._headers = httpx.Headers(HEADERS)
        self._headers.update(source.headers)
        if url.userinfo:
            credentials = b64encode(f"{url.username}:{url.password}".encode()).decode()
            self._headers["Authorization"] = f"Basic {credentials}"
        timeouts = dict.fromkeys(("connect", "read", "write", "pool"), limits.silence)
        self._extensions = {"timeout": timeouts}
        check = partial(check_feed, feed=self._origin[1:], allow_private=limits.allow_private)
        self._transport = Transport(check)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._transport.aclose()

    async def get(
        self,
        url: httpx.URL,
        path: Path,
        parse: Callable[[httpx.Response], Parsed],
        *,
        max_bytes: int,
        conditions: Mapping[str, str] = UNCONDITIONAL,
        attempts: int | None = None,
    ) -> Parsed:
        """Write the decompressed body of a response to a file and return `parse(response)`.

        parse: runs in a thread; raises TransientError to request the body again, or PermanentError
        attempts: that of the limits unless given

        Raises SourceError when attempts or bytes run out.
        """

        async def attempt() -> Parsed:
            with _translated_errors(url):
                response = await self._fetch(url, path, max_bytes, conditions)
            return await run_in_thread(partial(parse, response))

        retry = AsyncRetryingCaller(
            attempts=attempts or self._limits.attempts,
            timeout=None,  # the deadline bounds all requests of a feed together
            wait_initial=self._limits.backoff,
            wait_jitter=self._limits.backoff,
            wait_max=self._limits.seconds,
        )
        try:
            return await retry(self._retry_delay, attempt)
        except TransientError as error:
            delay = error.delay
            advice = f" after {self._limits.attempts} attempts; try again later"
            if delay > self._remaining():
                advice = (
                    f"; the server asks to wait {delay:,.0f} seconds, which is longer than is left "
                    f"of the {self._limits.seconds:,g} that a feed may take; try again later"
                )
            raise feed_error(url, f"{error}{advice}") from error
        except (PermanentError, ForbiddenAddress) as error:
            raise feed_error(url, str(error)) from error

    def _retry_delay(self, error: Exception) -> float | bool:
        """Tell stamina how many seconds to wait: True for exponential backoff, False to give up."""
        if not isinstance(error, TransientError) or error.delay > self._remaining():
            return False
        return error.delay or True

    def _remaining(self) -> float:
        return self.deadline - asyncio.get_running_loop().time()

    async def _fetch(
        self, url: httpx.URL, path: Path, max_bytes: int, conditions: Mapping[str, str]
    ) -> httpx.Response:
        visited = [url]
        while True:
            response = await self._transport.handle_async_request(
                self._request(visited[-1], conditions)
            )
            try:
                if not response.has_redirect_location:
                    self._check_status(url, response, conditional=bool(conditions))
                    await self._receive(url, response, path, max_bytes)
                    return response
            finally:
                await response.aclose()
            target = redirect_target(visited[-1], response.headers["location"])
            if target in visited:
                raise feed_error(url, "redirects in a circle")
            if len(visited) > MAX_REDIRECTS:
                raise feed_error(url, f"redirects more than {MAX_REDIRECTS} times")
            visited.append(target)

    def _request(self, url: httpx.URL, conditions: Mapping[str, str]) -> httpx.Request:
        """Return the request of a URL, on the server of the feed with what the source sends."""
        headers = httpx.Headers(HEADERS)
        if origin(url) == self._origin:
            headers = self._headers.copy()
            given = {name: each for name, each in self._params.items() if name not in url.params}
            url = with_parameters(url, given)
        headers.update(conditions)
        return httpx.Request("GET", url, headers=headers, extensions=self._extensions)

    def _check_status(self, url: httpx.URL, response: httpx.Response, *, conditional: bool) -> None:
        status = response.status_code
        if status == HTTPStatus.OK or (status == HTTPStatus.NOT_MODIFIED and conditional):
            return
        answer = f"answers {status} {response.reason_phrase}".rstrip()
        if status in TRANSIENT_STATUSES or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise TransientError(answer, _retry_after(response.headers.get("retry-after", "")))
        if status == HTTPStatus.NOT_FOUND:
            raise feed_error(url, f"{answer}; {check_url(self._kind)}", NotFound)
        raise feed_error(url, f"{answer}; check what the server requires")

    async def _receive(
        self, url: httpx.URL, response: httpx.Response, path: Path, max_bytes: int
    ) -> None:
        """Write the body, decompressed both from its content coding and from a compressed file.

        The body is taken as received: the decoder of httpx drops the second member of gzip data,
        overlooks that it is cut short, and refuses text that is declared as gzip by mistake.
        """
        if response.headers.get("content-encoding", "").strip().lower() not in ENCODINGS:
            raise feed_error(url, "has another content coding than gzip, which was asked for")

        def check(size: int) -> None:
            if size > max_bytes or self.received + size > self._limits.bytes:
                limit = min(max_bytes, self._limits.bytes)
                raise feed_error(url, f"is longer than the {limit:,} bytes that are allowed")

        with path.open("wb") as file:
            async for chunk in response.aiter_raw():
                file.write(chunk)
                self._on_bytes(len(chunk))
                check(file.tell())
        for _ in ("content coding", "file"):
            await _decompress(path, check)
        self.received += path.stat().st_size


@contextmanager
def _translated_errors(url: httpx.URL) -> Iterator[None]:
    """Tell transient faults of a network from permanent ones."""
    try:
        yield
    except httpcore.TimeoutException as error:
        raise TransientError("does not answer in time") from error
    except (httpcore.NetworkError, httpcore.ProtocolError) as error:
        if isinstance(error.__context__, ssl.SSLCertVerificationError):
            raise feed_error(url, f"the certificate cannot be verified: {error}") from error
        fault = _bytes_of_response.split(str(error))[0]
        raise TransientError(f"cannot be read: {fault or type(error).__name__}") from error
    except DAMAGES as error:
        raise TransientError("the compressed data is damaged or cut short") from error
    except UnicodeError as error:
        raise feed_error(url, f"the host cannot be looked up: {error}") from error


def _retry_after(header: str) -> float:
    """Return the delay in seconds that a `Retry-After` header asks for, or 0."""
    if header.isascii() and header.isdecimal():
        return float(header)
    try:
        moment = parsedate_to_datetime(header)
    except (ValueError, OverflowError):
        return 0
    return max(0, (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


async def _decompress(path: Path, check: Callable[[int], None]) -> None:
    """Replace a compressed file by its content; leave any other file as it is."""
    content = path.with_name(f"{path.name}.content")
    with path.open("rb") as file, content.open("wb") as plain:
        packed = decompress(file)
        if packed is file:
            return
        # In a thread: other feeds proceed, and the deadline takes effect, however long it takes.
        while piece := await run_in_thread(partial(packed.read, PIECE)):
            plain.write(piece)
            check(plain.tell())
    content.replace(path)


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


class NotFound(SourceError):
    """A server has nothing at a URL."""


def check_url(kind: Kind | None) -> str:
    """Return advice on a URL that gives no source of this kind."""
    return CHECK_PATH if kind in {None, *LIST_KINDS} else CHECK_URL


def feed_error(
    url: str | httpx.URL, fault: str, kind: type[SourceError] = SourceError
) -> SourceError:
    """Return an error of a feed without the secrets of its URL.

    All errors of feeds are made here, as each is published: in `sources.json` and at `/readyz`.

    fault: without text of the server, which may repeat a secret of the request
    """
    return kind(f"{shown_url(url)}: {fault}")


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
    target = _resolve(url, url, location, "redirects to {}")
    if url.scheme == "https" and target.scheme != "https":
        shown = shown_url(location)
        raise feed_error(url, f"redirects from https to {shown!r}, which is not encrypted")
    return target


def next_target(feed: httpx.URL, page: httpx.URL, link: str) -> httpx.URL:
    """Resolve the link of a page to the next one, which is on the server of the page or the feed.

    Raises SourceError for any other link.
    """
    target = _resolve(feed, page, link, "names {} as the next page")
    if origin(target) not in {origin(page), origin(feed)}:
        raise feed_error(
            feed,
            f"names {shown_url(target)!r} as the next page, which has another origin (scheme, "
            "host and port); to read the feed from there, give that URL as the source",
        )
    return target


def _resolve(feed: httpx.URL, base: httpx.URL, link: str, act: str) -> httpx.URL:
    try:
        target = parse_feed_url(str(base.join(link)))
    except (SourceError, httpx.InvalidURL, UnicodeError) as error:
        fault = act.format(repr(shown_url(link)))
        raise feed_error(feed, f"{fault}, which cannot be requested") from error
    return target.copy_with(userinfo=b"", fragment=None)
