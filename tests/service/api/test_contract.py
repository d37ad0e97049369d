"""The HTTP contract of every operation, over a real socket."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.support.running import Json

PAGES = ("/v1/services", "/v1/search/services?q=weather", "/v1/services/search?q=weather")
PATHS = (
    *PAGES,
    "/v1/services/tidewatch-example",
    "/v1/ecosystem/overview",
    "/v1/ecosystem/stats",
    "/v1/ecosystem/transactions",
    "/v1/snapshots/current",
    "/healthz",
    "/readyz",
    "/openapi.json",
)
TOTALS = {"total_transactions", "total_amount", "unique_buyers", "unique_sellers"}


def get(client: httpx.Client, path: str, **params: Any) -> Json:
    response = client.get(path, params=params or None)
    assert response.status_code == 200, response.text
    body: Json = response.json()
    return body


def error(response: httpx.Response) -> Json:
    """Return the error of a response, after checking its envelope."""
    body = response.json()
    assert body.keys() == {"error"}
    assert {"code", "message"} <= body["error"].keys() <= {"code", "message", "parameter"}
    details: Json = body["error"]
    return details


@pytest.mark.parametrize("path", PATHS)
def test_every_response_is_json_with_snapshot_and_cors_headers(
    client: httpx.Client, path: str
) -> None:
    response = client.get(path)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.headers["ratecard-snapshot"] == client.get("/readyz").json()["snapshot"]
    assert response.headers["access-control-allow-origin"] == "*"
    assert "ratecard-snapshot" in response.headers["access-control-expose-headers"].lower()


@pytest.mark.parametrize("path", PATHS)
def test_options_lists_the_allowed_methods(client: httpx.Client, path: str) -> None:
    response = client.options(
        path, headers={"origin": "https://a.example", "access-control-request-method": "GET"}
    )
    assert response.status_code == 204
    assert response.headers["allow"] == "GET, HEAD, OPTIONS"
    assert response.headers["access-control-allow-methods"] == "GET, HEAD, OPTIONS"
    assert response.headers["access-control-allow-origin"] == "*"
    assert response.headers["access-control-allow-headers"] == "*, Authorization"
    assert int(response.headers["access-control-max-age"]) == 24 * 60 * 60


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_other_methods_are_405_with_allow(client: httpx.Client, method: str) -> None:
    response = client.request(method, "/v1/services")
    assert response.status_code == 405
    assert response.headers["allow"] == "GET, HEAD, OPTIONS"
    assert error(response)["code"] == "method_not_allowed"


@pytest.mark.parametrize("path", ["/v1", "/v1/services/", "/v1/services/a/b", "/v2/services"])
def test_an_unknown_path_is_404(client: httpx.Client, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 404
    assert error(response)["code"] == "path_not_found"
    assert "ratecard-snapshot" in response.headers


def test_a_list_has_the_envelope_and_default_paging(
    client: httpx.Client, seeds: list[Json]
) -> None:
    body = get(client, "/v1/services")
    assert body.keys() == {"services", "total", "limit", "offset"}
    assert (len(body["services"]), body["limit"], body["offset"]) == (24, 24, 0)
    assert body["total"] == len(seeds)


def test_a_limit_over_200_is_clamped_to_200(client: httpx.Client) -> None:
    body = get(client, "/v1/services", limit=10**30)
    assert body["limit"] == 200


@pytest.mark.parametrize("offset", [184, 185, 10**18, 10**19, 10**30])
def test_an_offset_past_the_end_is_an_empty_page(client: httpx.Client, offset: int) -> None:
    body = get(client, "/v1/services", offset=offset)
    echoed = min(offset, 2**63 - 1)
    assert body == {"services": [], "total": 184, "limit": 24, "offset": echoed}


@pytest.mark.parametrize(
    ("path", "parameter"),
    [
        ("/v1/services", "limit"),
        ("/v1/ecosystem/overview", "timeframe"),
        ("/v1/ecosystem/stats", "timeframe"),
        ("/v1/ecosystem/transactions", "limit"),
    ],
)
def test_zero_is_400_where_the_minimum_is_one(
    client: httpx.Client, path: str, parameter: str
) -> None:
    message = error(client.get(path, params={parameter: 0}))["message"]
    assert message == f"{parameter} must be an integer of at least 1"


def test_unknown_parameters_are_ignored(client: httpx.Client) -> None:
    plain, more = client.get("/v1/services"), client.get("/v1/services?utm=1&utm=2&%00=%ff")
    assert more.content == plain.content


@pytest.mark.parametrize("query", ["🦊", "!!!", '* ~ "', "--", "。"])
def test_a_query_without_a_letter_or_digit_has_no_matches(client: httpx.Client, query: str) -> None:
    body = get(client, "/v1/search/services", q=query)
    assert (body["services"], body["total"]) == ([], 0)


def test_a_fetched_service_equals_its_listing(client: httpx.Client) -> None:
    listed = get(client, "/v1/services", limit=200)["services"]
    for service in listed:
        assert get(client, f"/v1/services/{service['id']}") == {"service": service}


@pytest.mark.parametrize("service_id", ["nope", "..%2f..", "%00", "%ff", "é", "a" * 5000, "<b>"])
def test_an_unknown_service_is_404(client: httpx.Client, service_id: str) -> None:
    response = client.get(f"/v1/services/{service_id}")
    assert response.status_code == 404
    assert error(response)["code"] in {"service_not_found", "path_not_found"}


def test_an_unknown_id_is_truncated_in_the_error(client: httpx.Client) -> None:
    message = error(client.get(f"/v1/services/{'a' * 60_000}"))["message"]
    assert f"`{'a' * 256}…`" in message
    assert len(message) < 400


def test_the_overview_has_its_documented_keys(client: httpx.Client) -> None:
    body = get(client, "/v1/ecosystem/overview")
    assert body.keys() == {"overview"}
    assert body["overview"].keys() == {"json"}
    overview = body["overview"]["json"]
    assert overview.keys() == TOTALS | {"latest_block_timestamp"}
    assert overview["latest_block_timestamp"] == "2026-05-30T18:42:07.000Z"
    assert get(client, "/v1/ecosystem/overview", timeframe=30) == body


@pytest.mark.parametrize("timeframe", [120, 121, 10**30])
def test_a_timeframe_longer_than_the_data_covers_all_payments(
    client: httpx.Client, timeframe: int
) -> None:
    overview = get(client, "/v1/ecosystem/overview", timeframe=timeframe)["overview"]["json"]
    assert overview["total_transactions"] == 5996
    buckets = get(client, "/v1/ecosystem/stats", timeframe=timeframe)["stats"]["json"]
    assert sum(bucket["total_transactions"] for bucket in buckets) == 5996


@pytest.mark.parametrize(("timeframe", "buckets"), [(1, 25), (2, 3), (7, 8), (30, 31)])
def test_stats_add_up_to_the_overview(client: httpx.Client, timeframe: int, buckets: int) -> None:
    stats = get(client, "/v1/ecosystem/stats", timeframe=timeframe)["stats"]["json"]
    overview = get(client, "/v1/ecosystem/overview", timeframe=timeframe)["overview"]["json"]
    assert len(stats) == buckets
    assert all(bucket.keys() == TOTALS | {"bucket_start"} for bucket in stats)
    starts = [bucket["bucket_start"] for bucket in stats]
    assert starts == sorted(set(starts))
    end = ":00:00.000Z" if timeframe == 1 else "T00:00:00.000Z"
    assert all(start.endswith(end) for start in starts)
    for total in ("total_transactions", "total_amount"):
        assert sum(bucket[total] for bucket in stats) == overview[total]


def test_transactions_page_through_all_payments_newest_first(client: httpx.Client) -> None:
    seen: list[Json] = []
    page, more = 0, True
    while more:
        body = get(client, "/v1/ecosystem/transactions", page=page, limit=200)
        assert body.keys() == {"transactions"}
        listing = body["transactions"]["json"]
        assert listing.keys() == {"items", "page", "hasNextPage"}
        assert listing["page"] == page
        seen += listing["items"]
        page, more = page + 1, listing["hasNextPage"]
    assert len(seen) == len({item["id"] for item in seen}) == 5996
    moments = [item["block_timestamp"] for item in seen]
    assert moments == sorted(moments, reverse=True)
    required = {"id", "tx_hash", "block_timestamp", "sender", "recipient", "amount", "decimals"}
    assert all(required | {"chain"} <= item.keys() for item in seen)
    assert all(isinstance(item["amount"], int) for item in seen)


def test_a_page_of_transactions_past_the_end_is_empty(client: httpx.Client) -> None:
    listing = get(client, "/v1/ecosystem/transactions", page=10**30)["transactions"]["json"]
    assert listing == {"items": [], "page": 2**63 - 1, "hasNextPage": False}


def test_readiness_has_the_snapshot_and_its_counts(client: httpx.Client) -> None:
    body = get(client, "/readyz")
    assert body["status"] == "ready"
    assert body["counts"] == {
        "services": 184,
        "endpoints": 1732,
        "resources": 0,
        "payments": 5996,
    }
    assert body["built_at"].endswith("Z")
    assert body["checked_at"] >= body["built_at"][:19]


def test_health_is_ok(client: httpx.Client) -> None:
    assert get(client, "/healthz") == {"status": "ok"}
