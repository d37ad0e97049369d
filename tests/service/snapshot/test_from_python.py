"""Searching from Python: the answers of HTTP, filters as keyword arguments, and following."""

from __future__ import annotations

import asyncio
import gc
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Mount, Route

from indexer.cli.main import main
from service.api.endpoints import SearchEndpoints
from service.api.services import SearchServices
from service.app import create_app, served_snapshot
from service.errors import SnapshotDamaged, SnapshotMissing
from service.settings import Settings
from service.snapshot import Snapshot, follow_snapshot, open_snapshot
from tests.support.artifacts import current, flip_a_bit, folder
from tests.support.running import PLAIN, Build, Json, examples, service, write_lines

QUERIES = ["weather forecast", "tides", "imagee generation", "the", "kurs"]


@pytest.fixture(scope="module")
def snapshot(sample: Path) -> Snapshot:
    return open_snapshot(sample)


def optional(**choices: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {}, optional={name: st.sampled_from(values) for name, values in choices.items()}
    )


shared = {
    "category": [["Data"], ["data", "Search"], ["nothing"], []],
    "network": [["base"], ["eip155:8453", "Solana"]],
    "scheme": [["exact"], ["upto", "exact"]],
    "tag": [["weather"], ["image", "Weather"]],
    "enriched": [True, False],
    "max_price": [0.01, 1, 0],
    "min_payers": [1, 3],
    "sort": ["relevance", "price", "popularity"],
    "explain": [True, False, None],
    "limit": [1, 5, 24],
    "offset": [0, 3, 10_000],
}
of_services = optional(
    **shared,
    integration_type=[["1P"], ["3P", ""]],
    match=["any", "all"],
    facets=[["category"], ["tag", "integrationType"], []],
)
of_endpoints = optional(
    **shared,
    method=[["GET"], ["post", "PUT"]],
    service=[["skyquilt-example"], ["nobody"]],
    asset=[["0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"]],
    pay_to=[["0x1"]],
    registration=[True, False],
    per_service=[0, 1, 3],
    facets=[["method", "service"], []],
)


def as_parameters(conditions: Json) -> dict[str, Any]:
    """Return the parameters of HTTP of the same names in camel case."""
    parameters = {}
    for name, value in conditions.items():
        first, *words = name.split("_")
        joined = ",".join(value) if name == "facets" else value
        if value is not None and (value or not isinstance(value, list)):
            parameters[first + "".join(map(str.title, words))] = joined
    return parameters


@settings(max_examples=examples(200), deadline=None)
@given(query=st.sampled_from(QUERIES), conditions=of_services)
def test_services_are_those_that_http_answers(
    query: str, conditions: Json, snapshot: Snapshot, client: httpx.Client
) -> None:
    parameters = as_parameters(conditions)
    for path, hits in (
        ("/v1/search/services", snapshot.search(query, **conditions)),
        ("/v1/services", snapshot.list(**conditions)),
    ):
        answer = client.get(path, params={"q": query} | parameters).json()
        assert (hits.services, hits.total) == (answer["services"], answer["total"])
        assert hits.ids == [each["id"] for each in answer["services"]]
        assert (hits.facets or {}) == answer.get("facets", {})
        assert len(hits.explanations or ()) == len(answer.get("explanations", ()))


@settings(max_examples=examples(200), deadline=None)
@given(query=st.sampled_from([*QUERIES, ""]), conditions=of_endpoints)
def test_endpoints_are_those_that_http_answers(
    query: str, conditions: Json, snapshot: Snapshot, client: httpx.Client
) -> None:
    parameters = {"q": query} | as_parameters(conditions)
    response = client.get("/v1/search/endpoints", params=parameters)
    hits = snapshot.search_endpoints(query, **conditions)
    if response.status_code == 400:  # HTTP lists no endpoints without a query and a filter
        assert not query
        assert hits.total == len(snapshot.endpoints)
        return
    answer = response.json()
    assert hits.endpoints == answer["endpoints"]
    assert (hits.total, hits.listed) == (answer["total"], answer["listed"])
    assert (hits.facets or {}) == answer.get("facets", {})


