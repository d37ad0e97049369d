"""Query strings: typed parameters, or an InvalidParameter that says which and why."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar, cast, get_args
from urllib.parse import unquote, urlencode

import msgspec
from msgspec import Struct

from service.errors import InvalidParameter
from service.search.facets import FACETS
from service.search.filters import NO_FILTERS, Filters, Sort

MAX_LIMIT = 200
MAX_QUERY = 2000
DEFAULT_LIMIT = 24
DEFAULT_TIMEFRAME = 30
MAX_DIGITS = 4000  # Python refuses to read integers of more than 4,300 digits
REMEMBERED, LONGEST_REMEMBERED = 1 << 12, 256
PRICE = re.compile(r"[0-9]{1,100}(?:\.[0-9]{1,100})?")

SORTS: tuple[Sort, ...] = get_args(Sort)
MATCHES = ("any", "all")
ENDPOINTS = ("all", "none")
INTEGRATION_TYPES = ("1P", "3P", "")
BOOLEANS = ("true", "false")
_key = msgspec.msgpack.Encoder()
NARROWING = frozenset((*FACETS, "enriched", "maxPrice", "match", "sort", "facets"))


class Page(Struct, frozen=True):
    """A run of results."""

    limit: int
    offset: int


class Listing(Struct, frozen=True, tag=True):
    """A page of the services that a query finds, or of all where there is none."""

    query: str | None
    page: Page
    narrowing: Filters
    with_endpoints: bool


class Overview(Struct, frozen=True, tag=True):
    """The totals of some days."""

    timeframe: int


class Stats(Struct, frozen=True, tag=True):
    """The series of some days."""

    timeframe: int


class Transactions(Struct, frozen=True, tag=True):
    """A page of payments."""

    page: int
    limit: int


Asked = TypeVar("Asked")


def _remembered(parse: Callable[[bytes], Asked]) -> Callable[[bytes], tuple[Asked, bytes]]:
    """Parse to what is asked and a key that is the same for all ways to ask it.

    What is asked again and again is parsed once, unless it is too long to keep.
    """

    def parse_to_key(query_string: bytes) -> tuple[Asked, bytes]:
        asked = parse(query_string)
        try:
            return asked, _key.encode(asked)
        except OverflowError:  # an offset of more than 64 bits
            return asked, repr(asked).encode()

    remembered = lru_cache(maxsize=REMEMBERED)(parse_to_key)

    @wraps(parse)
    def parse_or_remember(query_string: bytes) -> tuple[Asked, bytes]:
        short = len(query_string) <= LONGEST_REMEMBERED
        return (remembered if short else parse_to_key)(query_string)

    return parse_or_remember


@_remembered
def listing(query_string: bytes) -> Listing:
    """What is asked of the catalogue."""
    params = Params(query_string)
    return Listing(None, params.page(), params.narrowing(), params.with_endpoints())


@_remembered
def search(query_string: bytes) -> Listing:
    """What is searched."""
    params = Params(query_string)
    return Listing(params.query(), params.page(), params.narrowing(), params.with_endpoints())


@_remembered
def browse(query_string: bytes) -> Listing:
    """What the page is to show: a search if there are words, and always a page of 24."""
    params = Params(query_string)
    words = params.words()
    page = Page(DEFAULT_LIMIT, params.integer("offset", default=0, minimum=0))
    return Listing(words or None, page, params.narrowing(), with_endpoints=False)


@_remembered
def overview(query_string: bytes) -> Overview:
    """Which totals are asked for."""
    return Overview(Params(query_string).timeframe())


@_remembered
def stats(query_string: bytes) -> Stats:
    """Which series is asked for."""
    return Stats(Params(query_string).timeframe())


@_remembered
def transactions(query_string: bytes) -> Transactions:
    """Which payments are asked for."""
    params = Params(query_string)
    return Transactions(params.integer("page", default=0, minimum=0), params.limit())


def written(asked: Listing) -> str:
    """What is asked as a query string, but for its page, to which another can be added."""
    narrowing = asked.narrowing
    fields: dict[str, object] = {"q": asked.query or []}
    fields |= narrowing.facets
    fields["enriched"] = [] if narrowing.enriched is None else str(narrowing.enriched).lower()
    fields["maxPrice"] = [] if narrowing.max_price is None else f"{narrowing.max_price:f}"
    fields["match"] = "all" if narrowing.match_all else []
    fields["sort"] = [] if narrowing.sort == "relevance" else narrowing.sort
    return "".join(f"{field}&" for field in urlencode(fields, doseq=True).split("&") if field)


class Params:
    """The parameters of one request; those that nobody asks for are ignored."""

    def __init__(self, query_string: bytes) -> None:
        self._values: dict[str, list[str]] = {}
        for field in query_string.decode("utf-8", "replace").split("&"):
            if field:
                name, _, value = field.partition("=")
                self._values.setdefault(_plain(name), []).append(_plain(value))

    def page(self) -> Page:
        """`limit`, clamped, and `offset`."""
        return Page(self.limit(), self.integer("offset", default=0, minimum=0))

    def limit(self) -> int:
        """`limit`, clamped to 200."""
        return min(self.integer("limit", DEFAULT_LIMIT, minimum=1), MAX_LIMIT)

    def timeframe(self) -> int:
        """`timeframe` in whole days."""
        return self.integer("timeframe", DEFAULT_TIMEFRAME, minimum=1)

    def query(self) -> str:
        """`q`: plain text."""
        query = self.words()
        if not query:
            raise InvalidParameter("q", "q is required: the words to search for")
        return query

    def words(self) -> str:
        """`q`, or nothing where it is blank."""
        query = self._single("q")
        if query is None or not query.strip():
            return ""
        if len(query) > MAX_QUERY:
            raise InvalidParameter(
                "q", f"q has {len(query)} characters; at most {MAX_QUERY} are searched"
            )
        return query

    def with_endpoints(self) -> bool:
        """Whether services are answered with their endpoints."""
        return self._choice("endpoints", ENDPOINTS, "all") == "all"

    def narrowing(self) -> Filters:
        """The conditions, the order and the facets that are asked for."""
        if NARROWING.isdisjoint(self._values):
            return NO_FILTERS
        enriched = self._choice("enriched", BOOLEANS, "")
        return Filters(
            facets={name: self._facet(name) for name in FACETS if name in self._values},
            enriched=enriched == "true" if enriched else None,
            max_price=self._max_price(),
            match_all=self._choice("match", MATCHES, "any") == "all",
            sort=cast("Sort", self._choice("sort", SORTS, "relevance")),
            counted=self._counted(),
        )

    def integer(self, name: str, default: int, minimum: int) -> int:
        """A plain decimal integer in ASCII digits."""
        text = self._single(name)
        if text is None:
            return default
        plain = text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS
        if not plain or (value := int(text)) < minimum:
            raise InvalidParameter(name, f"{name} must be an integer of at least {minimum}")
        return value

    def _facet(self, name: str) -> list[str]:
        values = self._values[name]
        if name == "integrationType":
            for value in values:
                _require(name, value.upper(), INTEGRATION_TYPES)
        return values

    def _max_price(self) -> float | None:
        text = self._single("maxPrice")
        if text is None:
            return None
        if not PRICE.fullmatch(text):
            raise InvalidParameter("maxPrice", "maxPrice must be a decimal such as 0.05, from 0")
        return float(text)

    def _counted(self) -> tuple[str, ...]:
        text = self._single("facets")
        if not text:
            return ()
        names = tuple(dict.fromkeys(text.split(",")))
        for name in names:
            _require("facets", name, tuple(FACETS))
        return names

    def _choice(self, name: str, allowed: tuple[str, ...], default: str) -> str:
        value = self._single(name)
        return default if value is None else _require(name, value, allowed)

    def _single(self, name: str) -> str | None:
        values = self._values.get(name, [])
        if len(values) > 1:
            raise InvalidParameter(name, f"{name} was given {len(values)} times; give it once")
        return values[0] if values else None


def _plain(text: str) -> str:
    if "%" in text or "+" in text:
        # Most often nothing else is quoted, and to find that out is a tenth of unquoting.
        text = text.replace("+", " ").replace("%20", " ")
        return unquote(text) if "%" in text else text
    return text


def _require(name: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        choices = ", ".join(choice or "empty" for choice in allowed)
        raise InvalidParameter(name, f"{name} must be one of: {choices}")
    return value
