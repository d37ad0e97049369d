"""`/discovery/search` over HTTP: ranking, filters, cursors and errors as its clients read them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from service.schema.discovery import DiscoveryError, FoundResources
from tests.support.running import Json, build_records, eventually, open_app, service
from tests.support.sources.x402 import SOLANA_USDC, USDC, accept, resource, v2

PREFIXES = ("", "/v2/x402", "/platform/v2/x402")
SOLANA = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"
EURC = "0x60a3E35Cc302bFA44Cb288Bc5a4F316Fdb1adb42"
RESOURCES = [
    resource("https://tides.example/high", description="Tide tables of all ports", tags=["Sea"]),
    resource(
        "https://two.example/moon",
        accept("20000", payTo="0xAa"),
        accept("1000", network=SOLANA, asset=SOLANA_USDC),
        description="Phases of the moon and the tide",
        tags=["sky", "sea"],
    ),
    resource("https://euro.example/tide", accept("1", asset=EURC)),
    resource("https://legacy.example/tide", accept(network="base", scheme="upto")),
    v2({"type": "mcp", "toolName": "tide"}) | {"type": "mcp", "resource": "https://x.example/"},
    resource("https://free.example/", accept(None), description="Nothing"),
    {"resource": "https://unlisted.example/tide", "description": "tide"},
    *(resource(f"https://many.example/wave/{number:02}") for number in range(30)),
]
_found = msgspec.json.Decoder(FoundResources)
_error = msgspec.json.Decoder(DiscoveryError)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    records = [*RESOURCES, service("written", name="Tide", description="tide")]
    with open_app(build_records(tmp_path_factory.mktemp("discovery"), records)) as client:
        yield client


def search(client: httpx.Client, **parameters: Any) -> Json:
    response = client.get("/discovery/search", params=parameters)
    assert response.status_code == 200, response.text
    _found.decode(response.content)
    body: Json = response.json()
    assert body["pagination"]["limit"] == len(body["resources"])
    assert body["partialResults"] == (body["pagination"]["cursor"] is not None)
    return body


def urls(body: Json) -> list[str]:
    return [each["resource"].removeprefix("https://") for each in body["resources"]]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_the_best_match_is_first_and_listed_as_it_is_in_the_listing(
    client: httpx.Client, prefix: str
) -> None:
    body = client.get(f"{prefix}/discovery/search", params={"query": "tide tables"}).json()
    assert body["x402Version"] == 2
    assert body["total"] == len(body["resources"]) == 5
    assert urls(body)[0] == "tides.example/high"
    listed = client.get("/discovery/resources?limit=1000").json()["items"]
    assert all(each in listed for each in body["resources"])


@pytest.mark.parametrize(
    ("parameters", "found"),
    [
        ({"query": "tide", "type": "mcp"}, {"x.example/"}),
        ({"network": "solana"}, {"two.example/moon"}),
        ({"network": SOLANA, "maxUsdPrice": "0.001"}, {"two.example/moon"}),
        ({"network": "base", "query": "moon", "maxUsdPrice": "0.001"}, set()),
        ({"query": "moon", "network": "eip155:8453", "payTo": "0xaa"}, {"two.example/moon"}),
        ({"asset": SOLANA_USDC.lower()}, {"two.example/moon"}),
        ({"asset": USDC, "scheme": "upto", "network": "Base"}, {"legacy.example/tide"}),
        ({"maxUsdPrice": "0.00001"}, set()),
        ({"urlSubstring": ".EXAMPLE/tide"}, {"euro.example/tide", "legacy.example/tide"}),
        ({"urlSubstring": "tide", "query": "ports"}, {"tides.example/high"}),
        ({"tags": ["sea", "nothing"]}, {"two.example/moon"}),
        ({"tags": ["sea", "Sea"]}, {"two.example/moon", "tides.example/high"}),
        ({"extensions": "bazaar"}, {"x.example/"}),
        ({"extensions": ["bazaar", "payment-identifier"]}, set()),
        ({"query": "nothing", "maxUsdPrice": "9"}, set()),
        ({"query": "nothing"}, {"free.example/"}),
    ],
)
def test_filters_hold_together_on_one_entry(
    client: httpx.Client, parameters: Json, found: set[str]
) -> None:
    assert set(urls(search(client, **parameters))) == found


@pytest.mark.parametrize("limit", [1, 4, 30, 200])
@pytest.mark.parametrize("parameters", [{"query": "wave many"}, {"urlSubstring": "wave"}])
def test_a_walk_along_the_cursors_has_every_match_once(
    client: httpx.Client, parameters: Json, limit: int
) -> None:
    whole = search(client, limit=200, **parameters)
    assert whole["total"] == len(whole["resources"]) == 30
    walked, page = [], search(client, limit=limit, **parameters)
    walked += page["resources"]
    while cursor := page["pagination"]["cursor"]:
        page = search(client, limit=limit, cursor=cursor, **parameters)
        walked += page["resources"]
    assert walked == whole["resources"]


def test_the_limit_is_20_unless_given_and_clamped(client: httpx.Client) -> None:
    assert len(search(client, query="wave")["resources"]) == 20
    assert len(search(client, query="wave", limit=10**9)["resources"]) == 30


def test_parameters_without_a_meaning_are_named(client: httpx.Client) -> None:
    body = search(client, query="tide", curatedOnly="true", bundleSlugs="x")
    assert body["unappliedFilters"] == ["bundleSlugs", "curatedOnly"]


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({}, "query"),
        ({"query": " "}, "query"),
        ({"limit": 3}, "query"),
        ({"query": "x", "limit": 0}, "limit"),
        ({"query": "x" * 2001}, "query"),
        ({"query": ["x", "y"]}, "query"),
        ({"query": "x", "network": ""}, "network"),
        ({"query": "x", "maxUsdPrice": "cheap"}, "maxUsdPrice"),
        ({"urlSubstring": "ab"}, "urlSubstring"),
        ({"urlSubstring": "a" * 2049}, "urlSubstring"),
        ({"extensions": [str(number) for number in range(101)]}, "extensions"),
        ({"query": "x", "cursor": ""}, "cursor"),
        ({"query": "x", "tags": ["", "y"]}, "tags"),
        ({"query": "x", "cursor": "20"}, "cursor"),
        ({"query": "x", "cursor": "é.é.1"}, "cursor"),
        ({"query": "x", "cursor": f"{'0' * 20}.{'0' * 16}.{'9' * 99}"}, "cursor"),
    ],
)
def test_bad_parameters_are_named(client: httpx.Client, parameters: Json, name: str) -> None:
    response = client.get("/discovery/search", params=parameters)
    assert response.status_code == 400
    error = _error.decode(response.content)
    assert (error.error_type, error.parameter) == ("invalid_request", name)


def test_a_cursor_is_refused_with_another_query_and_past_the_end_is_empty(
    client: httpx.Client,
) -> None:
    cursor = search(client, query="wave", limit=5)["pagination"]["cursor"]
    for other in ({"query": "waves"}, {"query": "wave", "type": "http"}):
        response = client.get("/discovery/search", params=other | {"cursor": cursor})
        assert response.status_code == 400
        assert "is of another query or other filters" in response.json()["error"]
    end = f"{cursor.rpartition('.')[0]}.999"
    assert search(client, query="wave", cursor=end)["resources"] == []


def test_a_cursor_of_another_snapshot_is_refused(tmp_path: Path) -> None:
    with open_app(build_records(tmp_path, RESOURCES)) as client:
        first = client.get("/discovery/search?query=wave&limit=3")
        build_records(tmp_path, RESOURCES[1:])
        before = first.headers["ratecard-snapshot"]
        eventually(lambda: client.get("/healthz").headers["ratecard-snapshot"] != before)
        cursor = first.json()["pagination"]["cursor"]
        response = client.get("/discovery/search", params={"query": "wave", "cursor": cursor})
        assert response.status_code == 400
        assert "is of another snapshot" in response.json()["error"]
