"""Empty, loading, failed, offline and rebuilt: the states of the pages, in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.support.clients.browser import IN_PLACE, address, search_box, settle, shows, visit
from tests.support.running import Build, Json, eventually, serve, service

REFUSED = "console: Failed to load resource: the server responded with a status of"
LARGE = "/services/data-porthalden-example"
PAGES = ("/?q=weather", LARGE, "/ecosystem")

Respond = Callable[[Route], None]


def load_another(page: Page, path: str) -> None:
    """Load another list in place: by a timeframe of the ecosystem, elsewhere by a search."""
    if path == "/ecosystem":
        page.get_by_role("link", name="7 days").click()
    else:
        page.get_by_role("searchbox").fill("tides")


def test_a_search_without_matches_leads_to_all_services(page: Page, client: httpx.Client) -> None:
    page.goto("/?q=zzzzzz")
    expect(page.get_by_role("heading", name="No services match")).to_be_visible()
    expect(page.get_by_role("status")).to_have_text("No services")
    page.get_by_role("link", name="See all 184 services").click()
    shows(page, client.get("/v1/services"))
    expect(page.get_by_role("heading", name="No services match")).to_be_hidden()


@pytest.mark.parametrize("path", PAGES)
def test_a_list_is_marked_as_busy_while_it_loads(path: str, page: Page) -> None:
    held: list[Route] = []
    page.goto(path)
    page.route(IN_PLACE, lambda route: held.append(route))  # noqa: PLW0108  # Playwright marks it, which a method does not allow
    load_another(page, path)
    expect(page.locator('[aria-busy="true"]')).to_be_attached()
    eventually(lambda: page.evaluate("1") == 1 and bool(held))
    page.unroute(IN_PLACE)  # continues the held request
    settle(page)
    expect(page.get_by_role("alert")).to_be_hidden()


def not_a_page(route: Route) -> None:
    route.fulfill(status=502, content_type="text/html", body="<h1>Bad gateway</h1>")


def another_error(route: Route) -> None:
    route.fulfill(status=500, json={"message": "no healthy upstream"})


def error_page(route: Route) -> None:
    response = route.fetch()
    page = '<main id="main"><h1>Error</h1><p>too many &lt;b&gt;requests&lt;/b&gt;</p></main>'
    route.fulfill(response=response, status=503, body=page)


def nothing(route: Route) -> None:
    route.fulfill(status=200, body="", content_type="text/html")


FAILURES: dict[Respond, str] = {
    not_a_page: "(status 502) is not a page of Ratecard",
    another_error: "(status 500) is not a page of Ratecard",
    error_page: "too many <b>requests</b>",
    nothing: "(status 200) is not a page of Ratecard",
}


@pytest.mark.parametrize(
    ("path", "responses"),
    [(PAGES[0], [*FAILURES]), *((path, [not_a_page]) for path in PAGES[1:])],
)
def test_a_failure_is_shown_and_can_be_tried_again(
    path: str, responses: list[Respond], browser: Browser, client: httpx.Client
) -> None:
    with visit(browser, client, allowed=REFUSED) as page:
        for respond in responses:
            page.goto(path)
            page.route(IN_PLACE, respond)
            load_another(page, path)
            alert = page.get_by_role("alert")
            expect(alert).to_contain_text(FAILURES[respond])
            settle(page)
            assert address(page) == path
            page.unroute(IN_PLACE)
            page.get_by_role("button", name="Try again").click()
            expect(alert).to_be_hidden()
            expect(page.locator("#main")).to_be_focused()
            settle(page)
            assert address(page) != path


@pytest.mark.parametrize("path", ["/?q=weather", "/ecosystem"])
def test_offline_is_shown_and_the_request_repeated_when_online(
    path: str, browser: Browser, client: httpx.Client
) -> None:
    with visit(browser, client, allowed="ERR_INTERNET_DISCONNECTED") as page:
        page.goto(path)
        page.context.set_offline(True)
        load_another(page, path)
        expect(page.get_by_role("alert")).to_contain_text("You are offline.")
        assert page.locator("#results > li").count() > 0
        page.context.set_offline(False)
        expect(page.get_by_role("alert")).to_be_hidden()
        expect(page).to_have_url("/?q=tides" if "?" in path else "/ecosystem?timeframe=7")
        if "?" in path:
            shows(page, client.get("/v1/search/services?q=tides"))


def catalogue(size: int, name: str) -> list[Json]:
    return [service(f"{name}-{n:03}", name=f"{name.title()} {n:03}") for n in range(size)]


def test_a_snapshot_published_while_the_page_is_open_is_announced(
    browser: Browser, artifacts: Path, build: Build
) -> None:
    assert build(catalogue(80, "first")) == 0
    with serve(artifacts) as client, visit(browser, client) as page:
        page.goto("/")
        page.get_by_role("link", name="Next").click()
        expect(page.get_by_role("status")).to_have_text("25–48 of 80 services")
        before = client.get("/healthz").headers["ratecard-snapshot"]
        assert build(catalogue(60, "second"), options=("--max-removed", "100%")) == 0
        eventually(lambda: client.get("/healthz").headers["ratecard-snapshot"] != before)
        page.get_by_role("link", name="Next").click()
        shows(page, client.get("/v1/services"))
        expect(page.get_by_role("status")).to_have_text(
            "1–24 of 60 services, from a catalogue rebuilt just now"
        )
        expect(page).to_have_url("/")
        search_box(page).fill("second 007")
        expect(page.locator("#results h2").first).to_have_text("Second 007")
        expect(page.get_by_role("status")).not_to_contain_text("rebuilt")
