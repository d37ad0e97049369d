"""Elements of a JSON list, found a window at a time so that memory does not depend on their number.

`list[Raw]` takes 75 bytes for each element, however short the element is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from msgspec import Raw

WINDOW = 2**19  # bytes
TAIL = 2**13  # bytes at the end of a window that are searched first
GROWTH = 8  # of the tail, where it has no end of an element

_array = msgspec.json.Decoder(list[Raw])
_key_end = re.compile(rb'(?<!\\)"\s*+:')
# Possessive, since backtracking would take quadratic time.
_token = re.compile(rb'[][{},]|"[^"\\]*+(?:\\.[^"\\]*+)*+"?+', re.DOTALL)
_DEPTHS = {b"[": 1, b"{": 1, b"]": -1, b"}": -1}


def split(text: bytes, start: int, stop: int) -> Iterator[Raw]:
    """Yield the elements of a well-formed list whose brackets are before `start` and at `stop`."""
    while start < stop:
        elements, start = _split_window(text, start, stop)
        yield from elements


def _split_window(text: bytes, start: int, stop: int) -> tuple[Iterator[Raw], int]:
    """Return the elements of a window, and the start of the next.

    The elements are an iterator, since an exhausted one keeps no list beside the next window.

    The comma that ends the window is guessed from its tail, and decoding verifies the guess: a
    prefix of the list that ends before a comma is a list only if that comma separates elements.
    """
    view = memoryview(text)
    limit, tail = start + WINDOW, TAIL
    while limit < stop:
        first = max(start, limit - tail)
        end = _last_separator(text, first, limit, is_outside=first == start)
        if end:
            try:
                return iter(_array.decode(b"".join((b"[", view[start:end], b"]")))), end + 1
            except msgspec.DecodeError:
                pass  # the tail started within a string, or lies within one element
        if first == start:  # all of the window is one element
            limit += limit - start
        tail *= GROWTH
    return iter(_array.decode(b"".join((b"[", view[start:stop], b"]")))), stop


def _last_separator(text: bytes, first: int, limit: int, *, is_outside: bool) -> int:
    """Return the place of the last comma at the lowest depth, or 0.

    Unless `first` is outside of strings, the search starts after a key.
    """
    if not is_outside:
        key = _key_end.search(text, first, limit)
        if key is None:
            return 0
        first = key.end()
    separator = depth = lowest = 0
    for token in _token.finditer(text, first, limit):
        change = _DEPTHS.get(token[0])
        if change is not None:
            depth += change
        elif token[0] == b"," and depth <= lowest:
            separator, lowest = token.start(), depth
    return separator
