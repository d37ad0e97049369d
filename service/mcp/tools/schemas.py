"""JSON Schemas of the tools, without what costs bytes and says nothing."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from service.schema.values import Json

# Limits that an error explains better than a definition that every session pays for.
_DROPPED = ("title", "pattern", "minLength", "maxLength")
_DROPPED_IF_EMPTY = ("required", "default")  # the same as missing


def schema_of(kind: type[Struct]) -> Json:
    """Return the JSON Schema of a type, with the schemas of its parts in place."""
    _, parts = msgspec.json.schema_components([kind], ref_template="{name}")
    return _compact(parts[kind.__name__], parts)


def _compact(schema: Json, parts: dict[str, Json]) -> Json:
    if "$ref" in schema:
        part = _compact(parts[schema["$ref"]], parts)
        return part | {name: schema[name] for name in ("description",) if name in schema}
    if "anyOf" in schema:  # an optional value: missing is how to say null
        (value,) = (each for each in schema["anyOf"] if each != {"type": "null"})
        others = {name: schema[name] for name in schema if name not in ("anyOf", "default")}
        return _compact(value | others, parts)
    compact = {
        name: value
        for name, value in schema.items()
        if name not in _DROPPED and (value or name not in _DROPPED_IF_EMPTY)
    }
    if "properties" in compact:
        compact.pop("description", None)  # the docstring of a Struct is for its readers
        compact["properties"] = {
            name: _compact(each, parts) for name, each in compact["properties"].items()
        }
    if isinstance(compact.get("items"), dict):
        compact["items"] = _compact(compact["items"], parts)
    return compact
