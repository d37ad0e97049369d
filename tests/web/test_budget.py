"""Page weight and layout shifts, and a root path, in a real browser."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.support.clients.browser import shows, visit
from tests.support.running import serve

MAX_BYTES, MAX_REQUESTS, MAX_SHIFT = 100_000, 6, 0.02
PAGES = (
    "/",
    "/?q=weather",
    "/endpoints?q=weather",
    "/services/folioscope-example",
    "/services/data-porthalden-example",  # 600 endpoints
    "/ecosystem",
)
SHIFTS = """
    window.shifts = [];
    new PerformanceObserver(list => {
        for (const shift of list.getEntries()) {
            if (shift.hadRecentInput) continue;
            const moved = shift.sources.map(({ node }) => node?.outerHTML?.slice(0, 80));
            shifts.push([shift.value, moved]);
        }
    }).observe({ type: "layout-shift", buffered: true });
"""
TWO_FRAMES = (
    "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))"
)


@pytest.mark.parametrize("path", PAGES)
def test_a_first_visit_is_small(path: str, page: Page) -> None:
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    session.send("Network.clearBrowserCache")
    sizes: list[float] = []
    session.on("Network.loadingFinished", lambda loaded: sizes.append(loaded["encodedDataLength"]))
    page.goto(path, wait_until="networkidle")
    assert len(sizes) <= MAX_REQUESTS
    assert sum(sizes) < MAX_BYTES
    transferred = page.evaluate("performance.getEntriesByType('resource').length")
    assert transferred + 1 >= len(sizes) >= 4
    session.detach()


def test_a_second_page_fetches_no_more_files(browser: Browser, client: httpx.Client) -> None:
    with visit(browser, client) as page:  # with a cache of its own
        page.goto("/", wait_until="networkidle")
        page.goto("/services/folioscope-example", wait_until="networkidle")
        fetched = page.evaluate(
            "performance.getEntriesByType('resource').filter(each => each.transferSize > 0)"
            ".map(each => new URL(each.name).pathname.split('/').at(-1))"
        )
        assert fetched == []


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_moves_when_scripts_run(width: int, browser: Browser, client: httpx.Client) -> None:
    with visit(browser, client, viewport={"width": width, "height": 900}) as page:
        page.add_init_script(SHIFTS)
        for path in PAGES:
            page.goto(path)
            page.evaluate(TWO_FRAMES)
            shifts = page.evaluate("shifts")
            assert sum(value for value, _ in shifts) < MAX_SHIFT, (path, shifts)


def test_every_address_keeps_the_root_path(browser: Browser, sample: Path) -> None:
    with serve(sample, "--root-path", "/catalogue") as client:
        origin = str(client.base_url).rstrip("/")

        def strip(route: Route) -> None:
            within = route.request.url.removeprefix(f"{origin}/catalogue")
            route.fulfill(response=route.fetch(url=f"{origin}{within}"))

        client.base_url = httpx.URL(f"{origin}/catalogue")
        with visit(browser, client) as page:
            page.route(f"{origin}/catalogue/**", strip)
            page.goto(f"{origin}/catalogue/")
            page.get_by_role("searchbox").fill("weather")
            page.get_by_role("searchbox").press("Enter")
            client.base_url = httpx.URL(origin)
            shows(page, client.get("/v1/search/services?q=weather"))
            expect(page).to_have_url(f"{origin}/catalogue/?q=weather&sort=relevance")
            page.locator("#results a").first.click()
            expect(page.locator(".endpoint").first).to_be_visible()
            assert page.url.startswith(f"{origin}/catalogue/services/")
            page.get_by_role("link", name="All services").click()
            expect(page).to_have_url(f"{origin}/catalogue/?q=weather&sort=relevance")
            page.get_by_role("link", name="Ecosystem").click()
            expect(page.locator("#results > li")).to_have_count(12)
            page.get_by_role("link", name="7 days").click()
            expect(page).to_have_url(f"{origin}/catalogue/ecosystem?timeframe=7")
            links = page.locator("a").evaluate_all("all => all.map(each => each.pathname)")
            assert all(link.startswith("/catalogue/") for link in links)
            page.unroute_all(behavior="wait")  # files of the last page may be on their way
