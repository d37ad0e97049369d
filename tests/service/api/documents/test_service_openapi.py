"""OpenAPI documents of services: valid, and read again as the same endpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openapi_spec_validator import validate

from indexer.catalogue.records import read_record
from indexer.errors import InvalidRecord
from service.api.documents.service_openapi import describe_service
from service.schema.records import Service
from service.urls import key_of, parse_url
from tests.support.intake import CatalogueFolder
from tests.support.json_values import json_values
from tests.support.running import Json, endpoint, examples, open_app, service
from tests.support.sources.mpp import MAPS, TALK, directory
from tests.support.sources.openapi import DOCUMENTS, read

DEFAULTING = {"group": "query", "name": "q", "type": "number", "default": "LARGE"}
BASE = "https://api.one.example"
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "string": st.sampled_from(["a", "é", "two words"]),
    "number": st.sampled_from([0, 7, 2.5, -1]),
    "boolean": st.booleans(),
    "array": st.sampled_from([[], ["a", 1]]),
    "object": st.sampled_from([{}, {"a": {"b": 1}}]),
}


def parameters_of(kind: str) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries(
        {
            "group": st.sampled_from(["query", "body"]),
            "name": st.sampled_from(["q", "city", "größe", "a-b", "limit"]),
            "type": st.just(kind),
        },
        optional={
            "description": st.sampled_from(["Where", "How many"]),
            "required": st.just(value=True),
            "example": VALUES[kind],
            "default": VALUES[kind],
        },
    )


prices = st.sampled_from(
    [
        {"amount": "0.01", "currency": "USDC", "network": "Base", "scheme": "exact"},
        {"amount": "5", "currency": "EURC", "network": "Base", "scheme": "exact"},
        {
            "amount": "",
            "currency": "USDC",
            "network": "Base",
            "scheme": "upto",
            "maxAmount": "0.2",
        },
        {"amount": "", "currency": ""},
    ]
)
offers = st.lists(
    st.sampled_from(
        [
            {"protocol": "x402", "amount": "0.01", "currency": "USDC"},
            {"protocol": "x402", "minAmount": "0.1", "maxAmount": "2", "currency": "USD"},
            {
                "protocol": "mpp",
                "method": "stripe",
                "intent": "charge",
                "amount": "0.05",
                "currency": "USD",
                "asset": "usd",
                "decimals": 2,
            },
            {
                "protocol": "mpp",
                "method": "stripe",
                "intent": "session",
                "amount": "0.01",
                "currency": "USD",
                "asset": "usd",
                "decimals": 2,
                "unit": "token",
            },
            {"protocol": "mpp", "method": "tempo", "asset": "0x77", "baseAmount": "500"},
            {"protocol": "l402", "amount": "0.01", "currency": "USDC"},
        ]
    ),
    max_size=4,
    unique_by=json.dumps,
)
endpoints = st.fixed_dictionaries(
    {
        "url": st.builds(
            lambda host, path: f"https://{host}.one.example{path}",
            st.sampled_from(["api", "www"]),
            st.sampled_from(["/", "/a", "/a/:id", "/a/{id}", "/b/{id}/c", "/a/{x}", "/q?a=1"]),
        ),
        "method": st.sampled_from(["GET", "POST", "", "PATCH"]),
        "pricing": prices,
    },
    optional={
        "description": st.sampled_from(["Weather of a city", "Tides"]),
        "tags": st.just(["weather"]),
        "parameters": st.lists(
            st.sampled_from([*VALUES]).flatmap(parameters_of),
            max_size=4,
            unique_by=lambda each: each["name"],
        ),
        "paymentOffers": st.builds(
            lambda given: [{"statedBy": "openapi"} | each for each in given], offers
        ),
    },
)


def described(text: str | bytes, *accepts: Json) -> bytes:
    """Return the document of a record, each endpoint of which has these entries of `accepts`."""
    decoded = msgspec.json.decode(text, type=Service)
    entries = [msgspec.Raw(json.dumps(each).encode()) for each in accepts]
    return describe_service(decoded, [entries] * len(decoded.endpoints))


def exported(record: Json, *accepts: Json) -> Json:
    document: Json = json.loads(described(json.dumps(record), *accepts))
    validate(document)
    return document


def read_again(document: Json) -> dict[tuple[str, str], Json]:
    """Return the endpoints of a document as they are read, by URL and method."""
    found = {}
    for each in read(document):
        resource = each.resource
        assert resource is not None, each.fault
        found[key_of(resource.identity), resource.method] = json.loads(
            msgspec.json.encode(resource.to_endpoint())
        )
    return found


def identity_of(url: str) -> str:
    return key_of(parse_url(url).identity)


def by_name(given_: Json) -> list[Json]:
    return sorted(given_.get("parameters", []), key=lambda each: str(each["name"]))


def ways(given_: Json) -> list[Json]:
    """Return the ways to pay of an endpoint as OpenAPI has them."""
    stated: list[Json] = []
    pricing, own = given_["pricing"], given_.get("paymentOffers") or []
    if pricing.get("network"):
        names = ("amount", "minAmount", "maxAmount")
        prices_ = {name: pricing[name] for name in names if pricing.get(name)}
        terms = {name: pricing[name] for name in ("currency", "scheme", "network")}
        stated.append({"protocol": "x402"} | terms | prices_)
    keys = {"statedBy", "description", "decimals"}
    stated += [{name: value for name, value in each.items() if name not in keys} for each in own]
    return [each for number, each in enumerate(stated) if each not in stated[:number]]


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(endpoints, max_size=6))
def test_a_document_is_read_again_as_the_same_endpoints(drawn: list[Json]) -> None:
    document = exported(service("one", endpoints=drawn))
    found = read_again(document)
    counts = document["x-ratecard"]
    assert counts["endpoints"] == len(drawn) == len(found) + counts["leftOut"]
    expressed: set[tuple[str, str]] = set()
    for each in drawn:
        key = identity_of(each["url"]), each["method"]
        if key not in found or key in expressed:
            continue
        expressed.add(key)
        again = found[key]
        assert again.get("description") == each.get("description")
        described = {(p["group"], p["name"]): p for p in again.get("parameters", [])}
        for parameter in each.get("parameters", []):
            found_again = described[parameter["group"], parameter["name"]]
            assert found_again == {"required": False} | parameter
        assert ways(again) == ways(each)


EXACT: Json = {"amount": "0.01", "currency": "USDC", "network": "Base", "scheme": "exact"}
TEMPO: Json = {"protocol": "mpp", "method": "tempo", "intent": "charge", "statedBy": "mpp"}
TEMPO |= {"amount": "0.02", "currency": "USD", "asset": "0x20c0", "decimals": 6, "payTo": "0x1a"}
OF_TEMPO = {"amount": "0.02", "currency": "USD", "scheme": "tempo"}
TERMS = {"method": "tempo", "intent": "charge", "currency": "0x20c0", "payTo": "0x1a"}
ENTRY = {"scheme": "exact", "network": "eip155:8453", "asset": "0x83", "amount": "10000"}
ENTRY |= {"payTo": "0x2b"}


RESOURCE: Json = {
    "resource": "https://api.feed.example/tides",
    "type": "http",
    "x402Version": 2,
    "description": "Tides of a harbour",
    "accepts": [ENTRY, ENTRY | {"network": "eip155:137", "asset": "0x3c", "maxTimeoutSeconds": 60}],
    "extensions": {"bazaar": {"info": {"input": {"type": "http", "method": "GET"}}}},
}


def payment_of(pricing: Json, *accepts: Json, **members: Any) -> Any:
    """Return `x-payment-info` of an endpoint."""
    record = service("one", endpoints=[endpoint() | {"pricing": pricing} | members])
    (operations,) = exported(record, *accepts)["paths"].values()
    return operations["get"].get("x-payment-info")


def test_each_way_to_pay_has_its_protocol_with_its_terms() -> None:
    price = {"mode": "fixed", "currency": "USDC", "amount": "0.01"}
    known = {"x402": {"scheme": "exact", "network": "Base"}}
    assert payment_of(EXACT) == {"price": price, "protocols": [known]}
    assert payment_of(EXACT, ENTRY) == {"price": price, "protocols": [{"x402": ENTRY}]}
    of_tempo = {"mode": "fixed", "currency": "USD", "amount": "0.02"}
    assert payment_of(OF_TEMPO, paymentOffers=[TEMPO]) == {
        "price": of_tempo,
        "protocols": [{"mpp": TERMS}],
    }
    assert payment_of(EXACT, ENTRY, paymentOffers=[TEMPO]) == {
        "price": price,
        "protocols": [{"x402": ENTRY}, {"mpp": TERMS | {"price": of_tempo}}],
    }


def test_terms_have_the_unit_and_the_amount_where_no_price_of_a_request_is_known() -> None:
    session = TEMPO | {"intent": "session", "unit": "token"}
    unknown = {"amount": "", "currency": ""}
    price = {"mode": "fixed", "currency": "USD", "amount": "0.02"}
    terms = TERMS | {"intent": "session", "unitType": "token", "price": price}
    assert payment_of(unknown, paymentOffers=[session]) == {"protocols": [{"mpp": terms}]}
    raw = {name: TEMPO[name] for name in ("protocol", "statedBy", "method", "asset")}
    terms = {"method": "tempo", "currency": "0x20c0", "amount": "500"}
    offered = [raw | {"baseAmount": "500"}]
    assert payment_of(unknown, paymentOffers=offered) == {"protocols": [{"mpp": terms}]}


@pytest.mark.parametrize(
    "changes",
    [
        [{"url": "mcp://tool/forecast"}],
        [{"url": "forecast"}],
        [{"url": "https://[::1"}],
        [{"method": ""}],
        [{"url": f"{BASE}/a#b"}],
        [{"method": "SUBSCRIBE"}],
        [{"url": f"{BASE}/a?b=1"}],
        [{"url": f"{BASE}/a/{{b"}],
        [{"url": f"{BASE}/{{b}}/{{b}}"}],
        [{}, {"url": "https://two.example/a"}],
        [{"url": f"{BASE}/:a"}, {"url": f"{BASE}/{{b}}", "method": "POST"}],
    ],
)
def test_a_document_counts_what_it_leaves_out(changes: list[Json]) -> None:
    plain = endpoint() | {"url": f"{BASE}/a"}
    document = exported(service("one", endpoints=[plain | change for change in changes]))
    assert document["x-ratecard"] == {"service": "one", "endpoints": len(changes), "leftOut": 1}


@pytest.mark.parametrize(
    "parameter",
    [
        {"group": "path", "name": "b", "type": "string"},
        {"group": "query", "name": "b", "type": "number", "default": "x"},
        {"group": "query", "name": "b", "type": "boolean", "default": 1},
        {"group": "query", "name": "b", "type": "string", "default": None},
        {"group": "query", "name": "b", "type": "string", "default": "x", "enumValues": ["y"]},
    ],
)
def test_faulty_parameters_and_defaults_are_left_out(parameter: Json) -> None:
    given_ = [endpoint() | {"parameters": [parameter, parameter]}]
    (operations,) = exported(service("one", endpoints=given_))["paths"].values()
    assert len(operations["get"].get("parameters", [])) == (parameter["group"] == "query")
    assert "default" not in json.dumps(operations)


@pytest.mark.parametrize(
    ("pricing", "payment"),
    [
        (
            {"amount": "0.2", "currency": "USDC", "scheme": "Upto", "minAmount": "0.1"},
            {
                "protocols": [{"x402": {"scheme": "Upto"}}],
                "price": {"mode": "dynamic", "currency": "USDC", "min": "0.1", "max": "0.2"},
            },
        ),
        (
            {"amount": "0.2", "currency": "USD", "scheme": "stripe"},
            {
                "protocols": [{"stripe": {"scheme": "stripe"}}],
                "price": {"mode": "fixed", "currency": "USD", "amount": "0.2"},
            },
        ),
        ({"amount": "", "currency": "USDC"}, None),
    ],
)
def test_a_price_of_a_record_is_that_of_its_scheme(pricing: Json, payment: Json | None) -> None:
    assert payment_of(pricing) == payment


ANY = json_values(leaves=8)


@settings(max_examples=examples(200), deadline=None)
@given(ANY, ANY, ANY, st.text(), st.text())
def test_any_record_that_an_index_accepts_has_a_document(
    extra: Any, default: Any, decimals: Any, scheme: str, url: str
) -> None:
    parameter = {"group": "query", "name": "q", "type": "number", "default": default}
    offer = {"protocol": "mpp", "statedBy": "mpp", "asset": "a", "amount": "1"}
    members = {"parameters": [parameter], "paymentOffers": [offer | {"decimals": decimals}]}
    pricing = {"amount": "1", "currency": "USD", "scheme": scheme}
    given_ = [
        endpoint() | members | {"url": url or "a"},
        endpoint() | members | {"pricing": pricing},
    ]
    record = service("one", endpoints=given_)
    text = json.dumps(record).encode()
    try:
        read_record(text)
    except InvalidRecord:
        return
    entry = ENTRY | {"extra": extra}
    document = described(text, entry)
    assert len(document) < 2 * len(text) + 2 * len(json.dumps(entry)) + 1000
    read(document)


def test_numbers_beyond_those_of_a_machine_are_no_fault() -> None:
    text = json.dumps(service("one", endpoints=[endpoint() | {"parameters": [DEFAULTING]}]))
    text = text.replace('"LARGE"', "1e99999999999999999999")
    try:
        read_record(text.encode())
    except InvalidRecord:
        return
    assert json.loads(described(text))["x-ratecard"]["leftOut"] == 0


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Artifacts of documents of two formats, and of a feed."""
    root = tmp_path_factory.mktemp("exported")
    folder = CatalogueFolder(root)
    (root / "api.json").write_text(json.dumps(DOCUMENTS["x402scan"]))
    (root / "paint.json").write_text(json.dumps(DOCUMENTS["mpp"]))
    (root / "mpp.json").write_text(json.dumps(directory(MAPS, TALK)))
    (root / "feed.json").write_text(json.dumps([RESOURCE]))
    sources = [{"name": name, "path": f"{name}.json"} for name in ("api", "paint", "mpp", "feed")]
    assert folder.build(*sources) == 0
    return folder.artifacts


