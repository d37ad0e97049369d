"""Names of output fields: every shape in use, and bounds for all others."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.x402.members.output import (
    MAX_LEVELS,
    MAX_NAME,
    MAX_NAMES,
    declared_outputs,
    read_output,
)

OBJECT = {"type": "object", "properties": {"temp": {"type": "number"}}}


@pytest.mark.parametrize(
    ("declared", "names"),
    [
        ({"temp": "number", "sky": "string|null"}, "temp sky"),
        ({"temp": {"type": "number"}, "sky": {"type": "string"}}, "temp sky"),
        (OBJECT, "temp"),
        ({"type": "array", "items": OBJECT}, "temp"),
        ({"items": OBJECT}, "temp"),
        ({"schema": OBJECT, "isDiscoverable": True}, "temp"),
        ({"content": {"application/json": {"schema": {"oneOf": [OBJECT]}}}}, "temp"),
        ({"$ref": "#/$defs/A", "$defs": {"A": OBJECT}, "type": "object"}, "temp"),
        ({"type": "json", "example": {"temp": 3, "sky": [{"cover": 0.5}]}}, "temp sky cover"),
        ({"output": OBJECT, "input": {"method": "GET", "city": "string"}}, "temp"),
        ({"day": OBJECT, "night": [OBJECT]}, "day temp night"),
        ({"type": "object", "description": "The answer", "required": ["temp"]}, ""),
        ({"type": "string"}, ""),
        ("text", ""),
        (None, ""),
    ],
)
def test_the_names_of_fields_are_read_in_any_shape(declared: Any, names: str) -> None:
    assert read_output(declared) == names


def test_names_are_those_of_the_extension_and_of_the_first_schema() -> None:
    example = {"type": "object", "properties": {"example": OBJECT, "type": {"type": "string"}}}
    extension = {
        "info": {"output": {"type": "json", "example": {"sky": "clear"}}},
        "schema": {"properties": {"output": example}},
    }
    outputs = ({"wind": "number"}, {"sun": "number"})
    schemas: list[Any] = [None, {"input": {}}, *({"output": each} for each in outputs)]
    assert read_output(*declared_outputs(extension, schemas)) == "temp sky wind"


def test_names_that_are_data_are_left_out() -> None:
    example = {"0x4c2f": 1, "9": 2, "https://one.example/": 3, "x" * (MAX_NAME + 1): 4, "sky": 5}
    assert read_output({"example": example}) == "sky"


def test_names_are_bounded() -> None:
    many = {f"n{number}": {"type": "string"} for number in range(1000)}
    assert read_output(many).split() == list(many)[:MAX_NAMES]
    nested: Any = OBJECT
    for number in range(5000):
        nested = {f"level{number}": nested}
    assert "temp" not in read_output(nested)
    example: Any = 1
    for number in reversed(range(2 * MAX_LEVELS)):
        example = {f"n{number}": example}
    lists: Any = {"deep": 1}
    for _ in range(2 * MAX_LEVELS):
        lists = [lists]
    assert read_output({"example": lists}) == ""
    assert read_output({"example": example}).split() == [f"n{n}" for n in range(MAX_LEVELS - 1)]
    assert read_output({"oneOf": [{"oneOf": [{"type": "string"}] * 1000}] * 1000, "a": {}}) == ""


KEYS = ("type", "properties", "items", "example", "output", "oneOf", "$defs", "a", "b")
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["string", "x", "object"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=5,
        )
    ),
    max_leaves=30,
)


@given(values)
def test_only_names_of_the_document_are_read(declared: Any) -> None:
    names = read_output(declared).split()
    assert len(names) == len(set(names)) <= MAX_NAMES
    assert all(f'"{name}":' in json.dumps(declared) for name in names)
