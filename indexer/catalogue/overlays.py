"""Overlays: JSON merge patches (RFC 7396) and removals, which an operator writes."""

from __future__ import annotations

import json
import re
from bisect import bisect
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, NoReturn

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from indexer.catalogue.derived_ids import ascii_domain
from indexer.compressed import decompress
from indexer.errors import InvalidRecord, SourceError
from indexer.intake.lists import source_errors
from indexer.intake.rules import normal_form
from indexer.options import Denial
from indexer.text import (
    BYTE_ORDER_MARK,
    check_depth,
    decode_or_invalid,
    describe_encoding,
    describe_surrogate,
    printable,
    shorten,
)
from indexer.untrusted import raw_members
from indexer.x402.endpoints import decode_endpoints
from service.schema.profiles import Profile
from service.urls import find_url, is_url

MAX_FILE = 64 * 2**20  # bytes, decompressed
SUMMARY = "priceSummary"
EMPTY, NULL = b"{}", b"null"
WITHOUT_SUMMARY = b'{"priceSummary":null}'
PREFIXES = frozenset(("domain", "payee"))
PATCHED = frozenset(("domain", "id"))


class OverlayKey(NamedTuple):
    """A key of an overlay: a field of a Denial, and its value in normal form."""

    field: str
    value: str

    def __str__(self) -> str:
        """Return the key as it is written in an overlay."""
        return f"{self.field}:{self.value}" if self.field in PREFIXES else self.value


KeyedPatch = tuple[OverlayKey, str, dict[str, Raw] | None]
"""A key with its place, and the members of its patch, None for null."""


class Patch(Struct):
    """A merge patch without an id, and its place; that of the `profile` stands apart."""

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
        return _merge_profiles(self.patches)

    @property
    def where(self) -> str:
        """The places of the patches, for a message."""
        return ", ".join(patch.place for patch in self.patches)

    def names(self, field: str) -> bool:
        """Whether a patch names this field of the service."""
        return any(field in raw_members(patch.text) for patch in self.patches)


class Overlays:
    """The patches and the removals of several files.

    A removal lasts: patches of the same key apply nowhere, whether they come before or after it.
    """

    def __init__(self) -> None:
        self._patches: dict[OverlayKey, list[Patch]] = {}
        self._removals: dict[OverlayKey, str] = {}
        self._taken: set[OverlayKey] = set()
        self._hosts: set[str] = set()

    def add(self, key: OverlayKey, place: str, members: dict[str, Raw] | None) -> None:
        """Add a patch, or a removal for None; raises SourceError for a key without patches."""
        if members is None:
            self._removals.setdefault(key, place)
            return
        profile = _read_profile(members.pop("profile", None), place)
        is_url = key.field == "url"
        if key.field not in PATCHED and not (is_url and profile and not members):
            raise SourceError(
                f"{place}: {key} can be removed only, by null; a patch needs the id of a service "
                f"or domain:HOST{', a URL takes a profile alone' if is_url else ''}"
            )
        if is_url and not _host.match(key.value):
            raise SourceError(
                f"{place}: {key} can be removed only, by null; a profile needs the http or https "
                "URL of an endpoint"
            )
        added = Patch(place, msgspec.json.encode(members), profile)
        self._patches.setdefault(key, []).append(added)
        if is_url:
            self._hosts.add(_host.findall(key.value)[0])

    @property
    def denials(self) -> tuple[Denial, ...]:
        """The removals, in the order of the files."""
        return tuple(_denial(key, place) for key, place in self._removals.items())

    def take(self, service_id: str, domain: str) -> Overlay | None:
        """Return the patches of a service, those of its domain before those of its id."""
        if not self._patches:
            return None
        keys = [OverlayKey("domain", _fold_domain(domain)), OverlayKey("id", service_id)]
        keys = [key for key in keys if key not in self._removals]
        self._taken.update(keys)
        patches = [patch for key in keys for patch in self._patches.get(key, ())]
        return Overlay(patches) if patches else None

    @property
    def has_urls(self) -> bool:
        """Whether there are profiles of endpoints."""
        return bool(self._hosts)

    def describe(self, text: bytes) -> dict[int, Profile]:
        """Return the profiles of the endpoints of a record, by their number."""
        if not self._hosts:
            return {}
        is_plain = text.isascii() and b"\\" not in text
        if is_plain and self._hosts.isdisjoint(_host.findall(text.decode().lower())):
            return {}  # without a look at each URL
        urls = enumerate(each.url for each in decode_endpoints(text))
        described = {number: self.describe_url(url) for number, url in urls}
        return {number: profile for number, profile in described.items() if profile}

    def describe_url(self, url: str) -> Profile | None:
        """Return the profile of the endpoint of a URL, if there is one."""
        parsed = find_url(url) if self._hosts else None
        key = OverlayKey("url", parsed.identity if parsed else "")
        if key in self._removals or key not in self._patches:
            return None
        self._taken.add(key)
        return _merge_profiles(self._patches[key])

    def unused(self, applied: Container[Denial]) -> list[str]:
        """Return places and key of patches that no service took, and of removals not `applied`."""
        patches, removals = self._patches.items(), self._removals.items()
        return [
            *(f"{Overlay(each).where}: {key}" for key, each in patches if key not in self._taken),
            *(f"{at}: {key}" for key, at in removals if _denial(key, at) not in applied),
        ]


