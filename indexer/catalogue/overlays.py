"""Overlays: JSON merge patches (RFC 7396) by service id, which an operator writes."""

from __future__ import annotations

import json
import re
from bisect import bisect
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, NoReturn

from msgspec import Struct

from indexer.errors import InvalidRecord, SourceError
from indexer.sources.records import decompress, source_errors
from indexer.text import BYTE_ORDER_MARK, describe_surrogate, printable

MAX_FILE = 64 * 2**20  # bytes, decompressed
SUMMARY = "priceSummary"


class Patch(Struct):
    """A merge patch without an id, and its place; `text` is None where it removes the service."""

    place: str
    text: str | None


class Overlay(Struct):
    """The patches of one service, in the order in which they apply."""

    id: str
    patches: list[Patch]

    @property
    def where(self) -> str:
        """The places of the patches, for a message."""
        return ", ".join(patch.place for patch in self.patches)

    def names(self, field: str) -> bool:
        """Whether a patch names this field of the service."""
        texts = (patch.text for patch in self.patches)
        return any(text and any(m.name == field for m in _members(text)) for text in texts)


class Member(NamedTuple):
    """A member of a JSON object: its name, and the name and the value as they are written."""

    name: str
    spelling: str
    value: str
    offset: int


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON value; write null or a number")


# json and not msgspec: it tells where a value ends. Numbers are not converted.
_scan = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse).raw_decode
_blanks = re.compile(r"[ \t\n\r]*")
_separators = re.compile(r"[ \t\n\r,:]*")


def read_overlays(paths: Iterable[str]) -> dict[str, Overlay]:
    """Return the overlays of these files by service id.

    A file, plain or gzip, holds JSON objects, one after the other or in an array. An object
    whose `id` is a string is a patch of this service: `{"id":"a","enriched":true}`. Any other
    holds patches by id, where null removes the service: `{"a":{"enriched":true},"b":null}`.
    Patches of one id apply in the order of files and lines. Raises SourceError when a file is
    missing, empty, no such JSON, or patches an id itself.
    """
    overlays: dict[str, Overlay] = {}
    for path in paths:
        for service_id, patch in _File(path).patches():
            overlays.setdefault(service_id, Overlay(service_id, [])).patches.append(patch)
    return overlays


def apply_overlay(text: bytes, overlay: Overlay, *, summary_derived: bool) -> bytes | None:
    """Return the JSON of a valid record with an overlay applied, or None if it is removed.

    What no patch names stays as it is written. A patch after a removal starts from the id alone. A
    derived price summary is left out, to be derived again, unless a patch names it. The result may
    be invalid. Raises InvalidRecord for a record that is nested too deeply.
    """
    patches = [patch.text for patch in overlay.patches]
    if summary_derived and not overlay.names(SUMMARY):
        patches.insert(0, f'{{"{SUMMARY}":null}}')
    record: str | None = text.decode()
    try:
        for patch in patches:
            target = record or json.dumps({"id": overlay.id})
            record = None if patch is None else merge_patch(target, patch)
    except RecursionError as error:
        raise InvalidRecord("$", "is nested too deeply to be patched") from error
    return None if record is None else record.encode()


def merge_patch(target: str, patch: str) -> str:
    """Return a JSON text with a merge patch applied; neither has white space around it.

    Names and values that stay are as they were written, in their order; new ones follow.
    """
    if not patch.startswith("{"):
        return patch
    changes = {member.name: member for member in _members(patch)}
    members = list(_members(target)) if target.startswith("{") else []
    merged = []
    for name, spelling, value, _ in members:
        change = changes[name].value if name in changes else None
        if change is None:
            merged.append(f"{spelling}:{value}")
        elif change != "null":
            merged.append(f"{spelling}:{merge_patch(value, change)}")
    known = {member.name for member in members}
    for name, spelling, value, _ in changes.values():
        if name not in known and value != "null":
            merged.append(f"{spelling}:{merge_patch('', value)}")
    return f"{{{','.join(merged)}}}"


