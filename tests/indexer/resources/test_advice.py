"""Faults of a resource that its seller can mend; `/v1/listings` shows them with their texts."""

from __future__ import annotations

import pytest
from msgspec import json

from indexer.resources.parameters import DeclaredInput
from indexer.resources.x402 import advise
from service.schema.listings import Advice
from service.schema.records import ParameterDescriptor
from tests.support.running import Json
from tests.support.sources.x402 import URL, accept

FIRST: Json = {"maxAmountRequired": "1"}
SECOND = accept()
WITH_SCHEMA: Json = {"outputSchema": {}}


@pytest.mark.parametrize(
    ("entries", "has_extension", "stated", "is_mixed"),
    [
        ([], True, 1, False),
        ([FIRST], False, 1, False),
        ([FIRST], False, None, False),
        ([FIRST], False, 2, True),
        ([FIRST], True, 1, True),
        ([FIRST | WITH_SCHEMA], True, 1, False),
        ([FIRST | WITH_SCHEMA], False, 2, True),
        ([SECOND], False, 2, False),
        ([SECOND], True, None, False),
        ([SECOND], True, 1, True),
        ([SECOND | WITH_SCHEMA], False, 2, True),
        ([SECOND | WITH_SCHEMA], True, 2, False),
        ([FIRST, SECOND], True, 1, False),
        ([FIRST | SECOND], False, 2, False),
        ([{}], False, 2, False),
    ],
)
def test_the_version_and_the_schema_are_those_of_the_entries(
    entries: list[Json], has_extension: bool, stated: int | None, is_mixed: bool
) -> None:
    values: Json = {"extensions": {"bazaar": {}}} if has_extension else {}
    values["x402Version"] = stated
    faults = advise(values, entries, URL, DeclaredInput(), "")
    assert (Advice.WRONG_VERSION in faults) is is_mixed


@pytest.mark.parametrize(
    ("reference", "is_outside"), [("#/$defs/a", False), ("other.json#/a", True), (7, False)]
)
def test_a_schema_that_refers_to_another_document_is_found_at_any_depth(
    reference: object, is_outside: bool
) -> None:
    schema = {"input": {"anyOf": [{"type": "string"}, {"items": {"$ref": reference}}]}}
    for values, entry in (
        ({}, {"outputSchema": schema}),
        ({"extensions": {"bazaar": {"schema": schema}}}, SECOND),
    ):
        faults = advise(values, [entry], URL, DeclaredInput(), "")
        assert (Advice.EXTERNAL_REF in faults) is is_outside


@pytest.mark.parametrize(
    ("parameter", "lacks_example"),
    [
        ({"group": "path", "example": "oslo"}, False),
        ({"group": "path", "default": 0}, False),
        ({"group": "path"}, True),
        ({"group": "query", "example": "oslo"}, True),
    ],
)
def test_a_placeholder_needs_an_example_of_a_path_parameter(
    parameter: Json, lacks_example: bool
) -> None:
    values = {"name": "city", "type": "string"} | parameter
    given = json.decode(json.encode(values), type=ParameterDescriptor)
    faults = advise({}, [], "https://a.example/of/:city", DeclaredInput(parameters=[given]), "")
    assert (Advice.NO_EXAMPLE in faults) is lacks_example
