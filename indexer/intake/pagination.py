"""Pagination as servers state it: how many items there are, and the way to the next page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from indexer.intake.forms import pairs

# Names are compared in lower case, without `_` and `-`. Of each group the first that has a value of
# the right type counts.
TOTALS = ("total", "totalitems", "totalcount", "totalresults", "count")
CURSORS = ("nextcursor", "nextpagetoken", "nextpagecursor", "nexttoken", "continuationtoken")
CURSOR = "cursor"
END_CURSOR = "endcursor"
FLAGS = ("hasmore", "hasnextpage", "hasnext", "more", "partialresults")
PAGES = ("pages", "totalpages", "pagecount")
LIMITS = ("limit", "pagesize", "perpage")
NUMBERS = ("page", "currentpage", "pagenumber")
NEXT = ("next", "nextpage", "nexturl", "nextlink", "nextpageurl")
PLACES = frozenset(
    ("meta", "metadata", "links", "link", "pagination", "paging", "pageinfo", "responsemetadata")
)
"""Names of objects that may state pagination, also one within another; the last one counts."""
LOOKS_LIKE_MORE = frozenset(("next", "cursor", "token", "more", "after", "continuation"))
"""Words of the names of members that may lead to more items."""
LOOKS_BACK = frozenset(("prev", "previous", "start", "first", "before", "current", "last", "self"))
MAX_MEMBERS = 100
MAX_VALUE = 2**16  # bytes
DEPTH = 3
NOTHING: tuple[Any, ...] = (None, False, 0, "", "0", [], {})

_words = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
_url_start = re.compile(r"[A-Za-z][\w+.-]*://|[/?]")
_value = msgspec.json.Decoder()


class Continuation(NamedTuple):
    """A parameter of the next request and its value, as a member of a page states it."""

    parameter: str
    value: str


class StatedPagination(Struct, frozen=True):
    """The pagination that a page states, None or empty where it does not.

    total: items of all pages
    limit: the page size that the server applied
    page, pages: number of this page, and of all pages
    cursor: of the next page
    next: URL of the next page, absolute or relative
    more: whether there are more pages
    promises: names of members that lead to more items, followed or not
    """

    total: int | None = None
    limit: int | None = None
    offset: int | None = None
    page: int | None = None
    pages: int | None = None
    cursor: Continuation | None = None
    next: str = ""
    more: bool | None = None
    promises: tuple[str, ...] = ()

    @property
    def last_page(self) -> int | None:
        """The number of pages, from the total where it is not stated."""
        if self.pages is None and self.total is not None and self.limit:
            return -(-self.total // self.limit)
        return self.pages


NONE = StatedPagination()


def read_pagination(beside: bytes, link: str = "") -> StatedPagination:
    """Return the pagination that an envelope states.

    beside: the envelope without its list
    link: URL of the next page by a header, which comes before those of the envelope
    """
    members = dict(_members(beside, DEPTH)) if beside else {}
    stated = {_fold(name): (name, value) for name, value in members.items()}
    more = _flag(stated)
    target = link or next(filter(None, (_target(stated.get(name)) for name in NEXT)), "")
    is_url = bool(link) or _url_start.match(target) is not None or _is_link(stated)
    cursor = _cursor(stated, more=more)
    if cursor is None and target and not is_url:
        cursor = Continuation(CURSOR, target)
    return StatedPagination(
        total=_number(stated, TOTALS),
        limit=_number(stated, LIMITS),
        offset=_number(stated, ("offset",)),
        page=_number(stated, NUMBERS),
        pages=_number(stated, PAGES),
        cursor=cursor,
        next=target if is_url else "",
        more=more,
        promises=tuple(name for name, value in members.items() if _promises(name, value, more)),
    )


def describe_shortfall(total: int | None, received: int) -> str:
    """Return a remark on a list that is shorter than its stated total, or an empty string."""
    if total is None or received >= total:
        return ""
    return f"states a total of {total:,} items and gives {received:,}"


StatedMembers = dict[str, tuple[str, Any]]
"""The names and values of members by their folded names."""


def _members(text: bytes, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield the members that may state pagination, and after them those of objects of PLACES."""
    inner = []
    for number, (name, raw) in enumerate(pairs(text)):
        if len(raw) > MAX_VALUE or number > MAX_MEMBERS * MAX_MEMBERS:
            continue
        folded = _fold(name)
        if folded in PLACES and depth and raw.startswith(b"{"):
            inner.append(raw)
        elif folded in PLACES and raw.startswith(b"["):
            yield from _links(raw)
        elif folded in _KNOWN or not LOOKS_LIKE_MORE.isdisjoint(words_of(name)):
            try:
                yield name, _value.decode(raw)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
    for raw in inner:
        yield from _members(raw, depth - 1)


def _links(text: bytes) -> Iterator[tuple[str, Any]]:
    """Yield the link to the next page in a list of links."""
    try:
        links = _value.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    for link in links:
        if isinstance(link, dict) and "next" in (link.get("rel"), link.get("relation")):
            yield "next", link


def words_of(name: str) -> set[str]:
    """Return the words of the name of a member, in lower case."""
    return {word.lower() for word in _words.findall(name)}


def _promises(name: str, value: Any, more: bool | None) -> bool:
    """Whether a member looks as if more items followed; an end cursor alone does not."""
    words, folded = words_of(name), _fold(name)
    if folded in FLAGS:
        return value not in NOTHING and value != "false"
    if value in NOTHING or not LOOKS_BACK.isdisjoint(words) or LOOKS_LIKE_MORE.isdisjoint(words):
        return False
    return folded != END_CURSOR or more is not False


def _cursor(stated: StatedMembers, *, more: bool | None) -> Continuation | None:
    """Return the parameter that asks for the next page, named after the member that states it."""
    names = (*CURSORS, CURSOR, *([] if more is False else [END_CURSOR]), "nextoffset", "after")
    for name in names:
        given, value = stated.get(name, ("", None))
        if isinstance(value, bool) or not isinstance(value, (str, int)) or value in NOTHING:
            continue
        if name in {"endcursor", "after"}:
            return Continuation("after", str(value))
        parameter = re.sub("^next[_-]?", "", given, flags=re.IGNORECASE)
        return Continuation(parameter[:1].lower() + parameter[1:], str(value))
    page = stated.get("nextpage", ("", None))[1]
    return Continuation("page", str(page)) if type(page) is int and page else None


def _target(member: tuple[str, Any] | None) -> str:
    """Return the URL, or the opaque text, of a member that names the next page."""
    value = None if member is None else member[1]
    if isinstance(value, dict):
        value = value.get("href") or value.get("url")
    return value if isinstance(value, str) else ""


def _is_link(stated: StatedMembers) -> bool:
    return any(isinstance(stated.get(name, ("", None))[1], dict) for name in NEXT)


def _number(stated: StatedMembers, names: Sequence[str]) -> int | None:
    """Return the first count, which may be a string of digits."""
    for name in names:
        value = stated.get(name, ("", None))[1]
        if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 16:
            return int(value)
        if type(value) is int and value >= 0:
            return value
    return None


def _flag(stated: StatedMembers) -> bool | None:
    values = (stated.get(name, ("", None))[1] for name in FLAGS)
    flags = {True: True, False: False, "true": True, "false": False}
    return next(
        (flags[each] for each in values if isinstance(each, (bool, str)) and each in flags), None
    )


def _fold(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


_KNOWN = frozenset(
    (
        *(*TOTALS, *CURSORS, CURSOR, END_CURSOR, *FLAGS, *PAGES, *NEXT, *LIMITS, *NUMBERS),
        *("offset", "nextoffset"),
    )
)
