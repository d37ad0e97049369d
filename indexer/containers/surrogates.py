"""Lone surrogates in JSON: the decoder refuses the whole text for one in a single record."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec import Raw

# Matches pairs and escaped backslashes too, so that neither is taken for a lone surrogate.
_surrogates = re.compile(
    rb"\\u[dD][89abAB]..\\u[dD][c-fC-F]|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL
)
REPLACEMENT = rb"\uffff"  # as long as an escape; a noncharacter, so that no URL has it


def mask_surrogates(text: bytes) -> bytes:
    """Replace lone surrogates; the length stays the same."""
    masked = bytearray(text)  # in place: `sub` would hold an object for each match
    for match in _surrogates.finditer(text):
        if match["lone"]:
            masked[match.start() : match.end()] = REPLACEMENT
    return bytes(masked)


def unmask(elements: Iterable[Raw], masked: bytes, text: bytes, offset: int) -> Iterator[bytes]:
    """Yield the elements of a masked list as `text` has them, where the list is at an offset.

    Each element starts behind the one before, at the first place where it is found.
    """
    stop = 1
    for element in elements:
        view = memoryview(element)
        start = masked.index(view, stop)
        stop = start + len(view)
        yield text[offset + start : offset + stop]
