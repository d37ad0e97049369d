"""A query string to typed values, or an InvalidParameter that names the parameter at fault."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from typing import NamedTuple
from urllib.parse import parse_qsl

from service.errors import InvalidParameter

MAX_LIMIT = 200
MAX_QUERY = 2000
MAX_INTEGER = 2**63 - 1
MAX_VALUES = 100
"""Distinct values of a parameter that may repeat: each is looked up, and shown on a page."""
DEFAULT_LIMIT = 24
PRICE = re.compile(r"[0-9]{1,100}(?:\.[0-9]{1,100})?")
BOOLEANS = ("true", "false")


class Page(NamedTuple):
    """A slice of the results."""

    limit: int
    offset: int


class Parameters:
    """The parameters of one query string; unknown ones are ignored."""

    def __init__(self, query_string: bytes) -> None:
        self._values: dict[str, list[str]] = {}
        text = query_string.decode("utf-8", "replace")
        for name, value in parse_qsl(text, keep_blank_values=True):
            self._values.setdefault(name, []).append(value)

    def discard_blank(self, name: str) -> None:
        """Treat a parameter without a value as missing."""
        if self._values.get(name) == [""]:
            del self._values[name]

    def page(self, default: int = DEFAULT_LIMIT, maximum: int = MAX_LIMIT) -> Page:
        """Return `limit`, clamped to a maximum, and `offset`."""
        limit = self.integer("limit", default, minimum=1)
        return Page(min(limit, maximum), self.integer("offset", 0, minimum=0))

    def values(self, name: str) -> list[str]:
        """Return the distinct values of a parameter that may repeat."""
        values = list(dict.fromkeys(self._values.get(name, ())))
        if len(values) > MAX_VALUES:
            message = f"{name} has {len(values):,} values; at most {MAX_VALUES} are compared"
            raise InvalidParameter(name, message)
        return values

    def texts(self, name: str) -> tuple[str, ...]:
        """Return the values of a parameter that may repeat, none of which may be empty."""
        values = self.values(name)
        if "" in values:
            raise InvalidParameter(name, f"{name} is empty; give a value, or leave it out")
        return tuple(values)

    def has_any(self, names: Iterable[str]) -> bool:
        """Return whether any of these parameters is given."""
        return not self._values.keys().isdisjoint(names)

    def flag(self, name: str) -> bool | None:
        """Return `true` or `false`, or None if the parameter is missing."""
        value = self.choice(name, BOOLEANS)
        return None if value is None else value == "true"

    def value(self, name: str) -> str | None:
        """Return any text but an empty one, or None if the parameter is missing."""
        value = self._single(name)
        if value == "":
            raise InvalidParameter(name, f"{name} is empty; give a value, or leave it out")
        return value

    def names_except(self, names: Container[str]) -> list[str]:
        """Return the names of the given parameters but for these."""
        return sorted(name for name in self._values if name not in names)

    def query(self, name: str = "q") -> str:
        """Return the words to search for, empty if they are missing or blank."""
        query = self._single(name)
        if query is None or not query.strip():
            return ""
        if len(query) > MAX_QUERY:
            message = f"{name} has {len(query)} characters; at most {MAX_QUERY} are searched"
            raise InvalidParameter(name, message)
        return query

    def integer(self, name: str, default: int, minimum: int) -> int:
        """Return a plain decimal integer in ASCII digits, clamped to 64 bits."""
        text = self._single(name)
        if text is None:
            return default
        if text.isascii() and text.isdigit():
            digits = text.lstrip("0") or "0"
            value = int(digits) if len(digits) < len(str(MAX_INTEGER)) else MAX_INTEGER
            if value >= minimum:
                return value
        raise InvalidParameter(name, f"{name} must be an integer of at least {minimum}")

    def choice(self, name: str, allowed: tuple[str, ...]) -> str | None:
        """Return one of the allowed values, or None if the parameter is missing."""
        value = self._single(name)
        return None if value is None else require(name, value, allowed)

    def price(self, name: str) -> float | None:
        """Return a decimal, or None if the parameter is missing."""
        text = self._single(name)
        if text is None:
            return None
        if not PRICE.fullmatch(text):
            raise InvalidParameter(name, f"{name} must be a decimal such as 0.05, from 0")
        return float(text)

    def facets(self, known: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names of the facets to count."""
        text = self._single("facets")
        if not text:
            return ()
        names = tuple(dict.fromkeys(text.split(",")))
        for name in names:
            require("facets", name, known)
        return names

    def _single(self, name: str) -> str | None:
        values = self._values.get(name, [])
        if len(values) > 1:
            raise InvalidParameter(name, f"{name} was given {len(values)} times; give it once")
        return values[0] if values else None


def require(name: str, value: str, allowed: tuple[str, ...]) -> str:
    """Return the value if it is allowed; raises InvalidParameter."""
    if value not in allowed:
        choices = ", ".join(choice or "empty" for choice in allowed)
        raise InvalidParameter(name, f"{name} must be one of: {choices}")
    return value
