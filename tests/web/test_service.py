"""The page of a service in a real browser: endpoints, parameters and curl commands."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import msgspec
import pytest
from playwright.sync_api import Browser, Page, expect

from service.api.documents.curl import curl
from service.schema.records import Endpoint
from tests.support.clients.browser import visit
from tests.support.clients.terminals import arguments
from tests.support.running import Json


def command(page: Page) -> str:
    """Return the curl command of the first endpoint."""
    text = page.locator(".curl code").first.text_content()
    assert text is not None
    return text


def test_a_service_has_an_address_and_leads_back_to_the_list_before_it(page: Page) -> None:
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


def test_a_service_in_a_new_tab_leads_to_the_list_it_was_opened_from(page: Page) -> None:
    page.goto("/?q=weather")
    with page.context.expect_page() as opened:
        page.locator("#results a", has_text="RainBarrel").click(modifiers=["ControlOrMeta"])
    tab = opened.value
    expect(tab.locator(".endpoint")).to_have_count(5)
    tab.get_by_role("link", name="All services").click()
    tab.wait_for_url("/?q=weather")
    tab.close()


def test_a_service_without_a_list_before_it_leads_to_all_services(page: Page) -> None:
    page.goto("/services/rainbarrel-example")
    page.get_by_role("link", name="All services").click()
    page.wait_for_url("/")
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
    shown = page.locator(".endpoint")
    expect(shown).to_have_count(len(record["endpoints"]))
    for number, each in enumerate(record["endpoints"]):
        row = shown.nth(number)
        assert row.locator(".method").text_content() == each["method"]
        assert each["url"].endswith(row.locator(".path").text_content() or "?")
        assert row.locator(".price").text_content() == " ".join(
            each["pricing"][name] for name in ("amount", "currency")
        )
        assert row.locator(".curl code").text_content() == curl(
            msgspec.json.decode(json.dumps(each), type=Endpoint)
        )
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


def test_without_a_clipboard_the_command_is_selected(
    browser: Browser, client: httpx.Client
) -> None:
    with visit(browser, client) as page:
        page.add_init_script("navigator.clipboard.writeText = () => Promise.reject(new Error())")
        page.goto("/services/folioscope-example")
        page.get_by_role("button", name="Copy").click()
        expect(page.get_by_role("button", name="Press Ctrl+C")).to_be_visible()
        assert page.evaluate("getSelection().toString()") == command(page)


@pytest.mark.parametrize("scripts", [True, False])
def test_a_call_is_shown_in_other_languages(
    scripts: bool, browser: Browser, client: httpx.Client
) -> None:
    with visit(browser, client, java_script_enabled=scripts) as page:
        page.goto("/services/folioscope-example")
        shown = page.locator(".endpoint").first
        expect(shown.locator(".curl")).to_be_visible()
        shown.locator("label", has_text="Python").click()
        expect(shown.locator(".curl")).to_be_hidden()
        program = shown.get_by_role("group", name="Python").text_content() or ""
        compile(program, "program", "exec")
        assert '"GET", "https://api.folioscope.example/papers?q=harbour+bridge"' in program


def test_payments_are_drawn_by_day_and_use_has_its_period(page: Page, client: httpx.Client) -> None:
    page.goto("/services/switchyard-example")
    demand = client.get("/v1/services/switchyard-example/demand").json()["demand"]
    used = f"{demand['payments']} payments in 30 days from the payment files of this catalogue"
    expect(page.locator("aside dd", has_text="30 days")).to_have_text(used)
    titles = page.locator("aside svg title").all_text_contents()
    assert [int(title.rpartition(": ")[2]) for title in titles] == demand["daily"]


LARGE = "data-porthalden-example"


@pytest.mark.parametrize("scripts", [True, False])
def test_many_endpoints_have_pages_and_can_be_searched(
    scripts: bool, browser: Browser, client: httpx.Client
) -> None:
    urls = [
        endpoint["url"].removeprefix("https://data.porthalden.example")
        for endpoint in client.get(f"/v1/services/{LARGE}").json()["service"]["endpoints"]
    ]
    with visit(browser, client, java_script_enabled=scripts) as page:
        page.goto(f"/services/{LARGE}")
        paths = page.locator(".endpoint .path")
        expect(paths).to_have_text(urls[:24])
        expect(page.get_by_role("heading", name="600 endpoints")).to_be_visible()
        page.get_by_role("link", name="Next").click()
        expect(paths).to_have_text(urls[24:48])
        expect(page.get_by_role("status")).to_have_text("25–48 of 600 endpoints")
        expect(page).to_have_url(f"/services/{LARGE}?offset=24")
        search = page.get_by_role("searchbox", name="Find an endpoint")
        word = "council-seats"
        search.fill(f"{word.upper()} get")
        search.press("Enter")
        expect(paths).to_have_text([url for url in urls if word in url])
        search.fill("nowhere")
        search.press("Enter")
        expect(page.get_by_role("status")).to_have_text("No endpoints match: see all 600 endpoints")
        expect(page.locator(".endpoint")).to_have_count(0)
        page.get_by_role("link", name="all 600 endpoints").click()
        expect(paths).to_have_text(urls[:24])
