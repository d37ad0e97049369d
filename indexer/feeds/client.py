"""One GET over HTTP: patient with faults that pass, bounded in time and bytes."""

from __future__ import annotations

import base64
import random
import ssl
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from http import HTTPStatus
from time import monotonic, sleep
from types import MappingProxyType, TracebackType
from typing import BinaryIO, Self, TypeVar

import httpcore
import httpx
from msgspec import Struct

from indexer.errors import SourceError
from indexer.feeds.gunzip import gunzip
from indexer.feeds.transport import DeadlineExceeded, Network, PrivateAddress
from indexer.feeds.url import SHOWN, origin, read_url, redirected
from indexer.options import Limits

REDIRECTS = frozenset((301, 302, 303, 307, 308))
MOST_REDIRECTS = 5
PASSING = frozenset((408, 425, 429))  # and whatever is a fault of the server
ASKED = {
    "Accept": "application/json, application/x-ndjson, */*;q=0.1",
    "Accept-Encoding": "gzip",
    "User-Agent": "ratecard-indexer",
}
NO_FEED = "check the address: those of feeds mostly end in /v1/services or /discovery/resources"
NO_CONDITIONS: Mapping[str, str] = MappingProxyType({})

Understood = TypeVar("Understood")


class Answer(Struct):
    """What a server said: 200, or 304 when there were conditions."""

    status: int
    headers: httpx.Headers


class Declined(SourceError):
    """The server will not answer this request, however often it is made."""


class TransientError(Exception):  # an attempt ends with it, and a fetch only when all of them did
    """A fault that may be gone at the next attempt, in `wait` seconds at the earliest."""

    def __init__(self, fault: str, wait: float = 0) -> None:
        super().__init__(fault)
        self.wait = wait


class PermanentError(Exception):  # a fetch ends with it, which says of what
    """A fault of an answer that will not be gone at the next attempt."""


