"""Overlays: what the operator says of services by their ids, over whatever the sources say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, NoReturn

from msgspec import Struct

from indexer.errors import InvalidRecord, SourceError
from indexer.sources.records import BYTE_ORDER_MARK, expand, plain, said_of
from indexer.text import describe_surrogate, printable

LARGEST_FILE = 64 * 2**20
SUMMARY = "priceSummary"


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON value; write null or a number")


# Only this decoder says where a value ends, which it must do without reading its numbers.
_scan = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse).raw_decode
_blanks = re.compile(r"[ \t\n\r]*")
_separators = re.compile(r"[ \t\n\r,:]*")


class Patch(Struct):
    """One JSON merge patch, which leaves the id alone; `text` is None where it removes."""

    source: str
    position: str
    text: str | None


class Overlay(Struct):
    """The patches for one service, to be applied one after the other."""

    id: str
    patches: list[Patch]

    @property
    def where(self) -> str:
        """Where the patches stand, as `file:line`, for a message."""
        return ", ".join(
            f"{patch.source}:{patch.position.removeprefix('line ')}" for patch in self.patches
        )


class Member(NamedTuple):
    """A member of a JSON object: its name, and the name and the value as they are written."""

    name: str
    spelling: str
    value: str
    offset: int


def read_overlays(names: Iterable[str]) -> dict[str, Overlay]:
    """The overlays of these files by the id of their service; a folder stands for its files.

    A file, plain or gzip, holds JSON objects: one, one a line, or an array of them. An object
    whose `id` is a string is a patch for the service of this id: `{"id":"a","enriched":true}`.
    Any other holds patches by id, where null removes the service: `{"a":{"enriched":true},
    "b":null}`. An id that occurs again gets its patches in the order of files and of lines.

    Raises SourceError when a file is missing, empty, no such JSON, or patches an id itself.
    """
    overlays: dict[str, Overlay] = {}
    for name in expand(names):
        for service_id, patch in _read(name):
            overlays.setdefault(service_id, Overlay(service_id, [])).patches.append(patch)
    return overlays


def apply_overlay(text: bytes, overlay: Overlay, *, summary_derived: bool) -> bytes | None:
    """The JSON of a valid record with an overlay applied, which may not be valid; None if removed.

    What the patches do not name stays as it is written. What follows a removal patches a record
    that has nothing but its id. A price summary that was derived is left out, to be derived from
    the new prices, unless a patch names it. Raises InvalidRecord for what is nested too deeply.
    """
    try:
        return _apply(text.decode(), overlay, summary_derived)
    except RecursionError as error:
        raise InvalidRecord("$", "is nested too deeply to be patched") from error


def merge_patch(target: str, patch: str) -> str:
    """A JSON text with a JSON merge patch (RFC 7396) applied, both without white space around.

    Names and values that stay are as they were written, in their order; new ones follow.
    """
    if not patch.startswith("{"):
        return patch
    changes = {member.name: member for member in _members(patch)}
    merged, met = [], set()
    for name, spelling, value, _ in _members(target) if target.startswith("{") else ():
        change = changes.get(name)
        met.add(name)
        if change is None:
            merged.append(f"{spelling}:{value}")
        elif change.value != "null":
            merged.append(f"{spelling}:{merge_patch(value, change.value)}")
    for name, spelling, value, _ in changes.values():
        if name not in met and value != "null":
            merged.append(f"{spelling}:{merge_patch('', value)}")
    return f"{{{','.join(merged)}}}"


def _apply(text: str, overlay: Overlay, summary_derived: bool) -> bytes | None:
    patches = [patch.text for patch in overlay.patches]
    if summary_derived and not any(_names(patch, SUMMARY) for patch in patches):
        patches.insert(0, f'{{"{SUMMARY}":null}}')
    record: str | None = text
    for patch in patches:
        if patch is None:
            record = None
        else:
            record = merge_patch(record or json.dumps({"id": overlay.id}), patch)
    return None if record is None else record.encode()


def _names(patch: str | None, name: str) -> bool:
    return patch is not None and any(member.name == name for member in _members(patch))


def _read(name: str) -> Iterator[tuple[str, Patch]]:
    """The ids and the patches of one file, in its order."""
    text = _text(name)
    source = printable(name)
    counted, line = 0, 1
    for offset in _objects(source, text):
        for service_id, patch, start in _patches(source, text, offset):
            line += text.count("\n", counted, start)
            counted = start
            place = f"{source}:{line}"
            yield (
                service_id,
                Patch(source, f"line {line}", patch and _without_id(place, service_id, patch)),
            )


def _text(name: str) -> str:
    with said_of(name), Path(name).open("rb") as file:
        content = plain(file).read(LARGEST_FILE + 1).removeprefix(BYTE_ORDER_MARK)
    if len(content) > LARGEST_FILE:
        raise SourceError(
            f"{name}: holds more than the {LARGEST_FILE:,} bytes of an overlay file; split it"
        )
    if not content.strip():
        raise SourceError(f"{name}: is empty; no overlays are written as []")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SourceError(f"{name}:{line}: is not UTF-8; save it as UTF-8") from error


def _objects(source: str, text: str) -> Iterator[int]:
    """Where each object of a file starts; raises SourceError for anything else in it."""
    position = _past(_blanks, text, 0)
    while position < len(text):
        stop = _checked(source, text, position)
        starts = _elements(text, position) if text[position] == "[" else [position]
        for start in starts:
            if text[start] != "{":
                raise SourceError(f"{_place(source, text, start)}: an overlay is a JSON object")
            yield start
        position = _past(_blanks, text, stop)


def _checked(source: str, text: str, position: int) -> int:
    """Where the JSON value ends that starts here; raises SourceError when it is none."""
    try:
        stop = _scan(text, position)[1]
    except json.JSONDecodeError as error:
        raise SourceError(
            f"{source}:{error.lineno}: {error.msg} at column {error.colno}; mend the overlay"
        ) from error
    except ValueError as error:
        raise SourceError(f"{_place(source, text, position)}: {error}") from error
    except RecursionError as error:
        raise SourceError(
            f"{_place(source, text, position)}: is nested too deeply to be read"
        ) from error
    if fault := describe_surrogate(text[position:stop].encode()):
        raise SourceError(f"{_place(source, text, position)}: {fault}")
    return stop


def _patches(source: str, text: str, offset: int) -> Iterator[tuple[str, str | None, int]]:
    """The patches of one object of a file, each with its id and where it starts."""
    members = list(_members(text, offset))
    ids = [member.value for member in members if member.name == "id"]
    if ids and ids[-1].startswith('"'):
        yield json.loads(ids[-1]), text[offset : _scan(text, offset)[1]], offset
        return
    for name, spelling, value, start in members:
        if value != "null" and not value.startswith("{"):
            raise SourceError(
                f"{_place(source, text, start)}: {spelling} stands where the id of a service "
                'does, whose patch is an object or null; a patch alone has an "id" in it'
            )
        yield name, None if value == "null" else value, start


def _without_id(place: str, service_id: str, patch: str) -> str:
    kept = []
    for name, spelling, value, _ in _members(patch):
        if name != "id":
            kept.append(f"{spelling}:{value}")
        elif json.loads(value) != service_id:
            raise SourceError(
                f"{place}: the overlay for {json.dumps(service_id)} says that its id is {value}; "
                "an id cannot be patched, take it out"
            )
    return f"{{{','.join(kept)}}}"


def _place(source: str, text: str, offset: int) -> str:
    return f"{source}:{text.count(chr(10), 0, offset) + 1}"


def _members(text: str, position: int = 0) -> Iterator[Member]:
    """The members of the well-formed object that starts here; of one name there may be several."""
    position = _past(_separators, text, position + 1)
    while text[position] != "}":
        name, end = _scan(text, position)
        start = _past(_separators, text, end)
        stop = _scan(text, start)[1]
        yield Member(name, text[position:end], text[start:stop], start)
        position = _past(_separators, text, stop)


def _elements(text: str, position: int) -> Iterator[int]:
    """Where each element starts of the well-formed array that starts here."""
    position = _past(_separators, text, position + 1)
    while text[position] != "]":
        yield position
        position = _past(_separators, text, _scan(text, position)[1])


def _past(what: re.Pattern[str], text: str, position: int) -> int:
    found = what.match(text, position)
    return found.end() if found else position