@pytest.mark.parametrize(
    ("operation", "method"),
    [(SearchServices, Snapshot.search), (SearchEndpoints, Snapshot.search_endpoints)],
)
def test_each_parameter_of_http_is_a_condition(
    operation: Any, method: Callable[..., Any], snapshot: Snapshot
) -> None:
    for name in {*operation.__struct_fields__} - {"q", "limit", "offset", "endpoints"}:
        method(snapshot, "weather", **{name: None})


@pytest.mark.parametrize(
    ("conditions", "error", "message"),
    [
        (
            {"category": "Data"},
            ValueError,
            r"Expected `array`, got `str` - at `category`; give a list, such as \['Data'\]",
        ),
        ({"network": [1]}, ValueError, r"Expected `str`, got `int` - at `network\[0\]`"),
        ({"facets": "tag"}, ValueError, "Expected `array`, got `str` - at `facets`"),
        ({"facets": ["colour"]}, ValueError, "'colour' - at `facets"),
        ({"maxPrice": 1}, TypeError, r"maxPrice is no condition; there are .*max_price"),
        ({"max_price": "1"}, ValueError, "Expected `float .+ got `str` - at `max_price`"),
        ({"enriched": 1}, ValueError, "Expected `bool .+ at `enriched`"),
        ({"match": "some"}, ValueError, "'some' - at `match`"),
        ({"sort": "best"}, ValueError, "'best' - at `sort`"),
        ({"max_price": -1}, ValueError, "Expected `float` >= 0.0 - at `max_price`"),
        ({"max_price": float("nan")}, ValueError, "Expected `float` >= 0.0 - at `max_price`"),
        ({"limit": 0}, ValueError, "Expected `int` >= 1 - at `limit`"),
        ({"limit": 2.5}, ValueError, "Expected `int`, got `float` - at `limit`"),
        ({"limit": None}, ValueError, "missing required field `limit`"),
        ({"offset": -1}, ValueError, "Expected `int` >= 0 - at `offset`"),
    ],
)
def test_a_faulty_condition_is_an_error_that_says_what_to_write(
    conditions: Any, error: type[Exception], message: str, snapshot: Snapshot
) -> None:
    for method in (
        snapshot.search,
        snapshot.search_endpoints,
        lambda _, **rest: snapshot.list(**rest),
    ):
        with pytest.raises(error, match=message):
            method("weather", **conditions)
    with pytest.raises(ValueError, match="Expected `array`, got `str` - at `service`"):
        snapshot.search_endpoints("weather", service="a")


def test_a_query_and_an_id_are_texts(snapshot: Snapshot) -> None:
    for blank in ("", " \n"):
        assert snapshot.search(blank).total == 0
        assert snapshot.search_endpoints(blank).total == len(snapshot.endpoints)
    given: Any
    for given in (None, 5, b"weather"):
        for method in (snapshot.search, snapshot.search_endpoints):
            with pytest.raises(ValueError, match="`query`"):
                method(given)
        with pytest.raises(TypeError, match="an id is a text, not"):
            snapshot.get(given)


def test_records_have_the_numbers_of_their_source(artifacts: Path, build: Build) -> None:
    record = service("a", big=2**70, long="0.10", text="\u2028é\\")
    assert build([record]) == 0
    snapshot = open_snapshot(artifacts)
    hits = snapshot.list()
    assert hits.services == [snapshot.get("a")]
    assert hits.services[0]["big"] == 2**70
    assert hits.texts == [snapshot.find("a")]
    (found,) = snapshot.search_endpoints("").endpoints
    assert found["service"]["id"] == "a"
    assert snapshot.get("b") is None


def test_threads_have_the_answers_of_one(snapshot: Snapshot) -> None:
    def ask(query: str) -> tuple[Any, ...]:
        services = snapshot.search(query, facets=["category"], network=["base"])
        endpoints = snapshot.search_endpoints(query, 10, sort="price", explain=True)
        return services.texts, services.facets, endpoints.texts, endpoints.explanations

    questions = [f"{one} {other}" for one in QUERIES for other in QUERIES] * 8
    expected = {question: ask(question) for question in {*questions}}
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, questions))
    assert answers == [expected[question] for question in questions]


