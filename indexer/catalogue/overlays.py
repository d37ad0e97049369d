"""Overlays: JSON merge patches (RFC 7396) and removals, which an operator writes."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from indexer.catalogue.derived_ids import ascii_domain
from indexer.endpoints import decode_endpoints
from indexer.errors import InvalidRecord, SourceError
from indexer.intake.lists import source_errors
from indexer.intake.rules import normal_form
from indexer.options import Denial
from indexer.text import (
    BYTE_ORDER_MARK,
    check_depth,
    decode_or_invalid,
    decompress,
    describe_encoding,
    printable,
    shorten,
)
from indexer.untrusted import raw_members
from service.schema.profiles import Profile
from service.urls import find_url, is_url

MAX_FILE = 64 * 2**20  # bytes, decompressed
SUMMARY = "priceSummary"
EMPTY, NULL = b"{}", b"null"
WITHOUT_SUMMARY = b'{"priceSummary":null}'
PREFIXES = ("domain", "payee")

Key = tuple[str, str]
"""A field of a Denial, and its value in normal form."""


class Patch(Struct):
    """A merge patch without an id, and its place; that of the `profile` stands apart.

    place: the file and the key
    """

    place: str
    text: bytes
    profile: bytes = b""


_host = re.compile(r"https?://([^/?#\":]+)")
_profile = msgspec.json.Decoder(Profile)


class Overlay(Struct):
    """The patches of one service, in the order in which they apply."""

    patches: list[Patch]

    @property
    def profile(self) -> Profile | None:
        """The profile of the service, if the patches give one."""
        merged = EMPTY
        for patch in self.patches:
            merged = merge_patch(merged, patch.profile) if patch.profile else merged
        return None if merged in (EMPTY, NULL) else _profile.decode(merged)

    @property
    def where(self) -> str:
        """The places of the patches, for a message."""
        return ", ".join(dict.fromkeys(patch.place for patch in self.patches))

    def names(self, field: str) -> bool:
        """Whether a patch names this field of the service."""
        return any(field in raw_members(patch.text) for patch in self.patches)


class Overlays:
    """The patches and the removals of several files.

    A removal lasts: patches of the same key apply nowhere, whether they come before or after it.
    """

    def __init__(self) -> None:
        self._patches: dict[Key, list[Patch]] = defaultdict(list)
        self._removals: dict[Key, str] = {}
        self._taken: set[Key] = set()
        self._hosts: set[str] = set()

    def add(self, path: str, name: str, text: Raw) -> None:
        """Add the patch of a key, or the removal that null is; raises SourceError for a fault."""
        place = f"{path}: {shorten(name)}"
        try:
            key = _parse_key(name)
        except ValueError as error:
            raise SourceError(f"{place}: {error}; mend the overlay") from error
        if bytes(text) == NULL:
            self._removals.setdefault(key, place)
            return
        if not bytes(text).startswith(b"{"):
            raise SourceError(
                f"{place}: stands where the id of a service does, whose patch is an object or "
                'null; a patch alone has an "id" in it'
            )
        members = raw_members(text)
        own_id = bytes(members.pop("id", b""))
        if own_id and not (own_id.startswith(b'"') and json.loads(own_id) == name):
            shown = shorten(own_id.decode())
            raise SourceError(f"{place}: its id is {shown}, and cannot be patched; take it out")
        profile = _read_profile(members.pop("profile", None), place)
        if key[0] == "url":
            if members or not profile or not _host.match(key[1]):
                raise SourceError(
                    f"{place}: a URL takes a profile alone, which describes an endpoint over http "
                    "or https, or null, which removes it"
                )
            self._hosts.add(_host.findall(key[1])[0])
        elif key[0] == "payee":
            raise SourceError(f"{place}: can be removed only, by null")
        self._patches[key].append(Patch(place, msgspec.json.encode(members), profile))

    @property
    def denials(self) -> tuple[Denial, ...]:
        """The removals, in the order of the files."""
        return tuple(_denial(key, place) for key, place in self._removals.items())

    def take(self, service_id: str, domain: str) -> Overlay | None:
        """Return the patches of a service, those of its domain before those of its id."""
        patches = [*self._take("domain", _fold_domain(domain)), *self._take("id", service_id)]
        return Overlay(patches) if patches else None

    @property
    def has_urls(self) -> bool:
        """Whether there are profiles of endpoints."""
        return bool(self._hosts)

    def describe(self, text: bytes) -> dict[int, Profile]:
        """Return the profiles of the endpoints of a record, by their number."""
        is_plain = text.isascii() and b"\\" not in text
        if is_plain and self._hosts.isdisjoint(_host.findall(text.decode().lower())):
            return {}  # without a look at each URL
        urls = enumerate(each.url for each in decode_endpoints(text))
        described = {number: self.describe_url(url) for number, url in urls}
        return {number: profile for number, profile in described.items() if profile}

    def describe_url(self, url: str) -> Profile | None:
        """Return the profile of the endpoint of a URL, if there is one."""
        parsed = find_url(url) if self._hosts else None
        return Overlay(self._take("url", parsed.identity)).profile if parsed else None

    def unused(self, applied: Container[Denial]) -> list[str]:
        """Return the places of patches that no service took, and of removals not `applied`."""
        patches, removals = self._patches.items(), self._removals.items()
        return [
            *(Overlay(each).where for key, each in patches if key not in self._taken),
            *(place for key, place in removals if _denial(key, place) not in applied),
        ]

    def _take(self, field: str, value: str) -> list[Patch]:
        """Return the patches of a key, which are used thereby."""
        key = field, value
        if key in self._removals or key not in self._patches:
            return []
        self._taken.add(key)
        return self._patches[key]


def read_overlays(paths: Iterable[str]) -> Overlays:
    """Return the overlays of files of JSON objects, in sequence or in an array.

    An object whose `id` is a string is a patch of that service: `{"id":"a","enriched":true}`. Other
    objects hold patches by key, where null removes: `{"a":{"enriched":true},"domain:b":null}`.
    Raises SourceError for a file that is missing, empty, no such JSON, or patches an id.
    """
    overlays = Overlays()
    for path in paths:
        name = printable(path)
        for members in _read_objects(path, name):
            own_id = bytes(members.get("id", b""))
            if own_id.startswith(b'"'):
                overlays.add(name, json.loads(own_id), Raw(msgspec.json.encode(members)))
                continue
            for key, patch in members.items():
                overlays.add(name, key, patch)
    return overlays


def apply_overlay(text: bytes, overlay: Overlay, *, summary_derived: bool) -> bytes:
    """Return the JSON of a valid record with an overlay applied.

    Values that no patch names stay as they are written. A derived price summary is left out, to be
    derived again, unless a patch names it. The result may be invalid. Raises InvalidRecord for a
    record that is nested too deeply.
    """
    patches = [patch.text for patch in overlay.patches if patch.text != EMPTY]
    if patches and summary_derived and not overlay.names(SUMMARY):
        patches.insert(0, WITHOUT_SUMMARY)
    try:
        for patch in patches:
            text = merge_patch(text, patch)
    except RecursionError as error:
        raise InvalidRecord("$", "is nested too deeply to be patched") from error
    return text


def merge_patch(target: bytes, patch: bytes) -> bytes:
    """Return a JSON text with a merge patch applied; neither has white space around it.

    Values that stay keep their text and their order; new values follow. Of members with one name
    the last counts.
    """
    if not patch.startswith(b"{"):
        return patch
    merged = raw_members(target) if target.startswith(b"{") else {}
    for name, change in raw_members(patch).items():
        if bytes(change) == NULL:
            merged.pop(name, None)
        else:
            merged[name] = Raw(merge_patch(bytes(merged.get(name, b"")), bytes(change)))
    return msgspec.json.encode(merged)


def _read_profile(patch: Raw | None, place: str) -> bytes:
    """Return a patch of a profile, empty without one; raises SourceError for an invalid one."""
    text = b"" if patch is None else bytes(patch)
    if text not in (b"", NULL):
        try:
            decode_or_invalid(_profile, merge_patch(EMPTY, text), "$.profile")
        except InvalidRecord as error:
            raise SourceError(f"{place}: {error}; mend the overlay") from error
    return text


def _denial(key: Key, place: str) -> Denial:
    field, value = key
    return replace(Denial(reason=f"is taken down by {place}"), **{field: value})


def _parse_key(text: str) -> Key:
    """Parse a key; raises ValueError with the reason for an invalid URL or domain."""
    if is_url(text):
        return "url", normal_form("url", text)
    field, _, value = text.partition(":")
    return (field, normal_form(field, value)) if field in PREFIXES and value else ("id", text)


def _fold_domain(domain: str) -> str:
    """Return the domain of a record as keys have it, and any other text unchanged."""
    try:
        return ascii_domain(domain).removesuffix(".")
    except ValueError:
        return domain


def _check_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Raise ValueError for an object in which two members have one name: one would be lost."""
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(f"has {json.dumps(shorten(name))} twice in one object; keep one")
        members[name] = value
    return members


