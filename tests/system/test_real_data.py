"""Real data: records are served unchanged, and totals equal an independent count."""

from __future__ import annotations

import csv
import json
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from indexer.__main__ import main
from indexer.catalogue.records import read_record
from tests.support.running import SHARED, serve

PAGE = SHARED / "agentic" / "services_page_2026-05.json"
PAYMENTS = SHARED / "transactions" / "base_payments_2026.csv"

pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="the real data is not available")


def test_real_records_are_served_unchanged_with_correct_totals(tmp_path: Path) -> None:
    arguments = ["build", str(PAGE), "--transactions", str(PAYMENTS), "--out", str(tmp_path)]
    # A record of the page asks for 500,000 USDC.
    assert main([*arguments, "--max-rejects", "0%", "--max-price", "500000"]) == 0
    expected = {record["id"]: record for record in json.loads(PAGE.read_text())["services"]}
    with PAYMENTS.open(newline="") as file:
        payments = [row for row in csv.DictReader(file) if row["success"] == "true"]
    moments = [datetime.fromisoformat(row["block_time"]) for row in payments]
    with serve(tmp_path) as client:
        listing = client.get("/v1/services", params={"limit": 200}).json()
        assert {service["id"]: service for service in listing["services"]} == expected
        assert listing["total"] == 50
        for service_id, record in expected.items():
            assert client.get(f"/v1/services/{service_id}").json() == {"service": record}
        hits = client.get("/v1/search/services", params={"q": "web search"}).json()
        assert "exa-ai" in [service["id"] for service in hits["services"]]
        for timeframe in (1, 7, 30, 60, 365):
            start = max(moments) - timedelta(days=timeframe)
            window = [row for row, at in zip(payments, moments, strict=True) if at > start]
            response = client.get("/v1/ecosystem/overview", params={"timeframe": timeframe})
            assert response.json()["overview"]["json"] == {
                "total_transactions": len(window),
                "total_amount": sum(Decimal(row["amount_usdc"]) for row in window) * 10**6,
                "unique_buyers": len({row["from_addr"] for row in window}),
                "unique_sellers": len({row["to_addr"] for row in window}),
                "latest_block_timestamp": "2026-04-25T09:54:05.000Z",
            }


def test_derived_price_summaries_equal_those_of_the_real_page() -> None:
    for record in json.loads(PAGE.read_text())["services"]:
        expected = record.pop("priceSummary")
        derived = read_record(json.dumps(record).encode()).text
        assert json.loads(derived)["priceSummary"] == expected, record["id"]
