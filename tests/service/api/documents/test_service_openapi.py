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

from indexer.catalogue.record import normalise
from indexer.errors import InvalidRecord
from indexer.intake.records import SourceRecord
from indexer.options import Policy
from indexer.x402.resource import read_resource
from indexer.x402.rules import Rules
from service.api.documents.service_openapi import (
    DEFAULT,
    NO_HTTP,
    NO_METHOD,
    PLACE,
    PRICES,
    QUERY,
    RENAMED,
    REPEATED,
    SAME_NAME,
    TEMPLATE,
    DescribedService,
    describe_service,
)
from service.urls import key_of, parse_url
from tests.support.intake import CatalogueFolder
from tests.support.running import Json, endpoint, examples, serve, service
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


def exported(record: Json) -> Json:
    document: Json = json.loads(
        describe_service(msgspec.json.decode(json.dumps(record), type=DescribedService))
    )
    validate(document)
    return document


def read_again(document: Json) -> dict[tuple[str, str], Json]:
    """Return the endpoints of a document as they are read, by URL and method."""
    found = {}
    for each in read(document):
        assert each.fault is None
        resource, _ = read_resource(each, Rules(Policy()))
        found[key_of(resource.identity), resource.method] = json.loads(bytes(resource.endpoint))
    return found


def identity_of(url: str) -> str:
    return key_of(parse_url(url).identity)


def ways(given_: Json) -> list[Json]:
    """Return the ways to pay of an endpoint as OpenAPI has them."""
    stated: list[Json] = []
    pricing, own = given_["pricing"], given_.get("paymentOffers") or []
    if pricing.get("network"):
        names = ("amount", "minAmount", "maxAmount")
        prices_ = {name: pricing[name] for name in names if pricing.get(name)}
        stated.append({"protocol": "x402", "currency": pricing["currency"]} | prices_)
    keys = {"statedBy", "description", "decimals"}
    stated += [{name: value for name, value in each.items() if name not in keys} for each in own]
    return [each for number, each in enumerate(stated) if each not in stated[:number]]


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(endpoints, max_size=6))
def test_a_document_is_read_again_as_the_same_endpoints(drawn: list[Json]) -> None:
    document = exported(service("one", endpoints=drawn))
    found = read_again(document)
    counts = document["x-ratecard"]
    kinds = (NO_HTTP, NO_METHOD, QUERY, TEMPLATE, REPEATED, RENAMED)
    left_out = sum(counts["leftOut"].get(kind, 0) for kind in kinds)
    assert counts["endpoints"] == len(drawn) == len(found) + left_out
    expressed: set[tuple[str, str]] = set()
    other_prices = counts["leftOut"].get(PRICES, 0)
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
        stated, given_ = ways(again), ways(each)
        assert all(way in given_ for way in stated)
        other_prices -= len(given_) - len(stated)
    assert other_prices == 0