# json and not msgspec: it tells where a value ends. Integers may have any number of digits.
_scan = json.JSONDecoder(parse_int=str, object_pairs_hook=_check_names).raw_decode
_start = re.compile(r"[^ \t\n\r]")
_object = msgspec.json.Decoder(dict[str, Raw])
_objects = msgspec.json.Decoder(list[dict[str, Raw]])


def _read_objects(path: str, name: str) -> Iterator[dict[str, Raw]]:
    """Yield the members of each object of a file; raises SourceError for anything else."""
    text, end = _read(path, name), 0
    while match := _start.search(text, end):
        try:
            _, end = _scan(text, match.start())
            piece = text[match.start() : end].encode()
            check_depth(piece)
            if match[0] == "[":
                yield from decode_or_invalid(_objects, piece)
            else:
                yield decode_or_invalid(_object, piece)
        except json.JSONDecodeError as error:
            raise SourceError(
                f"{name}:{error.lineno}: {error.msg} at column {error.colno}; mend the overlay"
            ) from error
        except (ValueError, InvalidRecord, RecursionError) as error:
            is_deep = isinstance(error, RecursionError)
            reason = "is nested too deeply" if is_deep else str(error).removeprefix("$: ")
            line = text.count("\n", 0, match.start()) + 1
            raise SourceError(f"{name}:{line}: {reason}; mend the overlay") from error


def _read(path: str, name: str) -> str:
    with source_errors(name), Path(path).open("rb") as file:
        content = decompress(file).read(MAX_FILE + 1).removeprefix(BYTE_ORDER_MARK)
    if len(content) > MAX_FILE:
        raise SourceError(f"{name}: holds more than {MAX_FILE:,} bytes of overlays; split it")
    if not content.strip():
        raise SourceError(f"{name}: is empty; a list of nothing is written as []")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        fault = describe_encoding(content) or "is not UTF-8; save it as UTF-8"
        raise SourceError(f"{name}:{line}: {fault}") from error
