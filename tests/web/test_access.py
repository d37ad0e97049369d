"""Colours, narrow windows, keyboards and axe, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal
from urllib.parse import quote

import httpx
import pytest
from axe_playwright_python.sync_playwright import (  # type: ignore[import-untyped]  # it has none
    Axe,
)
from playwright.sync_api import Browser, Page, expect

from indexer.__main__ import main
from tests.support.clients.browser import visit
from tests.support.running import SEEDS, serve, write_lines
from tests.support.sources.awkward import TEXTS, hostile

REFUSED = "console: Failed to load resource: the server responded with a status of"
OTHERS = [
    *(f"/services/hostile-{number:02}" for number in (0, 10, 16, 17, 18)),
    *(f"/?category={quote(TEXTS[number])}" for number in (16, 17)),
    *(f"/endpoints?category={quote(TEXTS[number])}" for number in (10, 16, 17, 18)),
    f"/?q={quote(TEXTS[17])}",
]
PAGES = (
    "/",
    "/?q=weather&category=Weather",
    "/endpoints?q=weather",
    "/services/folioscope-example",
    "/ecosystem",
)

# Controls smaller than a minimum; links in running text may be.
SMALL = """
minimum => [...document.querySelectorAll(
    "button, select, summary, [type=search], .filters label, nav a, .back a, .brand"
)].filter(target => {
    const { width, height } = target.getBoundingClientRect();
    return target.checkVisibility() && (width < minimum || height < minimum);
}).map(target => target.outerHTML)
"""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Serve the sample catalogue and the hostile services."""
    folder = tmp_path_factory.mktemp("awkward")
    source = write_lines(folder / "services.jsonl", hostile())
    sources = [str(SEEDS / "services.jsonl"), source]
    payments = ["--transactions", str(SEEDS / "transactions.jsonl")]
    assert main(["build", *sources, *payments, "--out", str(folder / "artifacts")]) == 0
    with serve(folder / "artifacts") as client:
        yield client


def background(page: Page) -> str:
    colour: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return colour


FOCUSED = """
(() => {
    const at = document.activeElement;
    const isOutlined = [at, at.closest(".card")].some(
        each => each && getComputedStyle(each).outlineStyle !== "none");
    return [at.labels?.[0]?.textContent ?? at.textContent, isOutlined, at === document.body];
})()
"""


def focused(page: Page) -> str:
    """Return the text of the focused element, which must have a visible outline."""
    text, is_outlined, is_body = page.evaluate(FOCUSED)
    assert is_outlined or is_body, text
    return "" if is_body else " ".join(text.split())


def test_the_colours_are_those_that_the_system_prefers(
    browser: Browser, client: httpx.Client
) -> None:
    with visit(browser, client, color_scheme="dark") as page:
        page.goto("/")
        dark = background(page)
        page.emulate_media(color_scheme="light")
        assert background(page) != dark


def test_nothing_overflows_and_targets_are_large_enough(
    browser: Browser, client: httpx.Client
) -> None:
    with visit(browser, client) as page:
        for path in (*PAGES, *OTHERS, "/services/data-porthalden-example"):
            page.goto(path)
            page.locator("details").evaluate_all("all => all.forEach(each => each.open = true)")
            for width in (320, 1600):
                page.set_viewport_size({"width": width, "height": 640})
                assert page.evaluate("document.documentElement.scrollWidth") <= width, path
                assert page.evaluate(SMALL, 24) == []


def test_the_catalogue_works_by_keyboard(page: Page) -> None:
    page.goto("/?q=weather")
    keyboard = page.keyboard
    keyboard.press("Tab")
    assert focused(page) == "Skip to content"
    expect(page.get_by_role("link", name="Skip to content")).to_be_in_viewport()
    order: list[str] = []
    while not order or order[-1] != "Price":
        keyboard.press("Tab")
        order.append(focused(page))
    assert order == [
        *("Ratecard", "Catalogue", "Ecosystem", "API", "Services", "Endpoints"),
        *("Search services by what they do", "Search", "Category", "Network", "Price"),
    ]
    keyboard.press("Shift+Tab")
    keyboard.press("Enter")
    group = page.get_by_role("group", name="Network")
    expect(group.locator(".number").first).to_be_visible()
    keyboard.press("Tab")
    assert focused(page).startswith("Base")
    keyboard.press("Space")
    expect(page).to_have_url("/?q=weather&network=Base&sort=relevance#at-network")
    expect(group.get_by_role("checkbox", name="Base", exact=True)).to_be_focused()
    assert focused(page).startswith("Base")
    keyboard.press("Escape")
    expect(group).to_be_hidden()
    assert focused(page) == "Network"
    keyboard.press("Enter")
    expect(group).to_be_visible()
    keyboard.press("Shift+Tab")
    expect(group).to_be_hidden()
    keyboard.press("Tab")
    while focused(page) != "Base ×":  # the chip of the selected filter
        keyboard.press("Tab")
    keyboard.press("Enter")
    expect(page).to_have_url("/?q=weather")
    name = page.locator("#results a").first.text_content()
    while focused(page) != name:
        keyboard.press("Tab")
    keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(name or "")
    while focused(page) != "Copy":
        keyboard.press("Tab")


def test_the_skip_link_leads_to_the_content(page: Page) -> None:
    for path in PAGES:
        page.goto(path)
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.get_by_role("main")).to_be_focused()


def open_filter(page: Page) -> None:
    page.locator("summary", has_text="Category").click()
    expect(page.locator("details[open] label").first).to_be_visible()


def open_details(page: Page) -> None:
    page.locator("details").evaluate_all("all => all.forEach(each => each.open = true)")


def nothing(_: Page) -> None:
    pass


def test_axe_finds_no_violations(browser: Browser, client: httpx.Client) -> None:
    pages = [
        ("/", open_filter),
        ("/?q=weather&category=Weather&enriched=true", open_filter),
        ("/?q=zzzzzz", nothing),
        ("/?offset=100000", nothing),
        ("/?q=weather", nothing),
        ("/endpoints?q=forecast&method=GET", open_filter),
        ("/endpoints?service=hostile-17", nothing),
        ("/services/folioscope-example", open_details),
        ("/services/switchyard-example", open_details),  # a chart of payments
        ("/services/hostile-17", nothing),
        ("/services/nobody", nothing),
        ("/ecosystem", open_details),
    ]
    # The policy of the pages blocks axe's script.
    with visit(browser, client, allowed=REFUSED, bypass_csp=True) as page:
        for path, change in pages:
            page.goto(path)
            change(page)
            page.evaluate(Axe().axe_script)
            assert violations(page, "light") == []
            assert violations(page, "dark", runOnly=["color-contrast"]) == []


def violations(page: Page, scheme: Literal["light", "dark"], **options: object) -> list[object]:
    """Return the rules that axe reports, and the elements that violate them."""
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    options["resultTypes"] = ["violations"]
    found = page.evaluate("async options => (await axe.run(options)).violations", options)
    return [(rule["id"], [node["html"] for node in rule["nodes"]]) for rule in found]


@pytest.mark.parametrize("path", PAGES)
def test_landmarks_are_named_and_there_is_one_live_region(path: str, page: Page) -> None:
    page.goto(path)
    for role in ("banner", "main", "contentinfo"):
        expect(page.get_by_role(role)).to_have_count(1)
    expect(page.get_by_role("navigation", name="Site")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    expect(page.get_by_role("status")).to_have_count(1)
    expect(page.get_by_role("status")).not_to_be_empty()
