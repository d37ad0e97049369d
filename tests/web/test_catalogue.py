"""Search, filters, sorting and paging of the catalogue, in a real browser."""

from __future__ import annotations

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.support.clients.browser import search_box, shows, visit

SEARCH, LIST = "/v1/search/services", "/v1/services"


def open_filter(page: Page, name: str) -> Locator:
    """Open a filter; returns its choices."""
    page.locator("summary", has_text=name).click()
    return page.get_by_role("group", name=name if name != "Price" else "Lowest price at most")


def choice(page: Page, value: str) -> Locator:
    """Return a choice of the open filter."""
    return page.locator(f'details[open] input[value="{value}"]')


def labels(group: Locator) -> list[list[str]]:
    """Return the choices of a filter, each with its count if it has one."""
    rows: list[list[str]] = group.evaluate(
        "group => [...group.querySelectorAll('label')].map(label =>"
        " [...label.querySelectorAll('bdi, .number')].map(each => each.textContent))"
    )
    return rows


def test_a_search_has_an_address_and_a_place_in_the_history(
    page: Page, client: httpx.Client
) -> None:
    page.goto("/")
    shows(page, client.get(LIST))
    search_box(page).fill("weather")
    search_box(page).press("Enter")
    response = client.get(SEARCH, params={"q": "weather"})
    shows(page, response)
    expect(page).to_have_title("weather · Ratecard")
    expect(page).to_have_url("/?q=weather&sort=relevance")
    total, similar = response.json()["total"], response.headers["ratecard-similar"]
    said = f"1–{total} of {total} services, {similar} of them similar"
    expect(page.get_by_role("status")).to_have_text(said)
    search_box(page).fill("maps")
    page.get_by_role("button", name="Search").click()
    shows(page, client.get(SEARCH, params={"q": "maps"}))
    page.go_back()
    shows(page, response)
    expect(search_box(page)).to_have_value("weather")
    page.reload()
    shows(page, response)
    search_box(page).fill("")
    search_box(page).press("Enter")
    shows(page, client.get(LIST))


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
    assert labels(group) == [[each["value"] or "None", str(each["count"])] for each in facets]
    first, second = facets[1]["value"], facets[2]["value"]
    choice(page, first).click()
    shows(page, client.get(path, params=parameters | {facet: first}))
    # The values of the whole catalogue are offered, and not counted: another search would count.
    values = client.get(LIST, params={"facets": facet}).json()["facets"][facet]
    expect(choice(page, first)).to_be_focused()
    assert labels(group) == [[each["value"] or "None"] for each in values]
    choice(page, second).click()
    shows(page, client.get(path, params=parameters | {facet: [first, second]}))
    search_box(page).focus()  # which closes the filter, whose choices may cover the link
    page.get_by_role("link", name=f"Remove the filter {first}").click()
    shows(page, client.get(path, params=parameters | {facet: second}))
    expect(page.locator("#selected li")).to_have_count(1)
    expect(page).to_have_url(str(httpx.URL("/", params=parameters | {facet: second})))


def test_a_maximum_price_finds_cheaper_services(page: Page, client: httpx.Client) -> None:
    page.goto("/?q=data&maxPrice=0.02")
    group = open_filter(page, "Price")
    prices = ["Any price", *(f"Up to {price}" for price in ("0.001", "0.01", "0.02", "0.1", "1"))]
    assert labels(group) == [[price] for price in prices]
    expect(choice(page, "0.02")).to_be_checked()
    choice(page, "0.1").click()
    shows(page, client.get(SEARCH, params={"q": "data", "maxPrice": "0.1"}))
    expect(page).to_have_url("/?q=data&maxPrice=0.1&sort=relevance#at-maxPrice")
    page.get_by_role("link", name="Remove the filter Up to 0.1").click()
    shows(page, client.get(SEARCH, params={"q": "data"}))
    expect(page).to_have_url("/?q=data")