def test_documents_of_sources_are_given_out_again(artifacts: Path) -> None:
    payments: list[list[Json]] = []
    with open_app(artifacts) as client:
        services = client.get("/v1/services").json()["services"]
        assert len(services) == 5
        for each in services:
            document = client.get(f"/v1/services/{each['id']}/openapi.json").json()
            validate(document)
            assert document["info"]["title"] == each["name"]
            assert document["x-ratecard"]["service"] == each["id"]
            assert document["x-ratecard"]["leftOut"] == 0
            payments += [
                operation["x-payment-info"]["protocols"]
                for operations in document["paths"].values()
                for operation in operations.values()
            ]
            again = read_again(document)
            assert len(again) == len(each["endpoints"])
            for own in each["endpoints"]:
                other = again[identity_of(own["url"]), own["method"]]
                for name in ("amount", "minAmount", "maxAmount", "unitAmount", "unitType"):
                    assert other["pricing"].get(name) == own["pricing"].get(name)
                assert by_name(other) == by_name(own)
    assert [{"x402": each} for each in RESOURCE["accepts"]] in payments
    assert any("mpp" in way for ways_ in payments for way in ways_)


def test_the_page_of_a_service_links_to_its_document(client: httpx.Client) -> None:
    page = client.get("/services/tidewatch-example").text
    assert 'href="/v1/services/tidewatch-example/openapi.json"' in page
