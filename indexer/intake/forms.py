"""The form of a JSON text: a list of items, a document, or a record; and where its parts are.

The list of a text decides, and before it the kind that the operator declares; no other member does.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from itertools import islice

import msgspec
from msgspec import UNSET, Raw, UnsetType, defstruct

from indexer.options import Kind

LISTS = ("services", "resources", "items")
"""Members that are the list of an envelope; the first that has items is."""
MANIFEST_LISTS = ("resources", "items")
ENDPOINTS = "endpoints"
"""The list of a record, or of a manifest whose entries have paths."""
RECORD_LISTS = ("accepts", "resource", ENDPOINTS)
"""Members of a record that need no list beside them."""
MAX_LOOKED_AT = 20  # elements of a list
MAX_COMMAS = 2**20
"""Commas of a list that is split at once: each element takes 75 bytes, however short it is."""
PAGINATION = ("pagination", "total", "limit", "offset", "hasMore", "nextCursor")
UNREAD = {
    "swagger": "a Swagger 2.0 document, which is not read; convert it to OpenAPI 3",
    "asyncapi": "an AsyncAPI document, which is not read; name a list of services instead",
    "openrpc": "an OpenRPC document, which is not read; name a list of services instead",
    "linkset": "a linkset, which is not read; name the documents that it links to",
    "skills": "an agent card, which is not read; name the OpenAPI document or the manifest of its "
    "service instead",
    "servers": "a page of an MCP registry, which is not read; its servers have no prices; name "
    "their manifests",
    "openapi": "an OpenAPI document without `paths`, which is not read; name one that has "
    "operations",
}
"""Documents that are not read, by a member that all of them have: their names, and advice."""
_PAYMENTS = (
    '; if it has payments, add the line `kind = "payments"` to its source, or name it by '
    "--transactions"
)
STARTS = (
    (rb"\s*<", "is a web page and not JSON"),
    (rb"PAR1", f"is a Parquet file and not JSON{_PAYMENTS}"),
    (rb"PK\x03\x04", "is a zip file and not JSON; unpack it"),
    (rb"BZh|\xfd7zXZ", "is compressed by bzip2 or xz and not JSON; give gzip or zstd"),
    (
        rb"\s*(?:#[^\n]*\n\s*)*(?:---\s*\n|[A-Za-z_][\w-]*:(?:[ \t][^\n]*)?\r?\n)",
        "is YAML and not JSON; convert it to JSON",
    ),
    (
        rb'\s*"?[A-Za-z_][\w ().-]*"?(?:[,;\t]"?[\w ().-]+"?)+\r?\n',
        f"is CSV and not JSON{_PAYMENTS}",
    ),
)
"""Expressions for the starts of texts that are no JSON; their names, and advice."""
KIND_NAMES = {
    Kind.OPENAPI: "an OpenAPI document",
    Kind.MPP: "an MPP directory",
    Kind.MANIFEST: "a manifest",
}

Members = Mapping[str, Raw]

_NAMES = dict.fromkeys(
    (
        *(*LISTS, *RECORD_LISTS, *PAGINATION, *UNREAD, "name", "paths", "lastUpdated"),
        *("url", "path", "route", "payment", "serviceUrl", "pricing", "price", "id"),
    )
)
# A Struct, since a mapping would hold any number of keys of a hostile text.
_Known = defstruct("_Known", [(name, Raw | UnsetType, UNSET) for name in _NAMES])
_known = msgspec.json.Decoder(_Known)
_array = msgspec.json.Decoder(list[Raw])
_key = msgspec.json.Decoder(str)
_first_element = re.compile(rb"\[\s*+(.)", re.DOTALL)
_colon = re.compile(rb"\s*+:")
# Possessive, since backtracking would take quadratic time.
_token = re.compile(rb'[][{},]|"[^"\\]*+(?:\\.[^"\\]*+)*+"?+', re.DOTALL)
_pair = re.compile(rb'("[^"\\]*+(?:\\.[^"\\]*+)*+")\s*+:\s*+', re.DOTALL)
_DEPTHS = {b"[": 1, b"{": 1, b"]": -1, b"}": -1}
# Matches pairs and escaped backslashes too, so that neither is taken for a lone surrogate.
_surrogates = re.compile(
    rb"\\u[dD][89abAB]..\\u[dD][c-fC-F]|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL
)
REPLACEMENT = rb"\uffff"  # as long as an escape; a noncharacter, so that no URL has it


class NoList(Exception):
    """A text is well-formed, but no list of records; the message says what to do."""


def recognise(members: Members, declared: Kind | None = None) -> tuple[str, Kind | None]:
    """Return the key of the list of an object, and the kind of document that it is.

    A list of records has no kind, and a single record neither. Raises NoList for another object.
    """
    key = find_list(members)
    if declared is Kind.MANIFEST and (key in MANIFEST_LISTS or ENDPOINTS in members):
        return key or ENDPOINTS, Kind.MANIFEST
    if declared is Kind.MPP and "services" in members:
        return "services", Kind.MPP
    if {"openapi", "paths"} <= members.keys() and not _is_record(members):
        return "", Kind.OPENAPI
    if key == "services":
        verdicts = map(_tells_directory, _objects(members[key]))
        return key, Kind.MPP if _first(verdicts) else None
    if key:
        is_manifest = declared is not Kind.RECORDS and _is_manifest(key, members)
        return key, Kind.MANIFEST if is_manifest else None
    if _has_entries(members):
        return ENDPOINTS, Kind.MANIFEST
    if members.keys().isdisjoint(RECORD_LISTS):
        _refuse(members)
    return "", None


def find_list(members: Members) -> str:
    """Return the key of the list of an envelope, empty without one.

    A list without objects or URLs is none beside the members of a record.
    """
    lists = [key for key in LISTS if bytes(members.get(key, b""))[:1] in (b"[", b"n")]
    if not lists or _is_record(members):
        return ""
    telling = (key for key in lists if _start(members[key]) in (b"{", b'"'))
    return next(telling, lists[0] if members.keys().isdisjoint(RECORD_LISTS) else "")


def describe_start(start: bytes) -> str:
    """Return what a text that is no JSON is and what to do, by its first bytes, or nothing."""
    return next((advice for pattern, advice in STARTS if re.match(pattern, start)), "")


def describe_kind(kind: Kind) -> str:
    """Return the name of what sources of a kind give, with its article."""
    return KIND_NAMES.get(kind, f"a list of {kind}")


def _refuse(members: Members) -> None:
    """Raise NoList for a document that is not read, and for an object without a list or a name."""
    for key, advice in UNREAD.items():
        if key in members:
            raise NoList(f"is {advice}")
    if "name" not in members:
        keys = ", ".join(f"`{name}`" for name in LISTS)
        fault = next((f"`{each}` has another value" for each in LISTS if each in members), "")
        fault = fault or f"it has no list under {keys}"
        raise NoList(f"is not a list of services or resources: {fault}")


def _is_record(members: Members) -> bool:
    """Whether an object has endpoints as those of a record are."""
    endpoints = _objects(members.get(ENDPOINTS, Raw()))
    return any({"url", "pricing"} <= each.keys() for each in endpoints)


def _tells_directory(service: Members) -> bool | None:
    """Whether a service is one of an MPP directory, None where it does not tell.

    Endpoints of a record have a `url`, endpoints of a directory a `path` or `route` below the
    `serviceUrl` of their service.
    """
    verdict = _first(map(_tells_path, _objects(service.get(ENDPOINTS, Raw()))))
    return True if verdict is None and "serviceUrl" in service else verdict


def _has_entries(members: Members) -> bool:
    """Whether the endpoints of an object are entries of a manifest, and not those of a record.

    Entries have a path, or a `price` or `accepts` in place of the `pricing` of a record.
    """
    endpoints = [*_objects(members.get(ENDPOINTS, Raw()))]
    if _first(map(_tells_path, endpoints)):
        return True
    is_priced = (each.keys() & {"price", "accepts"} and "pricing" not in each for each in endpoints)
    return "id" not in members and any(is_priced)


def _tells_path(endpoint: Members) -> bool | None:
    """Whether an endpoint stands by its path below that of a host, and not by a URL."""
    if "url" in endpoint:
        return False
    return True if endpoint.keys() & {"path", "route", "payment"} else None


def _is_manifest(key: str, members: Members) -> bool:
    """Whether a list has a host's own addresses, and is not that of a feed.

    Under `resources` they are URLs, or objects with `url` alone; under `items` objects with an
    object `resource`, beside `lastUpdated` and without pagination.
    """
    start = _start(members[key])
    entry = next(_objects(members[key]), {}) if start == b"{" else {}
    if key == "resources":
        is_address = "url" in entry and entry.keys().isdisjoint(("resource", ENDPOINTS))
        return start == b'"' or is_address
    is_described = bytes(entry.get("resource", b"")).startswith(b"{")
    return "lastUpdated" in members and is_described and members.keys().isdisjoint(PAGINATION)


def _start(value: Raw) -> bytes:
    """Return the first character of the first element of a list."""
    match = _first_element.match(memoryview(value))
    return b"" if match is None else match[1]


def _objects(value: Raw) -> Iterator[Members]:
    """Yield the members of the first elements of a list that are objects."""
    text = bytes(value)
    for element in islice(scan(text), MAX_LOOKED_AT) if text.startswith(b"[") else ():
        with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            yield known_members(element)


def _first(verdicts: Iterator[bool | None]) -> bool | None:
    return next((each for each in verdicts if each is not None), None)


def known_members(text: bytes | Raw) -> dict[str, Raw]:
    """Return the members of an object that may tell its form; raises the errors of msgspec."""
    members = msgspec.structs.asdict(_known.decode(text))
    return {name: value for name, value in members.items() if value is not UNSET}


def split(text: bytes) -> Iterator[bytes]:
    """Return the elements of a well-formed list as they are written."""
    if text.count(b",") > MAX_COMMAS:
        return scan(text)
    try:
        return map(bytes, _array.decode(text))
    except msgspec.DecodeError:  # a lone surrogate, which spoils its element alone
        return scan(text)


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
    """Whether an object that may be cut short has one of these keys, as soon as one is found."""
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
