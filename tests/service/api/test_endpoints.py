"""`/v1/search/endpoints` over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest

from indexer.__main__ import main
from service.schema.responses import EndpointList
from tests.support.running import PLAIN, Json, build_records, endpoint, open_app, service
from tests.support.sources.x402 import SOLANA_USDC, TEST_USDC, accept, resource, v2

PATH = "/v1/search/endpoints"
CHEAP = accept("5000", network="solana", asset=SOLANA_USDC, payTo="So1")
DEAR = accept("20000", payTo="0xAa", extra={"name": "USDC", "big": 2**70})
TIDES = resource("https://tides.example/high/low", DEAR, CHEAP, description="Tide tables")
METERED = resource("https://meter.example/run", accept("90000", scheme="upto"))
RECORDS = [
    TIDES,
    METERED,
    v2({"type": "mcp", "toolName": "moonPhase"}) | {"resource": "https://tools.example/mcp"},
    service(
        "many",
        name="Almanac",
        category="Data",
        enriched=True,
        endpoints=[endpoint() | {"url": f"https://many.example/sun/{n}"} for n in range(9)],
    ),
    service(
        "written",
        name="Written",
        endpoints=[
            endpoint(network="Base")
            | {
                "url": "https://written.example/eclipse",
                "service": "mine",
                "match": None,
                "x-extra": [1e2],
            }
        ],
    ),
]
_list = msgspec.json.Decoder(EndpointList)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with open_app(build_records(tmp_path_factory.mktemp("endpoints"), RECORDS)) as client:
        yield client


def search(client: httpx.Client, **parameters: Any) -> Json:
    response = client.get(PATH, params=parameters)
    assert response.status_code == 200, response.text
    _list.decode(response.content)
    body: Json = response.json()
    return body


def urls(body: Json) -> list[str]:
    return [each["url"] for each in body["endpoints"]]


def test_an_endpoint_is_found_with_its_service_and_without_a_match(client: httpx.Client) -> None:
    body = search(client, q="tide tables")
    (found,) = body.pop("endpoints")
    assert body == {"total": 1, "listed": 1, "similar": 0, "limit": 24, "offset": 0}
    assert found["pricing"] == {
        "amount": "0.02",
        "currency": "USDC",
        "network": "Base",
        "scheme": "exact",
    }
    facts = {"id": "tides-example", "name": "Tides", "category": "", "enriched": False}
    assert found["service"] == facts
    assert "match" not in found


@pytest.mark.parametrize(
    "words", ["tide", "HIGH", "tides", "moonPhase", "moon phase", "eclipse", "almanac", "data"]
)
def test_endpoints_match_by_their_own_words_and_those_of_their_service(
    client: httpx.Client, words: str
) -> None:
    assert search(client, q=words)["total"] > 0


def test_the_match_is_the_cheapest_entry_with_all_conditions_as_it_came(
    client: httpx.Client,
) -> None:
    def match(**conditions: Any) -> Any:
        (found,) = search(client, q="tide", **conditions)["endpoints"]
        return found["match"]

    assert match(scheme="exact") == CHEAP
    assert match(network="eip155:8453") == DEAR
    assert match(payTo=["0xAA", "nobody"], network=["solana", "base"]) == DEAR
    assert match(asset=SOLANA_USDC, maxPrice="0.005") == CHEAP
    assert search(client, q="tide", network="base", maxPrice="0.01")["total"] == 0
    assert search(client, q="tide", network="base", asset=SOLANA_USDC)["total"] == 0
    assert search(client, q="tide", maxPrice="0.02")["total"] == 1
    assert search(client, q="tide", maxPrice="0.019")["total"] == 0
    text = client.get(PATH, params={"network": "base", "q": "tide"}).text
    assert f'"match":{json.dumps(DEAR, separators=(",", ":"))}' in text


def test_the_ceiling_of_upto_is_its_price(client: httpx.Client) -> None:
    (found,) = search(client, scheme="upto")["endpoints"]
    assert found["pricing"]["amount"] == ""
    assert found["pricing"]["maxAmount"] == "0.09"
    assert search(client, scheme="upto", maxPrice="0.09")["total"] == 1
    assert search(client, scheme="upto", maxPrice="0.08")["total"] == 0


def test_a_price_that_no_feed_lists_satisfies_filters_and_is_no_match(
    client: httpx.Client,
) -> None:
    (found,) = search(client, q="eclipse", network="base")["endpoints"]
    assert found == {
        "url": "https://written.example/eclipse",
        "method": "GET",
        "pricing": {"amount": "0.01", "currency": "USDC", "network": "Base"},
        "x-extra": [100.0],
        "service": {"id": "written", "name": "Written", "category": "", "enriched": False},
    }


def test_at_most_three_endpoints_of_a_service_are_listed_unless_asked_otherwise(
    client: httpx.Client,
) -> None:
    assert [search(client, q="sun")[name] for name in ("total", "listed")] == [9, 3]
    assert urls(search(client, q="sun")) == [f"https://many.example/sun/{n}" for n in range(3)]
    for per_service, listed in ((1, 1), (5, 5), (0, 9), (100, 9)):
        body = search(client, q="sun", perService=per_service)
        assert (body["total"], body["listed"], len(body["endpoints"])) == (9, listed, listed)
    assert search(client, service="many", perService=0)["total"] == 9
    walked: list[str] = []
    for offset in range(0, 9, 2):
        walked += urls(search(client, q="sun", perService=0, limit=2, offset=offset))
    assert walked == urls(search(client, q="sun", perService=0))


def test_an_unknown_value_matches_no_offer_without_a_value(client: httpx.Client) -> None:
    for name in ("network", "scheme", "asset", "payTo"):
        assert search(client, **{name: "unknown"})["total"] == 0, name


def test_sorting_puts_endpoints_without_a_price_last(client: httpx.Client) -> None:
    body = search(client, enriched="false", sort="price")
    prices = [each["pricing"] for each in body["endpoints"]]
    amounts = [price["amount"] or price.get("maxAmount") for price in prices]
    assert amounts == ["0.01", "0.01", "0.02", "0.09"]


def test_facets_are_counted_over_all_matches(client: httpx.Client) -> None:
    body = search(client, q="sun", facets="service,network,category,scheme,method,tag")
    assert body["facets"] == {
        "service": [{"value": "many", "count": 9}],
        "network": [],
        "category": [{"value": "Data", "count": 9}],
        "scheme": [],
        "method": [{"value": "GET", "count": 9}],
        "tag": [],
    }


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({}, "q"),
        ({"q": " "}, "q"),
        ({"limit": 5, "sort": "price"}, "q"),
        ({"q": "x", "sort": "name"}, "sort"),
        ({"q": "x", "facets": "asset"}, "facets"),
        ({"q": "x", "perService": "-1"}, "perService"),
    ],
)
def test_bad_parameters_are_named(client: httpx.Client, parameters: Json, name: str) -> None:
    response = client.get(PATH, params=parameters)
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "invalid_parameter"
    assert response.json()["error"]["parameter"] == name


@pytest.mark.parametrize(
    "parameters",
    [
        {"q": "!!!"},
        {"q": "sun", "offset": 10**30},
        {"network": "\x00"},
        {"payTo": "x" * 1000},
        {"service": "../etc"},
        {"tag": ["a"] * 200},
        {"q": "sun", "category": "😀"},
        {"q": "sun", "perService": 10**30, "limit": 10**30},
    ],
)
def test_unusual_values_are_answered(client: httpx.Client, parameters: Json) -> None:
    search(client, **parameters)


def test_an_empty_catalogue_is_searched(tmp_path: Any) -> None:
    (tmp_path / "empty.json").write_text("[]")
    arguments = ["build", str(tmp_path / "empty.json"), "--out", str(tmp_path / "artifacts")]
    assert main([*arguments, *PLAIN]) == 0
    with open_app(tmp_path / "artifacts") as client:
        for parameters in ({"q": "x"}, {"network": "base"}, {"enriched": "true", "sort": "price"}):
            body = search(client, **parameters, facets="service,network,tag")
            assert (body["total"], body["listed"], body["endpoints"]) == (0, 0, [])
        assert client.get("/discovery/search?query=x").json()["total"] == 0


def test_a_page_ends_early_where_it_has_too_many_bytes(client: httpx.Client, tmp_path: Any) -> None:
    texts = ["tide " + "x" * 200_000 for _ in range(60)]
    endpoints = [
        endpoint() | {"url": f"https://big.example/{n}", "description": text}
        for n, text in enumerate(texts)
    ]
    records = [service(f"big-{n}", endpoints=endpoints[n : n + 4]) for n in range(0, 60, 4)]
    with open_app(build_records(tmp_path, records)) as client:
        walked: list[str] = []
        while len(walked) < 60:
            body = search(client, q="tide", perService=0, limit=200, offset=len(walked))
            is_last = len(walked) + len(body["endpoints"]) == 60
            assert body["limit"] == (200 if is_last else len(body["endpoints"]))
            assert body["total"] == body["listed"] == 60
            walked += urls(body)
        assert len(set(walked)) == 60
        assert body["limit"] == 200


def test_prices_on_test_networks_count_only_where_there_are_no_others(tmp_path: Any) -> None:
    test_price = accept("1000", network="base-sepolia", asset=TEST_USDC, payTo="0xTest")
    records = [
        resource("https://both.example/", accept("5000000"), test_price),
        resource("https://play.example/", test_price),
    ]
    with open_app(build_records(tmp_path, records)) as client:
        cheap = {"scheme": "exact", "maxPrice": "0.01"}
        assert urls(search(client, **cheap)) == ["https://play.example/"]
        assert search(client, **cheap, network="base-sepolia")["total"] == 2
        assert search(client, payTo="0xtest")["total"] == 1
        found = client.get("/discovery/search?maxUsdPrice=0.01").json()
        assert found["total"] == 0


def test_members_that_search_adds_cannot_be_forged(tmp_path: Any) -> None:
    text = json.dumps(service("forged", endpoints=[endpoint() | {"match": 1, "service": 2}]))
    text = text.replace('"match"', '"\\u006datch"').replace('"service"', '"\\u0073ervice"')
    odd = json.dumps(service("odd", endpoints=[endpoint() | {"tool": 1, "payTo": 2}]))
    odd = odd.replace('"tool": 1', '"tool": 1e400').replace('"payTo": 2', f'"payTo": {"9" * 4000}')
    (tmp_path / "source.jsonl").write_text(f"{text}\n{odd}\n")
    arguments = ["build", str(tmp_path / "source.jsonl"), "--out", str(tmp_path / "artifacts")]
    assert main([*arguments, "--quiet", *PLAIN]) == 0
    with open_app(tmp_path / "artifacts") as client:
        body = client.get(PATH, params={"q": "one"}).text
        assert '"match"' not in body
        assert "006d" not in body
        assert body.count('"service":') == 2