def read_overlays(paths: Iterable[str]) -> Overlays:
    """Return the overlays of these files.

    A file, plain or gzip, holds JSON objects, in sequence or in an array. An object whose `id` is a
    string is a patch of that service: `{"id":"a","enriched":true}`. Other objects hold patches by
    key, where null removes: `{"a":{"enriched":true},"b":null}`. A key is the id of a service,
    `domain:HOST` for all services of a host, or, with null only, `payee:ADDRESS` or the URL of an
    endpoint. The member `profile` describes a service, or the endpoint of a URL, and is no part of
    the record. Patches of one key apply in the order of files and lines. Raises SourceError for a
    file that is missing, empty, no such JSON, or patches an id.
    """
    overlays = Overlays()
    for path in paths:
        for patch in _File(path).patches():
            overlays.add(*patch)
    return overlays


def apply_overlay(text: bytes, overlay: Overlay, *, summary_derived: bool) -> bytes:
    """Return the JSON of a valid record with an overlay applied.

    Values that no patch names stay as they are written. A derived price summary is left out, to be
    derived again, unless a patch names it. The result may be invalid. Raises InvalidRecord for a
    record that is nested too deeply.
    """
    patches = [patch.text for patch in overlay.patches if patch.text != EMPTY]
    if not patches:
        return text
    if summary_derived and not overlay.names(SUMMARY):
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
        if bytes(change) == b"null":
            merged.pop(name, None)
        else:
            merged[name] = Raw(merge_patch(bytes(merged.get(name, b"")), bytes(change)))
    return msgspec.json.encode(merged)


def _read_profile(patch: Raw | None, place: str) -> bytes:
    """Return a patch of a profile, empty without one; raises SourceError for an invalid one."""
    if patch is None:
        return b""
    if bytes(patch) != NULL:
        try:
            decode_or_invalid(_profile, merge_patch(EMPTY, bytes(patch)))
        except InvalidRecord as error:
            fault = str(error).replace("$", "$.profile", 1)
            raise SourceError(f"{place}: {fault}; mend the overlay") from error
    return bytes(patch)


def _merge_profiles(patches: Iterable[Patch]) -> Profile | None:
    """Return the profile that the patches make, None for an empty one."""
    merged = EMPTY
    for patch in patches:
        if patch.profile:
            merged = merge_patch(merged, patch.profile)
    return None if merged in (EMPTY, NULL) else _profile.decode(merged)


def _denial(key: OverlayKey, place: str) -> Denial:
    return replace(Denial(reason=f"is taken down by {place}"), **{key.field: key.value})


def _parse_key(text: str) -> OverlayKey:
    """Parse a key; raises ValueError with the reason for an invalid URL or domain."""
    if is_url(text):
        return OverlayKey("url", normal_form("url", text))
    field, _, value = text.partition(":")
    if field in PREFIXES and value:
        return OverlayKey(field, normal_form(field, value))
    return OverlayKey("id", text)


def _fold_domain(domain: str) -> str:
    """Return the domain of a record as keys have it, and any other text unchanged."""
    try:
        return ascii_domain(domain).removesuffix(".")
    except ValueError:
        return domain


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON value; write null or a number")


