"""Where searches run: cheap ones in the event loop, expensive ones in a thread, one at a time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from service.app import create_app
from service.conditions import EndpointFilters, Filters, ResourceFilters
from service.engines import embedded
from service.engines.embedded import MAX_WAITING
from service.errors import Overloaded
from service.search.top_k import Scorer
from service.settings import Settings
from service.snapshot.data import Hits
from service.snapshot.snapshot import Snapshot
from tests.support.running import endpoint, service
from tests.support.searching import identifier, publish

SECONDS = 30


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("embedded")


@pytest.fixture(scope="module")
def snapshot(folder: Path) -> Snapshot:
    records = [
        service(
            identifier(n),
            name=f"tides {n}",
            category=f"c{n % 7}",
            endpoints=[endpoint() | {"description": "sun"}] * (n % 3),
        )
        for n in range(400)
    ]
    return publish(folder, records, "--no-semantic", "--quiet")


class Gate:
    """Holds rankings until it is opened, and notes the threads that they run in."""

    def __init__(self) -> None:
        self.opened, self.entered = threading.Event(), threading.Event()
        self.threads: list[str] = []
        self.most = self._running = 0
        self._lock = threading.Lock()

    def wrap(self, rank: Callable[..., Any]) -> Callable[..., Any]:
        def held(*arguments: Any) -> Any:
            with self._lock:
                self._running += 1
                self.most = max(self.most, self._running)
                self.threads.append(threading.current_thread().name)
            self.entered.set()
            assert self.opened.wait(SECONDS)
            try:
                return rank(*arguments)
            finally:
                with self._lock:
                    self._running -= 1

        return held


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate()
    monkeypatch.setattr(Scorer, "top", gate.wrap(Scorer.top))
    monkeypatch.setattr(embedded, "_thread", ThreadPoolExecutor(1, "search"))
    monkeypatch.setattr(embedded, "_waiting", set())
    yield gate
    gate.opened.set()


@pytest.fixture
def expensive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every search an expensive one."""
    monkeypatch.setattr(embedded, "THREAD_FROM", 1)


async def tides(snapshot: Snapshot) -> Hits:
    return await snapshot.find_services("tides", 24, 0, Filters())


async def _entered(gate: Gate) -> None:
    """Wait, in the loop, until a ranking has begun."""
    async with asyncio.timeout(SECONDS):
        while not gate.entered.is_set():
            await asyncio.sleep(0)


@pytest.mark.usefixtures("expensive")
def test_other_tasks_run_while_an_expensive_search_does(snapshot: Snapshot, gate: Gate) -> None:
    async def run() -> Hits:
        search = asyncio.create_task(tides(snapshot))
        await _entered(gate)
        assert not search.done()
        gate.opened.set()  # by a task of the loop: it would wait for ever if the search held it
        return await search

    hits = asyncio.run(run())
    assert hits.total == 400
    assert {name.startswith("search") for name in gate.threads} == {True}


@pytest.mark.usefixtures("expensive")
def test_expensive_searches_run_one_at_a_time(snapshot: Snapshot, gate: Gate) -> None:
    async def run() -> list[Any]:
        engine = snapshot
        searches = [
            *(engine.find_services("tides", 1, offset, Filters()) for offset in range(6)),
            *(engine.find_endpoints("sun", 1, n, EndpointFilters()) for n in range(6)),
            engine.find_resources("sun", 1, 0, ResourceFilters()),
        ]
        tasks = [asyncio.create_task(search) for search in searches]
        await _entered(gate)
        gate.opened.set()
        return await asyncio.gather(*tasks)

    results = asyncio.run(run())
    assert gate.most == 1
    assert {name.startswith("search") for name in gate.threads} == {True}
    assert [hits.ids[0] for hits in results[:6]] == snapshot.search("tides", 6).ids


@pytest.mark.usefixtures("expensive")
def test_searches_beyond_those_that_may_wait_are_shed(snapshot: Snapshot, gate: Gate) -> None:
    async def run() -> list[Hits]:
        tasks = [asyncio.create_task(tides(snapshot)) for _ in range(MAX_WAITING)]
        await _entered(gate)
        for _ in range(3):
            with pytest.raises(Overloaded):
                await tides(snapshot)
        gate.opened.set()
        hits = await asyncio.gather(*tasks)
        return [*hits, await tides(snapshot)]

    assert [hits.total for hits in asyncio.run(run())] == [400] * (MAX_WAITING + 1)
    assert len(gate.threads) == MAX_WAITING + 1