def publish(artifacts: Path, *names: str) -> Path:
    artifacts.mkdir(exist_ok=True)
    source = write_lines(artifacts.parent / "source.jsonl", map(service, names))
    options = ("--quiet", "--accept", source, *PLAIN)
    assert main(["build", source, "--out", str(artifacts), *options]) == 0
    return folder(artifacts)


def mapped(path: Path) -> bool:
    return f"{path}/" in Path("/proc/self/maps").read_text()


def test_a_followed_snapshot_is_the_published_one(artifacts: Path) -> None:
    with pytest.raises(SnapshotMissing, match="holds no snapshot"):
        follow_snapshot(artifacts)
    first = publish(artifacts, "a")
    follower = follow_snapshot(str(artifacts))
    opened = follower.latest()
    assert follower.latest() is opened
    hits = opened.list()
    second = publish(artifacts, "a", "b")
    assert follower.latest().list().ids == ["a", "b"]
    del opened
    gc.collect()
    assert mapped(first)
    assert hits.services[0]["id"] == "a"
    del hits
    gc.collect()
    assert not mapped(first)
    assert mapped(second)


def test_a_damaged_snapshot_is_not_followed(artifacts: Path) -> None:
    publish(artifacts, "a")
    follower = follow_snapshot(artifacts)
    flip_a_bit(publish(artifacts, "a", "b") / "records.json")
    assert follower.latest().list().ids == ["a"]
    assert isinstance(follower.refusal, SnapshotDamaged)
    shutil.rmtree(artifacts)
    assert follower.latest().list().ids == ["a"]


def test_at_a_start_the_newest_whole_snapshot_is_followed(artifacts: Path) -> None:
    publish(artifacts, "a")
    flip_a_bit(publish(artifacts, "a", "b") / "records.json")
    with pytest.raises(SnapshotDamaged):
        open_snapshot(artifacts)
    follower = follow_snapshot(artifacts)
    assert follower.latest().list().ids == ["a"]
    assert isinstance(follower.refusal, SnapshotDamaged)


def test_threads_follow_while_builds_publish(artifacts: Path) -> None:
    publish(artifacts, "a0")
    follower, ended = follow_snapshot(artifacts), threading.Event()

    def ask() -> int:
        last, is_over = 0, False
        while not is_over:
            is_over = ended.wait(0.001)  # leave the interpreter to the builds
            (service_id,) = follower.latest().list().ids
            assert int(service_id[1:]) >= last
            last = int(service_id[1:])
        return last

    with ThreadPoolExecutor(4) as pool:
        threads = [pool.submit(ask) for _ in range(4)]
        try:
            for number in range(1, 6):
                publish(artifacts, f"a{number}")
        finally:
            ended.set()
        assert all(thread.result() <= 5 for thread in threads)
    assert follower.latest().id == current(artifacts)


def test_the_snapshot_of_a_mounted_application_is_that_of_its_answers(artifacts: Path) -> None:
    app = create_app(Settings(artifacts=str(artifacts)))
    with pytest.raises(SnapshotMissing):
        served_snapshot(app)
    publish(artifacts, "a")
    other = create_app(Settings(artifacts=str(artifacts)))
    assert served_snapshot(other).list().ids == ["a"]
    hidden = Route("/shop/metrics", Response(status_code=404))
    outer = Starlette(routes=[hidden, Mount("/shop", other)])

    async def ask() -> Json:
        transport = httpx.ASGITransport(outer)
        async with httpx.AsyncClient(transport=transport, base_url="http://a.example") as client:
            assert (await client.get("/shop/metrics")).status_code == 404
            assert (await client.get("/shop/readyz")).status_code == 200
            answer: Json = (await client.get("/shop/v1/services")).json()
            return answer

    assert asyncio.run(ask())["services"] == served_snapshot(other).list().services
