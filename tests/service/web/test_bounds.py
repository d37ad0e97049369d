"""How much a page reads and sends, whatever the records hold."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from indexer.__main__ import main
from service.app import create_app
from service.search.analysis import Word, words_of
from service.settings import Settings
from service.web import endpoint_search
from service.web.card import MAX_NAMES, MAX_TEXT
from service.web.endpoint_search import MAX_ANALYSED, MAX_DETAILED
from tests.support.running import Json, endpoint, service, write_lines

LONG = "weather at a harbour, its tides and winds and swell, by hour and day " * 14
LONGER = "ferries of a harbour and their berths, by hour and day " * 1000
EXPANDING = "\ufdfa weather " * 60  # 18 characters each in NFKC
NAMES = [f"n{number}" for number in range(5000)]
QUOTES = "'\"" * 3000

Get = Callable[[str], str]


def call(number: int, *parameters: Json, description: str = "") -> Json:
    url = f"https://one.example/call/{number}"
    return endpoint() | {"url": url, "description": description, "parameters": parameters}


def parameter(example: Any = "x", **fields: Any) -> Json:
    described = {"group": "body", "name": "p", "type": "string", "description": "", "default": None}
    return described | {"example": example, "enumValues": [], "required": True} | fields


RECORDS = [
    service("many", endpoints=[call(n, description=f"{LONG}{n}") for n in range(950)]),
    *(
        service(f"near-{each}", endpoints=[call(n, description=EXPANDING) for n in range(5)])
        for each in range(24)
    ),
    service("quotes", endpoints=[call(n, parameter(QUOTES)) for n in range(70)]),
    service("long", name=LONGER, description=LONGER, category=LONGER, tags=[LONGER]),
    service(
        "names", tags=[f"tag-{n}" for n in range(5000)], networks=[f"n{n}" for n in range(5000)]
    ),
    service("values", endpoints=[call(0, parameter(enumValues=[*range(1000)]))]),
]


@pytest.fixture(scope="module")
def get(tmp_path_factory: pytest.TempPathFactory) -> Get:
    """Return a function that gets a page in this process."""
    folder = tmp_path_factory.mktemp("bounds")
    source = write_lines(folder / "services.jsonl", RECORDS)
    assert main(["build", source, "--out", str(folder / "artifacts"), "--no-semantic"]) == 0
    return lambda path: asyncio.run(_get(folder / "artifacts", path))


async def _get(artifacts: Path, path: str) -> str:
    transport = httpx.ASGITransport(create_app(Settings(artifacts=str(artifacts))))
    async with httpx.AsyncClient(transport=transport, base_url="http://a.example") as client:
        return (await client.get(path)).raise_for_status().text


@pytest.fixture
def analysed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the lengths of the texts of records that are analysed for pages."""
    lengths: list[int] = []

    def counting(text: str) -> list[Word]:
        lengths.append(len(text))
        return words_of(text)

    monkeypatch.setattr(endpoint_search, "words_of", counting)
    return lengths


def test_a_search_in_a_large_service_analyses_none_of_its_texts(
    get: Get, analysed: list[int]
) -> None:
    assert "1–50 of 950 endpoints" in get("/services/many?q=weather+harbour")
    assert "51–100 of 950 endpoints" in get("/services/many?q=weather+nowhere&offset=50")
    assert "No endpoints match" in get("/services/many?q=nowhere")
    assert analysed == []


def test_the_texts_below_services_are_analysed_within_one_budget(
    get: Get, analysed: list[int]
) -> None:
    page = get("/?q=weather")
    assert page.count('<ul class="matches"') == 24
    assert 0 < sum(analysed) <= MAX_ANALYSED


def test_a_page_of_long_records_has_details_up_to_a_budget(get: Get) -> None:
    page = get("/services/quotes")
    detailed = page.count('<ul class="parameters"')
    assert 0 < detailed <= MAX_DETAILED // len(QUOTES)
    assert page.count("too long for the parameters") == 50 - detailed
    assert len(page) < 10 * MAX_DETAILED


def test_many_allowed_values_are_counted(get: Get) -> None:
    page = get("/services/values")
    assert "48, 49, 950 more" in page
    assert "49, 50" not in page


@pytest.mark.parametrize("path", ["/", "/endpoints", "/?q=harbour", "/endpoints?q=harbour"])
def test_lists_show_the_beginning_of_long_texts(path: str, get: Get) -> None:
    page = get(path)
    assert LONGER[:MAX_TEXT] in page
    assert LONGER[: 2 * MAX_TEXT] not in page


def test_a_page_shows_the_first_networks_and_tags(get: Get) -> None:
    page = get("/services/names")
    assert page.count('href="/?tag=') == page.count(", n") + 1 == MAX_NAMES
