"""Quotes of 402 responses: the ways to pay that x402 and MPP state, in a header or in the body.

Version 2 of x402 has the header `PAYMENT-REQUIRED`, which is base64 of JSON, version 1 the body;
servers of version 2 send either or both. MPP has challenges of `WWW-Authenticate: Payment`, whose
`request` is base64 of JSON. An unreadable quote is left out: anyone may have sent it.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import httpx
from msgspec.structs import asdict

from indexer.errors import InvalidRecord
from indexer.probes.drift import read_terms
from indexer.probes.observation import MAX_QUOTES, Quote
from indexer.resources.listing import MAX_ENTRIES, VERSIONS
from indexer.untrusted import decode_object, objects

HEADER = "payment-required"
CHALLENGES = "www-authenticate"
MAX_CHALLENGES = 8 * 1024  # characters of that header that are read
_parameter = re.compile(
    r"(?<![A-Za-z0-9_-])(?:(?P<scheme>[A-Za-z][A-Za-z0-9-]*+)[ \t]++)?"
    r"(?P<name>[A-Za-z][A-Za-z0-9_-]*+)[ \t]*+=[ \t]*"
    r'(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<token>[^\s,"]+))'
)
_escaped = re.compile(r"\\(.)")
_to_standard = str.maketrans("-_", "+/")  # of base64 for URLs


def read_quotes(headers: httpx.Headers, body: bytes) -> list[Quote]:
    """Return the ways to pay that a 402 states, each once; headers are read before the body."""

    def read() -> Iterator[Quote]:
        for challenge in _challenges(headers.get(CHALLENGES, "")[:MAX_CHALLENGES]):
            request = _decode(_from_base64(challenge.get("request", "")))
            entry = {
                "scheme": challenge.get("intent"),
                "network": challenge.get("method"),
                "asset": request.get("currency"),
                "amount": request.get("amount"),
                "payTo": request.get("recipient"),
            }
            quote = _quote(entry)
            if quote.network and quote.amount:
                yield quote
        for text in (_from_base64(headers.get(HEADER, "")), body):
            challenge = _decode(text)
            given = challenge.get("x402Version")
            version = given if type(given) is int and given in VERSIONS else None
            entries = objects(challenge, "accepts", MAX_ENTRIES)
            quotes = (_quote(entry, version) for entry in entries)
            yield from (each for each in quotes if each != Quote(x402_version=version))

    return list(islice(dict.fromkeys(read()), MAX_QUOTES))


def _quote(entry: Mapping[str, Any], version: int | None = None) -> Quote:
    terms = {name: text or None for name, text in asdict(read_terms(entry)).items()}
    return Quote(**terms, x402_version=version)


def _challenges(header: str) -> Iterator[dict[str, Any]]:
    """Yield the parameters of the challenges of MPP."""
    found: list[tuple[str, dict[str, Any]]] = [("", {})]
    for match in _parameter.finditer(header):
        if match["scheme"]:
            found.append((match["scheme"].casefold(), {}))
        quoted = match["quoted"]
        value = match["token"] if quoted is None else _escaped.sub(r"\1", quoted)
        found[-1][1][match["name"].casefold()] = value
    return (parameters for scheme, parameters in found if scheme == "payment")


def _decode(text: bytes) -> dict[str, Any]:
    try:
        return decode_object(text)
    except InvalidRecord:
        return {}


def _from_base64(text: str) -> bytes:
    """Decode base64 of either alphabet, with or without padding; empty if it is not valid."""
    stripped = text.strip().rstrip("=").translate(_to_standard)
    try:
        return binascii.a2b_base64(stripped + "=" * (-len(stripped) % 4), strict_mode=True)
    except ValueError:
        return b""
