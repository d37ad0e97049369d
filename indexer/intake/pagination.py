"""Pagination as servers state it: how many items there are, and the way to the next page."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from indexer.intake.forms import pairs

# Names are compared in lower case, without `_` and `-`. Of each group the first that has a value of
# the right type counts.
COUNTS = {
    "total": (
        *("total", "totalitems", "totalcount", "totalresults", "totalelements", "totalrecords"),
        *("totalhits", "totalresources", "numfound", "count"),
    ),
    "limit": ("limit", "pagesize", "perpage"),
    "offset": ("offset",),
    "page": ("page", "currentpage", "pagenumber", "number"),
    "pages": ("pages", "totalpages", "pagecount", "lastpage"),
}
CURSORS = (
    *("nextcursor", "nextpagetoken", "nextpagecursor", "nexttoken", "continuationtoken"),
    *("cursor", "endcursor", "nextoffset", "after", "continue", "scrollid", "bookmark"),
    *("marker", "nextmarker"),
)
FLAGS = ("hasmore", "hasnextpage", "hasnext", "more", "partialresults")
ENDS = ("last", "islast", "islastpage")
"""Flags that are false where there are more pages."""
PROMISES = frozenset(
    (
        *("lastevaluatedkey", "incompleteresults", "truncated", "istruncated", "remaining"),
        *("remainingitemcount", "moreitems", "pagetoken"),
    )
)
"""Members that tell of more items, and not how they are requested."""
NEXT = ("next", "nextpage", "nexturl", "nextlink", "nextpageurl")
PLACES = frozenset(
    (
        *("meta", "metadata", "links", "link", "pagination", "paging", "pageinfo"),
        *("responsemetadata", "page", "cursors", "info", "resultinfo", "response", "summary"),
    )
)
"""Names of objects that may state pagination, also one within another; the last one counts."""
LOOKS_LIKE_MORE = frozenset(("next", "cursor", "token", "more", "after", "continuation"))
"""Words of the names of members that may lead to more items."""
LOOKS_BACK = frozenset(("prev", "previous", "start", "first", "before", "current", "last", "self"))
MAX_MEMBERS = 10_000
MAX_DIGITS = 16
END_CURSOR = "endcursor"
MAX_VALUE = 2**16  # bytes
DEPTH = 3
TOO_LONG = {"is": "longer than a value that is read"}
NOTHING: tuple[Any, ...] = (None, False, 0, "", "0", [], {})

T = TypeVar("T")

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


def read_pagination(beside: bytes, link: str = "", total: str = "") -> StatedPagination:
    """Return the pagination that an envelope states.

    beside: the envelope without its list
    link: URL of the next page by a header, which comes before those of the envelope
    total: the number of items by a header, for a list without an envelope
    """
    members = dict(_members(beside, DEPTH)) if beside else {"total": total}
    stated = {_fold(name): (name, value) for name, value in members.items()}

    def first(names: Iterable[str], read: Callable[[Any], T | None]) -> T | None:
        found = (read(stated[name][1]) for name in names if name in stated)
        return next((each for each in found if each is not None), None)

    more = first(FLAGS, _flag)
    if more is None and (is_last := first(ENDS, _flag)) is not None:
        more = not is_last
    target = link or first(NEXT, _target) or ""
    is_object = any(isinstance(stated[name][1], dict) for name in NEXT if name in stated)
    is_url = bool(link) or is_object or _url_start.match(target) is not None
    cursor = _cursor(stated, more=more)
    if cursor is None and target and not is_url:
        cursor = Continuation("cursor", target)
    return StatedPagination(
        **{field: first(names, _count) for field, names in COUNTS.items()},
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
    for name, raw in islice(pairs(text), MAX_MEMBERS):
        folded = _fold(name)
        is_known = folded in _KNOWN or not LOOKS_LIKE_MORE.isdisjoint(words_of(name))
        if len(raw) > MAX_VALUE or not (folded in PLACES or is_known):
            if is_known:
                yield name, TOO_LONG
            continue
        if folded in PLACES and raw.startswith(b"{"):
            inner += [raw] * bool(depth)
            continue
        try:
            value = _value.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        if folded not in PLACES or not isinstance(value, list):
            yield name, value
        for link in value if folded in PLACES and isinstance(value, list) else ():
            if isinstance(link, dict) and "next" in (link.get("rel"), link.get("relation")):
                yield "next", link
    for raw in inner:
        yield from _members(raw, depth - 1)


def words_of(name: str) -> set[str]:
    """Return the words of the name of a member, in lower case."""
    return {word.lower() for word in _words.findall(name)}


def _promises(name: str, value: Any, more: bool | None) -> bool:
    """Whether a member looks as if more items followed; an end cursor alone does not."""
    words, folded = words_of(name), _fold(name)
    if folded in FLAGS or folded in PROMISES:
        return value not in NOTHING and value != "false"
    if folded in ENDS:
        return _flag(value) is False
    if value in NOTHING or not LOOKS_BACK.isdisjoint(words) or LOOKS_LIKE_MORE.isdisjoint(words):
        return False
    return folded != END_CURSOR or more is not False


def _cursor(stated: StatedMembers, *, more: bool | None) -> Continuation | None:
    """Return the parameter that asks for the next page, named after the member that states it."""
    for name in CURSORS:
        given, value = stated.get(name, ("", None))
        is_text = isinstance(value, (str, int)) and not isinstance(value, bool)
        if not is_text or value in NOTHING or (name == END_CURSOR and more is False):
            continue
        if name in {END_CURSOR, "after"}:
            return Continuation("after", str(value))
        parameter = re.sub("^next[_-]?", "", given, flags=re.IGNORECASE)
        return Continuation(parameter[:1].lower() + parameter[1:], str(value))
    page = stated.get("nextpage", ("", None))[1]
    return Continuation("page", str(page)) if type(page) is int and page else None


def _target(value: Any) -> str | None:
    """Return the URL, or the opaque text, of a member that names the next page."""
    if isinstance(value, dict):
        value = value.get("href") or value.get("url")
    return value if isinstance(value, str) and value else None


def _count(value: Any) -> int | None:
    """Return a count, which may be a string of digits, or the value of an object."""
    if isinstance(value, dict):
        value = value.get("value")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    value = value.strip() if isinstance(value, str) else value
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < MAX_DIGITS:
        return int(value)
    return value if type(value) is int and value >= 0 else None


def _flag(value: Any) -> bool | None:
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value)
    return value if isinstance(value, bool) else None


def _fold(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


_KNOWN = frozenset((*chain(*COUNTS.values()), *CURSORS, *FLAGS, *NEXT, *ENDS, *PROMISES))