def test_curated_only_and_sorting_answer_as_the_api_does(page: Page, client: httpx.Client) -> None:
    page.goto("/?q=data")
    page.get_by_role("checkbox", name="Curated only").click()
    shows(page, client.get(SEARCH, params={"q": "data", "enriched": "true"}))
    assert (
        page.locator("#results > li").count() == page.get_by_text("Curated", exact=True).count() - 1
    )
    for label, sort in (("Cheapest", "price"), ("Name", "name"), ("Most used", "popularity")):
        page.get_by_role("combobox", name="Sort").select_option(label)
        shows(page, client.get(SEARCH, params={"q": "data", "enriched": "true", "sort": sort}))
        expect(page.get_by_role("combobox", name="Sort")).to_be_focused()
    page.get_by_role("link", name="Remove the filter Curated").click()
    shows(page, client.get(SEARCH, params={"q": "data", "sort": "popularity"}))
    expect(page.get_by_role("checkbox", name="Curated only")).not_to_be_checked()
    expect(page).to_have_url("/?q=data&sort=popularity")


def test_pages_follow_each_other(page: Page, client: httpx.Client) -> None:
    pages = page.get_by_role("navigation", name="Pages")
    following, preceding = pages.get_by_text("Next"), pages.get_by_text("Previous")
    page.goto("/")
    expect(preceding).to_be_hidden()
    following.click()
    shows(page, client.get(LIST, params={"offset": 24}))
    expect(page.get_by_role("status")).to_have_text("25–48 of 184 services")
    expect(page).to_have_url("/?offset=24")
    preceding.click()
    shows(page, client.get(LIST))
    expect(page).to_have_url("/")
    page.goto("/?offset=168")
    expect(page.locator("#results > li")).to_have_count(16)
    expect(following).to_be_hidden()
    search_box(page).fill("weather")  # a new search starts at its first page
    search_box(page).press("Enter")
    shows(page, client.get(SEARCH, params={"q": "weather"}))


def test_seven_services_are_on_the_first_screen_with_prices_per_call(
    browser: Browser, client: httpx.Client
) -> None:
    with visit(browser, client, viewport={"width": 1280, "height": 800}) as page:
        page.goto("/")
        expect(page.locator("#results > li").nth(6)).to_be_in_viewport(ratio=0.99)
        expect(page.locator(".card > .price").first).to_have_text("from 0.0002 USDC per call")


def test_a_category_is_the_way_in(page: Page, client: httpx.Client) -> None:
    page.goto("/?q=data")
    link = page.get_by_role("navigation", name="Categories").get_by_role("link").first
    name = link.locator("bdi").text_content() or ""
    link.click()
    shows(page, client.get(SEARCH, params={"q": "data", "category": name}))


def test_a_search_without_matches_leads_to_all_services(page: Page, client: httpx.Client) -> None:
    page.goto("/?q=zzzzzz")
    expect(page.get_by_role("heading", name="No services match")).to_be_visible()
    expect(page.get_by_role("status")).to_have_text("No services")
    expect(page.locator(".nothing .categories a").first).to_be_visible()
    page.get_by_role("link", name="See all 184 services").click()
    shows(page, client.get("/v1/services"))


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


def test_a_filter_without_a_control_stays_until_it_is_removed(
    page: Page, client: httpx.Client
) -> None:
    page.goto("/services/switchyard-example")
    page.get_by_role("list", name="Tags").get_by_role("link", name="llm").click()
    shows(page, client.get(LIST, params={"tag": "llm"}))
    search_box(page).fill("chat")
    search_box(page).press("Enter")
    shows(page, client.get(SEARCH, params={"q": "chat", "tag": "llm"}))
    expect(page).to_have_url("/?q=chat&sort=relevance&tag=llm")
    page.get_by_role("link", name="Remove the filter llm").click()
    shows(page, client.get(SEARCH, params={"q": "chat"}))
