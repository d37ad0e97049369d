"""One answer of a feed: a page of services or resources, or a plain file of them."""

from __future__ import annotations

import os
import re
from typing import BinaryIO

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from indexer.feeds.client import NO_FEED, PermanentError, TransientError
from indexer.sources.records import BYTE_ORDER_MARK, MAX_RECORD, RECORD_KEYS

SERVICES = "services"
LISTS = (SERVICES, "resources", "items")
RESOURCE_KEYS = frozenset(("resource", "accepts"))
BLANKS = b" \t\r\n"


class Page(Struct):
    """Items as they came, and what the server says of all of them, if it does.

    `limit` is what the server says that it applied, `snapshot` what it says that the page is of.
    """

    items: list[Raw]
    total: int | None
    limit: int | None
    are_services: bool
    snapshot: str = ""


class Pagination(Struct):
    """Where a page stands; values are looked at one by one, so that a bad one spoils no other."""

    total: Raw | UnsetType = UNSET
    limit: Raw | UnsetType = UNSET


_object = msgspec.json.Decoder(dict[str, Raw])
_anything = msgspec.json.Decoder(Raw)
_list = msgspec.json.Decoder(list[Raw])
_items = msgspec.json.Decoder(list[Raw] | None)  # some servers have null for an empty list
_pagination = msgspec.json.Decoder(Pagination)
_count = msgspec.json.Decoder(int, strict=False)  # a string of digits will do

# Surrogates come in pairs, and what looks like one may be the end of an escaped backslash.
_surrogates = re.compile(
    rb"\\u[dD][89abAB]..\\u[dD][c-fC-F]|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL
)
MASK = rb"\ufffd"


def read_page(file: BinaryIO, most: int) -> Page:
    """The page in this file, of which more follow; raises TransientError when there is none.

    Whatever is there instead may pass, since there was a page before it.
    """
    try:
        page = recognise(file, most)
    except PermanentError as fault:
        raise TransientError(str(fault)) from fault
    if page is None:
        raise TransientError("is a file where a page should follow")
    return page


def recognise(file: BinaryIO, most: int) -> Page | None:
    """The page in this file, or None for a plain file: lines, an array, or a lone record.

    Of a file of more than `most` bytes only lines can be told. Raises TransientError for damaged
    or truncated content, and PermanentError for a web page and for JSON without a list.
    """
    first = _first_line(file)
    start = first.lstrip(BLANKS)[:1]
    if start == b"<":
        raise PermanentError(f"is a web page, no feed; {NO_FEED}")
    if not start:
        raise TransientError("is empty; an empty feed is written as []")
    if start == b"{" and _is_object(first) and file.read(MAX_RECORD).strip(BLANKS):
        _check_last_line(file)
        return None
    text = _whole(file, most)
    readable = _readable(text)
    try:
        if start != b"{":
            _list.decode(readable)
            return None
        page = _page(_object.decode(readable))
    except msgspec.ValidationError as error:
        raise PermanentError(f"is no list of services or resources; {NO_FEED}") from error
    except RecursionError as error:
        raise PermanentError("a value is nested too deeply to be read") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TransientError(f"is no JSON, or cut short: {error}") from error
    if page is not None and readable is not text:
        _unmask(page, readable, text)
    return page


def _page(members: dict[str, Raw]) -> Page | None:
    if not RECORD_KEYS.isdisjoint(members) or not RESOURCE_KEYS.isdisjoint(members):
        return None
    for name in LISTS:
        if name in members:
            pagination = _outline(members)
            return Page(
                items=_items.decode(members[name]) or [],
                total=_number(pagination.total),
                limit=_number(pagination.limit),
                are_services=name == SERVICES,
            )
    raise PermanentError(f"is JSON without a list of services, resources or items; {NO_FEED}")


def _outline(members: dict[str, Raw]) -> Pagination:
    given = Pagination(members.get("total", UNSET), members.get("limit", UNSET))
    try:
        nested = _pagination.decode(members.get("pagination", Raw(b"{}")))
    except msgspec.DecodeError:
        return given
    return Pagination(
        given.total if nested.total is UNSET else nested.total,
        given.limit if nested.limit is UNSET else nested.limit,
    )


def _number(given: Raw | UnsetType) -> int | None:
    try:
        number = 0 if given is UNSET else _count.decode(given)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return number if given is not UNSET and number >= 0 else None


def _first_line(file: BinaryIO) -> bytes:
    """The first line that is not blank, of at most a little more than a record may have."""
    file.seek(0)
    line = file.readline(MAX_RECORD + 1).removeprefix(BYTE_ORDER_MARK)
    while line and not line.strip(BLANKS):
        line = file.readline(MAX_RECORD + 1)
    return line


def _check_last_line(file: BinaryIO) -> None:
    """Raise TransientError when the file ends within a line, as after a lost connection."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - MAX_RECORD))
    last = file.read().rpartition(b"\n")[2]
    if last.strip(BLANKS) and not _is_object(last):
        raise TransientError("ends within a line")


def _readable(text: bytes) -> bytes:
    """The text, with other characters, as long, for lone surrogates.

    One would end the decoder where it only spoils one record.
    """
    try:
        _anything.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _surrogates.sub(lambda found: MASK if found["lone"] else found[0], text)
    return text


def _unmask(page: Page, masked: bytes, text: bytes) -> None:
    """Give the items the text that they came with, so that the faulty ones can be told."""
    start = 0
    for index, item in enumerate(page.items):
        start = masked.index(bytes(item), start)
        stop = start + len(bytes(item))
        page.items[index] = Raw(text[start:stop])
        start = stop


def _is_object(line: bytes) -> bool:
    try:
        _object.decode(_readable(line))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _whole(file: BinaryIO, most: int) -> bytes:
    size = file.seek(0, os.SEEK_END)
    if size > most:
        raise PermanentError(
            f"is one JSON text of {size:,} bytes, more than the {most:,} that can be read at "
            "once; JSON lines may be of any length"
        )
    file.seek(0)
    return file.read().removeprefix(BYTE_ORDER_MARK)
