"""The page of endpoints, and the endpoint that matches best of a service, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.clients.browser import visit
from tests.support.running import Json, build_records, endpoint, serve, service

SEARCH = "/v1/search/endpoints"
OWL = "https://owl.example"


def call(path: str, description: str = "", method: str = "GET", **pricing: Any) -> Json:
    made = endpoint(**({"network": "Base", "scheme": "exact"} | pricing))
    return made | {"url": f"{OWL}{path}", "description": description, "method": method}


RECORDS = [
    service(
        "owl",
        name="Owl",
        description="Weather by the hour",
        category="Data",
        enriched=True,
        networks=["Base"],
        endpoints=[
            call("/about", "Who we are"),
            call("/tides/high", "High tides at a harbour", amount="0.2"),
            call("/tides/low", "Low tides", method="POST"),
            call("/tides/neap", "Neap tides"),
            call("/tides/moon", "The moon and its tides"),
            *(call(f"/filler/{number}") for number in range(60)),
            call("/maps/wind", "Wind maps", scheme="upto", amount="0.01", maxAmount="0.05"),
        ],
    ),
    service(
        "ferry",
        name="Ferry tides",
        description="Crossings",
        category="Travel",
        networks=["Solana"],
        endpoints=[call("/boats", "Boats and their berths", network="Solana")],
    ),
]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Serve two services, one of them with many endpoints."""
    folder = tmp_path_factory.mktemp("endpoints")
    with serve(build_records(folder, RECORDS, "--no-downloads")) as client:
        yield client


def lists(page: Page, response: httpx.Response) -> None:
    """Wait until the page lists the endpoints of an API response, and no others."""
    urls = [each["url"] for each in response.raise_for_status().json()["endpoints"]]
    expect(page.locator("#results h2 .path")).to_have_text([url.removeprefix(OWL) for url in urls])


def best(page: Page, name: str) -> list[str]:
    """Return the endpoint that the catalogue shows below a service, with its price."""
    card = page.locator(".card", has=page.get_by_role("heading", name=name, exact=True))
    return [" ".join(text.split()) for text in card.locator(".best").all_inner_texts()]


@pytest.mark.parametrize("scripts", [True, False])
def test_a_search_finds_as_the_api_does(
    scripts: bool, browser: Browser, client: httpx.Client
) -> None:
    with visit(browser, client, java_script_enabled=scripts) as page:
        page.goto("/endpoints")
        expect(page.get_by_role("status")).to_contain_text("1–4 of 4 endpoints")
        search = page.get_by_role("searchbox", name="Search endpoints by what they do")
        search.fill("tides moon")
        search.press("Enter")
        lists(page, client.get(SEARCH, params={"q": "tides moon"}))
        expect(page).to_have_title("tides moon · Endpoints · Ratecard")
        page.locator("summary", has_text="Method").click()
        page.locator('details[open] input[value="POST"]').click()
        if scripts:
            expect(page.locator("#selected li")).to_have_text(["POST ×"])
        page.get_by_role("combobox", name="Sort").select_option("Cheapest")
        if not scripts:
            search.press("Enter")
        narrowed = {"q": "tides moon", "method": "POST", "sort": "price"}
        lists(page, client.get(SEARCH, params=narrowed))
        page.get_by_role("link", name="Remove the filter POST").click()
        lists(page, client.get(SEARCH, params={"q": "tides moon", "sort": "price"}))


@pytest.mark.parametrize(
    ("title", "name", "value"),
    [
        ("Category", "category", "Travel"),
        ("Network", "network", "Solana"),
        ("Method", "method", "POST"),
    ],
)
def test_a_filter_counts_and_finds_as_the_api_does(
    title: str, name: str, value: str, page: Page, client: httpx.Client
) -> None:
    page.goto("/endpoints?q=tides")
    page.locator("summary", has_text=title).click()
    choice = page.locator("details[open] label", has=page.locator(f'[value="{value}"]'))
    response = client.get(SEARCH, params={"q": "tides", name: value})
    expect(choice.locator(".number")).to_have_text(str(response.json()["total"]))
    choice.locator("input").click()
    lists(page, response)
    expect(choice.locator("input")).to_be_checked()
    expect(page.locator("details[open] .number")).to_have_count(0)  # another search would count


def test_a_row_has_the_terms_and_leads_to_the_service_and_to_the_endpoint(page: Page) -> None:
    page.goto("/endpoints?q=wind+maps")
    row = page.locator(".card").first
    assert " ".join(row.inner_text().split()) == (
        "GET /maps/wind at most 0.05 USDC per call Owl Curated Wind maps owl.example upto,"
        " from 0.01 Base"
    )
    expect(row.get_by_role("link", name="Owl")).to_have_attribute("href", "/services/owl")
    row.get_by_role("link", name="/maps/wind").click()
    page.wait_for_url("/services/owl?offset=48#endpoint-65")
    opened = page.locator(".endpoint[open]")
    expect(opened.locator(".path")).to_have_text("/maps/wind")
    expect(opened).to_be_in_viewport()
    expect(opened.locator(".price")).to_have_text("at most 0.05 USDC")
    page.get_by_role("link", name="All endpoints").click()
    page.wait_for_url("/endpoints?q=wind+maps")


