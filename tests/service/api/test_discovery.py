"""The x402 discovery API over HTTP: shapes, filters, paging and errors as its clients read them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from service.app import create_app
from service.schema.discovery import DiscoveryError, MerchantResources, ResourceList
from service.settings import Settings
from tests.support.running import Build, Json, build_records, in_process, open_app, serve, service
from tests.support.sources.x402 import TEST_USDC, accept, resource, v1, v2

PREFIXES = ("", "/v2/x402", "/platform/v2/x402")
PAID = "0x00000000000000000000000000000000000000Aa"
NOBODY = "0x0000000000000000000000000000000000000001"
QUALITY = {"l30DaysTotalCalls": 9, "l30DaysUniquePayers": 4}
RESOURCES = [
    resource("https://busy.example/b", quality=QUALITY),
    resource("https://busy.example/a", accept(payTo=PAID), quality=QUALITY),
    v2({"method": "POST"})
    | resource("https://busy.example/c", accept(payTo=PAID), quality=QUALITY),
    v1({"method": "GET"}, payTo=PAID),
    resource("https://blank.example/", accept(network=" base ", payTo="x" * 300)),
    v2({"type": "mcp", "toolName": "forecast"})
    | {"type": "mcp", "resource": "https://tool.example/"},
    resource("https://play.example/", accept(network="base-sepolia", asset=TEST_USDC)),
    resource(
        "https://two.example/",
        accept(scheme="upto", payTo=PAID),
        accept(network="solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"),
    ),
    resource("https://free.example/", accept(None)),
    {"resource": "https://search.example/", "description": "Found by search alone"},
    *(resource(f"https://many.example/{number:02}") for number in range(30)),
]
LISTED = len(RESOURCES) - 1
_list = msgspec.json.Decoder(ResourceList)
_merchant = msgspec.json.Decoder(MerchantResources)
_error = msgspec.json.Decoder(DiscoveryError)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Serve the resources and a catalogue record."""
    records = [*RESOURCES, service("written")]
    with open_app(build_records(tmp_path_factory.mktemp("discovery"), records)) as client:
        yield client


def items(client: httpx.Client, **parameters: Any) -> list[Json]:
    response = client.get("/discovery/resources", params=parameters)
    assert response.status_code == 200, response.text
    _list.decode(response.content)
    body = response.json()
    found: list[Json] = body["items"]
    if len(found) < body["pagination"]["limit"]:
        assert body["pagination"]["total"] == body["pagination"]["offset"] + len(found)
    return found


def urls(found: list[Json]) -> list[str]:
    return [each["resource"] for each in found]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_the_listing_has_what_feeds_list_in_the_order_of_services_and_urls(
    client: httpx.Client, prefix: str
) -> None:
    response = client.get(f"{prefix}/discovery/resources")
    body = response.json()
    assert body.keys() == {"x402Version", "items", "pagination"}
    assert body["x402Version"] == 2
    assert body["pagination"] == {"limit": 100, "offset": 0, "total": LISTED}
    assert len(body["items"]) == LISTED
    assert urls(body["items"])[:3] == [
        "https://busy.example/a",
        "https://busy.example/b",
        "https://busy.example/c",
    ]
    assert response.headers["ratecard-snapshot"]


def test_a_resource_is_listed_exactly_if_its_service_is_served(client: httpx.Client) -> None:
    found = items(client, limit=1000)
    for each in found:
        facts = each["ratecard"]
        served = client.get(f"/v1/services/{facts['service']}").json()["service"]
        endpoints = {(endpoint["url"], endpoint["method"]) for endpoint in served["endpoints"]}
        assert (facts["endpoint"]["url"], facts["endpoint"]["method"]) in endpoints
    assert client.get("/v1/services/search-example").status_code == 200
    assert {each["ratecard"]["service"] for each in found}.isdisjoint({"written", "search-example"})


@pytest.mark.parametrize("limit", [1, 2, 7, LISTED, 1000])
def test_a_walk_over_all_pages_has_every_resource_once(client: httpx.Client, limit: int) -> None:
    whole = items(client, limit=1000)
    walked: list[Json] = []
    while True:
        body = client.get(
            "/discovery/resources", params={"limit": limit, "offset": len(walked)}
        ).json()
        walked += body["items"]
        assert body["pagination"]["limit"] == limit
        if body["pagination"]["total"] <= len(walked):
            break
    assert walked == whole


