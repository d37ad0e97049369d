"""Parameters of discovered resources, declared in any of the forms in use."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.resources.parameters import MAX_OUTPUT, read_input, read_output
from tests.support.running import Json
from tests.support.sources.x402 import URL, endpoint_of, read, v1, v2


def parameters_of(record: Json) -> list[Json]:
    parameters: list[Json] = endpoint_of(record).get("parameters", [])
    return parameters


BODY = [
    {"group": "body", "name": "city", "type": "string", "description": "Where", "required": True},
    {"group": "body", "name": "days", "type": "number", "default": 3, "required": False},
]


@pytest.mark.parametrize(
    "declared",
    [
        {
            "bodyFields": {
                "city": {"type": "string", "description": "Where", "required": True},
                "days": {"type": "integer", "default": 3, "required": False},
            }
        },
        {
            "body_fields": {
                "type": "object",
                "required": ["city"],
                "properties": {
                    "city": {"type": "string", "description": "Where"},
                    "days": {"anyOf": [{"type": "null"}, {"type": "integer"}], "default": 3},
                },
            }
        },
        {
            "bodyFields": [
                {"name": "city", "type": "string", "description": "Where", "required": True},
                {"name": "days", "type": "number", "default": 3, "required": False},
            ]
        },
        {
            "required": ["city"],
            "properties": {
                "city": {"type": ["null", "string"], "description": "Where"},
                "days": {"type": "int", "default": 3},
            },
        },
    ],
)
def test_the_fields_of_version_1_become_parameters(declared: Json) -> None:
    assert parameters_of(v1({"method": "POST"} | declared)) == BODY


def test_fields_that_name_no_place_are_in_the_query_where_a_method_has_no_body() -> None:
    declared = {"properties": {"city": {"type": "string"}}}
    for method, group in {"get": "query", "DELETE": "query", "PUT": "body"}.items():
        (parameter,) = parameters_of(v1({"method": method} | declared))
        assert parameter["group"] == group, method


def test_examples_and_their_schema_become_parameters() -> None:
    record = v2(
        {"method": "GET", "queryParams": {"city": "Oslo", "days": 2}, "headers": {"X-Key": "a"}},
        {
            "queryParams": {
                "type": "object",
                "required": ["city"],
                "properties": {
                    "city": {"type": "string", "enum": ["Oslo", "Rome"]},
                    "days": {"type": "integer", "default": 1.10},
                },
            },
            "headers": {"properties": {"X-Key": {"type": "string"}}},
        },
    )
    assert endpoint_of(record)["method"] == "GET"
    assert parameters_of(record) == [
        {
            "group": "query",
            "name": "city",
            "type": "string",
            "example": "Oslo",
            "enumValues": ["Oslo", "Rome"],
            "required": True,
        },
        {
            "group": "query",
            "name": "days",
            "type": "number",
            "example": 2,
            "default": 1.1,
            "required": False,
        },
    ]


@pytest.mark.parametrize(("body", "kind"), [("string", "string"), (["string"], "array")])
def test_a_whole_body_that_names_a_type_is_an_example_beside_a_schema(body: Any, kind: str) -> None:
    expected = {"group": "body", "name": "body", "type": kind, "example": body}
    assert parameters_of(v2({"method": "POST", "body": body})) == [expected]


@pytest.mark.parametrize(
    ("described", "expected"),
    [
        ("string", {"type": "string"}),
        ("integer parameter", {"type": "number"}),
        ("The city to look up", {"type": "string", "description": "The city to look up"}),
        ({"type": '"a" | "b"'}, {"type": "string", "enumValues": ["a", "b"]}),
        ({"enum": [1, 2]}, {"type": "number", "enumValues": [1, 2]}),
        ({"items": {"type": "string"}}, {"type": "array"}),
        ({"type": "file", "examples": ["x.png"]}, {"type": "string", "example": "x.png"}),
        ({"type": "datetime", "example": True}, {"type": "boolean", "example": True}),
        ({"type": {"type": []}, "description": 7, "enum": 7}, {"type": "string"}),
        (None, {"type": "string"}),
        (7, {"type": "string"}),
    ],
)
def test_a_field_may_be_described_in_many_forms(described: Any, expected: Json) -> None:
    parameters = parameters_of(v1({"method": "GET", "queryParams": {"q": described}}))
    assert parameters == [{"group": "query", "name": "q"} | expected]


@pytest.mark.parametrize("key", ["toolName", "tool"])
def test_an_mcp_tool_is_read_with_its_name_and_description(key: str) -> None:
    record = v2(
        {
            "type": "mcp",
            key: "analyse",
            "description": "Analyses a stock",
            "inputSchema": {"properties": {"ticker": {"type": "string"}}, "required": ["ticker"]},
            "example": {"ticker": "AAPL"},
        }
    )
    endpoint = endpoint_of(record)
    assert (endpoint["method"], endpoint["tool"], endpoint["description"]) == (
        "",
        "analyse",
        "Analyses a stock",
    )
    (ticker,) = endpoint["parameters"]
    assert ticker == {
        "group": "body",
        "name": "ticker",
        "type": "string",
        "example": "AAPL",
        "required": True,
    }


@pytest.mark.parametrize(
    ("url", "template", "expected", "names"),
    [
        ("https://a.example/u/7", "/u/:id", "https://a.example/u/:id", ["id"]),
        ("https://a.example/u/7?v=1", "/u/:id", "https://a.example/u/:id?v=1", ["id"]),
        ("https://a.example/api/u/7", "/u/:id", "https://a.example/api/u/7", []),
        ("https://a.example/u/7", "/w/:id", "https://a.example/u/7", []),
        ("https://a.example/u/7", f"/u/:{'i' * 5000}", "https://a.example/u/7", []),
        ("https://a.example/u/7", "//evil.example", "https://a.example/u/7", []),
        ("https://a.example/{a}/x/:b_c/[d]", None, "https://a.example/{a}/x/:b_c/[d]", list("abd")),
        ("https://a.example/x/urn:swarm:1", None, "https://a.example/x/urn:swarm:1", []),
    ],
)
def test_placeholders_in_the_path_are_parameters(
    url: str, template: str | None, expected: str, names: list[str]
) -> None:
    record = v2({"method": "GET"}, routeTemplate=template) | {"resource": url}
    endpoint = endpoint_of(record)
    assert endpoint["url"] == expected
    path = [each for each in endpoint.get("parameters", []) if each["group"] == "path"]
    assert [each["name"][0] for each in path] == [name[0] for name in names]
    assert all(each["required"] for each in path)


@pytest.mark.parametrize(
    "schema",
    [
        "text",
        [1],
        {"input": 7},
        {"input": {"queryParams": [[]], "bodyFields": "x", "method": ["GET"]}},
        {"input": {"properties": {"a": 7}, "required": {}}},
        {"input": {"queryParams": {"": {"type": "string"}}}},
    ],
)
def test_a_schema_that_cannot_be_understood_leaves_a_resource_without_parameters(
    schema: Any,
) -> None:
    record = v1({})
    record["accepts"][0]["outputSchema"] = schema
    assert parameters_of(record) == []


def test_values_in_a_schema_are_kept_exactly_unless_the_record_could_not_be_decoded() -> None:
    deep = "[" * 100 + "]" * 100
    text = json.dumps(
        v1({"method": "GET", "queryParams": {"a": {"default": "A"}, "b": {"default": "B"}}})
    )
    exact = endpoint_of(text.replace('"A"', "123456789012345678901234567890.10").encode())
    assert exact["parameters"][0]["default"] == pytest.approx(1.2345678901234568e29)
    raw = msgspec.json.encode(read(text.replace('"B"', deep).encode()).to_endpoint())
    assert b'"default":"A"' in raw
    assert b"[[" not in raw


def test_a_number_too_near_to_zero_for_a_decimal_is_zero() -> None:
    number = "1e-9999999999999999999"
    text = json.dumps(v2({"method": "POST", "body": {"x": "number"}})).replace('"number"', number)
    (parameter,) = endpoint_of(text.encode())["parameters"]
    assert (parameter["name"], parameter["example"]) == ("x", 0)


OBJECT = {"type": "object", "properties": {"temp": {"type": "number"}}}


def test_outputs_are_read_of_an_example_in_the_schema_the_extension_and_the_entries() -> None:
    record = v2({"method": "GET"})
    bazaar = record["extensions"]["bazaar"]
    bazaar["info"]["output"] = {"example": {"tide": 1}}
    bazaar["schema"]["properties"]["output"] = {"properties": {"example": {"harbour": {}}}}
    record["accepts"][0]["outputSchema"] = {"output": {"wind": "number"}}
    assert read(record).output == "harbour tide wind"


@pytest.mark.parametrize(
    ("declared", "names"),
    [
        ({"temp": "number", "sky": "string|null"}, "temp sky"),
        ({"type": "array", "items": OBJECT}, "temp"),
        ({"content": {"application/json": {"schema": {"oneOf": [OBJECT]}}}}, "temp"),
        ({"type": "json", "example": {"temp": 3, "sky": [{"cover": 0.5}]}}, "temp sky cover"),
        ({"0x4c2f": 1, "https://one.example/": 3, "x" * 41: 4, "sky": 5}, "sky"),
        ({"type": "string"}, ""),
        ("text", ""),
        (None, ""),
    ],
)
def test_the_names_of_output_fields_are_the_keys_that_are_names(declared: Any, names: str) -> None:
    assert read_output(declared) == names


@given(
    st.dictionaries(
        st.text(max_size=6), st.text(max_size=6) | st.dictionaries(st.text(), st.none())
    )
)
def test_only_names_of_the_document_are_read(declared: Json) -> None:
    names = read_output(declared).split()
    assert len(names) <= MAX_OUTPUT
    assert all(name in json.dumps(declared, ensure_ascii=False) for name in names)


def test_a_schema_of_many_members_is_read_in_time() -> None:
    names = [str(number) for number in range(90_000)]
    schema = {"properties": {name: {"type": "number"} for name in names}, "required": names}
    found = read_input([{"method": "POST", "inputSchema": schema}], URL)
    assert {each.required for each in found.parameters} == {True}
