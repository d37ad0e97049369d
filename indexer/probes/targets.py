"""Targets: the endpoints of a catalogue that observations are of, by normalised URL and method."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache

from indexer.x402.endpoints import split_methods
from service.urls import ParsedUrl, find_url

NO_TARGET = -1
MAX_URLS = 2**14

_parse = lru_cache(MAX_URLS)(find_url)


class Targets:
    """The endpoints that observations may name; a URL with the same methods counts once."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}
        self._by_url: dict[str, list[int]] = defaultdict(list)
        self._methods: list[frozenset[str]] = []
        self._hosts: dict[str, int] = {}
        self._host_of = array("i")

    def __len__(self) -> int:
        return len(self._methods)

    @property
    def hosts(self) -> int:
        """The number of hosts, each with its port."""
        return len(self._hosts)

    def add(self, url: str, methods: str, given: str = "") -> int:
        """Return the number of an endpoint, which is new or known; NO_TARGET if it has no URL.

        given: another URL of the endpoint, where its own is a template
        """
        number = self.find(url, methods)
        parsed = _parse(url)
        if number == NO_TARGET and parsed is not None:
            number = self._numbers[parsed.identity, methods] = len(self)
            self._methods.append(_methods_of(methods))
            self._host_of.append(self._hosts.setdefault(parsed.domain, len(self._hosts)))
            self._by_url[parsed.identity].append(number)
        other = _parse(given) if given and number != NO_TARGET else None
        if other is not None and number not in self._by_url[other.identity]:
            self._by_url[other.identity].append(number)
        return number

    def find(self, url: str, methods: str) -> int:
        """Return the number of an endpoint, or NO_TARGET."""
        parsed = _parse(url)
        if parsed is None:
            return NO_TARGET
        return self._numbers.get((parsed.identity, methods), NO_TARGET)

    def matching(self, url: ParsedUrl, method: str) -> Iterator[int]:
        """Yield the endpoints that an observation of a URL and a method is of."""
        name = method.strip().upper() or "GET"
        for number in self._by_url.get(url.identity, ()):
            methods = self._methods[number]
            if not methods or name in methods:
                yield number

    def host_of(self, number: int) -> int:
        """Return the number of the host of an endpoint."""
        return self._host_of[number]


@lru_cache(maxsize=1024)
def _methods_of(methods: str) -> frozenset[str]:
    """Return the methods of an endpoint, none where it declares none and may have any."""
    if not methods.strip():
        return frozenset()
    return frozenset(split_methods(methods))
