"""What a catalogue or an address says is text, and no part of the page: in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from indexer.__main__ import main
from tests.support.awkward import TEXTS, hostile
from tests.support.running import SOAK, serve, write_lines
from tests.support.shell import arguments
from tests.support.visits import cards, cards_by_script, visit

REORDERING = dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)])

# Scripts that are not files of the page, attributes that run, and links that are none to a page.
FOREIGN = """
[...document.querySelectorAll("*")].filter(element =>
    element.matches("main :is(script, style, iframe, object, embed, base, img, svg:not(.plot svg))")
    || (element.localName === "script" && !element.src.startsWith(`${location.origin}/assets/`))
    || element.getAttributeNames().some(name => name.startsWith("on") || name === "autofocus")
    || (element.href?.length && !/^https?:$/.test(new URL(element.href).protocol))
).map(element => element.outerHTML)
"""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a service whose catalogue is hostile."""
    folder = tmp_path_factory.mktemp("hostile")
    source = write_lines(folder / "services.jsonl", hostile())
    assert main(["build", source, "--out", str(folder / "artifacts")]) == 0
    with serve(folder / "artifacts") as client:
        yield client


def plain(text: str) -> str:
    return text.translate(REORDERING)


def foreign(page: Page) -> list[str]:
    found: list[str] = page.evaluate(FOREIGN)
    return found


def test_a_list_of_hostile_services_is_text(page: Page) -> None:
    page.goto("/")
    rendered = cards(page)
    assert {slot[1] for card in rendered for slot in card if slot[0] == "name"} == set(
        map(plain, TEXTS)
    )
    assert foreign(page) == []
    assert cards_by_script(page) == rendered
    for name in ("Category", "Network"):
        page.locator("summary", has_text=name).click()
        choices = page.locator("details[open] label bdi")
        expect(choices).to_have_count(len(TEXTS))
        assert set(choices.all_text_contents()) == set(map(plain, TEXTS))
    page.locator("details[open] input").first.check()
    expect(page.locator("#results > li")).to_have_count(1)
    assert foreign(page) == []


def test_without_scripts_it_is_text_too(browser: Browser, client: httpx.Client) -> None:
    with visit(browser, client, java_script_enabled=False) as page:
        page.goto("/")
        assert foreign(page) == []
        for number in range(len(TEXTS)):
            page.goto(f"/services/hostile-{number:02}")
            assert foreign(page) == []


def test_hostile_services_are_text_and_their_commands_are_inert(
    page: Page, client: httpx.Client, tmp_path: Path
) -> None:
    for number, text in enumerate(TEXTS):
        page.goto(f"/services/hostile-{number:02}")
        expect(page.locator("#endpoints")).to_have_attribute("aria-busy", "false")
        endpoints = client.get(f"/v1/services/hostile-{number:02}").json()["service"]["endpoints"]
        expect(page.locator(".endpoint")).to_have_count(len(endpoints))
        assert page.locator("h1").text_content() == plain(text)
        assert page.locator("#tags li").text_content() == plain(text)
        expect(page.locator(".endpoint > [data-slot=description]")).to_have_text(
            [plain(text)] * len(endpoints)
        )
        page.locator("details").evaluate_all("all => all.forEach(details => details.open = true)")
        assert foreign(page) == []
        assert not set(page.locator("main").inner_text()) & set(map(chr, REORDERING))
        for command in page.locator(".curl:visible code").all_text_contents():
            given = arguments(command, tmp_path)
            assert list(tmp_path.iterdir()) == []
            assert given[0] == "-i"
            options = [word for word in given if word.startswith("-")]
            assert set(options) <= {"-i", "--globoff", "-X", "-H", "-d"}
            (address,) = [word for word in given if word.startswith("https://")]
            assert httpx.URL(address).host == "elsewhere.example"
            assert address.isascii()
            assert given[-1].startswith("{")


@pytest.mark.soak
@pytest.mark.parametrize("scripts", [True, False])
def test_what_an_address_says_is_text(
    scripts: bool, browser: Browser, client: httpx.Client
) -> None:
    allowed = "says: Failed to load resource: the server responded with a status of 404"
    with visit(browser, client, allowed=allowed, java_script_enabled=scripts) as page:
        for text in (*(TEXTS if SOAK else TEXTS[::4]), '"><img src=harm onerror=alert(1)>'):
            word = quote(text, safe="")
            page.goto(f"/?q={word}&category={word}&network={word}")
            assert foreign(page) == []
            if scripts:
                shown = page.locator("#chosen bdi")
                expect(shown).to_have_text([plain(text)] * 2)
        page.goto(f"/ecosystem?timeframe={word}")
        assert foreign(page) == []
        page.goto(f"/services/{word}")
        expect(page.get_by_role("heading", name="Nothing is here")).to_be_visible()
        assert foreign(page) == []