class Fetcher:
    """Asks the server of one feed, and whoever it redirects to, under the limits of a feed.

    `url` is the address without its user and password. These are sent to its own scheme, host and
    port alone, and never shown. Private addresses are asked there alone, too: a redirect leads to
    public ones. No proxy is used, since it would hide the address that is asked in the end.
    """

    def __init__(self, address: str, limits: Limits, progress: Callable[[int], None]) -> None:
        given = read_url(address)
        self.url = given.copy_with(userinfo=b"")
        self._limits = limits
        self._progress = progress
        self._received = 0
        self._credentials = _credentials(given)
        _, host, port = origin(given)
        self._network = Network((host, port), monotonic() + limits.seconds)
        self._pool = httpcore.ConnectionPool(
            ssl_context=_trusted_authorities(), network_backend=self._network
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._pool.close()

    def start_walk(self) -> None:
        """Count bytes from here on."""
        self._received = 0

    def get(
        self,
        url: httpx.URL,
        into: BinaryIO,
        understand: Callable[[Answer], Understood],
        *,
        most: int,
        conditions: Mapping[str, str] = NO_CONDITIONS,
    ) -> Understood:
        """Write the decompressed body of a response, of at most `most` bytes, into a file.

        Returns what `understand` makes of it, which raises TransientError to have a damaged body
        fetched again, or PermanentError. Raises SourceError when attempts, time or bytes run out,
        and Declined.
        """
        attempt = 1
        while True:
            with self._explaining(url):
                try:
                    return understand(self._follow(url, into, most, conditions))
                except TransientError as fault:
                    self._wait(url, attempt, fault)
            attempt += 1

    @contextmanager
    def _explaining(self, url: httpx.URL) -> Iterator[None]:
        try:
            yield
        except DeadlineExceeded as error:
            raise SourceError(
                f"{url}: was not read to its end in the {self._limits.seconds:,g} seconds that a "
                "feed may take; try again later"
            ) from error
        except PermanentError as error:
            raise SourceError(f"{url}: {error}") from error
        except PrivateAddress as error:
            raise SourceError(
                f"{url}: redirects to {error}, which is no public address; if it is to be "
                "trusted, name it as the source"
            ) from error

    def _wait(self, url: httpx.URL, attempt: int, fault: TransientError) -> None:
        if attempt >= self._limits.attempts:
            raise SourceError(f"{url}: {fault}, at attempt {attempt} still; try again later")
        jitter = random.uniform(0.5, 1.5)  # noqa: S311  # it spreads requests and hides nothing
        wait = max(fault.wait, self._limits.backoff * 2 ** (attempt - 1) * jitter)
        if wait > self._network.remaining():
            raise SourceError(
                f"{url}: {fault}; to wait {wait:,.0f} seconds as it takes is longer than what is "
                f"left of the {self._limits.seconds:,g} that a feed may take; try again later"
            )
        sleep(wait)

    def _follow(
        self, url: httpx.URL, into: BinaryIO, most: int, conditions: Mapping[str, str]
    ) -> Answer:
        passed = [url]
        while True:
            with _passing_faults(passed[-1]), self._ask(passed[-1], conditions) as response:
                headers = httpx.Headers(response.headers)
                if response.status not in REDIRECTS:
                    _check_status(url, response.status, headers, bool(conditions))
                    self._receive(url, response, headers, into, most)
                    return Answer(response.status, headers)
            target = redirected(passed[-1], headers.get("location", ""))
            if target in passed:
                raise SourceError(f"{url}: redirects in a circle, back to {str(target)[:SHOWN]}")
            if len(passed) > MOST_REDIRECTS:
                raise SourceError(f"{url}: redirects more than {MOST_REDIRECTS} times")
            passed.append(target)

    @contextmanager
    def _ask(self, url: httpx.URL, conditions: Mapping[str, str]) -> Iterator[httpcore.Response]:
        headers = {**ASKED, **conditions}
        if self._credentials and origin(url) == origin(self.url):
            headers["Authorization"] = self._credentials
        silence = self._limits.silence
        timeouts = {"connect": silence, "read": silence, "write": silence, "pool": silence}
        target = httpcore.URL(
            scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
        )
        with self._pool.stream(
            "GET", target, headers=list(headers.items()), extensions={"timeout": timeouts}
        ) as response:
            yield response

    def _receive(
        self,
        url: httpx.URL,
        response: httpcore.Response,
        headers: httpx.Headers,
        into: BinaryIO,
        most: int,
    ) -> None:
        into.seek(0)
        into.truncate()
        body = gunzip(response.iter_stream())
        if _is_compressed(url, headers):
            body = gunzip(body)  # what was compressed for the way may be a compressed file
        for piece in body:
            self._network.remaining()
            into.write(piece)
            self._received += len(piece)
            if into.tell() > most or self._received > self._limits.bytes:
                allowed = min(most, self._limits.bytes)
                raise SourceError(f"{url}: gives more than the {allowed:,} bytes that it may")
            self._progress(len(piece))
        into.flush()


@cache
def _trusted_authorities() -> ssl.SSLContext:
    return httpx.create_ssl_context()  # reading them takes longer than many a feed


@contextmanager
def _passing_faults(url: httpx.URL) -> Iterator[None]:
    """Tell the faults of networks that may pass from those that will not."""
    try:
        yield
    except httpcore.TimeoutException as error:
        raise TransientError("does not answer in time") from error
    except (httpcore.NetworkError, httpcore.ProtocolError) as error:
        if isinstance(error.__cause__, ssl.SSLCertVerificationError):
            raise SourceError(f"{url}: the server cannot be trusted: {error}") from error
        raise TransientError(f"cannot be read: {error or type(error).__name__}") from error
    except UnicodeError as error:  # of a host name with a label of more than 63 letters
        raise SourceError(f"{url}: the host cannot be looked up: {error}") from error
    except (EOFError, zlib.error) as error:
        raise TransientError("the gzip data is damaged or cut short") from error


def _check_status(
    url: httpx.URL,
    status: int,
    headers: httpx.Headers,
    conditional: bool,
) -> None:
    if status == HTTPStatus.OK or (status == HTTPStatus.NOT_MODIFIED and conditional):
        return
    phrases = {known.value: f" {known.phrase}" for known in HTTPStatus}
    said = f"answers {status}{phrases.get(status, '')}"
    if status in PASSING or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise TransientError(said, _retry_after(headers.get("retry-after", "")))
    advice = NO_FEED if status == HTTPStatus.NOT_FOUND else "check what the server asks for"
    raise Declined(f"{url}: {said}; {advice}")


def _retry_after(text: str) -> float:
    """The seconds that a server asks to wait; 0 when it does not say."""
    if text.isascii() and text.isdecimal():
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return 0
    return max(0, (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def _is_compressed(url: httpx.URL, headers: httpx.Headers) -> bool:
    encoding: str = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in {"", "identity", "gzip", "x-gzip"}:
        raise SourceError(f"{url}: answers in the encoding {encoding}, where gzip was asked for")
    return encoding.endswith("gzip")


def _credentials(url: httpx.URL) -> str:
    if not url.userinfo:
        return ""
    return f"Basic {base64.b64encode(f'{url.username}:{url.password}'.encode()).decode()}"
