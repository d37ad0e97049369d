"""The parameters of the operations, as OpenAPI describes them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import msgspec
from msgspec import NODEFAULT
from msgspec.inspect import LiteralType, Type

from service.api.query_string import Operation, Parameter, parameters_of
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
    _, schemas = msgspec.json.schema_components([kind])
    schema = schemas[kind.__name__]
    return [
        {
            "name": name,
            "in": "query",
            **_describe_value(
                _without_blank(schema["properties"][name], parameter), parameter.type
            ),
            "required": name in schema["required"],
            **({"style": "form", "explode": False} if "is_joined" in parameter.extra else {}),
            **({"example": example} if (example := examples.get(name)) else {}),
        }
        for name, parameter in parameters_of(kind).items()
    ]


def describe_id(kind: str, pattern: str, example: str | None) -> list[Json]:
    """Return the id of a record of this kind in the path."""
    by_id = {"name": "id", "in": "path", "description": f"The id of a {kind}.", "required": True}
    schema = {"schema": {"type": "string", "pattern": pattern}}
    return [by_id | schema | ({"example": example} if example else {})]


def _without_blank(schema: Json, parameter: Parameter) -> Json:
    """Return the schema of a parameter, which blank text satisfies where it means none."""
    if not parameter.extra.get("is_blank_missing") or parameter.default is NODEFAULT:
        return schema
    return {key: value for key, value in schema.items() if key not in {"pattern", "minLength"}}


def _describe_value(schema: Json, kind: Type) -> Json:
    """Return the schema of a field as that of a value that is given, and the description."""
    # To leave a parameter out is how to say null.
    options = [each for each in schema.pop("anyOf", []) if each != {"type": "null"}]
    value: Json = reduce(dict.__or__, [{"type": "string"}, *options, schema])
    description = value.pop("description")
    if isinstance(kind, LiteralType):
        value["enum"] = list(kind.values)
    if value.get("default") in {"", (), None}:
        value.pop("default", None)
    return {"description": description, "schema": value}