@pytest.mark.usefixtures("expensive")
@pytest.mark.filterwarnings("error")
def test_a_cancelled_search_leaves_its_place(snapshot: Snapshot, gate: Gate) -> None:
    async def run() -> None:
        tasks = [asyncio.create_task(tides(snapshot)) for _ in range(MAX_WAITING)]
        await _entered(gate)
        for task in tasks[1:]:
            task.cancel()
        await asyncio.gather(*tasks[1:], return_exceptions=True)
        others = [asyncio.create_task(tides(snapshot)) for _ in range(5)]
        await asyncio.sleep(0)
        gate.opened.set()
        assert {hits.total for hits in await asyncio.gather(tasks[0], *others)} == {400}

    asyncio.run(run())
    assert len(gate.threads) == 6


@pytest.mark.usefixtures("expensive")
@pytest.mark.parametrize("path", ["/v1/search/services", "/v1/search/endpoints", "/"])
def test_a_request_that_is_shed_is_answered_with_503(
    snapshot: Snapshot, folder: Path, gate: Gate, path: str
) -> None:
    app = create_app(Settings(artifacts=str(folder / "artifacts")))

    async def run() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://a.example") as client:
            gate.opened.set()
            assert (await client.get("/v1/services")).status_code == 200  # opens the snapshot
            gate.opened.clear()
            gate.entered.clear()
            tasks = [asyncio.create_task(tides(snapshot)) for _ in range(MAX_WAITING)]
            await _entered(gate)
            shed = await client.get(path, params={"q": "tides"})
            listed = await client.get("/v1/services")
            gate.opened.set()
            await asyncio.gather(*tasks)
            return [shed, listed, await client.get(path, params={"q": "tides"})]

    shed, listed, after = asyncio.run(run())
    assert (shed.status_code, shed.headers["retry-after"]) == (503, "1")
    if path != "/":
        assert shed.json()["error"]["code"] == "overloaded"
    assert (listed.status_code, after.status_code) == (200, 200)


def test_a_cheap_search_runs_in_the_event_loop(snapshot: Snapshot, gate: Gate) -> None:
    gate.opened.set()
    assert asyncio.run(tides(snapshot)).total == 400
    assert gate.threads == [threading.current_thread().name]


def postings_of(snapshot: Snapshot, query: str) -> int:
    parser = snapshot.embedded.parser
    return parser.count_postings(parser.parse(query).expansions)


@pytest.mark.parametrize("query", ["tides", "sun", "tides sun", "tide 17 x 30", "tid", "zzzz", ""])
def test_a_search_whose_words_have_many_postings_runs_in_the_thread(
    snapshot: Snapshot, gate: Gate, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    gate.opened.set()
    postings = postings_of(snapshot, query)
    words = {each for each in query.split() if each in ("tides", "sun", "tide", "tid")}
    assert (postings > 0) == bool(words)
    for threshold, is_apart in ((postings + 1, False), (postings, postings > 0)):
        gate.threads.clear()
        monkeypatch.setattr(embedded, "THREAD_FROM", max(threshold, 1))
        asyncio.run(snapshot.find_services(query or "?", 24, 0, Filters()))
        assert {name.startswith("search") for name in gate.threads} <= {is_apart}


def test_filters_and_facets_count_as_the_numbers_that_they_scan(
    snapshot: Snapshot, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate.opened.set()
    postings = postings_of(snapshot, "tides")
    monkeypatch.setattr(embedded, "THREAD_FROM", postings + len(snapshot.filters))
    every = (Filters(), Filters(category=("c1",)), Filters(facets=("category", "tag")))
    for filters, is_apart in zip(every, (False, True, True), strict=True):
        gate.threads.clear()
        asyncio.run(snapshot.find_services("tides", 24, 0, filters))
        assert {name.startswith("search") for name in gate.threads} == {is_apart}


@pytest.mark.parametrize("kind", ["services", "endpoints"])
def test_an_expensive_list_without_a_query_runs_in_the_thread(
    snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    threads: list[str] = []
    listing = getattr(Snapshot, f"list_{kind}")

    def spied(*arguments: Any) -> Any:
        threads.append(threading.current_thread().name)
        return listing(*arguments)

    monkeypatch.setattr(Snapshot, f"list_{kind}", spied)
    every = EndpointFilters if kind == "endpoints" else Filters
    counting, selecting = every(facets=("category",)), every(category=("c1",))
    for threshold, filters in ((10**9, counting), (1, every()), (1, counting), (1, selecting)):
        monkeypatch.setattr(embedded, "THREAD_FROM", threshold)
        asyncio.run(getattr(snapshot, f"find_{kind}")("", 24, 0, filters))
    assert [name.startswith("search") for name in threads] == [False, False, True, True]


def test_a_search_in_the_thread_does_not_disturb_those_in_the_loop(snapshot: Snapshot) -> None:
    queries: Sequence[str] = ["tides", "sun", "tides sun", "17", "tides 30"] * 20
    expected = [snapshot.search(query, 24).ids for query in queries]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda query: snapshot.search(query, 24).ids, queries)) == expected
    assert np.unique([len(ids) for ids in expected]).size > 1
