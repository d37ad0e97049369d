"""The body of one response: a page of services or resources, or a plain file of them."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Raw, Struct

from indexer.feeds.client import CHECK_URL, PermanentError, TransientError
from indexer.text import BYTE_ORDER_MARK, MAX_RECORD, RECORD_KEYS

SERVICES = "services"
LISTS = (SERVICES, "resources", "items")
BLANKS = b" \t\r\n"


class Page(Struct):
    """Items as received, and the pagination that the server states, None where it does not.

    `total` counts the items of the feed, `limit` is the page size that the server applied, and
    `snapshot` is its `Ratecard-Snapshot` header.
    """

    items: list[Raw]
    total: int | None
    limit: int | None
    are_services: bool
    snapshot: str


_object = msgspec.json.Decoder(dict[str, Raw])
_raw = msgspec.json.Decoder(Raw)
_array = msgspec.json.Decoder(list[Raw])
_items = msgspec.json.Decoder(list[Raw] | None)  # some servers write null for an empty list
_count = msgspec.json.Decoder(int, strict=False)  # accepts a string of digits

# Matches pairs and escaped backslashes too, so that neither is taken for a lone surrogate.
_surrogates = re.compile(
    rb"\\u[dD][89abAB]..\\u[dD][c-fC-F]|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL
)
REPLACEMENT = rb"\ufffd"  # as long as the escape that it replaces


def parse_page(path: Path, max_bytes: int, snapshot: str) -> Page:
    """Parse a page after the first; raises TransientError for any other content.

    An error page is transient here, because the first page was one.
    """
    try:
        page = parse_body(path, max_bytes, snapshot)
    except PermanentError as error:
        raise TransientError(str(error)) from error
    if page is None:
        raise TransientError("is a plain file where a page is expected")
    return page


def parse_body(path: Path, max_bytes: int, snapshot: str) -> Page | None:
    """Parse a body of up to `max_bytes`; JSON lines may be longer.

    Returns None for a plain file: JSON lines, an array, or a single record. Raises TransientError
    for damaged or truncated content, and PermanentError for HTML and for JSON without a list.
    """
    with path.open("rb") as file:
        line = _first_line(file)
        start = line.lstrip(BLANKS)[:1]
        if start == b"<":
            raise PermanentError(f"is a web page and not a feed; {CHECK_URL}")
        if not start:
            raise TransientError("is empty; an empty feed is written as []")
        if start == b"{" and _is_object(line) and file.read(MAX_RECORD).strip(BLANKS):
            _check_last_line(file)
            return None
        text = _read_text(file, max_bytes)
    return _parse_text(text, snapshot, is_array=start != b"{")


def _parse_text(text: bytes, snapshot: str, *, is_array: bool) -> Page | None:
    masked = _mask_surrogates(text)
    try:
        if is_array:
            _array.decode(masked)
            return None
        page = _parse_object(_object.decode(masked), snapshot)
    except msgspec.ValidationError as error:
        raise PermanentError(f"is not a list of services or resources; {CHECK_URL}") from error
    except RecursionError as error:
        raise PermanentError("holds a value that is nested too deeply to be read") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TransientError(f"is not JSON, or cut short: {error}") from error
    if page is not None and masked is not text:
        _unmask(page, masked, text)
    return page


def _parse_object(members: dict[str, Raw], snapshot: str) -> Page | None:
    if not RECORD_KEYS.isdisjoint(members):
        return None
    name = next((name for name in LISTS if name in members), None)
    if name is None:
        raise PermanentError(f"is JSON without a list of services, resources or items; {CHECK_URL}")
    stated = dict(members)
    with suppress(msgspec.DecodeError):
        stated |= _object.decode(members.get("pagination", b"{}"))
    return Page(
        items=_items.decode(members[name]) or [],
        total=_parse_count(stated.get("total")),
        limit=_parse_count(stated.get("limit")),
        are_services=name == SERVICES,
        snapshot=snapshot,
    )


def _parse_count(text: Raw | None) -> int | None:
    try:
        count = -1 if text is None else _count.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return count if count >= 0 else None


def _first_line(file: BinaryIO) -> bytes:
    """Return the first line that is not blank, truncated after `MAX_RECORD` + 1 bytes."""
    line = file.readline(MAX_RECORD + 1).removeprefix(BYTE_ORDER_MARK)
    while line and not line.strip(BLANKS):
        line = file.readline(MAX_RECORD + 1)
    return line


def _check_last_line(file: BinaryIO) -> None:
    """Raise TransientError for a file that ends within a line, as after a lost connection."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - MAX_RECORD))
    last = file.read().rpartition(b"\n")[2]
    if last.strip(BLANKS) and not _is_object(last):
        raise TransientError("ends within a line")


def _read_text(file: BinaryIO, max_bytes: int) -> bytes:
    size = file.seek(0, os.SEEK_END)
    if size > max_bytes:
        raise PermanentError(
            f"is one JSON text of {size:,} bytes, and at most {max_bytes:,} are read at once; "
            "serve JSON lines, which may be of any length"
        )
    file.seek(0)
    return file.read().removeprefix(BYTE_ORDER_MARK)


def _mask_surrogates(text: bytes) -> bytes:
    """Replace lone surrogates in text that does not decode; the length stays the same.

    The decoder refuses the whole page for one, although only one record is invalid.
    """
    try:
        _raw.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _surrogates.sub(lambda match: REPLACEMENT if match["lone"] else match[0], text)
    return text


def _unmask(page: Page, masked: bytes, text: bytes) -> None:
    """Restore the text of the items, so that the invalid records are rejected later."""
    start = 0
    for index, item in enumerate(page.items):
        start = masked.index(bytes(item), start)
        stop = start + len(bytes(item))
        page.items[index] = Raw(text[start:stop])
        start = stop


def _is_object(line: bytes) -> bool:
    try:
        _object.decode(_mask_surrogates(line))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True
