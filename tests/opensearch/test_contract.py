"""The contract of every engine, over HTTP, for each of them.

That they find the same is shown by `test_equality.py`, and what the embedded one finds by brute
force.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from indexer.__main__ import main
from tests.opensearch.conftest import EngineOptions
from tests.support.clients.mcp import call
from tests.support.running import (
    PLAIN,
    Json,
    build_records,
    endpoint,
    eventually,
    serve,
    service,
    write_lines,
)
from tests.support.sources.x402 import accept, resource

CATEGORIES = ("Data", "Search", "Media", "")
NETWORKS = ("Base", "Polygon", "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp")
METHODS = ("GET", "POST")
SERVICES = 120
IDENTIFIER = 11
"""The number of the service whose description has an identifier."""
MANY = 10_300
"""More than OpenSearch pages through without further settings."""


def record(number: int) -> Json:
    """Return a service whose texts and terms follow from its number."""
    network, category = NETWORKS[number % 3], CATEGORIES[number % 4]
    words = "weather" if number % 2 else "harbour tides"
    reliable = "weatherReliable" if number == IDENTIFIER else "reliable " * (number % 5)
    own = [
        endpoint(f"0.{number % 7 + 1:02}", network=network, scheme="exact")
        | {
            "url": f"https://s{number}.example/{path}",
            "method": METHODS[(number + place) % 2],
            "description": f"{words} by {path}",
            "quality": {"l30DaysTotalCalls": str(number * 3 % 50), "l30DaysUniquePayers": "1"},
        }
        for place, path in enumerate(("now", "later", "past", "map", "list")[: 1 + number % 5])
    ]
    return service(
        f"s{number:03}",
        name=f"Station {number}",
        description=f"{words} for number{number} {reliable}",
        category=category,
        networks=[network],
        enriched=number % 10 == 0,
        tags=[f"tag{number % 6}"],
        endpoints=own,
    )


RECORDS = [record(number) for number in range(SERVICES)]
RESOURCES = [
    resource(f"https://feed.example/{number}", accept(maxAmountRequired=str(1000 * number)))
    | {"description": f"tides of feed {number}"}
    for number in range(1, 30)
]


@pytest.fixture(scope="module")
def client(
    engine: EngineOptions, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx.Client]:
    """Serve the catalogue."""
    folder = tmp_path_factory.mktemp(engine.name)
    sources = [write_lines(folder / "a.jsonl", RECORDS), write_lines(folder / "b.jsonl", RESOURCES)]
    out = ["--out", str(folder / "artifacts")]
    assert main(["build", *sources, *out, "--no-semantic", *engine.build]) == 0
    with serve(folder / "artifacts", "--mcp", *engine.serve) as client:
        yield client


def search(client: httpx.Client, path: str = "/v1/search/services", **parameters: Any) -> Json:
    """Return the answer of a search, without a cache in between."""
    response = client.get(path, params={"match": "any"} | parameters)
    assert response.status_code == 200, response.text
    answer: Json = response.json()
    return answer


def served(client: httpx.Client) -> str:
    return str(client.get("/readyz").json().get("snapshot"))


def ids(answer: Json) -> list[str]:
    return [each["id"] for each in answer["services"]]


def matching(word: str) -> list[Json]:
    return [each for each in RECORDS if word in each["description"].split()]


def test_a_service_whose_name_is_the_query_comes_first(client: httpx.Client) -> None:
    for number in (7, 64, 119):
        assert ids(search(client, q=f"station {number}"))[0] == f"s{number:03}"
        assert ids(search(client, q=f"STATION {number}", limit=1)) == [f"s{number:03}"]
    following = search(client, q="station 7", limit=3, offset=1)
    assert "s007" not in ids(following)


def test_words_are_completed_and_corrected(client: httpx.Client) -> None:
    whole = search(client, q="harbour")
    assert search(client, q="harbor")["total"] == whole["total"]
    assert search(client, q="harbou")["total"] == whole["total"]
    assert search(client, q="haurbour")["total"] == whole["total"]


def test_all_words_may_be_required(client: httpx.Client) -> None:
    both = search(client, q="weather reliable", match="all", limit=200)
    expected = [each for each in matching("weather") if "reliable" in each["description"].lower()]
    assert set(ids(both)) == {each["id"] for each in expected}
    assert both["total"] == len(expected)
    assert search(client, q="weather unheardof", match="all")["total"] == 0
    # Of an identifier its parts are required, and the whole is not.
    assert search(client, q="weatherReliable", match="all")["total"] == len(expected)


def test_explanations_add_up_where_there_are_any(
    engine: EngineOptions, client: httpx.Client
) -> None:
    answer = search(client, q="reliable weather", explain="true")
    assert ("explanations" in answer) == (engine.name == "embedded")
    explanations = answer.get("explanations", [])
    for each in explanations:
        parts = sum(word["score"] for word in each["words"]) + each["similarityScore"]
        assert each["score"] == pytest.approx(parts - each["sizePenalty"])
    scores = [each["score"] for each in explanations]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("sort", ["relevance", "price", "popularity"])
def test_at_most_some_endpoints_of_a_service_are_listed(client: httpx.Client, sort: str) -> None:
    path = "/v1/search/endpoints"
    counts = [len(each["endpoints"]) for each in matching("weather")]
    first = search(client, path, q="weather", perService=2, sort=sort, limit=200)
    assert first["total"] == sum(counts)
    assert first["listed"] == sum(min(count, 2) for count in counts)
    pages = [
        search(client, path, q="weather", perService=2, sort=sort, limit=30, offset=n)["endpoints"]
        for n in range(0, first["listed"], 30)
    ]
    urls = [each["url"] for page in pages for each in page]
    assert len(urls) == len(set(urls)) == first["listed"]
    assert max(Counter(url.split("/")[2] for url in urls).values()) <= 2


def test_resources_of_feeds_are_searched_and_filtered(client: httpx.Client) -> None:
    response = client.get("/discovery/search", params={"query": "tides", "limit": 5})
    assert response.status_code == 200
    assert response.json()["total"] == len(RESOURCES)
    filters: dict[str, str | int] = {
        "query": "tides",
        "urlSubstring": "feed.example/1",
        "limit": 20,
    }
    part = client.get("/discovery/search", params=filters).json()
    assert part["total"] == sum("/1" in each["resource"] for each in RESOURCES)
    following = client.get(
        "/discovery/search",
        params={"query": "tides", "limit": 5, "cursor": response.json()["pagination"]["cursor"]},
    )
    first = {each["resource"] for each in response.json()["resources"]}
    assert first.isdisjoint(each["resource"] for each in following.json()["resources"])


def test_pages_for_people_show_results(client: httpx.Client) -> None:
    browser = {"Accept": "text/html"}
    assert "Station 7" in client.get("/", params={"q": "station 7"}, headers=browser).text
    wanted = {"q": "weather", "category": "Search"}
    page = client.get("/endpoints", params=wanted, headers=browser)
    assert "weather by" in page.text
    for sort in ("relevance", "price"):
        found = client.get("/", params={"q": "later 7", "sort": sort}, headers=browser)
        assert "/services/s007#endpoint-" in found.text
    own = client.get("/services/s007", params={"q": "later"}, headers=browser)
    assert own.status_code == 200
    assert "https://s7.example/later" in own.text


def test_agents_search_by_mcp(client: httpx.Client) -> None:
    result = call(client, "search_endpoints", query="weather", network="polygon", limit=3)
    found = result["structuredContent"]
    expected = [
        each
        for entry in matching("weather")
        for each in entry["endpoints"]
        if each["pricing"]["network"] == "Polygon"
    ]
    assert found["total"] == len(expected)
    services = call(client, "search_services", query="station 7")["structuredContent"]
    assert services["services"][0]["id"] == "s007"


def test_any_offset_of_a_large_result_is_answered(engine: EngineOptions, tmp_path: Path) -> None:
    records = [service(f"n{number:05}", description="alike") for number in range(MANY)]
    out = build_records(tmp_path, records, *((*PLAIN, *engine.build) if engine.build else ()))
    with serve(out, *engine.serve) as client:
        for offset in (0, 9_990, 10_050, MANY - 3, MANY, 50_000, 2**31):
            answer = search(client, q="alike", offset=offset, limit=24, sort="name")
            assert answer["total"] == MANY
            expected = [each["id"] for each in records[offset : offset + 24]]
            assert ids(answer) == ids(search(client, q="alike", offset=offset)) == expected
            found = search(client, "/v1/search/endpoints", q="alike", offset=offset)
            assert found["total"] == found["listed"] == MANY
            assert [each["service"]["id"] for each in found["endpoints"]] == expected


def test_each_page_is_of_the_snapshot_that_it_names(engine: EngineOptions, tmp_path: Path) -> None:
    out, contents = tmp_path / "artifacts", {}

    def build(number: int) -> None:
        records = [
            service(f"v{number}-{place}", description=f"version {number}") for place in range(40)
        ]
        source = write_lines(tmp_path / f"{number}.jsonl", records)
        options = ["--no-semantic", "--no-downloads", "--quiet", "--out", str(out)]
        assert main(["build", source, *options, *engine.build]) == 0
        contents[(out / "CURRENT").read_text().strip()] = {each["id"] for each in records}

    build(0)
    with serve(out, "--cache-bytes", "0", *engine.serve) as client:
        done = threading.Event()
        pages: list[tuple[str, list[str], int]] = []

        def read() -> None:
            offset = 0
            while not done.is_set():
                wanted: dict[str, str | int] = {"q": "version", "offset": offset}
                response = client.get("/v1/search/services", params=wanted)
                assert response.status_code == 200, response.text
                answer = response.json()
                pages.append((response.headers["ratecard-snapshot"], ids(answer), answer["total"]))
                offset = (offset + 24) % 48

        reader = threading.Thread(target=read)
        reader.start()
        try:
            for number in range(1, 4):
                build(number)
                eventually(lambda: served(client) == (out / "CURRENT").read_text().strip())
        finally:
            done.set()
            reader.join()
    assert {snapshot for snapshot, _, _ in pages} >= {*list(contents)[1:3]}
    for snapshot, found, total in pages:
        assert total == 40
        assert set(found) <= contents[snapshot]