def test_three_endpoints_of_a_service_are_listed_and_all_on_request(
    page: Page, client: httpx.Client
) -> None:
    page.goto("/endpoints?q=tides")
    all_matches = client.get(SEARCH, params={"q": "tides", "perService": 0})
    assert all_matches.json()["total"] == 5
    status = page.get_by_role("status")
    expect(status).to_have_text("1–4 of 4 endpoints, at most 3 of each service. Show all 5 matches")
    page.get_by_role("link", name="All matching endpoints of Owl").click()
    owl: dict[str, str | int] = {"q": "tides", "service": "owl", "perService": 0}
    lists(page, client.get(SEARCH, params=owl))
    expect(page.locator("#selected li")).to_have_text(["owl ×", "All of each service ×"])
    page.get_by_role("link", name="Remove the filter owl").click()
    lists(page, all_matches)
    page.get_by_role("link", name="Remove the filter All of each service").click()
    status.get_by_role("link", name="Show all 5 matches").click()
    lists(page, all_matches)


def test_pages_follow_each_other(page: Page, client: httpx.Client) -> None:
    page.goto("/endpoints?perService=0")
    page.get_by_role("link", name="Next").click()
    expect(page.get_by_role("status")).to_have_text("25–48 of 67 endpoints")
    lists(page, client.get(SEARCH, params={"maxPrice": "1000", "perService": 0, "offset": 24}))
    page.go_back()
    expect(page.get_by_role("status")).to_have_text("1–24 of 67 endpoints")


def test_services_and_endpoints_share_words_and_filters(page: Page) -> None:
    page.goto("/?q=tides&category=Data&network=Base&enriched=true&maxPrice=1&sort=price&match=all")
    kinds = page.get_by_role("navigation", name="Results")
    kinds.get_by_role("link", name="Endpoints").click()
    shared = "q=tides&category=Data&network=Base&enriched=true&maxPrice=1&sort=price"
    page.wait_for_url("/endpoints?*")
    assert parse_qs(urlsplit(page.url).query) == parse_qs(shared)
    expect(kinds.locator("[aria-current=page]")).to_have_text("Endpoints")
    page.get_by_role("searchbox").fill("moon")
    page.get_by_role("searchbox").press("Enter")
    expect(page).to_have_title("moon · Endpoints · Ratecard")
    page.locator("summary", has_text="Method").click()
    page.locator('details[open] input[value="GET"]').click()
    expect(page.locator("#selected")).to_contain_text("GET")
    kinds.get_by_role("link", name="Services").click()
    page.wait_for_url("/?q=moon&*")
    assert parse_qs(urlsplit(page.url).query) == parse_qs(shared.replace("tides", "moon"))


def test_a_list_leads_to_its_json(page: Page, client: httpx.Client) -> None:
    link = page.get_by_role("link", name="this list as JSON")
    page.goto("/endpoints?q=tides&method=GET&service=owl&perService=0")
    href = link.get_attribute("href") or ""
    lists(page, client.get(href))
    page.goto("/endpoints")  # the API requires words or a filter
    expect(link).to_have_count(0)


def test_nothing_found_leads_to_all_endpoints(page: Page) -> None:
    page.goto("/endpoints?q=zzzzzz")
    expect(page.get_by_role("heading", name="No endpoints match")).to_be_visible()
    expect(page.get_by_role("status")).to_have_text("No endpoints")
    page.get_by_role("link", name="See all 67 endpoints").click()
    expect(page.locator("#results > li")).to_have_count(4)


def test_a_service_shows_the_endpoint_that_matches_best_with_its_price(page: Page) -> None:
    for order in ("relevance", "popularity", "price", "name"):
        page.goto(f"/?q=moon+tides&sort={order}")
        assert best(page, "Owl") == ["GET /tides/moon 0.01 USDC The moon and its tides"], order
    page.goto("/?q=wind+maps&category=Data")
    assert best(page, "Owl") == ["GET /maps/wind at most 0.05 USDC Wind maps"]
    page.get_by_role("link", name="Endpoint that matches best: /maps/wind").click()
    page.wait_for_url("/services/owl?offset=48#endpoint-65")
    expect(page.locator(".endpoint[open] .path")).to_have_text("/maps/wind")
    page.get_by_role("link", name="All services").click()
    page.wait_for_url("/?q=wind+maps&category=Data")
    page.goto("/")
    assert best(page, "Owl") == []


@pytest.mark.parametrize(
    ("words", "paths"),
    [
        ("tide moons", ["/tides/moon"]),  # other forms
        ("weather moon", ["/tides/moon"]),  # a word of the service as well
        ("mooon", ["/tides/moon"]),  # misspelt
        ("harbour moon", []),  # no endpoint has both
    ],
)
def test_the_endpoints_of_a_service_are_found_by_words(
    words: str, paths: list[str], page: Page
) -> None:
    page.goto(f"/services/owl?q={words}")
    expect(page.locator(".endpoint .path")).to_have_text(paths)
