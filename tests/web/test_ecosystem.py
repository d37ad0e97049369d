"""The ecosystem in a real browser: totals, charts, and the latest payments with ages."""

from __future__ import annotations

from datetime import datetime

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.clients.browser import visit
from tests.support.running import Json

TOTALS = ("total_transactions", "total_amount", "unique_buyers", "unique_sellers")


def format_totals(totals: Json) -> list[str]:
    """Return the totals as the page shows them."""
    payments, amount, buyers, sellers = (totals[name] for name in TOTALS)
    return [f"{payments:,}", f"${amount / 1e6:,.2f}", f"{buyers:,}", f"{sellers:,}"]


def test_totals_and_charts_of_each_timeframe_are_those_of_the_api(
    page: Page, client: httpx.Client
) -> None:
    page.goto("/ecosystem")
    timeframes = page.get_by_role("navigation", name="Timeframe")
    expect(timeframes.get_by_role("link", name="30 days")).to_have_attribute("aria-current", "true")
    for days, name in ((1, "1 day"), (7, "7 days"), (90, "90 days"), (30, "30 days")):
        params = {"timeframe": days}
        timeframes.get_by_role("link", name=name, exact=True).click()
        overview = client.get("/v1/ecosystem/overview", params=params).json()["overview"]["json"]
        buckets = client.get("/v1/ecosystem/stats", params=params).json()["stats"]["json"]
        expect(page.locator(".totals dd")).to_have_text(format_totals(overview))
        for figure in page.locator("figure").all():
            expect(figure.locator(".bar")).to_have_count(len(buckets))
        expect(page.locator("#buckets tr")).to_have_count(len(buckets))
        newest = page.locator("#buckets tr").first.locator("td").all_text_contents()
        assert (newest[0], newest[2]) == (
            f"{buckets[-1]['total_transactions']:,}",
            f"{buckets[-1]['unique_buyers']:,}",
        )
        expect(page).to_have_url(f"/ecosystem?timeframe={days}")
    page.go_back()
    expect(timeframes.get_by_role("link", name="90 days")).to_have_attribute("aria-current", "true")


def test_a_chart_is_described_and_drawn_to_scale(page: Page, client: httpx.Client) -> None:
    page.goto("/ecosystem?timeframe=7")
    buckets = client.get("/v1/ecosystem/stats?timeframe=7").json()["stats"]["json"]
    payments = [bucket["total_transactions"] for bucket in buckets]
    chart = page.get_by_role("img", name="Payments by day")
    name = chart.get_attribute("aria-label") or ""
    assert name.endswith(f": {max(payments):,}")
    titles = chart.locator("title").all_text_contents()
    assert [title.rpartition(": ")[2] for title in titles] == [f"{each:,}" for each in payments]
    heights = chart.locator(".bar rect:not(.column)").evaluate_all(
        "bars => bars.map(bar => bar.height.baseVal.value)"
    )
    scale = max(heights) / max(payments)
    assert heights == pytest.approx([scale * each for each in payments], abs=0.01)


def test_shares_are_those_of_the_facets_and_prices_are_counted(
    page: Page, client: httpx.Client
) -> None:
    page.goto("/ecosystem")
    for facet in ("network", "category"):
        answer = client.get("/v1/services", params={"facets": facet}).json()
        counts = [each["count"] for each in answer["facets"][facet]][:8]
        section = page.get_by_role("region", name=f"Services by {facet}")
        shares = [f"{each} {100 * each / answer['total']:.0f} %" for each in counts]
        expect(section.locator(".number")).to_have_text(shares)
    prices = page.get_by_role("region", name="Ways to pay by price")
    expect(prices.locator("bdi")).to_have_text(
        ["below 0.001", "from 0.001", "from 0.01", "from 0.1", "from 1"]
    )


def test_payments_have_ages_and_pages(browser: Browser, client: httpx.Client) -> None:
    transactions = "/v1/ecosystem/transactions"
    first = client.get(transactions, params={"limit": 12}).json()["transactions"]["json"]["items"]
    second = client.get(transactions, params={"limit": 12, "page": 1}).json()["transactions"][
        "json"
    ]
    newest = datetime.fromisoformat(first[0]["block_timestamp"])
    with visit(browser, client) as page:
        page.clock.install(time=newest.timestamp() + 150)
        page.goto("/ecosystem")
        rows = page.locator("#results > li")
        expect(rows).to_have_count(12)
        expect(rows.first.locator("time")).to_have_text("2 minutes ago")
        times = page.locator("#results time")
        assert moments(page) == [each["block_timestamp"] for each in first]
        expect(page.get_by_role("link", name="Newer")).to_be_hidden()
        page.get_by_role("link", name="Older").click()
        expect(times.first).to_have_attribute("datetime", second["items"][0]["block_timestamp"])
        assert moments(page) == [each["block_timestamp"] for each in second["items"]]
        page.get_by_role("link", name="Newer").click()
        expect(times.first).to_have_attribute("datetime", first[0]["block_timestamp"])


def moments(page: Page) -> list[str | None]:
    return [time.get_attribute("datetime") for time in page.locator("#results time").all()]
