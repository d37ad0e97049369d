"""Quotes of 402 responses: the ways to pay that x402 and MPP state, in a header or in the body.

Version 2 of x402 has the header `PAYMENT-REQUIRED`, which is base64 of JSON, version 1 the body;
servers of version 2 send either or both. MPP has challenges of `WWW-Authenticate: Payment`, whose
`request` is base64 of JSON. An unreadable quote is left out: anyone may have sent it.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

import httpx
from msgspec.structs import replace

from indexer.errors import InvalidRecord
from indexer.probes.drift import digits_of
from indexer.probes.observation import MAX_QUOTES, Quote
from indexer.resources.entries import AMOUNT_KEYS, MAX_NAME
from indexer.resources.listing import VERSIONS
from indexer.untrusted import decode_object, line, objects

HEADER = "payment-required"
CHALLENGES = "www-authenticate"
NOTHING = Quote()
_parameter = re.compile(
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9-]*)[ \t]+)?(?P<name>[A-Za-z][A-Za-z0-9_-]*)[ \t]*=[ \t]*"
    r'(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<token>[^\s,"]+))'
)
_escaped = re.compile(r"\\(.)")
_to_standard = str.maketrans("-_", "+/")  # of base64 for URLs


def read_quotes(headers: httpx.Headers, body: bytes) -> list[Quote]:
    """Return the ways to pay that a 402 states, each once; headers are read before the body."""
    texts = _from_base64(headers.get(HEADER, "")), body
    found = chain(
        _read_challenges(headers.get(CHALLENGES, "")),
        chain.from_iterable(map(_read, texts)),
    )
    return list(islice(dict.fromkeys(found), MAX_QUOTES))


def _read_challenges(header: str) -> Iterator[Quote]:
    """Yield the ways to pay of challenges of MPP; others of the header are left out."""
    challenge: dict[str, str] = {}
    challenges = []
    for match in _parameter.finditer(header):
        if match["scheme"]:
            challenge = {}
            if match["scheme"].casefold() == "payment":
                challenges.append(challenge)
        quoted = match["quoted"]
        value = match["token"] if quoted is None else _escaped.sub(r"\1", quoted)
        challenge[match["name"].casefold()] = value
    for each in challenges:
        try:
            request = decode_object(_from_base64(each.get("request", "")))
        except InvalidRecord:
            continue
        method, intent = (line(each.get(key), MAX_NAME) or None for key in ("method", "intent"))
        asset, pay_to = (
            line(request.get(key), MAX_NAME) or None for key in ("currency", "recipient")
        )
        amount = digits_of(request.get("amount")) or None
        if method and amount:
            yield Quote(scheme=intent, network=method, asset=asset, amount=amount, pay_to=pay_to)


def _from_base64(text: str) -> bytes:
    """Decode base64 of either alphabet, with or without padding; empty if it is not valid."""
    stripped = text.strip().rstrip("=").translate(_to_standard)
    padding = "=" * (-len(stripped) % 4)
    try:
        return binascii.a2b_base64(stripped + padding, strict_mode=True)
    except ValueError:
        return b""


def _read(text: bytes) -> Iterator[Quote]:
    try:
        challenge = decode_object(text)
    except InvalidRecord:
        return
    given = challenge.get("x402Version")
    version = given if type(given) is int and given in VERSIONS else None
    for entry in objects(challenge, "accepts"):
        quote = _read_entry(entry)
        if quote != NOTHING:
            yield replace(quote, x402_version=version)


def _read_entry(entry: dict[str, Any]) -> Quote:
    """Return what an entry says, without members that are no short line and no amount."""
    scheme, network, asset, pay_to = (
        line(entry.get(key), MAX_NAME) or None for key in ("scheme", "network", "asset", "payTo")
    )
    amounts = filter(None, map(digits_of, map(entry.get, AMOUNT_KEYS)))
    return Quote(
        scheme=scheme, network=network, asset=asset, amount=next(amounts, None), pay_to=pay_to
    )