def test_the_limit_of_a_page_that_is_cut_is_its_number_of_resources(
    artifacts: Path, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert build([resource(f"https://many.example/{number}") for number in range(9)]) == 0
    monkeypatch.setattr("service.snapshot.resources.MAX_PAGE", 2000)
    app = create_app(Settings(artifacts=str(artifacts)))
    pages: list[tuple[int, int]] = []
    with in_process(app) as client:
        while (offset := sum(limit for _, limit in pages)) < 9:
            body = client.get(f"/discovery/resources?limit=20&offset={offset}").json()
            pages.append((len(body["items"]), body["pagination"]["limit"]))
    *cut, (_, last) = pages
    assert cut, "all resources are on one page"
    assert all(found == limit for found, limit in cut)
    assert last == 20


def test_limits_are_applied_and_reported(client: httpx.Client) -> None:
    for limit, applied in ((1000, 1000), (1001, 1000), (10**30, 1000)):
        pagination = client.get(f"/discovery/resources?limit={limit}").json()["pagination"]
        assert pagination["limit"] == applied
    past = client.get(f"/discovery/resources?offset={10**30}").json()
    assert past["items"] == []
    assert past["pagination"]["total"] == LISTED


@pytest.mark.parametrize(
    ("parameters", "count"),
    [
        ({"type": "mcp"}, 1),
        ({"type": "MCP"}, 0),
        ({"network": "base"}, 2),
        ({"network": "base-sepolia"}, 1),
        ({"network": " base "}, 0),
        ({"payTo": "x" * 300}, 0),
        ({"network": "eip155:8453"}, LISTED - 3),
        ({"network": "eip155:999999999"}, 0),
        ({"network": "!!!"}, 0),
        ({"scheme": "upto"}, 1),
        ({"scheme": "batch-settlement"}, 0),
        ({"payTo": PAID.lower()}, 4),
        ({"payTo": NOBODY}, 0),
        ({"extensions": "bazaar"}, 2),
        ({"extensions": "payment-identifier"}, 0),
        ({"payTo": PAID, "scheme": "upto"}, 1),
        ({"network": "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", "scheme": "upto"}, 0),
        ({"type": "http", "payTo": PAID, "network": "base"}, 1),
    ],
)
def test_filters_are_exact_and_hold_together_on_one_entry(
    client: httpx.Client, parameters: Json, count: int
) -> None:
    assert len(items(client, limit=1000, **parameters)) == count


def test_parameters_without_a_meaning_are_named(client: httpx.Client) -> None:
    response = client.get("/discovery/resources?maxUsdPrice=1&limit=1&asset=0x&asset=0y&%ff=%ff")
    assert response.json()["unappliedFilters"] == ["asset", "maxUsdPrice", "\ufffd"]
    _list.decode(response.content)


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_merchant_has_the_resources_that_pay_to_an_address(
    client: httpx.Client, prefix: str
) -> None:
    response = client.get(f"{prefix}/discovery/merchant", params={"payTo": PAID, "limit": 3})
    body = response.json()
    _merchant.decode(response.content)
    assert body.keys() == {"x402Version", "payTo", "resources", "pagination"}
    assert body["payTo"] == PAID
    assert body["pagination"] == {"limit": 3, "offset": 0, "total": 4}
    assert len(body["resources"]) == 3
    unknown = client.get(f"{prefix}/discovery/merchant", params={"payTo": NOBODY}).json()
    assert (unknown["resources"], unknown["pagination"]["total"]) == ([], 0)
    assert unknown["pagination"]["limit"] == 20


@pytest.mark.parametrize(
    ("target", "status", "error_type", "parameter"),
    [
        ("resources?limit=0", 400, "invalid_request", "limit"),
        ("resources?limit=ten", 400, "invalid_request", "limit"),
        ("resources?limit=1&limit=2", 400, "invalid_request", "limit"),
        ("resources?offset=-1", 400, "invalid_request", "offset"),
        ("resources?network=", 400, "invalid_request", "network"),
        ("resources?type=http&type=mcp", 400, "invalid_request", "type"),
        ("merchant", 400, "invalid_request", "payTo"),
        ("merchant?payTo=", 400, "invalid_request", "payTo"),
        ("bundles", 404, "not_found", None),
    ],
)
def test_all_kinds_of_clients_can_read_an_error(
    client: httpx.Client, target: str, status: int, error_type: str, parameter: str | None
) -> None:
    response = client.get(f"/discovery/{target}", headers={"accept": "text/html"})
    assert response.status_code == status
    _error.decode(response.content)
    body = response.json()
    assert body["error"] == body["errorMessage"] != ""
    assert (body["errorType"], body.get("parameter")) == (error_type, parameter)


def test_errors_of_other_paths_keep_their_shape_below_a_prefix_called_discovery(
    client: httpx.Client, sample: Path
) -> None:
    with serve(sample, "--root-path", "/discovery") as below:
        assert below.get("/v1/services?limit=0").json()["error"]["code"] == "invalid_parameter"
        assert below.get("/discovery/resources?limit=0").json()["errorType"] == "invalid_request"
    assert client.get("/nothing/discovery/").json()["error"]["code"] == "path_not_found"


def test_other_methods_than_get_are_refused_in_the_same_shape(client: httpx.Client) -> None:
    response = client.post("/discovery/resources", json={})
    assert response.status_code == 405
    assert response.headers["allow"] == "GET, HEAD, OPTIONS"
    assert _error.decode(response.content).error_type == "invalid_request"


def test_a_preflight_allows_authorization_and_a_content_type(client: httpx.Client) -> None:
    headers = {
        "origin": "https://app.example",
        "access-control-request-method": "GET",
        "access-control-request-headers": "authorization,content-type",
    }
    response = client.options("/discovery/resources", headers=headers)
    assert response.status_code == 204
    allowed = response.headers["access-control-allow-headers"].lower().replace(" ", "").split(",")
    assert {"*", "authorization"} == set(allowed)


def test_a_get_with_a_content_type_and_credentials_is_answered(client: httpx.Client) -> None:
    headers = {"content-type": "application/json", "authorization": "Bearer x"}
    assert client.get("/discovery/resources", headers=headers).status_code == 200
