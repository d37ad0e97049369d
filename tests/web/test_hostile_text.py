"""Hostile text of a catalogue or an address stays text, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.clients.browser import visit
from tests.support.running import SOAK, build_records, serve
from tests.support.sources.awkward import ADDRESSES, TEXTS, hostile

NUMBERS = tuple(range(len(TEXTS))) if SOAK else (2, 3, 5, 10)
"""Texts that are tried: end tags, attributes, a link and bidi controls, or all in `make soak`."""

BIDI_CONTROLS = dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)])

# Elements that no template has, scripts of other origins, event handlers, links that run code.
FOREIGN = """
(page => [...page.querySelectorAll("*")].filter(element =>
    element.matches("main :is(script, style, iframe, object, embed, base, img, svg)")
    || (element.localName === "script" && !element.src.startsWith(`${location.origin}/assets/`))
    || element.getAttributeNames().some(name => name.startsWith("on") || name === "autofocus")
    || (element.href?.length && !/^https?:$/.test(new URL(element.href).protocol))
).map(element => element.outerHTML))
"""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Serve a hostile catalogue."""
    folder = tmp_path_factory.mktemp("hostile")
    with serve(build_records(folder, hostile(), "--no-downloads")) as client:
        yield client


def plain(text: str) -> str:
    return text.translate(BIDI_CONTROLS)


def foreign(page: Page) -> list[str]:
    found: list[str] = page.evaluate(f"{FOREIGN}(document)")
    return found


def test_a_list_of_hostile_services_is_text(page: Page) -> None:
    page.goto("/")
    assert set(page.locator("#results h2").all_text_contents()) == set(map(plain, TEXTS))
    assert foreign(page) == []
    for name in ("Category", "Network"):
        page.locator("summary", has_text=name).click()
        choices = page.locator("details[open] label bdi")
        expect(choices).to_have_count(len(TEXTS))
        assert set(choices.all_text_contents()) == set(map(plain, TEXTS))
    page.locator("details[open] label", has_text=plain(TEXTS[10])).locator("input").click()
    expect(page.locator("#results > li")).to_have_count(1)
    expect(page.locator("#results h2")).to_have_text(plain(TEXTS[10]))
    assert foreign(page) == []


def test_a_list_of_hostile_endpoints_is_text(page: Page) -> None:
    for number, text in enumerate(map(plain, TEXTS)):
        page.goto(f"/endpoints?service=hostile-{number:02}&perService=0")
        expect(page.locator("#results > li")).to_have_count(len(ADDRESSES) + 1)
        assert foreign(page) == []
        assert page.locator("#results > li").first.locator(".by a").text_content() == text
        assert not set(page.locator("main").text_content() or "") & set(map(chr, BIDI_CONTROLS))
        hrefs = page.locator("#results a").evaluate_all("all => all.map(each => each.pathname)")
        assert set(hrefs) == {f"/services/hostile-{number:02}"}
    for name in ("Category", "Network", "Method"):
        page.locator("summary", has_text=name).click()
        assert foreign(page) == []
    page.goto(f"/?q={quote(TEXTS[2])}")
    expect(page.locator("#results .best").first).to_be_visible()
    assert foreign(page) == []


@pytest.mark.parametrize("scripts", [True, False])
def test_hostile_services_are_text(scripts: bool, browser: Browser, client: httpx.Client) -> None:
    with visit(browser, client, java_script_enabled=scripts) as page:
        for number in range(len(TEXTS)) if scripts or SOAK else NUMBERS[:1]:
            text = plain(TEXTS[number])
            page.goto(f"/services/hostile-{number:02}")
            assert foreign(page) == []
            assert page.locator("h1").text_content() == text
            assert page.locator("#tags li").all_text_contents() == [text]
            descriptions = page.locator(".endpoint .description").all_text_contents()
            assert descriptions == [text] * (len(ADDRESSES) + 1)
            text_of_page = page.locator("main").text_content() or ""
            assert not set(text_of_page) & set(map(chr, BIDI_CONTROLS))


@pytest.mark.soak
@pytest.mark.parametrize("scripts", [True, False])
def test_hostile_addresses_are_text(scripts: bool, browser: Browser, client: httpx.Client) -> None:
    allowed = "console: Failed to load resource: the server responded with a status of 40[04]"
    with visit(browser, client, allowed=allowed, java_script_enabled=scripts) as page:
        for text in (*(TEXTS[number] for number in NUMBERS), '"><img src=harm onerror=alert(1)>'):
            word = quote(text, safe="")
            page.goto(f"/?q={word}&category={word}&network={word}")
            assert foreign(page) == []
            expect(page.locator("#selected bdi")).to_have_text([plain(text)] * 2)
            page.goto(f"/endpoints?q={word}&method={word}&service={word}&payTo={word}")
            assert foreign(page) == []
            expect(page.locator("#selected bdi")).to_have_text([plain(text)] * 3)
        page.goto(f"/ecosystem?timeframe={word}")
        expect(page.get_by_role("heading", name="Invalid address")).to_be_visible()
        assert foreign(page) == []
        page.goto(f"/services/{word}")
        expect(page.get_by_role("heading", name="Page not found")).to_be_visible()
        assert foreign(page) == []
