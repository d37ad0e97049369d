"""How much a page reads and sends, whatever the records hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from unicodedata import category
from urllib.parse import urlencode

import pytest

from service.app import create_app
from service.search.ranking import Ranking
from service.settings import Settings
from service.web.card import MAX_NAMES, MAX_TEXT
from service.web.endpoint_rows import MAX_DETAILED
from tests.support.running import (
    Json,
    build_records,
    endpoint,
    in_process,
    payment,
    service,
    write_lines,
)

LONG = "weather at a harbour, its tides and winds and swell, by hour and day " * 14
LONGER = "ferries of a harbour and their berths, by hour and day " * 1000
QUOTES = "'\"" * 3000

CONTROLS = "a\0b\x1bc \x9b\x7f"
MAX_PAGE = 60_000  # bytes

Get = Callable[[str], str]


def call(number: int, *parameters: Json, description: str = "") -> Json:
    url = f"https://one.example/call/{number}"
    return endpoint() | {"url": url, "description": description, "parameters": parameters}


def parameter(example: Any = "x", **fields: Any) -> Json:
    described = {"group": "body", "name": "p", "type": "string", "description": "", "default": None}
    return described | {"example": example, "enumValues": [], "required": True} | fields


def usual(number: int) -> Json:
    """Return an endpoint with four parameters, as good listings have them."""
    parameters = [
        parameter(10 * at, name=name, group="query", description="How many items, at most 100")
        for at, name in enumerate(("latitude", "longitude", "language", "limit"))
    ]
    quality = {"l30DaysTotalCalls": "3403", "l30DaysUniquePayers": "41"}
    text = "Current weather: temperature, wind, humidity"
    return call(number, *parameters, description=text) | {"quality": quality}


RECORDS = [
    service("many", endpoints=[call(n, description=f"{LONG}{n}") for n in range(950)]),
    service("quotes", endpoints=[call(n, parameter(QUOTES)) for n in range(70)]),
    service("long", name=LONGER, description=LONGER, category=LONGER, tags=[LONGER]),
    service(
        "names", tags=[f"tag-{n}" for n in range(5000)], networks=[f"n{n}" for n in range(5000)]
    ),
    service("usual", endpoints=[usual(n) for n in range(200)], quality={"totalCalls": 9}),
    service(
        "controls",
        name=CONTROLS,
        description=CONTROLS,
        tags=[CONTROLS],
        category=CONTROLS,
        providerUrl=f"https://one.example/{CONTROLS}",
        endpoints=[call(0, parameter(CONTROLS), description=CONTROLS)],
    ),
    service("values", endpoints=[call(0, parameter(enumValues=[*range(1000)]))]),
    service("first", quality={"lastCalledAt": "0001-01-01T00:00:00+02:00"}),
    service("last", quality={"lastCalledAt": "9999-12-31T23:59:59-02:00"}),
    service("called", quality={"lastCalledAt": "9999-12-31T23:59:59+02:00"}),
]


@pytest.fixture(scope="module")
def get(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Get]:
    """Return a function that gets a page in this process."""
    artifacts = build_records(tmp_path_factory.mktemp("bounds"), RECORDS)
    with in_process(create_app(Settings(artifacts=str(artifacts), max_lag=0))) as client:
        yield lambda path: client.get(path).raise_for_status().text


@pytest.mark.parametrize(
    "path",
    [
        "/?q=weather",
        "/?q=weather&category=Data&network=Base&maxPrice=0.1&enriched=false",
        "/?q=weather&sort=price",
        "/endpoints?q=weather",
        "/endpoints?q=weather&method=GET&category=Data&network=Base&maxPrice=0.1&sort=price",
        "/services/many?q=weather",
        "/services/many?q=nowhere",
    ],
)
def test_a_page_is_made_by_one_search(path: str, get: Get, monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[str] = []
    make = Ranking.__init__

    def counting(self: Ranking, index: Any, query: Any, *arguments: Any, **options: Any) -> None:
        searches.append(query.expansions[0].word)
        make(self, index, query, *arguments, **options)

    monkeypatch.setattr(Ranking, "__init__", counting)
    get(path)
    assert len([word for word in searches if word in path]) == 1  # others warm up


def test_the_endpoints_of_a_service_that_have_every_word_have_pages(get: Get) -> None:
    assert "1–24 of 950 endpoints" in get("/services/many?q=weather+harbour")
    assert "25–48 of 950 endpoints" in get("/services/many?q=weather+harbour&offset=24")
    assert "No endpoints match" in get("/services/many?q=weather+nowhere")
    for offset, previous in ((10, ""), (5000, "&amp;offset=936")):
        link = f'<a rel="prev" href="/services/many?q=weather+harbour{previous}">'
        assert link in get(f"/services/many?q=weather+harbour&offset={offset}")


def test_a_page_of_long_records_has_details_up_to_a_budget(get: Get) -> None:
    page = get("/services/quotes")
    detailed = page.count('<ul class="parameters"')
    assert 0 < detailed <= MAX_DETAILED // len(QUOTES)
    assert page.count("too long for the parameters") == 24 - detailed
    assert len(page) < 10 * MAX_DETAILED


def test_each_kind_of_page_has_at_most_60_kb(get: Get, sample: Path) -> None:
    with in_process(create_app(Settings(artifacts=str(sample), mcp=True, max_lag=0))) as client:
        listed = f"/listed?{urlencode({'url': 'https://api.folioscope.example/papers'})}"
        lists = ("/", "/?q=tide+harbour", "/?q=zzzzqqq", "/endpoints", "/endpoints?q=weather")
        others = ("/ecosystem", "/ecosystem?timeframe=90", "/listed", listed, "/docs", "/nope")
        services = ("folioscope-example", "switchyard-example", "data-porthalden-example")
        pages = (*lists, *others, *(f"/services/{each}" for each in services))
        html = {"accept": "text/html"}
        sizes = {path: len(client.get(path, headers=html).content) for path in pages}
    sizes |= {f"usual {at}": len(get(f"/services/usual?offset={at}").encode()) for at in (0, 176)}
    assert {path: size for path, size in sizes.items() if size > MAX_PAGE} == {}


@pytest.mark.parametrize("path", ["/", "/services/controls", "/endpoints?service=controls"])
def test_control_characters_of_a_record_reach_no_page(path: str, get: Get) -> None:
    page = get(path)
    assert "a b c" in page
    assert not {letter for letter in page if category(letter) == "Cc"} - {"\n", "\t"}


def test_a_list_names_the_period_of_use(get: Get) -> None:
    assert "<bdi>41 payers in 30 days</bdi>" in get("/")
    page = get("/services/usual")
    assert "41 payers in 30 days" in page
    assert "of its most used endpoint, as its record states" in page


@pytest.mark.parametrize(("name", "count"), [("first", 0), ("last", 0), ("called", 1)])
def test_a_moment_that_is_none_in_utc_is_not_shown(name: str, count: int, get: Get) -> None:
    page = get(f"/services/{name}")
    assert page.count("Last called") == page.count("9999-12-31T21:59:59.000Z") == count


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


def test_the_page_of_payments_has_a_year_at_most(tmp_path: Path) -> None:
    days = [f"{date(2020, 1, 1) + timedelta(day)}T12:00:00.000Z" for day in range(500)]
    paid = [payment(tx_hash=f"0x{at:x}", block_timestamp=day) for at, day in enumerate(days)]
    payments = write_lines(tmp_path / "payments.jsonl", paid)
    artifacts = build_records(tmp_path, [service()], "--transactions", payments)
    with in_process(create_app(Settings(artifacts=str(artifacts)))) as client:
        year, longer = (client.get(f"/ecosystem?timeframe={each}").text for each in (366, 100_000))
        every = client.get("/v1/ecosystem/stats?timeframe=100000").json()["stats"]["json"]
    assert longer == year
    assert longer.count("<tr>") < 400
    assert len(every) == 500
