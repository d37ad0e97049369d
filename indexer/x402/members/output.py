"""Names of output fields, as schemas and examples of any shape declare them.

Version 1 of the protocol has `outputSchema.output`: a JSON Schema, or fields with their types.
Version 2 has an example in `extensions.bazaar.info.output`, and a JSON Schema beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from indexer.untrusted import items, mapping
from indexer.x402.members.parameters import names_type

MAX_NAMES = 64
MAX_NAME = 40  # characters
MAX_NODES = 500
"""Objects and arrays of one output that are read."""
MAX_LEVELS = 12
"""Levels of nested JSON; an array of objects in a JSON Schema takes three."""
MAX_EXAMPLES = 3
"""Elements of an array of an example: they have the same fields."""

_ENVELOPES = frozenset(("schema", "content", "output", "example", "items"))
"""Keys beside fields whose values hold the fields."""
_IGNORED = frozenset(("input", "$schema", "required", "additionalProperties"))
_COMBINED = ("anyOf", "oneOf", "allOf", "prefixItems")
_DEFINED = ("$defs", "definitions")
_name = re.compile(r"[^\W\d][\w .-]*")


def read_output(*declared: Any) -> str:
    """Return the distinct names of the fields of outputs, decoded JSON of any type, as one text."""
    reader = _NameCollector()
    for each in declared:
        reader.read(each, MAX_LEVELS)
    return " ".join(reader.names)


def declared_outputs(extension: Any, output_schemas: Iterable[Any]) -> list[Any]:
    """Return what the Bazaar extension, and the first schema of version 1, declare as output."""
    schema = mapping(mapping(mapping(extension, "schema"), "properties"), "output")
    return [
        mapping(mapping(schema, "properties"), "example"),
        mapping(mapping(extension, "info"), "output"),
        next(filter(None, map(_output_of, output_schemas)), None),
    ]


def _output_of(schema: Any) -> Any:
    return schema.get("output") if isinstance(schema, dict) else None


class _NameCollector:
    """Collects names, within the bounds of one text."""

    def __init__(self) -> None:
        self.names: dict[str, None] = {}
        self._nodes = MAX_NODES

    def read(self, value: Any, levels: int, *, is_example: bool = False) -> None:
        """Collect the names of a value of so many levels."""
        self._nodes -= 1
        if not levels or self._nodes < 0 or len(self.names) >= MAX_NAMES:
            return
        if isinstance(value, list):
            for each in value[:MAX_EXAMPLES]:
                self.read(each, levels - 1, is_example=is_example)
        elif isinstance(value, dict):
            if not is_example and _is_schema(value):
                self._read_schema(value, levels)
            else:
                self._read_fields(value, levels, is_example=is_example)

    def _read_schema(self, schema: dict[str, Any], levels: int) -> None:
        for name, each in mapping(schema, "properties").items():
            self._add(name)
            self.read(each, levels - 1)
        parts = [schema.get("items")]
        parts += [each for key in _COMBINED for each in items(schema, key)]
        parts += [each for key in _DEFINED for each in mapping(schema, key).values()]
        for each in parts:
            self.read(each, levels - 1)

    def _read_fields(self, fields: dict[str, Any], levels: int, *, is_example: bool) -> None:
        for name, each in fields.items():
            if not is_example and name in _IGNORED:
                continue
            if not is_example and (name in _ENVELOPES or "/" in name):
                self.read(each, levels - 1, is_example=name == "example")
                continue
            if is_example or isinstance(each, (dict, list)) or names_type(each):
                self._add(name)
            self.read(each, levels - 1, is_example=is_example)

    def _add(self, name: str) -> None:
        if len(name) <= MAX_NAME and len(self.names) < MAX_NAMES and _name.fullmatch(name):
            self.names[name] = None


def _is_schema(value: dict[str, Any]) -> bool:
    """Whether an object is a JSON Schema, rather than fields by name."""
    return (
        isinstance(value.get("properties"), dict)
        or names_type(value.get("type"))
        or any(isinstance(value.get(key), list) for key in _COMBINED)
    )
