"""A service at its own address, in a real browser: endpoints, parameters, and curl commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.awkward import LARGE, large
from tests.support.running import Build, Json, endpoint, serve, service
from tests.support.shell import arguments
from tests.support.visits import visit

API = "https://api.one.example/v1"


def parameter(group: str, name: str, example: object = None, **fields: object) -> Json:
    return {"group": group, "name": name, "type": "string", "example": example} | fields


STATION = parameter("path", "station", "Ærø/2", required=True)
NEEDED, OPTIONAL = parameter("query", "day", "mon", required=True), parameter("query", "unit", "m")
DEPTH, NOTE = parameter("body", "depth", 2.5, type="number"), parameter("body", "note", "it's")
JSON = ["-H", "content-type: application/json", "-d"]

# Address, method and parameters of an endpoint, and what curl is then to be given.
COMMANDS: list[tuple[str, str, list[Json], list[str]]] = [
    (f"{API}/:station/tides", "GET", [STATION], [f"{API}/%C3%86r%C3%B8%2F2/tides"]),
    (
        f"{API}/{{station}}",
        "get",
        [STATION, NEEDED, OPTIONAL],
        [f"{API}/%C3%86r%C3%B8%2F2?day=mon"],
    ),
    (f"{API}/{{other}}", "GET", [STATION], [f"{API}/%7Bother%7D"]),
    (f"{API}?day=tue", "GET", [NEEDED], [f"{API}?day=tue"]),
    (API, "DELETE", [], ["-X", "DELETE", API]),
    (API, "GET, POST", [], [API]),
    (API, "", [], [API]),
    (API, "", [DEPTH], [API, *JSON, '{"depth":2.5}']),
    (API, "POST", [DEPTH, NOTE], [API, *JSON, '{"depth":2.5,"note":"it\'s"}']),
    (API, "PUT", [DEPTH | {"required": True}, NOTE], ["-X", "PUT", API, *JSON, '{"depth":2.5}']),
    (API, "GET", [NOTE], ["-X", "GET", API, *JSON, '{"note":"it\'s"}']),
    (API, "GET", [NEEDED | {"example": ["a", "b"]}], [f"{API}?day=a%2Cb"]),
    (API, "GET", [NEEDED | {"example": None, "default": 0}], [f"{API}?day=0"]),
    (API, "GET", [NEEDED | {"example": "", "enumValues": ["x"]}], [f"{API}?day=x"]),
    (f"{API}/[1-3]", "GET", [], ["--globoff", f"{API}/[1-3]"]),
    ("api.one.example/v1", "GET", [], []),
]


@pytest.fixture
def own(browser: Browser, artifacts: Path, build: Build) -> Iterator[Page]:
    """A page of a service that is large, and one that is called in many ways."""
    endpoints = [
        endpoint() | {"url": url, "method": method, "parameters": parameters}
        for url, method, parameters, _ in COMMANDS
    ]
    assert build([large(), service("ways", endpoints=endpoints)]) == 0
    with serve(artifacts) as client, visit(browser, client) as page:
        yield page


def command(page: Page, number: int = 0) -> str:
    """The curl command of an endpoint."""
    text = page.locator(".endpoint [data-slot=curl]").nth(number).text_content()
    assert text is not None
    return text


def test_a_service_opens_at_its_own_address_and_back_returns_to_the_list(page: Page) -> None:
    page.goto("/?q=weather&sort=name")
    names = page.locator("#results h2").all_text_contents()
    page.locator("#results a", has_text="RainBarrel").click()
    page.wait_for_url("/services/rainbarrel-example")
    expect(page).to_have_title("RainBarrel · Ratecard")
    expect(page.get_by_role("heading", level=1)).to_have_text("RainBarrel")
    expect(page.locator(".endpoint")).to_have_count(5)
    page.go_back()
    expect(page.locator("#results h2")).to_have_text(names)
    page.locator("#results a", has_text="RainBarrel").click()
    page.get_by_role("link", name="All services").click()
    page.wait_for_url("/?q=weather&sort=name")
    expect(page.locator("#results h2")).to_have_text(names)


def test_a_shared_service_leads_to_all_others(page: Page) -> None:
    page.goto("/services/rainbarrel-example")
    page.get_by_role("link", name="All services").click()
    page.wait_for_url("/")


def test_from_a_tab_of_its_own_a_service_leads_to_the_list_too(page: Page) -> None:
    page.goto("/?q=weather")
    with page.context.expect_page() as opened:
        page.locator("#results a", has_text="RainBarrel").click(modifiers=["ControlOrMeta"])
    tab = opened.value
    expect(tab.locator(".endpoint")).to_have_count(5)
    tab.get_by_role("link", name="All services").click()
    tab.wait_for_url("/?q=weather")


def test_a_service_that_was_met_elsewhere_leads_to_all_others(page: Page) -> None:
    page.goto("/ecosystem")
    page.evaluate("location.href = '/services/rainbarrel-example'")
    page.wait_for_url("/services/rainbarrel-example")
    page.get_by_role("link", name="All services").click()
    page.wait_for_url("/")


def test_endpoints_are_shown_with_prices_parameters_and_examples(
    page: Page, seeds: list[Json]
) -> None:
    record = next(each for each in seeds if each["id"] == "folioscope-example")
    page.goto("/services/folioscope-example")
    expect(page.locator("#endpoints")).to_have_attribute("aria-busy", "false")
    shown = page.locator(".endpoint")
    expect(shown).to_have_count(len(record["endpoints"]))
    for number, each in enumerate(record["endpoints"]):
        row = shown.nth(number)
        assert row.locator(".method").text_content() == each["method"]
        assert each["url"].endswith(row.locator(".path").text_content() or "?")
        assert row.locator("[data-slot=price]").text_content() == each["pricing"]["amount"]
        assert row.locator(".parameters > li").count() == len(each["parameters"])
    first = shown.first
    assert first.get_attribute("open") is not None
    item = first.locator(".parameters > li", has_text="sort")
    assert " ".join(item.inner_text().split()) == (
        'sort string in query Order of the results e.g. "relevance"'
        ' one of "relevance", "newest", "oldest" default "relevance"'
    )
    expect(first.locator(".parameters > li").first).to_contain_text("required")


def test_the_curl_command_is_copied(browser: Browser, client: httpx.Client, tmp_path: Path) -> None:
    permissions = ["clipboard-read", "clipboard-write"]
    with visit(browser, client, permissions=permissions) as page:
        page.goto("/services/folioscope-example")
        page.get_by_role("button", name="Copy").click()
        expect(page.get_by_role("button", name="Copied")).to_be_visible()
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied == command(page)
        assert arguments(copied, tmp_path) == [
            "-i",
            "https://api.folioscope.example/papers?q=harbour+bridge",
        ]


def test_what_cannot_be_copied_is_selected(browser: Browser, client: httpx.Client) -> None:
    with visit(browser, client) as page:
        page.add_init_script("navigator.clipboard.writeText = () => Promise.reject(new Error())")
        page.goto("/services/folioscope-example")
        page.get_by_role("button", name="Copy").click()
        expect(page.get_by_role("button", name="Press Ctrl+C")).to_be_visible()
        assert page.evaluate("getSelection().toString()") == command(page)


def test_of_many_endpoints_some_are_shown_and_the_others_found(own: Page) -> None:
    own.goto("/services/large")
    shown = own.locator(".endpoint")
    expect(shown).to_have_count(50)
    expect(own.get_by_role("heading", name="600 endpoints")).to_be_visible()
    own.get_by_role("button", name="Show 50 more of 550").click()
    expect(shown).to_have_count(100)
    expect(shown.nth(50).locator("summary")).to_be_focused()
    own.get_by_role("searchbox", name="Find an endpoint").fill("PART59 get")
    expect(shown.locator(".path")).to_have_text([f"/v1/part{n}" for n in range(590, LARGE)])
    expect(own.get_by_role("button", name="more")).to_be_hidden()
    own.get_by_role("searchbox", name="Find an endpoint").fill("nowhere")
    expect(shown).to_have_count(0)
    expect(own.get_by_role("status")).to_have_text("No endpoint has these words")


def test_a_shell_gives_curl_what_the_endpoint_takes(own: Page, tmp_path: Path) -> None:
    own.goto("/services/ways")
    expect(own.locator(".endpoint")).to_have_count(len(COMMANDS))
    for number, (*_, expected) in enumerate(COMMANDS):
        shown = command(own, number)
        assert arguments(shown, tmp_path) == (["-i", *expected] if expected else []), shown
