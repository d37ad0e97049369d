"""Programs that call and pay: they compile, and pay no more than is listed."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

import msgspec
import pytest

from service.api.documents.snippets import DEFAULT_LIMIT, snippets
from service.schema.records import METHODS, Endpoint
from tests.support.running import Json, endpoint
from tests.support.sources.awkward import ADDRESSES, TEXTS, hostile_endpoint


@pytest.mark.parametrize(
    ("pricing", "limit"),
    [
        ({"amount": "0.005"}, 5_000),
        ({"amount": "0.0000001"}, 1),
        ({"amount": "0.01", "scheme": "upto", "maxAmount": "0.80"}, 800_000),
        ({"amount": "0.01", "scheme": "upto"}, 10_000),
        ({"amount": "2", "unitType": "token"}, DEFAULT_LIMIT),
        ({"amount": ""}, DEFAULT_LIMIT),
        ({"amount": "0"}, 0),
    ],
)
def test_a_program_pays_the_listed_price_at_most(pricing: dict[str, Any], limit: int) -> None:
    record = endpoint() | {"pricing": {"currency": "USDC"} | pricing}
    programs = snippets(decode(record))
    assert f"max_amount({limit})" in programs["Python"]
    assert f"BigInt(amount) <= {limit}n" in programs["TypeScript"]


def decode(record: Json) -> Endpoint:
    return msgspec.json.decode(json.dumps(record), type=Endpoint)


def calls_of(program: str) -> list[str]:
    """Return the functions that a program calls, in order."""
    nodes = ast.walk(ast.parse(program))
    return [ast.dump(node.func) for node in nodes if isinstance(node, ast.Call)]


@pytest.mark.parametrize(
    ("method", "content", "languages"),
    [
        ("GET, POST", {"POST"}, {"Python", "TypeScript"}),
        ("GET", {"GET"}, {"Python"}),
        ("HEAD", set(), set()),
    ],
)
def test_a_body_is_sent_by_a_method_that_has_one(
    method: str, content: set[str], languages: set[str]
) -> None:
    described = [{"group": "body", "name": "note", "type": "string"}]
    programs = snippets(decode(endpoint() | {"method": method, "parameters": described}))
    assert programs.keys() == languages
    sent = {each for each in METHODS if any(f'"{each}"' in text for text in programs.values())}
    assert sent == content
    assert snippets(decode(endpoint() | {"method": method})).keys() == {"Python", "TypeScript"}


@pytest.mark.parametrize("text", TEXTS)
def test_texts_of_sellers_are_literals_of_the_programs(text: str) -> None:
    plain = calls_of(snippets(decode(endpoint()))["Python"])
    for url in ADDRESSES:
        programs = snippets(decode(hostile_endpoint(url, text)))
        assert all(re.fullmatch(r"[\n -~]+", program) for program in programs.values())
        if programs:
            assert calls_of(programs["Python"]) == plain
