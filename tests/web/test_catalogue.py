"""The catalogue, in a real browser: words, filters, order and pages, each of them in place."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.support.visits import address, cards, cards_by_script, shows, visit

SEARCH, LIST = "/v1/search/services", "/v1/services"


def words(page: Page) -> Locator:
    return page.get_by_role("searchbox", name="Search services by what they do")


def panel(page: Page, name: str) -> Locator:
    """The choices of a filter, opened."""
    page.locator("summary", has_text=name).click()
    return page.get_by_role("group", name=name if name != "Price" else "Cheapest price at most")


def choice(page: Page, value: str) -> Locator:
    """A choice of the panel that is open, which others may be named after."""
    return page.locator(f'details[open] input[value="{value}"]')


def counts(group: Locator) -> list[list[str]]:
    rows: list[list[str]] = group.evaluate(
        "group => [...group.querySelectorAll('label')].map(label =>"
        " [...label.querySelectorAll('bdi, .number')].map(each => each.textContent))"
    )
    return rows


def test_results_appear_as_one_types_and_the_address_follows(
    page: Page, client: httpx.Client
) -> None:
    page.goto("/")
    shows(page, client.get(LIST))
    words(page).press_sequentially("weather")
    shows(page, client.get(SEARCH, params={"q": "weather"}))
    expect(page).to_have_title("weather · Ratecard")
    assert address(page) == "/?q=weather"
    expect(page.get_by_role("status")).to_have_text("1–12 of 12 services")
    words(page).press_sequentially(" stations")
    shows(page, client.get(SEARCH, params={"q": "weather stations"}))
    page.reload()
    shows(page, client.get(SEARCH, params={"q": "weather stations"}))
    expect(words(page)).to_have_value("weather stations")
    words(page).fill("")
    shows(page, client.get(LIST))
    expect(page).to_have_url("/")


def test_what_was_typed_is_one_step_to_go_back(page: Page, client: httpx.Client) -> None:
    page.goto("/?sort=name")
    for typed in ("weather", "weather stations"):
        words(page).fill(typed)
        shows(page, client.get(SEARCH, params={"q": typed, "sort": "name"}))
    words(page).press("Enter")  # which finds nothing else
    words(page).fill("maps")
    shows(page, client.get(SEARCH, params={"q": "maps", "sort": "name"}))
    page.go_back()
    shows(page, client.get(SEARCH, params={"q": "weather stations", "sort": "name"}))
    page.go_back()
    shows(page, client.get(LIST, params={"sort": "name"}))


def test_enter_searches_and_can_be_gone_back_from(page: Page, client: httpx.Client) -> None:
    page.goto("/")
    words(page).fill("weather")
    words(page).press("Enter")
    shows(page, client.get(SEARCH, params={"q": "weather"}))
    words(page).fill("maps")
    words(page).press("Enter")
    shows(page, client.get(SEARCH, params={"q": "maps"}))
    page.go_back()
    shows(page, client.get(SEARCH, params={"q": "weather"}))
    expect(words(page)).to_have_value("weather")


@pytest.mark.parametrize(("name", "facet"), [("Category", "category"), ("Network", "network")])
@pytest.mark.parametrize("query", ["", "data"])
def test_a_filter_counts_and_finds_what_the_api_does(
    name: str, facet: str, query: str, page: Page, client: httpx.Client
) -> None:
    path, asked = (SEARCH, {"q": query}) if query else (LIST, {})
    page.goto(f"/?q={query}" if query else "/")
    group = panel(page, name)
    facets = client.get(path, params=asked | {"facets": facet}).json()["facets"][facet]
    expect(group.locator(".number")).to_have_text([str(each["count"]) for each in facets])
    counted = [[each["value"] or "None", str(each["count"])] for each in facets]
    assert counts(group) == counted
    first, second = facets[1]["value"], facets[2]["value"]
    choice(page, first).check()
    shows(page, client.get(path, params=asked | {facet: first}))
    choice(page, second).check()
    shows(page, client.get(path, params=asked | {facet: [first, second]}))
    # What others of the same filter would find does not depend on those that are chosen.
    assert counts(group) == counted
    page.get_by_role("button", name=f"Remove the filter {first}").click()
    shows(page, client.get(path, params=asked | {facet: second}))
    expect(page.locator("#chosen li")).to_have_count(1)
    assert address(page) == str(httpx.URL("/", params=asked | {facet: second}))


def test_a_price_finds_what_costs_at_most_as_much(page: Page, client: httpx.Client) -> None:
    page.goto("/?q=data")
    group = panel(page, "Price")
    prices = ["0.001", "0.01", "0.1", "1"]
    found = [client.get(SEARCH, params={"q": "data", "maxPrice": price}) for price in prices]
    totals = [str(each.json()["total"]) for each in found]
    expect(group.locator(".number")).to_have_text(totals)
    choice(page, "0.001").check()
    shows(page, found[0])
    choice(page, "0.1").check()
    shows(page, found[2])
    assert address(page) == "/?q=data&maxPrice=0.1"
    page.get_by_role("button", name="Remove the filter Up to 0.1").click()
    shows(page, client.get(SEARCH, params={"q": "data"}))
    assert address(page) == "/?q=data"


def test_curated_services_and_another_order_can_be_asked_for(
    page: Page, client: httpx.Client
) -> None:
    page.goto("/?q=data")
    page.get_by_role("checkbox", name="Curated only").check()
    shows(page, client.get(SEARCH, params={"q": "data", "enriched": "true"}))
    assert (
        page.locator("#results li").count() == page.get_by_text("Curated", exact=True).count() - 1
    )
    for label, sort in (("Cheapest", "price"), ("Name", "name"), ("Most used", "popularity")):
        page.get_by_role("combobox", name="Sort").select_option(label)
        shows(page, client.get(SEARCH, params={"q": "data", "enriched": "true", "sort": sort}))
    page.get_by_role("button", name="Remove the filter Curated").click()
    shows(page, client.get(SEARCH, params={"q": "data", "sort": "popularity"}))
    expect(page.get_by_role("checkbox", name="Curated only")).not_to_be_checked()
    assert address(page) == "/?q=data&sort=popularity"


def test_pages_are_turned_in_place(page: Page, client: httpx.Client) -> None:
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
    assert address(page) == "/?offset=24"
    preceding.click()
    shows(page, client.get(LIST))
    assert address(page) == "/"
    assert page.evaluate("window.same")
    page.goto("/?offset=168")
    expect(page.locator("#results li")).to_have_count(16)
    expect(following).to_be_hidden()
    words(page).fill("weather")  # and another list begins at its beginning
    shows(page, client.get(SEARCH, params={"q": "weather"}))


def test_back_and_forward_restore_results_and_controls(page: Page, client: httpx.Client) -> None:
    page.goto("/")
    words(page).fill("data")
    words(page).press("Enter")
    shows(page, client.get(SEARCH, params={"q": "data"}))
    panel(page, "Category")
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
    expect(page.locator("#chosen li")).to_have_text(["Data ×"])
    page.go_back()
    shows(page, client.get(SEARCH, params=narrowed))
    expect(page.get_by_role("combobox", name="Sort")).to_have_value("relevance")
    page.go_back()
    shows(page, client.get(SEARCH, params={"q": "data"}))
    expect(page.locator("#chosen li")).to_have_count(0)
    page.go_back()
    shows(page, client.get(LIST))
    expect(words(page)).to_have_value("")
    page.go_forward()
    page.go_forward()
    shows(page, client.get(SEARCH, params=narrowed))
    expect(words(page)).to_have_value("data")
    panel(page, "Category")
    expect(choice(page, "Data")).to_be_checked()


@pytest.mark.parametrize("scripts", [True, False])
def test_a_shared_address_shows_the_same_with_and_without_scripts(
    scripts: bool, browser: Browser, client: httpx.Client
) -> None:
    with visit(browser, client, java_script_enabled=scripts) as page:
        page.goto("/?q=weather&category=Weather&offset=0")
        shows(page, client.get(SEARCH, params={"q": "weather", "category": "Weather"}))
        expect(words(page)).to_have_value("weather")


def test_without_scripts_one_searches_turns_pages_and_opens_services(
    browser: Browser, client: httpx.Client
) -> None:
    with visit(browser, client, java_script_enabled=False) as page:
        page.goto("/")
        page.get_by_role("link", name="Next").click()
        shows(page, client.get(LIST, params={"offset": 24}))
        words(page).fill("weather")
        page.get_by_role("button", name="Search").click()
        found = client.get(SEARCH, params={"q": "weather"})
        shows(page, found)
        page.locator("#results a").first.click()
        expect(page.get_by_role("heading", level=1)).to_have_text(
            found.json()["services"][0]["name"]
        )
        json = page.get_by_role("link", name="in the JSON of this service").get_attribute("href")
        assert json == f"/v1/services/{found.json()['services'][0]['id']}"


def test_a_card_by_script_is_the_card_that_came_with_the_page(page: Page) -> None:
    for offset in (0, 96, 168):
        page.goto(f"/?offset={offset}")
        rendered = cards(page)
        assert cards_by_script(page) == rendered


def test_what_has_no_control_is_kept_as_one_types_until_it_is_removed(
    page: Page, client: httpx.Client
) -> None:
    page.goto("/services/switchyard-example")
    page.get_by_role("list", name="Tags").get_by_role("link", name="llm").click()
    shows(page, client.get(LIST, params={"tag": "llm"}))
    words(page).fill("chat")
    shows(page, client.get(SEARCH, params={"q": "chat", "tag": "llm"}))
    page.get_by_role("button", name="Remove the filter llm").click()
    shows(page, client.get(SEARCH, params={"q": "chat"}))
