"""Facts wherever people state them: a resource stays the same when a fact moves."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.resources.facts import MAX_MEMBERS, SPELLINGS, Places, fold, looks_like_fact
from indexer.resources.x402 import NOT_READ, read_resource
from tests.support.json_values import json_values
from tests.support.running import Json, examples
from tests.support.sources.x402 import URL, USDC, resource

Place = Callable[[Json], Json]
"""Returns the object in which a member shall stand, made if need be."""

FIELD = {"type": "string", "description": "Where", "required": True}
FIELDS = {"harbour": FIELD}
SCHEMA = {"type": "object", "properties": FIELDS, "required": ["harbour"]}
STRUCTURE = """
resource url accepts extensions metadata type x402version ratecard x-ratecard quality info schema
input output outputschema inputschema requestschema parameters params properties bazaar extra
discoveryinfo discovery endpoints queryparams query queryparameters querystring bodyfields
bodyparams body requestbody pathparams path pathparameters auth-hints authhints items tool toolname
"""
KNOWN = frozenset(STRUCTURE.split()) | {each for names in SPELLINGS.values() for each in names}


def below(*keys: str) -> Place:
    def find(record: Json) -> Json:
        for key in keys:
            record = record.setdefault(key, {})
        return record

    return find


def entry(*keys: str) -> Place:
    return lambda record: below(*keys)(record["accepts"][0])


TOP, INNER, METADATA = below(), below("resource"), below("metadata")
BAZAAR, INFO = below("extensions", "bazaar"), below("extensions", "bazaar", "info", "input")
FACTS: dict[str, list[tuple[Place, str, Any]]] = {
    "method": [
        (place, name, value)
        for place in (
            INFO,
            TOP,
            INNER,
            METADATA,
            below("discoveryInfo", "input"),
            below("discoveryInfo"),
            below("outputSchema", "input"),
            entry("outputSchema", "input"),
        )
        for name, value in (("method", "POST"), ("httpMethod", "post"), ("http_method", "POST"))
    ],
    "input": [
        (METADATA, "inputSchema", SCHEMA),
        (METADATA, "input_schema", FIELDS),
        (TOP, "inputSchema", SCHEMA),
        (TOP, "parameters", [FIELD | {"name": "harbour", "in": "body"}]),
        (below("input"), "bodyFields", FIELDS),
        (below("input"), "body_fields", [FIELD | {"name": "harbour"}]),
        (INFO, "bodyFields", FIELDS),
        (
            below("extensions", "bazaar", "schema", "properties", "input"),
            "properties",
            {"body": SCHEMA},
        ),
        (below("discoveryInfo", "input"), "bodyParams", FIELDS),
        (below("outputSchema", "input"), "bodyFields", FIELDS),
        (entry("outputSchema", "input"), "body", SCHEMA),
        (INNER, "inputSchema", SCHEMA),
    ],
    "media": [
        (place, name, value)
        for place in (INFO, TOP, METADATA, entry("outputSchema", "input"))
        for name in ("bodyType", "body_type")
        for value in ("form-data", "multipart-form-data", "multipart/form-data; boundary=x")
    ],
    "amount": [
        (entry(), "amount", "2500"),
        (entry(), "maxAmountRequired", 2500),
        (entry(), "max_amount_required", "2500"),
    ],
    "network": [
        (entry(), name, value)
        for name in ("network", "chain", "networkId")
        for value in ("base", "eip155:8453", "Base", "base-mainnet", "BASE_MAINNET", "8453")
    ],
    "asset": [
        (entry(), "asset", USDC),
        (entry(), "asset", USDC.lower()),
        (entry(), "asset", f"eip155:8453/erc20:{USDC}"),
        (entry(), "token", USDC),
        (entry(), "token_address", USDC),
    ],
    "payee": [(entry(), name, "0xPay") for name in ("payTo", "pay_to", "recipient", "payee")],
    "description": [
        (place, "description", "Tides of a harbour")
        for place in (TOP, INNER, METADATA, entry(), entry("extra"))
    ],
    "name": [
        (place, name, "Tides")
        for place in (TOP, INNER, METADATA, entry("extra"))
        for name in ("serviceName", "service_name")
    ],
    "tags": [
        (place, name, value)
        for place in (TOP, INNER, METADATA, BAZAAR, entry("extra"))
        for name in ("tags", "keywords")
        for value in (["sea", "tides"], "sea, tides")
    ],
    "category": [(each, "category", "Data") for each in (TOP, INNER, METADATA, BAZAAR)],
    "icon": [
        (place, name, "https://tides.example/i.png")
        for place in (TOP, INNER, METADATA)
        for name in ("iconUrl", "icon_url", "icon", "logo")
    ],
    "auth": [
        (TOP, "requires", ["oauth2"]),
        (INNER, "requires", ["oauth2"]),
        (TOP, "auth", "oauth2"),
        (METADATA, "authentication", {"type": "oauth2"}),
    ],
    "updated": [
        (place, name, value)
        for place in (TOP, INNER, METADATA)
        for name in ("lastUpdated", "updated_at")
        for value in (1_700_000_000, "2023-11-14T22:13:20Z")
    ],
}
"""The usual places of each fact, with the names and the spellings of its value there."""


def state(record: Json, fact: str, number: int) -> None:
    """State a fact in one of its places."""
    place, name, value = FACTS[fact][number]
    place(record)[name] = copy.deepcopy(value)


def facts_of(record: Json, indent: int | None = None) -> Json:
    """Return all that a resource says of a call, whatever the form of its document."""
    found = read_resource(json.dumps(record, indent=indent).encode())
    endpoint = json.loads(msgspec.json.encode(found.to_endpoint()))
    facts = (
        "identity",
        "domain",
        "category",
        "icon_url",
        "updated",
        "networks",
        "payees",
        "requires",
    )
    return {"endpoint": endpoint} | {
        name: msgspec.to_builtins(getattr(found, name)) for name in facts
    }


def bare() -> Json:
    return resource({"url": URL}, {"scheme": "exact"})


def first() -> Json:
    """Return a resource with each fact in its first place."""
    record = bare()
    for fact in FACTS:
        state(record, fact, 0)
    return record


EXPECTED = facts_of(first())


def test_all_facts_are_read() -> None:
    assert EXPECTED["endpoint"] == {
        "url": URL,
        "method": "POST",
        "description": "Tides of a harbour",
        "pricing": {"amount": "0.0025", "currency": "USDC", "network": "Base", "scheme": "exact"},
        "parameters": [{"group": "body", "name": "harbour"} | FIELD],
        "bodyType": "multipart/form-data",
        "serviceName": "Tides",
        "tags": ["sea", "tides"],
        "payTo": "0xPay",
    }
    assert (EXPECTED["category"], EXPECTED["payees"]) == ("Data", ["0xpay"])
    assert EXPECTED["requires"] == [{"methods": ["oauth2"]}]
    assert EXPECTED["updated"] == 1_700_000_000_000_000


@pytest.mark.parametrize("fact", FACTS)
def test_a_fact_may_stand_in_any_of_its_usual_places(fact: str) -> None:
    for number in range(len(FACTS[fact])):
        record = bare()
        for other in FACTS:
            state(record, other, number if other == fact else 0)
        assert facts_of(record) == EXPECTED, FACTS[fact][number][1:]


unknown_names = st.text(max_size=12).filter(lambda name: fold(name) not in KNOWN)
unknown = json_values("GET", keys=unknown_names, text=st.text(max_size=5), leaves=6)


@settings(max_examples=examples(300), deadline=None)
@given(st.data())
def test_a_resource_stays_the_same_whatever_its_form(data: st.DataObject) -> None:
    record = bare()
    for fact in data.draw(st.permutations([*FACTS])):
        state(record, fact, data.draw(st.integers(0, len(FACTS[fact]) - 1)))
    for place in (TOP, INNER, METADATA, BAZAAR, entry(), entry("extra")):
        added = data.draw(st.dictionaries(unknown_names, unknown, max_size=2))
        for name, value in added.items():
            place(record).setdefault(name, value)
    indent = data.draw(st.sampled_from([None, 0, 2, 7]))
    assert facts_of(record, indent) == EXPECTED


@pytest.mark.parametrize(
    ("place", "name", "is_noted"),
    [
        (TOP, "priceHint", True),
        (TOP, "supported_networks", True),
        (METADATA, "auth_mode", True),
        (entry(), "settlementToken", True),
        (TOP, "provider", False),
        (entry("extra"), "tokenName", False),
        (entry(), "maxTimeoutSeconds", False),
    ],
)
def test_a_member_that_looks_like_a_fact_is_counted_by_its_name(
    place: Place, name: str, is_noted: bool
) -> None:
    record = first()
    place(record)[name] = "x"
    notices = read_resource(json.dumps(record).encode()).notices
    assert [each.path.rpartition(".")[2] for each in notices if each.kind.startswith(NOT_READ)] == (
        [name] if is_noted else []
    )
    assert looks_like_fact(name) == (is_noted or name == "tokenName")


@pytest.mark.parametrize(
    ("name", "value"), [("method", 7), ("tags", 7), ("category", ["x"]), ("bodyType", "martian")]
)
def test_a_fact_that_is_not_understood_is_counted_by_its_name(name: str, value: Any) -> None:
    record = resource(**{name: value})
    (notice,) = read_resource(json.dumps(record).encode()).notices
    assert (notice.kind, notice.path) == (f"{NOT_READ}`{name}`", f"$.{name}")


def test_members_beyond_the_first_of_an_object_are_not_read() -> None:
    few = {f"x{number}": 1 for number in range(MAX_MEMBERS - 1)}
    assert Places(few | {"amount": "5"}).line("amount", 9) == "5"
    assert Places(few | {"x": 1, "amount": "5"}).line("amount", 9) == ""
