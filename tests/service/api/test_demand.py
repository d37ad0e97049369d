"""Demand: who paid for a service, and what payers decide."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import msgspec
import pytest

from service.schema.demand import DemandEnvelope
from tests.support.artifacts import current
from tests.support.clients.mcp import structured
from tests.support.running import (
    PLAIN,
    Json,
    build_records,
    endpoint,
    payment,
    service,
    write_lines,
)

PAYEES = {name: f"0x{number:040x}" for number, name in enumerate(("busy", "loyal", "ring"), 1)}
ACCOMPLICE = f"0x{9:040x}"


def priced_service(name: str, payee: str, **fields: object) -> Json:
    """Return a service with an endpoint for a cent and one for a dime."""
    endpoints = [
        endpoint(amount, network="base") | {"url": f"https://{name}.example/{amount}"}
        for amount in ("0.01", "0.10")
    ]
    return service(name, endpoints=[each | {"payTo": payee} for each in endpoints], **fields)


def paid(sender: str, payee: str, day: int, amount: int = 10_000) -> Json:
    """Return a payment on a day of May."""
    number = len(sender) * 1000 + day
    moment = f"2026-05-{day:02}T10:00:00.000Z"
    tx_hash = f"{sender}-{payee}-{day}-{amount}-{number}"
    return payment(
        sender=sender,
        recipient=payee,
        block_timestamp=moment,
        amount=amount,
        tx_hash=tx_hash,
        log_index=1,
        chain="base",
    )


def payments() -> list[Json]:
    """Return payments of 200 fresh wallets, of 5 that return, and of a ring."""
    fresh = [paid(f"0xfresh{number:034x}", PAYEES["busy"], 20) for number in range(200)]
    loyal = [
        paid(f"0xloyal{number:034x}", PAYEES["loyal"], day, amount)
        for number in range(5)
        for day, amount in ((10, 10_000), (20, 100_000))
    ]
    ring = [paid(ACCOMPLICE, PAYEES["ring"], day) for day in range(1, 21)]
    ring += [paid(PAYEES["ring"], ACCOMPLICE, day) for day in range(1, 21)]
    return [*fresh, *loyal, *ring, paid(PAYEES["ring"], PAYEES["ring"], 5)]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demand")
    records = [priced_service(name, payee) for name, payee in PAYEES.items()]
    stated = endpoint() | {"quality": {"l30DaysTotalCalls": "9", "l30DaysUniquePayers": "7"}}
    records += [service("stated", endpoints=[stated, endpoint()]), service("unused")]
    return build(folder, records, payments())


def build(folder: Path, records: list[Json], paid: list[Json]) -> Path:
    transactions = write_lines(folder / "payments.jsonl", paid)
    return build_records(folder, records, "--transactions", transactions, *PLAIN)


def ids(client: httpx.Client, path: str) -> list[str]:
    return [each["id"] for each in client.get(path).raise_for_status().json()["services"]]


def test_the_figures_of_a_service_and_of_its_endpoints_are_served(client: httpx.Client) -> None:
    response = client.get("/v1/services/loyal/demand").raise_for_status()
    demand = response.json()["demand"]
    endpoints = demand.pop("endpoints")
    inputs = demand.pop("inputs")
    daily = demand.pop("daily")
    assert (len(daily), sum(daily), sum(count > 0 for count in daily)) == (31, 10, 2)
    assert demand == {
        "payments": 10,
        "volume": 550_000,
        "payers": 5,
        "returningPayers": 5,
        "activeDays": 2,
        "topPayerShare": {"calls": 0.2, "volume": 0.2},
        "selfPayments": 0,
        "cyclePayments": 0,
        "withoutTopPayer": {"calls": 8, "volume": 440_000},
        "priceUnmatched": 0,
    }
    assert [(each["url"], each["payments"]) for each in endpoints] == [
        ("https://loyal.example/0.01", 5),
        ("https://loyal.example/0.10", 5),
    ]
    assert inputs["payments"] == len(payments())
    assert (inputs["networks"], inputs["fundingTransfers"]) == (["base"], False)
    assert response.headers["etag"]


def test_payments_to_oneself_and_those_paid_back_are_told_apart(client: httpx.Client) -> None:
    demand = client.get("/v1/services/ring/demand").json()["demand"]
    assert (demand["payments"], demand["cyclePayments"], demand["selfPayments"]) == (20, 20, 1)


@pytest.mark.parametrize("service_id", ["unused", "stated"])
def test_a_service_without_payments_has_zeros(service_id: str, client: httpx.Client) -> None:
    demand = client.get(f"/v1/services/{service_id}/demand").json()["demand"]
    assert (demand["payments"], demand["payers"], demand["endpoints"]) == (0, 0, [])


def test_the_demand_of_an_unknown_service_is_404(client: httpx.Client) -> None:
    response = client.get("/v1/services/unknown/demand")
    assert (response.status_code, response.json()["error"]["code"]) == (404, "service_not_found")


def test_every_demand_satisfies_its_schema(client: httpx.Client) -> None:
    for name in (*PAYEES, "unused"):
        text = client.get(f"/v1/services/{name}/demand").content
        msgspec.json.decode(text, type=DemandEnvelope)


@pytest.mark.parametrize("path", ["/v1/services", "/v1/services?sort=popularity"])
def test_payers_who_return_come_before_any_number_of_others(
    path: str, client: httpx.Client
) -> None:
    assert ids(client, path) == ["loyal", "busy", "stated", "ring", "unused"]


@pytest.mark.parametrize(
    ("payers", "expected"),
    [(1, {"loyal", "busy", "stated"}), (6, {"busy", "stated"}), (201, set()), (10**30, set())],
)
def test_services_are_filtered_by_payers_outside_of_cycles(
    payers: int, expected: set[str], client: httpx.Client
) -> None:
    assert {*ids(client, f"/v1/services?minPayers={payers}")} == expected


def test_endpoints_are_filtered_and_ordered_by_their_own_payers(client: httpx.Client) -> None:
    found = client.get("/v1/search/endpoints?minPayers=5&sort=popularity&perService=0").json()
    urls = [each["url"] for each in found["endpoints"]]
    assert urls == [
        "https://busy.example/0.01",
        "https://api.one.example/v1",
        "https://loyal.example/0.01",
        "https://loyal.example/0.10",
    ]


@pytest.mark.parametrize("value", ["0", "-1", "1.0", "x", ""])
def test_a_number_of_payers_is_a_whole_number_from_one(value: str, client: httpx.Client) -> None:
    response = client.get(f"/v1/services?minPayers={value}")
    assert (response.status_code, response.json()["error"]["parameter"]) == (400, "minPayers")


def test_the_pages_show_payments_with_and_without_the_top_payer(client: httpx.Client) -> None:
    html = {"accept": "text/html"}
    page = client.get("/services/loyal", headers=html).raise_for_status().text
    assert "<dt>Payers</dt><dd>5, 5 came again</dd>" in page
    assert "/v1/services/loyal/demand" in page
    assert "Payments of 30 days" not in client.get("/services/unused", headers=html).text
    page = client.get("/services/ring", headers=html).text
    assert "<dt>Without its largest payer</dt><dd>none</dd>" in page
    assert ">0 payments" not in page
    page = client.get("/ecosystem", headers=html).raise_for_status().text
    assert "<span>200 payments</span><span>199 without the largest payer</span>" in page


def test_an_agent_that_gets_a_service_sees_who_paid(published: Path) -> None:
    paid = structured(published, "get", id="loyal")["payments_30d"]
    assert (paid["payments"], paid["payers"], paid["returningPayers"]) == (10, 5, 5)
    assert paid["volumeUnit"] == "0.000001 USD"  # a cent would read as 10,000 dollars
    assert "payments_30d" not in structured(published, "get", id="unused")


def test_the_order_of_payment_lines_changes_no_snapshot(tmp_path: Path, published: Path) -> None:
    lines = sorted(payments(), key=lambda each: str(each["tx_hash"])[::-1])
    written = (published.parent / "records.jsonl").read_text()
    records = [json.loads(line) for line in written.splitlines()]
    assert current(build(tmp_path, records, lines)) == current(published)