# json and not msgspec: it tells where a value ends. Numbers are not converted.
_scan = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse).raw_decode
_separators = re.compile(r"[ \t\n\r,:]*")
_blanks = re.compile(r"[ \t\n\r]*")


class _File:
    """The text of one file of overlays: well-formed JSON values one after the other."""

    def __init__(self, path: str) -> None:
        self._name = printable(path)
        self._text = _read(path)
        self._breaks = [newline.start() for newline in re.finditer("\n", self._text)]

    def patches(self) -> Iterator[KeyedPatch]:
        """Yield each key with its place and patch.

        Raises SourceError for anything else.
        """
        for start, stop in self._objects():
            text = self._text[start:stop].encode()
            given_id = bytes(raw_members(text).get("id", b""))
            if given_id.startswith(b'"'):
                yield self._patch(json.loads(given_id), text, start)
                continue
            spans = iter(_spans(self._text, start))
            for name, value in zip(spans, spans, strict=True):
                key = json.loads(self._text[slice(*name)])
                yield self._patch(key, self._text[slice(*value)].encode(), value[0])

    def _patch(self, name: str, patch: bytes, offset: int) -> KeyedPatch:
        place, shown = self._place(offset), json.dumps(name)
        try:
            key = _parse_key(name)
        except ValueError as error:
            raise SourceError(f"{place}: {shown} {error}; mend the overlay") from error
        if patch == b"null":
            return key, place, None
        if not patch.startswith(b"{"):
            raise SourceError(
                f"{place}: {shown} stands where the id of a service does, whose patch is an "
                'object or null; a patch alone has an "id" in it'
            )
        members = raw_members(patch)
        own_id = bytes(members.pop("id", b""))
        if own_id and not (own_id.startswith(b'"') and json.loads(own_id) == name):
            raise SourceError(
                f"{place}: the overlay for {shown} says that its id is {shorten(own_id.decode())}; "
                "an id cannot be patched, take it out"
            )
        return key, place, members

    def _objects(self) -> Iterator[tuple[int, int]]:
        """Yield the span of each object: the values of the file, or the elements of arrays."""
        position = _skip(_blanks, self._text, 0)
        while position < len(self._text):
            stop = self._check(position)
            is_array = self._text[position] == "["
            for span in _spans(self._text, position) if is_array else [(position, stop)]:
                if self._text[span[0]] != "{":
                    raise SourceError(f"{self._place(span[0])}: an overlay is a JSON object")
                yield span
            position = _skip(_blanks, self._text, stop)

    def _check(self, position: int) -> int:
        """Return the end of the JSON value that starts here; raises SourceError without one."""
        try:
            stop: int = _scan(self._text, position)[1]
            text = self._text[position:stop].encode()
            check_depth(text)
        except json.JSONDecodeError as error:
            raise SourceError(
                f"{self._place(error.pos)}: {error.msg} at column {error.colno}; mend the overlay"
            ) from error
        except ValueError as error:
            raise SourceError(f"{self._place(position)}: {error}") from error
        except (InvalidRecord, RecursionError) as error:
            raise SourceError(
                f"{self._place(position)}: is nested too deeply to be read"
            ) from error
        if fault := describe_surrogate(text):
            raise SourceError(f"{self._place(position)}: {fault}")
        return stop

    def _place(self, offset: int) -> str:
        return f"{self._name}:{bisect(self._breaks, offset - 1) + 1}"


def _read(path: str) -> str:
    with source_errors(path), Path(path).open("rb") as file:
        content = decompress(file).read(MAX_FILE + 1).removeprefix(BYTE_ORDER_MARK)
    if len(content) > MAX_FILE:
        raise SourceError(f"{path}: holds more than {MAX_FILE:,} bytes of overlays; split it")
    if not content.strip():
        raise SourceError(f"{path}: is empty; a list of nothing is written as []")
    if fault := describe_encoding(content):
        raise SourceError(f"{path}: {fault}")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SourceError(f"{path}:{line}: is not UTF-8; save it as UTF-8") from error


def _spans(text: str, position: int) -> Iterator[tuple[int, int]]:
    """Yield the span of each element of a well-formed array, or name and value of an object."""
    position = _skip(_separators, text, position + 1)
    while text[position] not in "]}":
        stop = _scan(text, position)[1]
        yield position, stop
        position = _skip(_separators, text, stop)


def _skip(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    return match.end() if match else position