class _File:
    """The text of one file of overlays: well-formed JSON values one after the other."""

    def __init__(self, path: str) -> None:
        self._name = printable(path)
        self._text = _read(path)
        self._breaks = [newline.start() for newline in re.finditer("\n", self._text)]

    def patches(self) -> Iterator[tuple[str, Patch]]:
        """Yield each patch with the id of its service; raises SourceError for anything else."""
        for start, stop in self._objects():
            members = list(_members(self._text, start))
            ids = [member.value for member in members if member.name == "id"]
            if ids and ids[-1].startswith('"'):
                patch = self._text[start:stop]
                members = [Member(json.loads(ids[-1]), "", patch, start)]
            for service_id, spelling, patch, offset in members:
                if patch == "null":
                    yield service_id, Patch(self._place(offset), None)
                elif patch.startswith("{"):
                    text = self._without_id(service_id, patch, offset)
                    yield service_id, Patch(self._place(offset), text)
                else:
                    raise SourceError(
                        f"{self._place(offset)}: {spelling} stands where the id of a service "
                        "does, whose patch is an object or null; a patch alone has an "
                        '"id" in it'
                    )

    def _objects(self) -> Iterator[tuple[int, int]]:
        """Yield the span of each object: the values of the file, or the elements of arrays."""
        position = _skip(_blanks, self._text, 0)
        while position < len(self._text):
            stop = self._check(position)
            spans = [(position, stop)]
            if self._text[position] == "[":
                spans = list(_elements(self._text, position))
            for span in spans:
                if self._text[span[0]] != "{":
                    raise SourceError(f"{self._place(span[0])}: an overlay is a JSON object")
                yield span
            position = _skip(_blanks, self._text, stop)

    def _check(self, position: int) -> int:
        """Return the end of the JSON value that starts here; raises SourceError without one."""
        try:
            stop = _scan(self._text, position)[1]
        except json.JSONDecodeError as error:
            raise SourceError(
                f"{self._place(error.pos)}: {error.msg} at column {error.colno}; mend the overlay"
            ) from error
        except ValueError as error:
            raise SourceError(f"{self._place(position)}: {error}") from error
        except RecursionError as error:
            raise SourceError(
                f"{self._place(position)}: is nested too deeply to be read"
            ) from error
        if fault := describe_surrogate(self._text[position:stop].encode()):
            raise SourceError(f"{self._place(position)}: {fault}")
        return stop

    def _without_id(self, service_id: str, patch: str, offset: int) -> str:
        members = []
        for name, spelling, value, _ in _members(patch):
            if name != "id":
                members.append(f"{spelling}:{value}")
            elif json.loads(value) != service_id:
                raise SourceError(
                    f"{self._place(offset)}: the overlay for {json.dumps(service_id)} says that "
                    f"its id is {value}; an id cannot be patched, take it out"
                )
        return f"{{{','.join(members)}}}"

    def _place(self, offset: int) -> str:
        return f"{self._name}:{bisect(self._breaks, offset - 1) + 1}"


def _read(path: str) -> str:
    with source_errors(path), Path(path).open("rb") as file:
        content = decompress(file).read(MAX_FILE + 1).removeprefix(BYTE_ORDER_MARK)
    if len(content) > MAX_FILE:
        raise SourceError(f"{path}: holds more than {MAX_FILE:,} bytes of overlays; split it")
    if not content.strip():
        raise SourceError(f"{path}: is empty; a list of nothing is written as []")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SourceError(f"{path}:{line}: is not UTF-8; save it as UTF-8") from error


def _members(text: str, position: int = 0) -> Iterator[Member]:
    """Yield the members of the well-formed object that starts here; names may repeat."""
    position = _skip(_separators, text, position + 1)
    while text[position] != "}":
        name, end = _scan(text, position)
        start = _skip(_separators, text, end)
        stop = _scan(text, start)[1]
        yield Member(name, text[position:end], text[start:stop], start)
        position = _skip(_separators, text, stop)


def _elements(text: str, position: int) -> Iterator[tuple[int, int]]:
    """Yield the span of each element of the well-formed array that starts here."""
    position = _skip(_separators, text, position + 1)
    while text[position] != "]":
        stop = _scan(text, position)[1]
        yield position, stop
        position = _skip(_separators, text, stop)


def _skip(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    return match.end() if match else position
