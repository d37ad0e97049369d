"""Elements of JSON lists, and members of objects, as they are written."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from contextlib import suppress

import msgspec
from msgspec import Raw

MAX_COMMAS = 2**20
"""Commas of a list that is split at once: each element takes 75 bytes, however short it is."""

_array = msgspec.json.Decoder(list[Raw])
_colon = re.compile(rb"\s*+:")
_key = msgspec.json.Decoder(str)
# Possessive, since backtracking would take quadratic time.
_token = re.compile(rb'[][{},]|"[^"\\]*+(?:\\.[^"\\]*+)*+"?+', re.DOTALL)
_pair = re.compile(rb'("[^"\\]*+(?:\\.[^"\\]*+)*+")\s*+:\s*+', re.DOTALL)
_DEPTHS = {b"[": 1, b"{": 1, b"]": -1, b"}": -1}

# Matches pairs and escaped backslashes too, so that neither is taken for a lone surrogate.
_surrogates = re.compile(
    rb"\\u[dD][89abAB]..\\u[dD][c-fC-F]|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL
)
REPLACEMENT = rb"\uffff"  # as long as an escape; a noncharacter, so that no URL has it


def split(text: bytes) -> Iterator[bytes]:
    """Return the elements of a well-formed list as they are written."""
    if text.count(b",") > MAX_COMMAS:
        return scan(text)
    try:
        return map(bytes, _array.decode(text))
    except msgspec.DecodeError:
        return _split_masked(text)


def _split_masked(text: bytes) -> Iterator[bytes]:
    """Yield the elements of a list with lone surrogates, each found behind the one before."""
    masked, stop = mask_surrogates(text), 1
    for element in _array.decode(masked):
        view = memoryview(element)
        start = masked.index(view, stop)
        stop = start + len(view)
        yield text[start:stop]


def scan(text: bytes) -> Iterator[bytes]:
    """Yield the elements of a list, or the members of an object, more slowly and without memory.

    The last one of a text that is cut short is as it is there.
    """
    depth, start = 0, 1
    for token in _token.finditer(text):
        depth += _DEPTHS.get(token[0], 0)
        if (depth == 1 and token[0] == b",") or depth == 0:
            if element := text[start : token.start()].strip():
                yield element
            start = token.end()
            if not depth:
                return
    yield text[start:].strip()


def has_key(text: bytes, keys: Container[bytes]) -> bool:
    """Whether an object that may be cut short has one of these keys."""
    depth = 0
    for token in _token.finditer(text):
        depth += _DEPTHS.get(token[0], 0)
        if depth == 1 and token[0][1:-1] in keys and _colon.match(text, token.end()):
            return True
    return False


def pairs(text: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the keys and the values of the members of an object, as `scan` does."""
    for member in scan(text):
        if match := _pair.match(member):
            with suppress(msgspec.DecodeError):
                yield _key.decode(match[1]), member[match.end() :]


def mask_surrogates(text: bytes) -> bytes:
    """Replace lone surrogates, for which msgspec refuses a text; the length stays the same."""
    masked = bytearray(text)  # in place: `sub` would hold an object for each match
    for match in _surrogates.finditer(text):
        if match["lone"]:
            masked[match.start() : match.end()] = REPLACEMENT
    return bytes(masked)
