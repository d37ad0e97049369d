"""The page when there is nothing to show, not yet, or no more: in a real browser."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from tests.support.running import Build, Json, eventually, serve, service
from tests.support.visits import address, shows, visit

REFUSED = "says: Failed to load resource: the server responded with a status of"
PAGES = ("/?q=weather", "/services/rainbarrel-example", "/ecosystem")

Answer = Callable[[Route], None]


def words(page: Page) -> Locator:
    return page.get_by_role("searchbox", name="Search services by what they do")


def busy(page: Page) -> Locator:
    return page.locator('[aria-busy="true"]')


def test_an_empty_catalogue_says_how_to_fill_it(
    browser: Browser, artifacts: Path, build: Build, tmp_path: Path
) -> None:
    (tmp_path / "none.json").write_text("[]")
    assert build(tmp_path / "none.json") == 0
    with serve(artifacts) as client, visit(browser, client) as page:
        page.goto("/")
        expect(page.get_by_role("heading", name="This catalogue is empty")).to_be_visible()
        expect(page.get_by_text("make index SOURCE=services.jsonl")).to_be_visible()
        words(page).fill("weather")
        expect(page).to_have_url("/?q=weather")
        expect(page.get_by_role("heading", name="This catalogue is empty")).to_be_visible()


@pytest.mark.parametrize("scripts", [True, False])
def test_where_nothing_matches_there_is_a_way_on(
    scripts: bool, browser: Browser, client: httpx.Client
) -> None:
    with visit(browser, client, java_script_enabled=scripts) as page:
        page.goto("/?q=zzzzzz")
        expect(page.get_by_role("heading", name="Nothing here matches")).to_be_visible()
        expect(page.get_by_role("status")).to_have_text("No services")
        page.get_by_role("link", name="See all 184 services").click()
        shows(page, client.get("/v1/services"))
        expect(page.get_by_role("heading", name="Nothing here matches")).to_be_hidden()


@pytest.mark.parametrize(
    ("path", "status", "heading", "text"),
    [
        ("/services/nobody", 404, "Nothing is here", "it may have left the catalogue"),
        ("/nowhere", 404, "Nothing is here", "no resource has this path"),
        ("/?sort=nope", 400, "That address says something", "sort must be one of: relevance"),
        ("/?offset=-1", 400, "That address says something", "offset must be an integer"),
    ],
)
def test_an_address_that_shows_nothing_says_why_and_leads_on(
    path: str, status: int, heading: str, text: str, browser: Browser, client: httpx.Client
) -> None:
    with visit(browser, client, allowed=f"{REFUSED} {status}") as page:
        response = page.goto(path)
        assert response
        assert response.status == status
        expect(page.get_by_role("heading", name=heading)).to_be_visible()
        expect(page.get_by_text(text)).to_be_visible()
        page.get_by_role("link", name="See all services").click()
        expect(page.locator("#results > li")).to_have_count(24)


def test_without_a_snapshot_the_page_says_who_can_help(browser: Browser, artifacts: Path) -> None:
    with serve(artifacts) as client, visit(browser, client, allowed=f"{REFUSED} 503") as page:
        response = page.goto("/")
        assert response
        assert response.status == 503
        expect(page.get_by_text("make index SOURCE=services.jsonl")).to_be_visible()
        # And it looks as all pages do.
        assert page.evaluate("document.styleSheets[0].cssRules.length") > 50
        assert page.evaluate("getComputedStyle(document.body).maxWidth") != "none"


@pytest.mark.parametrize("path", PAGES)
def test_what_is_loading_is_marked_until_it_is_there(path: str, page: Page) -> None:
    held: list[Route] = []
    page.goto(path)
    page.route("**/v1/**", lambda route: held.append(route))  # noqa: PLW0108  # it is marked, which a method cannot be
    if "?" in path:
        words(page).fill("tides")
    else:
        page.reload()
    expect(busy(page).first).to_be_attached()
    eventually(lambda: page.evaluate("1") == 1 and bool(held))
    page.unroute("**/v1/**")  # which lets them go
    expect(busy(page)).to_have_count(0)
    expect(page.get_by_role("alert")).to_be_hidden()


def not_json(route: Route) -> None:
    route.fulfill(status=502, content_type="text/html", body="<h1>Bad gateway</h1>")


def another_json(route: Route) -> None:
    route.fulfill(status=500, json={"message": "no healthy upstream"})


def refused(route: Route) -> None:
    error = {"code": "overloaded", "message": "too many requests <b>wait</b>"}
    route.fulfill(status=503, json={"error": error})


def empty(route: Route) -> None:
    route.fulfill(status=200, body="", content_type="application/json")


def unrelated(route: Route) -> None:
    route.fulfill(status=200, json=None, body=json.dumps(None))


FAILURES: dict[Answer, str] = {
    not_json: "(status 502) is not from Ratecard",
    another_json: "status 500",
    refused: "too many requests <b>wait</b>",
    empty: "(status 200) is not from Ratecard",
    unrelated: "That is a bug",
}


@pytest.mark.parametrize(
    ("path", "answer"),
    [*((PAGES[0], answer) for answer in FAILURES), *((path, not_json) for path in PAGES[1:])],
)
def test_a_failure_is_told_and_can_be_tried_again(
    path: str, answer: Answer, browser: Browser, client: httpx.Client
) -> None:
    with visit(browser, client, allowed=REFUSED) as page:
        page.goto(path)
        expect(busy(page)).to_have_count(0)
        page.route("**/v1/**", answer)
        if "?" in path:
            words(page).fill("tides")
        else:
            page.reload()
        expect(page.get_by_role("alert")).to_contain_text(FAILURES[answer])
        expect(busy(page)).to_have_count(0)
        page.unroute("**/v1/**")
        page.get_by_role("button", name="Try again").click()
        expect(page.get_by_role("alert")).to_be_hidden()
        expect(page.locator("#main")).to_be_focused()
        filled = {"/?": "#results > li", "/s": ".endpoint", "/e": "#payments > li"}[path[:2]]
        expect(page.locator(filled).first).to_be_visible()


@pytest.mark.parametrize("path", ["/?q=weather", "/ecosystem"])
def test_offline_is_told_and_mended_by_itself(
    path: str, browser: Browser, client: httpx.Client
) -> None:
    with visit(browser, client, allowed="ERR_INTERNET_DISCONNECTED") as page:
        page.goto(path)
        expect(busy(page)).to_have_count(0)
        page.context.set_offline(True)
        if "?" in path:
            words(page).fill("tides")
        else:
            page.get_by_role("link", name="7 days").click()
        expect(page.get_by_role("alert")).to_contain_text("You are offline.")
        assert page.locator("#results > li, #payments > li").count() > 0
        page.context.set_offline(False)
        expect(page.get_by_role("alert")).to_be_hidden()
        if "?" in path:
            shows(page, client.get("/v1/search/services?q=tides"))
            assert address(page) == "/?q=tides"


def test_both_parts_of_the_ecosystem_are_tried_again(
    browser: Browser, client: httpx.Client
) -> None:
    with visit(browser, client, allowed=REFUSED) as page:
        page.route("**/v1/**", not_json)
        page.goto("/ecosystem")
        expect(page.get_by_role("alert")).to_be_visible()
        page.unroute("**/v1/**")
        page.get_by_role("button", name="Try again").click()
        expect(page.locator("#payments > li")).to_have_count(12)
        expect(page.locator("#totals dd").first).to_have_text("2,395")
        expect(page.get_by_role("alert")).to_be_hidden()


def catalogue(size: int, name: str) -> list[Json]:
    return [service(f"{name}-{n:03}", name=f"{name.title()} {n:03}") for n in range(size)]


def test_a_snapshot_that_comes_while_the_page_is_open_is_told(
    browser: Browser, artifacts: Path, build: Build
) -> None:
    assert build(catalogue(80, "first")) == 0
    with serve(artifacts) as client, visit(browser, client) as page:
        page.goto("/")
        page.get_by_role("link", name="Next").click()
        expect(page.get_by_role("status")).to_have_text("25–48 of 80 services")
        before = client.get("/healthz").headers["ratecard-snapshot"]
        assert build(catalogue(60, "second")) == 0
        eventually(lambda: client.get("/healthz").headers["ratecard-snapshot"] != before)
        page.get_by_role("link", name="Next").click()
        shows(page, client.get("/v1/services"))
        expect(page.get_by_role("status")).to_have_text(
            "1–24 of 60 services, from a catalogue rebuilt just now"
        )
        assert address(page) == "/"
        words(page).fill("second 007")
        expect(page.locator("#results h2").first).to_have_text("Second 007")
        expect(page.get_by_role("status")).not_to_contain_text("rebuilt")
