"""Pagination as servers state it, beside the list or under `pagination`, `meta` or `links`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, defstruct

from indexer.containers.documents import KEYS, OTHER_KEYS
from indexer.text import RECORD_KEYS

LIST_KEYS = ("services", "resources", "items")
"""Keys of the list of an envelope; the first of these that an envelope has is its list."""

# Of each group the first key with a value of the right type counts.
TOTALS = ("total", "totalItems", "total_items", "totalCount", "total_count", "count")
CURSORS = ("nextCursor", "next_cursor", "cursor")
FLAGS = ("hasMore", "has_more", "hasNextPage", "has_next", "partialResults")
PAGES = ("pages", "totalPages", "total_pages", "pageCount")
PLACES = ("meta", "links", "_links", "pagination")
"""Keys of objects that may state pagination; the last one takes precedence."""

_url_start = re.compile(r"[A-Za-z][\w+.-]*://|[/?]")

T = TypeVar("T")


class StatedPagination(Struct, frozen=True):
    """The pagination that a page states, None or empty where it does not.

    total: items of all pages
    limit: the page size that the server applied
    page, pages: number of this page, and of all pages
    cursor: of the next page
    next: URL of the next page, absolute or relative
    more: whether there are more pages
    """

    total: int | None = None
    limit: int | None = None
    offset: int | None = None
    page: int | None = None
    pages: int | None = None
    cursor: str = ""
    next: str = ""
    more: bool | None = None

    @property
    def last_page(self) -> int | None:
        """The number of pages, from the total where it is not stated."""
        if self.pages is None and self.total is not None and self.limit:
            return -(-self.total // self.limit)
        return self.pages

    @property
    def promises_more(self) -> bool:
        """Whether a page says that another one follows; a total alone does not say so."""
        by_number = self.page is not None and self.page < (self.pages or 0)
        return bool(self.next or self.cursor or self.more or by_number)


NONE = StatedPagination()


class _Link(Struct):
    href: str = ""
    url: str = ""


# A Struct, since a mapping would hold any number of keys of a hostile text.
_NAMES = (
    *LIST_KEYS,
    *RECORD_KEYS,
    *KEYS,
    *OTHER_KEYS,
    *TOTALS,
    *CURSORS,
    *FLAGS,
    *PAGES,
    *PLACES,
    "limit",
    "offset",
    "page",
    "next",
)
_PageMembers = defstruct("_PageMembers", [(name, Raw | UnsetType, UNSET) for name in _NAMES])
_members = msgspec.json.Decoder(_PageMembers)
_count = msgspec.json.Decoder(int, strict=False)  # accepts a string of digits
_flag = msgspec.json.Decoder(bool)
_text = msgspec.json.Decoder(str)
_link = msgspec.json.Decoder(str | _Link)


def decode_members(text: bytes | Raw) -> dict[str, Raw]:
    """Return the members of an object that have a meaning; raises the errors of msgspec."""
    members = msgspec.structs.asdict(_members.decode(text))
    return {name: value for name, value in members.items() if value is not UNSET}


def read_pagination(members: Mapping[str, Raw]) -> StatedPagination:
    """Return what the members of an envelope say of its pagination."""
    stated = dict(members)
    for place in PLACES:
        try:
            stated |= decode_members(members.get(place, Raw(b"{}")))
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
    link = _first(_link, stated, ("next",)) or ""
    target = link if isinstance(link, str) else link.href or link.url
    is_url = _url_start.match(target) is not None or not isinstance(link, str)
    return StatedPagination(
        total=_number(stated, TOTALS),
        limit=_number(stated, ("limit",)),
        offset=_number(stated, ("offset",)),
        page=_number(stated, ("page",)),
        pages=_number(stated, PAGES),
        cursor=_first(_text, stated, CURSORS) or ("" if is_url else target),
        next=target if is_url else "",
        more=_first(_flag, stated, FLAGS),
    )


def _number(stated: Mapping[str, Raw], names: Iterable[str]) -> int | None:
    number = _first(_count, stated, names)
    return number if number is not None and number >= 0 else None


def _first(
    decoder: msgspec.json.Decoder[T], stated: Mapping[str, Raw], names: Iterable[str]
) -> T | None:
    for name in names:
        try:
            return decoder.decode(stated[name])
        except (KeyError, msgspec.DecodeError, UnicodeDecodeError):
            continue
    return None
