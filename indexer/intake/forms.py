"""What a JSON text is: a list of items, a document, or a single record.

The list of a text decides, and before it the kind that the operator declares; no other member does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType, defstruct

from indexer.intake.forms import scan
from indexer.options import Kind

LISTS = ("services", "resources", "items")
"""Members that are the list of an envelope; the first that has items is."""
MANIFEST_LISTS = ("resources", "items")
ENDPOINTS = "endpoints"
"""The list of a record, or of a manifest whose entries have paths."""
RECORD_LISTS = ("accepts", "resource", ENDPOINTS)
"""Members of a record that need no list beside them."""
MAX_ITEMS = 20  # of a list that are looked at
PAGINATION = ("pagination", "total", "limit", "offset", "hasMore", "nextCursor")

Members = Mapping[str, Raw]


class NoList(Exception):
    """A text is well-formed, but no list of records; the message says what to do."""


class Form(NamedTuple):
    """The form of an object: a list under a key, a document of a kind, or a record without both."""

    key: str = ""
    kind: Kind | None = None


LISTED = "name a list of services or resources instead"
UNREAD = {
    "swagger": ("a Swagger 2.0 document", "convert it to OpenAPI 3"),
    "asyncapi": ("an AsyncAPI document", LISTED),
    "openrpc": ("an OpenRPC document", LISTED),
    "linkset": ("a linkset", "name the documents that it links to"),
    "skills": ("an agent card", "name the OpenAPI document or the manifest of its service instead"),
    "servers": ("a page of an MCP registry", "its servers have no prices; name their manifests"),
    "openapi": ("an OpenAPI document without `paths`", "name one that has operations"),
}
"""Documents that are not read, by a member that all of them have: their names, and advice."""

# A Struct, since a mapping would hold any number of keys of a hostile text.
NAMES = dict.fromkeys(
    (
        *(*LISTS, *RECORD_LISTS, "name", *PAGINATION, "openapi", "paths", "lastUpdated"),
        *("url", "path", "route", "payment", "serviceUrl", "pricing"),
        *UNREAD,
    )
)
_Known = defstruct("_Known", [(name, Raw | UnsetType, UNSET) for name in NAMES])
_known = msgspec.json.Decoder(_Known)
_element = re.compile(rb"\[\s*+(.)", re.DOTALL)


def known_members(text: bytes | Raw) -> dict[str, Raw]:
    """Return the members of an object that may tell its form; raises the errors of msgspec."""
    members = msgspec.structs.asdict(_known.decode(text))
    return {name: value for name, value in members.items() if value is not UNSET}


def recognise(members: Members, declared: Kind | None = None) -> Form:
    """Return the form of an object with these members; raises NoList."""
    key = find_list(members)
    if declared is Kind.MANIFEST and (key in MANIFEST_LISTS or ENDPOINTS in members):
        return Form(key or ENDPOINTS, Kind.MANIFEST)
    if declared is Kind.MPP and "services" in members:
        return Form("services", Kind.MPP)
    if {"openapi", "paths"} <= members.keys() and not _is_record(members):
        return Form(kind=Kind.OPENAPI)
    if key:
        is_list = declared is Kind.RECORDS
        kind = Kind.MPP if _is_directory(key, members) else _manifest(key, members)
        return Form(key, None if is_list and kind is Kind.MANIFEST else kind)
    if _first(map(_tells_path, _objects(members.get(ENDPOINTS, Raw())))):
        return Form(ENDPOINTS, Kind.MANIFEST)
    if members.keys().isdisjoint(RECORD_LISTS):
        _refuse_unread(members)
    return Form()


def find_list(members: Members) -> str:
    """Return the key of the list of an envelope, empty without one.

    A list without objects or URLs is none beside the members of a record.
    """
    lists = [key for key in LISTS if bytes(members.get(key, b""))[:1] in (b"[", b"n")]
    if not lists or _is_record(members):
        return ""
    is_one = not members.keys().isdisjoint(RECORD_LISTS)
    telling = (key for key in lists if _start(members[key]) in (b"{", b'"'))
    return next(telling, "" if is_one else lists[0])


def _refuse_unread(members: Members) -> None:
    """Raise NoList for a document that is not read, and for an object without a list or a name."""
    for key, (name, advice) in UNREAD.items():
        if key in members:
            raise NoList(f"is {name}, which is not read; {advice}")
    if "name" not in members:
        keys = ", ".join(f"`{name}`" for name in LISTS)
        fault = next((f"`{each}` has another value" for each in LISTS if each in members), "")
        fault = fault or f"it has no list under {keys}"
        raise NoList(f"is not a list of services or resources: {fault}")


def describe_kind(kind: Kind) -> str:
    """Return the name of what sources of a kind give, with its article."""
    names = {
        Kind.OPENAPI: "an OpenAPI document",
        Kind.MPP: "an MPP directory",
        Kind.MANIFEST: "a manifest",
    }
    return names.get(kind, f"a list of {kind}")


def _is_record(members: Members) -> bool:
    """Whether an object has endpoints as those of a record are."""
    endpoints = _objects(members.get(ENDPOINTS, Raw()))
    return any({"url", "pricing"} <= each.keys() for each in endpoints)


def _is_directory(key: str, members: Members) -> bool:
    """Whether the first of `services` that tells is of an MPP directory, and no record."""
    return key == "services" and bool(_first(map(_tells_directory, _objects(members[key]))))


def _tells_directory(service: Members) -> bool | None:
    """Whether a service is one of a directory, None where it does not tell.

    Endpoints of a record have a `url`, endpoints of a directory a `path` or `route` below the
    `serviceUrl` of their service.
    """
    verdict = _first(map(_tells_path, _objects(service.get(ENDPOINTS, Raw()))))
    if verdict is None and "serviceUrl" in service:
        return True
    return verdict


def _tells_path(endpoint: Members) -> bool | None:
    """Whether an endpoint stands by its path below that of a host, and not by a URL."""
    if "url" in endpoint:
        return False
    return True if endpoint.keys() & {"path", "route", "payment"} else None


def _manifest(key: str, members: Members) -> Kind | None:
    """Return MANIFEST for a list of a host's own addresses, None for the list of a feed.

    Under `resources` they are URLs, or objects with `url` alone; under `items` objects with an
    object `resource`, beside `lastUpdated` and without pagination.
    """
    start = _start(members[key])
    entry = next(_objects(members[key]), {}) if start == b"{" else {}
    if key == "resources":
        is_address = "url" in entry and entry.keys().isdisjoint(("resource", ENDPOINTS))
        return Kind.MANIFEST if start == b'"' or is_address else None
    is_paged = not members.keys().isdisjoint(PAGINATION)
    is_described = bytes(entry.get("resource", b"")).startswith(b"{")
    is_manifest = key == "items" and "lastUpdated" in members and is_described and not is_paged
    return Kind.MANIFEST if is_manifest else None


def _start(value: Raw) -> bytes:
    """Return the first character of the first element of a list."""
    match = _element.match(memoryview(value))
    return b"" if match is None else match[1]


def _objects(value: Raw) -> Iterator[Members]:
    """Yield the members of the first elements of a list that are objects."""
    text = bytes(value)
    for element in islice(scan(text), MAX_ITEMS) if text.startswith(b"[") else ():
        try:
            yield known_members(element)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue


def _first(verdicts: Iterator[bool | None]) -> bool | None:
    return next((each for each in verdicts if each is not None), None)


_PAYMENTS = 'for payments set `kind = "payments"`, or name it by --transactions'
_SIGNS = (
    (re.compile(rb"\s*<"), "a web page", ""),
    (re.compile(rb"PAR1"), "a Parquet file", _PAYMENTS),
    (re.compile(rb"PK\x03\x04"), "a zip file", "unpack it"),
    (re.compile(rb"BZh|\xfd7zXZ"), "compressed by bzip2 or xz", "give gzip or zstd"),
    (
        re.compile(rb"\s*(?:#[^\n]*\n\s*)*(?:---\s*\n|[A-Za-z_][\w-]*:(?:[ \t][^\n]*)?\r?\n)"),
        "YAML",
        "convert it to JSON",
    ),
    (
        re.compile(rb'\s*"?[A-Za-z_][\w ().-]*"?(?:[,;\t]"?[\w ().-]+"?)+\r?\n'),
        "CSV",
        _PAYMENTS,
    ),
)
"""The starts of texts that are no JSON, their names, and advice."""


def describe_start(start: bytes) -> str:
    """Return what a text that is no JSON is and what to do, by its first bytes, or nothing."""
    for pattern, name, advice in _SIGNS:
        if pattern.match(start):
            return f"is {name} and not JSON{'; ' if advice else ''}{advice}"
    return ""
