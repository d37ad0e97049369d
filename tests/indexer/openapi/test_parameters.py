"""Parameters of operations: what is kept of schemas, and references that are hostile."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from indexer.openapi.parameters import MAX_PARAMETERS, MAX_VALUE
from indexer.x402.described import read_described
from service.schema.listings import Advice
from tests.support.running import Json
from tests.support.sources.openapi import X402SCAN, document, fixed, read

JSON = "application/json"


def parameters_of(schemas: Json | None = None, **operation: Any) -> list[Json]:
    """Return the parameters of the only operation of a document with these schemas."""
    given = document({"/a": {"post": fixed(**operation)}}, components={"schemas": schemas or {}})
    (record,) = read(given)
    assert record.fault is None
    resource = read_described(record)
    found: list[Json] = json.loads(msgspec.json.encode(resource.to_endpoint())).get(
        "parameters", []
    )
    return found


def body(schema: Any, media: str = JSON, **fields: Any) -> Json:
    return {"content": {media: {"schema": schema}}} | fields


def ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def names(parameters: list[Json]) -> list[str]:
    return [each["name"] for each in parameters]


def test_members_of_the_json_body_are_parameters() -> None:
    place = X402SCAN["components"]["schemas"]
    assert parameters_of(place, requestBody=body(ref("Place"))) == [
        {
            "group": "body",
            "name": "lat",
            "type": "number",
            "description": "degrees north",
            "example": 59.9,
            "required": True,
        },
        {"group": "body", "name": "near", "type": "object", "required": False},
    ]


def test_composed_bodies_have_the_members_of_their_parts() -> None:
    schemas = {
        "Base": {"properties": {"a": {"type": "string"}}, "required": ["a"]},
        "Either": {
            "allOf": [ref("Base"), {"properties": {"b": {"enum": [1, 2]}}, "required": ["b"]}],
            "oneOf": [{"properties": {"c": {"type": "boolean"}}, "required": ["c"]}],
        },
    }
    found = parameters_of(schemas, requestBody=body(ref("Either"), "application/vnd.a+json"))
    assert [(each["name"], each["type"], each["required"]) for each in found] == [
        ("a", "string", True),
        ("b", "number", True),
        ("c", "boolean", False),
    ]
    assert found[1]["enumValues"] == [1, 2]


def test_a_parameter_has_the_members_of_the_schemas_it_is_composed_of() -> None:
    parts = [ref("Size"), {"description": "of the tank", "example": 3}]
    found = parameters_of(
        {"Size": {"type": "integer", "enum": [3, 5]}},
        parameters=[{"name": "size", "in": "query", "schema": {"allOf": parts}}],
    )
    assert found == [
        {
            "group": "query",
            "name": "size",
            "type": "number",
            "description": "of the tank",
            "example": 3,
            "enumValues": [3, 5],
            "required": False,
        }
    ]


@pytest.mark.parametrize(
    "value", ["x" * MAX_VALUE, {"a": {"b": "x" * MAX_VALUE}}, [[1] * MAX_VALUE]]
)
def test_a_long_value_of_a_schema_is_left_out(value: Any) -> None:
    (found,) = parameters_of(
        parameters=[{"name": "a", "in": "query", "schema": {"type": "object", "default": value}}]
    )
    assert found == {"group": "query", "name": "a", "type": "object", "required": False}


def test_a_body_that_is_no_object_is_one_parameter() -> None:
    found = parameters_of(requestBody=body({"type": "array", "items": {}}, required=True))
    assert found == [{"group": "body", "name": "body", "type": "array", "required": True}]
    assert parameters_of(requestBody=body({"type": "object"})) == []
    assert parameters_of(requestBody=body({"type": "string"}, "text/plain")) == []


def test_parameters_of_the_operation_come_before_those_of_its_path() -> None:
    shared = {"name": "q", "in": "query", "description": "of the path", "schema": {}}
    own = shared | {"description": "of the operation", "examples": {"a": {"value": "b"}}}
    item = {"parameters": [shared, {"name": "r", "in": "query"}], "get": fixed(parameters=[own])}
    (record,) = read(document({"/a": item}))
    resource = read_described(record)
    q, r = json.loads(msgspec.json.encode(resource.to_endpoint()))["parameters"]
    assert (q["description"], q["example"], r["name"]) == ("of the operation", "b", "r")


def test_headers_and_cookies_are_no_parameters() -> None:
    places = ("header", "cookie", "body", "formData", 7)
    assert parameters_of(parameters=[{"name": "a", "in": place} for place in places]) == []


def test_cycles_of_references_end() -> None:
    schemas = {
        "A": {"allOf": [ref("B")], "properties": {"a": ref("A")}},
        "B": {"allOf": [ref("A")], "anyOf": [ref("B")], "properties": {"b": ref("C")}},
        "C": ref("D"),
        "D": ref("C"),
    }
    assert names(parameters_of(schemas, requestBody=body(ref("A")))) == ["a", "b"]
    assert parameters_of(schemas, requestBody=body(ref("C"))) == []
    assert parameters_of(schemas, requestBody={"$ref": "#/components/schemas/C"}) == []


@pytest.mark.parametrize(
    "pointer",
    ["#", "#/", "#/components/schemas/none", "#/paths/~1a/post/tags/7", "#/" + "a/" * 10_000],
)
def test_references_to_nothing_describe_nothing(pointer: str) -> None:
    found = parameters_of(requestBody=body({"properties": {"a": {"$ref": pointer}}}), tags=["b"])
    assert names(found) == ["a"]


def test_references_to_other_documents_are_not_followed_and_advised_against() -> None:
    for schema in (
        {"$ref": "https://evil.example/a.json"},
        {"properties": {"a": {"$ref": "b#/c"}}},
    ):
        (record,) = read(document({"/a": {"post": fixed(requestBody=body(schema))}}))
        resource = read_described(record)
        assert Advice.EXTERNAL_REF in Advice(resource.advice)


def test_wide_and_deep_schemas_are_bounded() -> None:
    """A schema of 8^40 alternatives and 200 members, and long values, add little."""
    schemas: Json = {
        f"S{number}": {"allOf": [ref(f"S{number + 1}")] * 8, "oneOf": [ref(f"S{number + 1}")] * 8}
        for number in range(40)
    }
    schemas["S40"] = {
        "properties": {
            f"p{number}": {"enum": ["a" * 1_000] * 10, "description": "b" * 5_000} | ref("S0")
            for number in range(200)
        }
    }
    schemas["Long"] = {
        "properties": {
            f"p{number}": {"type": "string", "default": "c" * 5_000, "description": "d" * 5_000}
            for number in range(200)
        }
    }
    assert len(parameters_of(schemas, requestBody=body(ref("S0")))) <= MAX_PARAMETERS
    found = parameters_of(schemas, requestBody=body(ref("Long")))
    assert len(found) == MAX_PARAMETERS
    assert max(len(json.dumps(each)) for each in found) < 2_000
    given = document(
        {f"/{number}": {"post": fixed(requestBody=body(ref("S0")))} for number in range(20)},
        components={"schemas": schemas},
    )
    assert max(len(each.text) for each in read(given)) < 200 * 1024
