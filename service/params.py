"""Query strings: typed parameters, or an InvalidParameter that says which and why."""

from __future__ import annotations

from urllib.parse import parse_qs

from msgspec import Struct

from service.errors import InvalidParameter

MAX_LIMIT = 200
MAX_QUERY = 2000
DEFAULT_LIMIT = 24
DEFAULT_TIMEFRAME = 30
MAX_DIGITS = 4000  # Python refuses to read integers of more than 4,300 digits


class Page(Struct, frozen=True):
    """A run of results."""

    limit: int
    offset: int


class Params:
    """The parameters of one request; those that nobody asks for are ignored."""

    def __init__(self, query_string: bytes) -> None:
        self._values = parse_qs(query_string.decode("utf-8", "replace"), keep_blank_values=True)

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
        query = self._single("q")
        if query is None or not query.strip():
            raise InvalidParameter("q", "q is required: the words to search for")
        if len(query) > MAX_QUERY:
            raise InvalidParameter(
                "q", f"q has {len(query)} characters; at most {MAX_QUERY} are searched"
            )
        return query

    def integer(self, name: str, default: int, minimum: int) -> int:
        """A plain decimal integer in ASCII digits."""
        text = self._single(name)
        if text is None:
            return default
        plain = text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS
        if not plain or (value := int(text)) < minimum:
            raise InvalidParameter(name, f"{name} must be an integer of at least {minimum}")
        return value

    def _single(self, name: str) -> str | None:
        values = self._values.get(name, [])
        if len(values) > 1:
            raise InvalidParameter(name, f"{name} was given {len(values)} times; give it once")
        return values[0] if values else None
