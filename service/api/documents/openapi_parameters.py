"""The parameters of the operations, as OpenAPI describes them."""

from __future__ import annotations

from collections.abc import Mapping

from service.api.query_string import JOINED, Operation, parameters_of
from service.schema.values import Json

IF_NONE_MATCH: Json = {
    "name": "If-None-Match",
    "in": "header",
    "description": "The `ETag` of an earlier response; 304 while it is up to date.",
    "required": False,
    "schema": {"type": "string"},
}


def describe(kind: type[Operation], examples: Mapping[str, str | None]) -> list[Json]:
    """Return the parameters of an operation, with examples of some.

    Typical values of others are in their descriptions, since viewers fill an `example` into the
    request that a reader tries, which would find little with all of them.
    """
    return [
        {
            "name": name,
            "in": "query",
            "description": schema["description"],
            "schema": _given(schema),
            "required": "default" not in schema,
            **({"style": "form", "explode": False} if name in JOINED else {}),
            **({"example": example} if (example := examples.get(name)) else {}),
        }
        for name, schema in parameters_of(kind).items()
    ]


def describe_id(kind: str, pattern: str, example: str | None) -> list[Json]:
    """Return the id of a record of this kind in the path."""
    by_id = {"name": "id", "in": "path", "description": f"The id of a {kind}.", "required": True}
    schema = {"schema": {"type": "string", "pattern": pattern}}
    return [by_id | schema | ({"example": example} if example else {})]


def _given(schema: Json) -> Json:
    """Return the schema of a value that is given: over the maximum of integers means it."""
    is_left_out = schema.get("default") in (None, "", ())
    absent = ("description", "maximum", *(["default"] if is_left_out else []))
    given = {name: value for name, value in schema.items() if name not in absent}
    return given | {"type": "string"} if given.get("type") == "number" else given
