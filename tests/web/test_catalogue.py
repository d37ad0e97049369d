"""Search, filters, sorting and paging of the catalogue, in a real browser."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from service.web.static_files import VERSION
from tests.support.clients.browser import IN_PLACE, parts, search_box, settle, shows, visit

SEARCH, LIST = "/v1/search/services", "/v1/services"


def open_filter(page: Page, name: str) -> Locator:
    """Open a filter; returns its choices."""
    page.locator("summary", has_text=name).click()
    return page.get_by_role("group", name=name if name != "Price" else "Lowest price at most")


def choice(page: Page, value: str) -> Locator:
    """Return a choice of the open filter."""
    return page.locator(f'details[open] input[value="{value}"]')


def counts(group: Locator) -> list[list[str]]:
    rows: list[list[str]] = group.evaluate(
        "group => [...group.querySelectorAll('label')].map(label =>"
        " [...label.querySelectorAll('bdi, .number')].map(each => each.textContent))"
    )
    return rows


def test_typing_searches_and_changes_the_address(page: Page, client: httpx.Client) -> None:
    page.goto("/")
    shows(page, client.get(LIST))
    search_box(page).press_sequentially("weather")
    shows(page, client.get(SEARCH, params={"q": "weather"}))
    expect(page).to_have_title("weather · Ratecard")
    expect(page).to_have_url("/?q=weather")
    total = client.get(SEARCH, params={"q": "weather"}).json()["total"]
    expect(page.get_by_role("status")).to_have_text(f"1–{total} of {total} services")
    search_box(page).press_sequentially(" stations")
    shows(page, client.get(SEARCH, params={"q": "weather stations"}))
    page.reload()
    shows(page, client.get(SEARCH, params={"q": "weather stations"}))
    expect(search_box(page)).to_have_value("weather stations")
    search_box(page).fill("")
    shows(page, client.get(LIST))
    expect(page).to_have_url("/")


def test_typing_makes_one_entry_of_the_history(page: Page, client: httpx.Client) -> None:
    page.goto("/?sort=name")
    for typed in ("weather", "weather stations"):
        search_box(page).fill(typed)
        shows(page, client.get(SEARCH, params={"q": typed, "sort": "name"}))
    search_box(page).press("Enter")  # the same search again
    search_box(page).fill("maps")
    shows(page, client.get(SEARCH, params={"q": "maps", "sort": "name"}))
    page.go_back()
    shows(page, client.get(SEARCH, params={"q": "weather stations", "sort": "name"}))
    page.go_back()
    shows(page, client.get(LIST, params={"sort": "name"}))


def test_each_search_by_enter_is_an_entry_of_the_history(page: Page, client: httpx.Client) -> None:
    page.goto("/")
    search_box(page).fill("weather")
    search_box(page).press("Enter")
    shows(page, client.get(SEARCH, params={"q": "weather"}))
    search_box(page).fill("maps")
    search_box(page).press("Enter")
    shows(page, client.get(SEARCH, params={"q": "maps"}))
    page.go_back()
    shows(page, client.get(SEARCH, params={"q": "weather"}))
    expect(search_box(page)).to_have_value("weather")


@pytest.mark.parametrize(
    ("name", "facet", "query"), [("Category", "category", ""), ("Network", "network", "data")]
)
def test_a_filter_counts_and_finds_as_the_api_does(
    name: str, facet: str, query: str, page: Page, client: httpx.Client
) -> None:
    path, parameters = (SEARCH, {"q": query}) if query else (LIST, {})
    page.goto(f"/?q={query}" if query else "/")
    group = open_filter(page, name)
    facets = client.get(path, params=parameters | {"facets": facet}).json()["facets"][facet]
    expect(group.locator(".number")).to_have_text([str(each["count"]) for each in facets])
    counted = [[each["value"] or "None", str(each["count"])] for each in facets]
    assert counts(group) == counted
    first, second = facets[1]["value"], facets[2]["value"]
    choice(page, first).check()
    shows(page, client.get(path, params=parameters | {facet: first}))
    choice(page, second).check()
    shows(page, client.get(path, params=parameters | {facet: [first, second]}))
    # The counts of a filter do not depend on its own choices.
    assert counts(group) == counted
    page.get_by_role("link", name=f"Remove the filter {first}").click()
    shows(page, client.get(path, params=parameters | {facet: second}))
    expect(page.locator("#selected li")).to_have_count(1)
    expect(page).to_have_url(str(httpx.URL("/", params=parameters | {facet: second})))


def test_a_maximum_price_finds_cheaper_services(page: Page, client: httpx.Client) -> None:
    page.goto("/?q=data")
    group = open_filter(page, "Price")
    prices = ["0.001", "0.01", "0.1", "1"]
    responses = [client.get(SEARCH, params={"q": "data", "maxPrice": price}) for price in prices]
    totals = [str(each.json()["total"]) for each in responses]
    expect(group.locator(".number")).to_have_text(totals)
    choice(page, "0.001").check()
    shows(page, responses[0])
    choice(page, "0.1").check()
    shows(page, responses[2])
    expect(page).to_have_url("/?q=data&maxPrice=0.1")
    page.get_by_role("link", name="Remove the filter Up to 0.1").click()
    shows(page, client.get(SEARCH, params={"q": "data"}))
    expect(page).to_have_url("/?q=data")


def test_curated_only_and_sorting_answer_as_the_api_does(page: Page, client: httpx.Client) -> None:
    page.goto("/?q=data")
    page.get_by_role("checkbox", name="Curated only").check()
    shows(page, client.get(SEARCH, params={"q": "data", "enriched": "true"}))
    assert (
        page.locator("#results > li").count() == page.get_by_text("Curated", exact=True).count() - 1
    )
    for label, sort in (("Cheapest", "price"), ("Name", "name"), ("Most used", "popularity")):
        page.get_by_role("combobox", name="Sort").select_option(label)
        shows(page, client.get(SEARCH, params={"q": "data", "enriched": "true", "sort": sort}))
    page.get_by_role("link", name="Remove the filter Curated").click()
    shows(page, client.get(SEARCH, params={"q": "data", "sort": "popularity"}))
    expect(page.get_by_role("checkbox", name="Curated only")).not_to_be_checked()
    expect(page).to_have_url("/?q=data&sort=popularity")


def test_pages_follow_each_other_in_place(page: Page, client: httpx.Client) -> None:
    pages = page.get_by_role("navigation", name="Pages")
    following, preceding = pages.get_by_text("Next"), pages.get_by_text("Previous")
    page.goto("/")
    expect(preceding).to_be_hidden()
    page.evaluate("window.same = true")
    following.click()
    shows(page, client.get(LIST, params={"offset": 24}))
    expect(page.get_by_role("status")).to_have_text("25–48 of 184 services")
    expect(page.locator("#results")).to_be_focused()
    expect(page.locator("#search")).to_be_in_viewport()
    expect(page).to_have_url("/?offset=24")
    preceding.click()
    shows(page, client.get(LIST))
    expect(page).to_have_url("/")
    assert page.evaluate("window.same")
    page.goto("/?offset=168")
    expect(page.locator("#results > li")).to_have_count(16)
    expect(following).to_be_hidden()
    search_box(page).fill("weather")  # a new search starts at its first page
    shows(page, client.get(SEARCH, params={"q": "weather"}))


def test_back_and_forward_restore_results_and_controls(page: Page, client: httpx.Client) -> None:
    page.goto("/")
    search_box(page).fill("data")
    search_box(page).press("Enter")
    shows(page, client.get(SEARCH, params={"q": "data"}))
    open_filter(page, "Category")
    choice(page, "Data").check()
    narrowed: dict[str, Any] = {"q": "data", "category": "Data"}
    shows(page, client.get(SEARCH, params=narrowed))
    page.get_by_role("combobox", name="Sort").select_option("Name")
    shows(page, client.get(SEARCH, params=narrowed | {"sort": "name"}))
    page.keyboard.press("Escape")
    page.locator("#results a").first.click()
    page.wait_for_url("**/services/*")

    page.go_back()
    shows(page, client.get(SEARCH, params=narrowed | {"sort": "name"}))
    expect(page.get_by_role("combobox", name="Sort")).to_have_value("name")
    expect(page.locator("#selected li")).to_have_text(["Data ×"])
    page.go_back()
    shows(page, client.get(SEARCH, params=narrowed))
    expect(page.get_by_role("combobox", name="Sort")).to_have_value("relevance")
    page.go_back()
    shows(page, client.get(SEARCH, params={"q": "data"}))
    expect(page.locator("#selected li")).to_have_count(0)
    page.go_back()
    shows(page, client.get(LIST))
    expect(search_box(page)).to_have_value("")
    page.go_forward()
    page.go_forward()
    shows(page, client.get(SEARCH, params=narrowed))
    expect(search_box(page)).to_have_value("data")
    open_filter(page, "Category")
    expect(choice(page, "Data")).to_be_checked()


def test_without_scripts_search_filters_pages_and_services_work(
    browser: Browser, client: httpx.Client
) -> None:
    with visit(browser, client, java_script_enabled=False) as page:
        page.goto("/?q=weather&category=Weather&offset=0")
        shows(page, client.get(SEARCH, params={"q": "weather", "category": "Weather"}))
        expect(search_box(page)).to_have_value("weather")
        page.get_by_role("link", name="Catalogue").click()
        page.get_by_role("link", name="Next").click()
        shows(page, client.get(LIST, params={"offset": 24}))
        search_box(page).fill("data")
        page.get_by_role("button", name="Search").click()
        shows(page, client.get(SEARCH, params={"q": "data"}))
        open_filter(page, "Category")
        choice(page, "Data").check()
        page.get_by_role("combobox", name="Sort").select_option("Name")
        page.get_by_role("button", name="Search").click()
        narrowed = {"q": "data", "category": "Data", "sort": "name"}
        shows(page, client.get(SEARCH, params=narrowed))
        page.get_by_role("link", name="Remove the filter Data").click()
        response = client.get(SEARCH, params={"q": "data", "sort": "name"})
        shows(page, response)
        page.locator("#results a").first.click()
        first = response.json()["services"][0]
        expect(page.get_by_role("heading", level=1)).to_have_text(first["name"])
        expect(page.locator(".endpoint")).to_have_count(len(first["endpoints"]))


def test_a_page_reached_in_place_is_the_page_that_its_address_loads(page: Page) -> None:
    page.goto("/")
    page.get_by_role("link", name="Next").click()
    expect(page).to_have_url("/?offset=24")
    _reload_and_compare(page)
    search_box(page).fill("data")
    expect(page).to_have_url("/?q=data")
    open_filter(page, "Network")
    choice(page, "Base").check()
    page.get_by_role("checkbox", name="Curated only").check()
    page.get_by_role("combobox", name="Sort").select_option("Cheapest")
    expect(page).to_have_url("/?q=data&network=Base&enriched=true&sort=price")
    _reload_and_compare(page)
    expect(page.get_by_role("checkbox", name="Curated only")).to_be_checked()
    page.get_by_role("link", name="Remove the filter Base").click()
    expect(page).to_have_url("/?q=data&enriched=true&sort=price")
    page.go_back()
    expect(page).to_have_url("/?q=data&network=Base&enriched=true&sort=price")
    _reload_and_compare(page)


def _reload_and_compare(page: Page) -> None:
    settle(page)
    in_place, query = parts(page), search_box(page).input_value()
    page.reload()
    assert parts(page) == in_place
    expect(search_box(page)).to_have_value(query)


def test_a_page_of_another_release_is_loaded_whole(page: Page, client: httpx.Client) -> None:
    page.goto("/")
    page.evaluate("window.same = true")

    def upgrade(route: Route) -> None:
        response = route.fetch()
        route.fulfill(response=response, body=response.text().replace(VERSION, "other"))

    page.route(IN_PLACE, upgrade, times=1)
    search_box(page).fill("weather")
    shows(page, client.get(SEARCH, params={"q": "weather"}))
    assert not page.evaluate("window.same")


def test_a_filter_without_a_control_stays_until_it_is_removed(
    page: Page, client: httpx.Client
) -> None:
    page.goto("/services/switchyard-example")
    page.get_by_role("list", name="Tags").get_by_role("link", name="llm").click()
    shows(page, client.get(LIST, params={"tag": "llm"}))
    search_box(page).fill("chat")
    shows(page, client.get(SEARCH, params={"q": "chat", "tag": "llm"}))
    expect(page).to_have_url("/?q=chat&tag=llm")
    page.get_by_role("link", name="Remove the filter llm").click()
    shows(page, client.get(SEARCH, params={"q": "chat"}))