def test_the_dialects_are_those_of_ways_to_pay_that_are_there() -> None:
    exact = {"amount": "0.01", "currency": "USDC", "network": "Base", "scheme": "exact"}
    tempo: Json = {"protocol": "mpp", "method": "tempo", "intent": "charge", "statedBy": "mpp"}
    tempo |= {"amount": "0.02", "currency": "USD", "asset": "usd", "decimals": 2}
    of_tempo = {"amount": "0.02", "currency": "USD", "scheme": "tempo"}
    unknown = {"amount": "", "currency": ""}
    given_ = [
        endpoint() | {"url": f"{BASE}/x402", "pricing": exact},
        endpoint() | {"url": f"{BASE}/mpp", "pricing": of_tempo, "paymentOffers": [tempo]},
        endpoint() | {"url": f"{BASE}/both", "pricing": exact, "paymentOffers": [tempo]},
        endpoint() | {"url": f"{BASE}/none", "pricing": unknown},
    ]
    paths = exported(service("one", endpoints=given_))["paths"]
    price = {"mode": "fixed", "currency": "USDC", "amount": "0.01"}
    in_x402 = {"protocols": ["x402"], "price": price}
    offer = {"amount": "2", "intent": "charge", "method": "tempo", "currency": "usd"}
    assert paths["/x402"]["get"]["x-payment-info"] == in_x402
    assert paths["/mpp"]["get"]["x-payment-info"] == {"offers": [offer]}
    assert paths["/both"]["get"]["x-payment-info"] == in_x402 | {"offers": [offer]}
    assert "x-payment-info" not in paths["/none"]["get"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ([{"url": "mcp://tool/forecast"}], NO_HTTP),
        ([{"url": "forecast"}], NO_HTTP),
        ([{"url": "https://[::1"}], NO_HTTP),
        ([{"method": ""}], NO_METHOD),
        ([{"url": f"{BASE}/a#b"}], QUERY),
        ([{"method": "SUBSCRIBE"}], NO_METHOD),
        ([{"url": f"{BASE}/a?b=1"}], QUERY),
        ([{"url": f"{BASE}/a/{{b"}], TEMPLATE),
        ([{"url": f"{BASE}/{{b}}/{{b}}"}], TEMPLATE),
        ([{}, {"url": "https://two.example/a"}], REPEATED),
        ([{"url": f"{BASE}/:a"}, {"url": f"{BASE}/{{b}}", "method": "POST"}], RENAMED),
        ([{"parameters": [{"group": "body", "name": "b", "type": "string"}] * 2}], SAME_NAME),
        (
            [{"pricing": {"amount": "", "currency": "A", "unitAmount": "1", "unitType": "b"}}],
            PRICES,
        ),
        ([{"parameters": [{"group": "path", "name": "b", "type": "string"}]}], PLACE),
        (
            [{"parameters": [{"group": "query", "name": "b", "type": "number", "default": "x"}]}],
            DEFAULT,
        ),
        (
            [
                {
                    "parameters": [
                        {
                            "group": "query",
                            "name": "b",
                            "type": "string",
                            "default": "x",
                            "enumValues": ["y"],
                        }
                    ]
                }
            ],
            DEFAULT,
        ),
    ],
)
def test_a_document_counts_what_it_leaves_out(changes: list[Json], reason: str) -> None:
    plain = endpoint() | {"url": f"{BASE}/a"}
    document = exported(service("one", endpoints=[plain | change for change in changes]))
    assert document["x-ratecard"]["leftOut"] == {reason: 1}


@pytest.mark.parametrize(
    ("pricing", "payment"),
    [
        (
            {"amount": "0.2", "currency": "USDC", "scheme": "Upto", "minAmount": "0.1"},
            {
                "protocols": ["x402"],
                "price": {"mode": "dynamic", "currency": "USDC", "min": "0.1", "max": "0.2"},
            },
        ),
        (
            {"amount": "0.2", "currency": "USD", "scheme": "stripe"},
            {
                "protocols": ["stripe"],
                "price": {"mode": "fixed", "currency": "USD", "amount": "0.2"},
            },
        ),
        ({"amount": "", "currency": "USDC"}, None),
    ],
)
def test_a_price_of_a_record_is_that_of_its_scheme(pricing: Json, payment: Json | None) -> None:
    document = exported(service("one", endpoints=[endpoint() | {"pricing": pricing}]))
    (operations,) = document["paths"].values()
    assert operations["get"].get("x-payment-info") == payment


