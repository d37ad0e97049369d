"""Parameters and bodies of operations: what is kept of schemas, and references that are hostile."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from indexer.resources.resource import Resource
from indexer.resources.schemas import MAX_PARAMETERS, MAX_VALUE
from service.schema.listings import Advice
from tests.support.running import Json
from tests.support.sources.openapi import X402SCAN, document, fixed, read

JSON = "application/json"


def resource_of(schemas: Json | None = None, **operation: Any) -> Resource:
    """Return the resource of the only operation of a document with these schemas."""
    given = document({"/a": {"post": fixed(**operation)}}, components={"schemas": schemas or {}})
    (found,) = read(given)
    assert found.resource is not None
    return found.resource


def parameters_of(schemas: Json | None = None, **operation: Any) -> list[Json]:
    found: list[Json] = json.loads(resource_of(schemas, **operation).parameters)
    return found


def body(schema: Any, media: str = JSON, **fields: Any) -> Json:
    return {"content": {media: {"schema": schema}}} | fields


def ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def names(parameters: list[Json]) -> list[str]:
    return [each["name"] for each in parameters]


def test_members_of_the_body_are_parameters() -> None:
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


@pytest.mark.parametrize(
    ("media", "body_type"),
    [
        (JSON, ""),
        ("application/vnd.a+json", "application/vnd.a+json"),
        ("multipart/form-data", "multipart/form-data"),
        ("multipart/form-data; boundary=a", "multipart/form-data"),
        ("application/x-www-form-urlencoded", "application/x-www-form-urlencoded"),
    ],
)
def test_a_body_of_any_media_type_has_its_members(media: str, body_type: str) -> None:
    schema = {"properties": {"file": {"type": "string", "format": "binary"}}, "required": ["file"]}
    found = resource_of(requestBody=body(schema, media))
    assert [
        (each["group"], each["name"], each["required"]) for each in json.loads(found.parameters)
    ] == [("body", "file", True)]
    assert found.body_type == body_type


@pytest.mark.parametrize(
    ("media", "schema", "type_"),
    [
        (JSON, {"type": "array", "items": {}}, "array"),
        ("text/plain", {"type": "string"}, "string"),
        ("text/plain", {}, "string"),
        ("application/octet-stream", {"type": "string", "format": "binary"}, "string"),
        ("application/octet-stream", {}, "string"),
    ],
)
def test_a_body_without_members_is_one_parameter(media: str, schema: Json, type_: str) -> None:
    found = resource_of(requestBody=body(schema, media, required=True))
    assert [tuple(each.values()) for each in json.loads(found.parameters)] == [
        ("body", "body", type_, True)
    ]
    assert found.is_whole_body
    assert found.body_type == ("" if media == JSON else media)
    assert parameters_of(requestBody=body({"type": "object"})) == []


def test_json_is_preferred_of_several_media_types() -> None:
    schemas: Json = {
        name: {"schema": {"properties": {name: {}}}} for name in ("text/a", "a/b", JSON)
    }
    found = resource_of(requestBody={"content": schemas})
    assert (names(parameters_of(requestBody={"content": schemas})), found.body_type) == ([JSON], "")


def test_composed_bodies_have_the_members_of_their_parts() -> None:
    schemas = {
        "Base": {"properties": {"a": {"type": "string"}}, "required": ["a"]},
        "Either": {
            "allOf": [ref("Base"), {"properties": {"b": {"enum": [1, 2]}}, "required": ["b"]}],
            "oneOf": [{"properties": {"c": {"type": "boolean"}}, "required": ["c"]}],
        },
    }
    found = parameters_of(schemas, requestBody=body(ref("Either")))
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


@pytest.mark.parametrize("key", ["anyOf", "oneOf"])
def test_an_alternative_of_null_leaves_the_other_type(key: str) -> None:
    schema = {key: [{"type": "null"}, {"type": "integer"}], "default": None}
    (found,) = parameters_of(parameters=[{"name": "a", "in": "query", "schema": schema}])
    assert (found["type"], found["default"]) == ("number", None)


@pytest.mark.parametrize(
    "value", ["x" * MAX_VALUE, {"a": {"b": "x" * MAX_VALUE}}, [[1] * MAX_VALUE]]
)
def test_a_long_value_of_a_schema_is_left_out(value: Any) -> None:
    (found,) = parameters_of(
        parameters=[{"name": "a", "in": "query", "schema": {"type": "object", "default": value}}]
    )
    assert found == {"group": "query", "name": "a", "type": "object", "required": False}


def test_parameters_of_the_operation_come_before_those_of_its_path() -> None:
    shared = {"name": "q", "in": "query", "description": "of the path", "schema": {}}
    own = shared | {"description": "of the operation", "examples": {"a": {"value": "b"}}}
    item = {"parameters": [shared, {"name": "r", "in": "query"}], "get": fixed(parameters=[own])}
    (found,) = read(document({"/a": item}))
    assert found.resource is not None
    q, r = json.loads(found.resource.parameters)
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
    ("name", "pointer"), [("a/b", "a~1b"), ("a~b", "a~0b"), ("a~1b", "a~01b"), ("a b", "a%20b")]
)
def test_references_are_json_pointers(name: str, pointer: str) -> None:
    """Source: RFC 6901, sections 3, 4 and 6."""
    schemas: Json = {name: {"properties": {"found": {}}}}
    assert names(parameters_of(schemas, requestBody=body(ref(pointer)))) == ["found"]


@pytest.mark.parametrize(
    "pointer",
    ["#", "#/", "#/components/schemas/none", "#/paths/~1a/post/tags/7", "#/" + "a/" * 10_000],
)
def test_references_to_nothing_describe_nothing(pointer: str) -> None:
    found = parameters_of(requestBody=body({"properties": {"a": {"$ref": pointer}}}), tags=["b"])
    assert names(found) == ["a"]


@pytest.mark.parametrize(
    "schema",
    [{"$ref": "https://evil.example/a.json"}, {"properties": {"a": {"$ref": "b#/c"}}}],
)
def test_references_to_other_documents_are_not_followed_and_advised_against(schema: Json) -> None:
    for _ in range(2):
        assert Advice.EXTERNAL_REF in Advice(resource_of(requestBody=body(schema)).advice)
    assert Advice.EXTERNAL_REF not in Advice(resource_of(requestBody=body({})).advice)


def test_wide_and_deep_schemas_are_bounded() -> None:
    """A schema of 8^40 alternatives and 200 members, and long values, add little."""
    schemas: Json = {
        f"S{number}": {"allOf": [ref(f"S{number + 1}")] * 8, "oneOf": [ref(f"S{number + 1}")] * 8}
        for number in range(40)
    }
    schemas["S0"] |= {
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
    assert len(parameters_of(schemas, requestBody=body(ref("S0")))) == MAX_PARAMETERS
    found = parameters_of(schemas, requestBody=body(ref("Long")))
    assert len(found) == MAX_PARAMETERS
    assert max(len(json.dumps(each)) for each in found) < 2_000
    given = document(
        {f"/{number}": {"post": fixed(requestBody=body(ref("S0")))} for number in range(20)},
        components={"schemas": schemas},
    )
    for each in read(given):
        assert len(msgspec.msgpack.encode(each.resource)) < 200 * 1024


def test_an_example_that_all_operations_share_is_measured_once() -> None:
    example = {"$ref": "#/components/examples/large"}
    schemas = {"Size": {"type": "string"}}
    parameters = [
        {"name": f"p{number}", "in": "query", "schema": ref("Size"), "examples": {"a": example}}
        for number in range(MAX_PARAMETERS)
    ]
    operations = {f"/{n}": {"get": fixed(parameters=parameters)} for n in range(200)}
    components = {"schemas": schemas, "examples": {"large": {"value": [7] * 4_000_000}}}
    found = read(document(operations, components=components))
    assert {len(json.loads(each.resource.parameters)) for each in found if each.resource} == {
        MAX_PARAMETERS
    }


def test_a_reference_may_have_a_description_of_its_own() -> None:
    described = [
        {"name": word, "in": "query", "schema": ref("Size") | {"description": word}}
        for word in ("width", "height")
    ]
    found = parameters_of({"Size": {"type": "integer"}}, parameters=described)
    assert [(each["type"], each["description"]) for each in found] == [
        ("number", "width"),
        ("number", "height"),
    ]
