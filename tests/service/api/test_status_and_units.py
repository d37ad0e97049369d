"""Status of services, and prices of other units than the request."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.support.clients.mcp import structured
from tests.support.running import build_records, endpoint, service

PRICE = {"amount": "", "currency": "USD", "unitType": "token", "unitAmount": "0.002"}
AMOUNTS = {
    "token": {"amount": "0.003", "unitAmount": ""},
    "both": {"amount": "0.004", "maxAmount": "0.1"},
    "request": {"amount": "0.005", "unitType": "Request"},
}
RECORDS = [
    service("aged", name="Soil", description="Soil survey", status="deprecated"),
    service("fresh", name="Soil", description="Soil survey", status="Active"),
    service("trial", description="Beta thing", status="beta"),
    service("odd", description="Odd thing", status={"a": 1}),
    service("units", endpoints=[endpoint() | {"url": "https://u.example/t", "pricing": PRICE}]),
    service(
        "amounts",
        endpoints=[
            endpoint() | {"url": f"https://{name}.example/t", "pricing": PRICE | own}
            for name, own in AMOUNTS.items()
        ],
    ),
    service("calls", endpoints=[endpoint() | {"url": "https://c.example/t"}]),
]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Artifacts of the records."""
    return build_records(tmp_path_factory.mktemp("status"), RECORDS, "--no-downloads")


def test_a_deprecated_service_ranks_below_its_equal(client: httpx.Client) -> None:
    listed = [each["id"] for each in client.get("/v1/services").json()["services"]]
    assert listed.index("aged") < listed.index("fresh")
    answer = client.get("/v1/search/services?q=soil%20survey&explain=true").json()
    assert [each["id"] for each in answer["services"][:2]] == ["fresh", "aged"]
    fresh, aged = (each["score"] for each in answer["explanations"][:2])
    assert 0.93 * fresh < aged < fresh


def test_a_status_other_than_active_is_shown(client: httpx.Client, published: Path) -> None:
    for service_id, status in (("aged", "deprecated"), ("trial", "beta")):
        assert f"<bdi>{status}</bdi>" in client.get(f"/services/{service_id}").text
        assert structured(published, "get", id=service_id)["service"]["status"] == status
    for service_id in ("fresh", "odd"):
        assert client.get(f"/services/{service_id}").status_code == 200
        assert "status" not in structured(published, "get", id=service_id)
    assert client.get("/v1/services/odd").json()["service"]["status"] == {"a": 1}


def test_the_price_of_a_unit_is_shown_and_never_compared(
    client: httpx.Client, published: Path
) -> None:
    named = {f"https://{each}.example/t" for each in ("u", *AMOUNTS)}
    cheap = client.get("/v1/search/endpoints?maxPrice=1000&perService=0").json()["endpoints"]
    assert named & {each["url"] for each in cheap} == {"https://request.example/t"}
    ordered = client.get("/v1/search/endpoints?enriched=false&sort=price").json()["endpoints"]
    assert {each["url"] for each in ordered[-3:]} == named - {"https://request.example/t"}
    summary = client.get("/v1/services/amounts").json()["service"]["priceSummary"]
    assert (summary["minAmount"], summary["maxAmount"]) == ("0.005", "0.005")
    for most, is_found in (("0.005", True), ("0.0049", False)):
        found = client.get(f"/v1/services?maxPrice={most}").json()["services"]
        assert ("amounts" in [each["id"] for each in found]) == is_found
    assert "0.003 <small>USD per token</small>" in client.get("/services/amounts").text
    assert "0.002 <small>USD per token</small>" in client.get("/services/units").text
    found = structured(published, "how_to_call", endpoint="https://u.example/t")
    assert found["price"] == "0.002 USD per token"
    assert "price_usd" not in found