def test_base_units_are_exact() -> None:
    offer: Json = {"protocol": "mpp", "statedBy": "mpp", "method": "tempo", "asset": "0x7"}
    offer |= {"amount": "12345678901.123456789012345678", "currency": "A", "decimals": 18}
    record = service("one", endpoints=[endpoint() | {"paymentOffers": [offer]}])
    (operations,) = exported(record)["paths"].values()
    (exact,) = operations["get"]["x-payment-info"]["offers"]
    assert exact["amount"] == "12345678901123456789012345678"


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=examples(200), deadline=None)
@given(anything, anything, anything, anything, st.text(), st.text())
def test_any_record_that_an_index_accepts_has_a_document(
    guidance: Any, info: Any, default: Any, decimals: Any, scheme: str, url: str
) -> None:
    parameter = {"group": "query", "name": "q", "type": "number", "default": default}
    offer = {"protocol": "mpp", "statedBy": "mpp", "asset": "a", "amount": "1"}
    members = {"parameters": [parameter], "paymentOffers": [offer | {"decimals": decimals}]}
    pricing = {"amount": "1", "currency": "USD", "scheme": scheme}
    given_ = [
        endpoint() | members | {"url": url or "a"},
        endpoint() | members | {"pricing": pricing},
    ]
    record = service("one", endpoints=given_) | {"x-guidance": guidance, "x-service-info": info}
    text = json.dumps(record).encode()
    try:
        normalise(SourceRecord("", text))
    except InvalidRecord:
        return
    document = describe_service(msgspec.json.decode(text, type=DescribedService))
    assert len(document) < 2 * len(text) + 1000
    read(document)


def test_numbers_beyond_those_of_a_machine_are_no_defaults() -> None:
    text = json.dumps(service("one", endpoints=[endpoint() | {"parameters": [DEFAULTING]}]))
    text = text.replace('"LARGE"', "1e99999999999999999999")
    try:
        normalise(SourceRecord("", text.encode()))
    except InvalidRecord:
        return
    document = json.loads(describe_service(msgspec.json.decode(text, type=DescribedService)))
    assert document["x-ratecard"]["leftOut"] == {DEFAULT: 1}


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Artifacts of documents of two formats."""
    root = tmp_path_factory.mktemp("exported")
    folder = CatalogueFolder(root)
    (root / "api.json").write_text(json.dumps(DOCUMENTS["x402scan"]))
    (root / "paint.json").write_text(json.dumps(DOCUMENTS["mpp"]))
    (root / "mpp.json").write_text(json.dumps(directory(MAPS, TALK)))
    sources = [{"name": name, "path": f"{name}.json"} for name in ("api", "paint", "mpp")]
    assert folder.build(*sources) == 0
    return folder.artifacts


def test_documents_of_sources_are_given_out_again(artifacts: Path) -> None:
    with serve(artifacts) as client:
        services = client.get("/v1/services").json()["services"]
        assert len(services) == 4
        for each in services:
            document = client.get(f"/v1/services/{each['id']}/openapi.json").json()
            validate(document)
            assert document["info"]["title"] == each["name"]
            assert document["x-ratecard"]["service"] == each["id"]
            assert document["x-ratecard"]["leftOut"] == {}
            assert "accepts" not in json.dumps(document)
            again = read_again(document)
            assert len(again) == len(each["endpoints"])
            for own in each["endpoints"]:
                other = again[identity_of(own["url"]), own["method"]]
                for name in ("amount", "minAmount", "maxAmount", "unitAmount", "unitType"):
                    assert other["pricing"].get(name) == own["pricing"].get(name)
                assert other.get("parameters") == own.get("parameters")


def test_a_document_is_cached_as_its_service_is(client: httpx.Client) -> None:
    path = "/v1/services/tidewatch-example"
    response, record = client.get(f"{path}/openapi.json"), client.get(path)
    assert response.headers["content-type"] == "application/json"
    assert response.headers["cache-control"] == record.headers["cache-control"]
    same = client.get(f"{path}/openapi.json", headers={"if-none-match": response.headers["etag"]})
    assert same.status_code == 304
    missing = client.get("/v1/services/none/openapi.json")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "service_not_found")


def test_the_page_of_a_service_links_to_its_document(client: httpx.Client) -> None:
    page = client.get("/services/tidewatch-example").text
    assert 'href="/v1/services/tidewatch-example/openapi.json"' in page


def test_a_document_of_a_service_without_endpoints_is_valid() -> None:
    document = exported(service("one", endpoints=[]))
    assert document["paths"] == {}
    assert [SourceRecord("", b"")] != read(document)
