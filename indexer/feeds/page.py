"""The body of one response: a page of services or resources, or a plain file of them."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import httpx
import msgspec
from msgspec import Struct

from indexer.feeds.client import CHECK_URL, PermanentError, TransientError
from indexer.intake.forms import NoList, known_members
from indexer.intake.lists import BeyondBounds, DamagedText, ItemList, open_list
from indexer.intake.pagination import StatedPagination, read_pagination
from indexer.intake.splitting import mask_surrogates
from indexer.options import Kind
from indexer.text import BYTE_ORDER_MARK, MAX_RECORD, RECORD_KEYS

PAGE_ITEMS = 200_000
"""Maximum number of items on a page; each takes some 300 bytes of memory besides its text."""
PREFIX = 1024  # bytes in which a web page is recognised
NOT_A_LIST = f"is not a list of services or resources; {CHECK_URL}"


class Page(Struct):
    """Items as received, and what the server states of the next page.

    next: URL of the next page as the server writes it, or empty
    url: of this page
    snapshot: the `Ratecard-Snapshot` header
    """

    items: list[bytes]
    pagination: StatedPagination
    next: str
    url: httpx.URL
    snapshot: str


class PlainFile(Struct):
    """JSON lines (`is_lines`), an array or a single record: a list without pages."""

    is_lines: bool


def parse_page(path: Path, max_bytes: int, response: httpx.Response) -> Page:
    """Parse a page after the first; raises TransientError for any other content.

    An error page is transient here, because the first page was one.
    """
    try:
        page = parse_body(path, max_bytes, response)
    except PermanentError as error:
        raise TransientError(str(error)) from error
    if isinstance(page, PlainFile):
        raise TransientError("is a plain file where a page is expected")
    return page


def parse_body(
    path: Path, max_bytes: int, response: httpx.Response, kind: Kind | None = None
) -> Page | PlainFile:
    """Parse a body of up to `max_bytes`, of a declared kind; JSON lines may be longer.

    Raises TransientError for damaged or truncated content, and PermanentError for HTML and for
    JSON without a list.
    """
    with path.open("rb") as file:
        if file.peek(PREFIX).removeprefix(BYTE_ORDER_MARK).lstrip().startswith(b"<"):
            raise PermanentError(f"is a web page and not a feed; {CHECK_URL}")
        try:
            container = open_list(file, max_bytes, kind)
        except NoList as error:
            raise PermanentError(f"{error}; {CHECK_URL}") from error
        except BeyondBounds as error:
            raise PermanentError(str(error)) from error
        except DamagedText as error:
            raise TransientError(f"is not JSON, or cut short: {error}") from error
        if container.is_lines:
            _check_lines(container.items, file)
        if not container.key:
            return PlainFile(container.is_lines)
        return _read_page(container, response)


def _read_page(container: ItemList, response: httpx.Response) -> Page:
    items = [text for _, text in islice(container.items, PAGE_ITEMS + 1)]
    if len(items) > PAGE_ITEMS:
        raise PermanentError(f"has more than {PAGE_ITEMS:,} items on one page")
    link = response.links.get("next", {}).get("url", "")
    pagination = read_pagination(container.beside, link)
    return Page(
        items=items,
        pagination=pagination,
        next=pagination.next,
        url=response.url,
        snapshot=response.headers.get("ratecard-snapshot", ""),
    )


def _check_lines(lines: Iterator[tuple[str, bytes]], file: io.BufferedReader) -> None:
    """Raise TransientError for lines that are none, or cut short as after a lost connection."""
    _, first = next(lines)
    keys = _keys(first)
    if next(lines, None) is None:
        if RECORD_KEYS.isdisjoint(keys):
            raise PermanentError(NOT_A_LIST)
        return
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - MAX_RECORD))
    last = file.read().rpartition(b"\n")[2]
    if last.strip():
        try:
            _keys(last)
        except (TransientError, PermanentError) as error:
            raise TransientError("ends within a line") from error


def _keys(line: bytes) -> set[str]:
    """Return the keys with a meaning of an object on one line."""
    try:
        return set(known_members(mask_surrogates(line)))
    except (msgspec.ValidationError, RecursionError) as error:
        raise PermanentError(NOT_A_LIST) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TransientError(f"is not JSON, or cut short: {error}") from error
