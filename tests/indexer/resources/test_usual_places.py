"""Any document: its resource is the same wherever a fact stands among its usual places.

Nor do other members or white space change anything.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.resources.documents import Described
from indexer.resources.facts import SPELLINGS, fold, looks_like_fact
from indexer.resources.resource import Resource
from tests.support.running import Json, examples
from tests.support.sources import manifests, mpp, openapi
from tests.support.sources.x402 import USDC

PAYEE = "0x" + "11" * 20
TERMS: Json = {"network": "eip155:8453", "asset": USDC, "payTo": PAYEE}
PRICE: Json = {"amount": "0.10", "currency": "EUR"}
KNOWN = {each for spellings in SPELLINGS.values() for each in spellings}
names = st.one_of(
    st.sampled_from(["buyerIntents", "note", "x-internal", "rank", "$comment", "audience", "ttl"]),
    st.text(min_size=1, max_size=8).map(lambda text: f"z{text}"),
).filter(lambda name: not looks_like_fact(name) and fold(name) not in KNOWN)
members: st.SearchStrategy[Json] = st.dictionaries(
    names,
    st.one_of(st.none(), st.booleans(), st.integers(0, 9), st.text(max_size=3), st.just(["a"])),
    max_size=2,
)
Draw = Callable[[st.SearchStrategy[Any]], Any]


def one_of(draw: Draw, *variants: Any) -> Any:
    """Return one of several ways to state the same facts."""
    return draw(st.sampled_from(variants))


@st.composite
def operations(draw: Draw) -> Json:
    """Return an OpenAPI document of one operation."""
    info = one_of(
        draw,
        {"protocols": ["x402"], "price": PRICE} | TERMS,
        {"protocols": ["x402"], "price": PRICE | TERMS},
        {"protocols": [{"x402": TERMS}], "price": PRICE},
        {"protocols": {"x402": TERMS}, "price": PRICE | {"mode": "fixed"}},
        {"protocols": [{"x402": TERMS | {"price": PRICE}}]},
        {"protocols": [{"x402": TERMS | {"price": "0.10", "currency": "EUR"}}]},
        {"price": {"value": 0.1, "currency": "EUR"}} | TERMS,
        {"price": "0.10", "currency": "EUR", "pricingMode": "fixed"} | TERMS,
        {"price": "0.10 EUR"} | TERMS,
        {"amount": "0.10", "currency": "EUR", "pay_to": PAYEE} | TERMS,
    )
    operation: Json = {"x-payment-info": info | draw(members), "summary": "Forecast"} | draw(
        members
    )
    item: Json = {"post": operation}
    given_: Json = openapi.document({"/a": item}) | draw(members)
    owner = one_of(draw, operation, item, given_)
    given_.pop("servers")
    owner["servers"] = [{"url": "https://api.weather.example"} | draw(members)]
    if draw(st.booleans()):
        owner["servers"].insert(0, {"url": "http://localhost:3000"})
    one_of(draw, operation, item)["parameters"] = [
        {"name": "q", "in": "query", "schema": {"type": "string"}} | draw(members)
    ]
    schema: Json = {"type": "object", "properties": {"file": {"type": "string"}}} | draw(members)
    if draw(st.booleans()):
        given_["components"] = {"schemas": {"Body": schema}}
        schema = {"$ref": "#/components/schemas/Body"}
    body: Json = {"content": {"multipart/form-data": {"schema": schema}}} | draw(members)
    operation["requestBody"] = body
    return given_


@st.composite
def directories(draw: Draw) -> Json:
    """Return a directory of MPP of one endpoint."""
    currency = {"currency": mpp.USDC_E}
    payment: Json = {"intent": "session", "amount": "20", "unitType": "token"} | draw(members)
    service: Json = mpp.service("Talk", description="Answers") | draw(members)
    service["methods"] = {}
    where = draw(st.integers(0, 3))
    if where == 0:
        payment |= {"method": "tempo", "decimals": 6} | currency
    elif where == 1:
        payment["methods"] = {"tempo": {"decimals": 6} | currency}
    elif where == 2:
        payment["method"] = ["tempo"]
        service["methods"] = {"tempo": {"assets": [currency | {"decimals": 6}]}}
    else:
        service["methods"] = {"tempo": {"assets": [mpp.USDC_E]}}
    payment[one_of(draw, "recipient", "payTo", "pay_to")] = PAYEE
    route = one_of(draw, {"route": "POST /say"}, {"method": "post", "path": "/say"})
    service["endpoints"] = [route | {"payment": payment} | draw(members)]
    service[one_of(draw, "serviceUrl", "url")] = service.pop("serviceUrl")
    directory: Json = mpp.directory(service) | draw(members)
    return directory


@st.composite
def hosts(draw: Draw) -> Json:
    """Return a manifest of one entry with a price."""
    given_: Json = draw(members)
    entry = {"description": "Scans"} | draw(members)
    entry |= one_of(
        draw,
        {"price": "0.10 EUR"},
        {"price": "0.10", "currency": "EUR"},
        {"price": PRICE},
        {"price": {"value": "0.10", "currency": "EUR"}},
        {"payment": PRICE},
    )
    one_of(draw, entry, given_).update(network="base", payTo=PAYEE)
    key, address = one_of(
        draw,
        ("resources", {"url": f"{manifests.HOST}/scan", "method": "POST"}),
        ("resources", {"url": f"POST {manifests.HOST}/scan"}),
        ("resources", {"url": "/scan", "input": {"method": "POST"}}),
        ("endpoints", {"path": "/scan", "method": "post"}),
        ("endpoints", {"path": "POST /scan"}),
        ("items", {"resource": {"url": f"{manifests.HOST}/scan"}, "method": "POST"}),
    )
    manifest: Json = given_ | {key: [entry | address]}
    return manifest


def only(found: list[Described]) -> Resource:
    (each,) = found
    assert each.resource is not None, each.fault
    return each.resource


def encoded(given_: Json, indent: int | None) -> bytes:
    return json.dumps(given_, indent=indent).encode()


indents = st.sampled_from([None, 0, 3])
pairs = settings(max_examples=examples(150), deadline=None)


@pairs
@given(operations(), operations(), indents)
def test_operations(one: Json, other: Json, indent: int | None) -> None:
    first = only(openapi.read(encoded(one, None), manifests.FETCHED))
    assert first == only(openapi.read(encoded(other, indent), manifests.FETCHED))
    assert (first.pricing.amount, first.pricing.currency) == ("0.1", "EUR")
    assert (first.networks, first.payees, first.body_type) == (
        ["Base"],
        [PAYEE],
        "multipart/form-data",
    )


@pairs
@given(directories(), directories())
def test_directories(one: Json, other: Json) -> None:
    first = only(mpp.read(one))
    assert first == only(mpp.read(other))
    assert (first.pricing.unit_type, first.pricing.unit_amount) == ("token", "0.00002")
    assert first.payees == [PAYEE]


@pairs
@given(hosts(), hosts(), indents)
def test_manifests(one: Json, other: Json, indent: int | None) -> None:
    first = only(manifests.read(encoded(one, None)))
    assert first == only(manifests.read(encoded(other, indent)))
    assert (first.pricing.amount, first.pricing.currency) == ("0.1", "EUR")
    assert (first.method, first.networks, first.payees) == ("POST", ["Base"], [PAYEE])
