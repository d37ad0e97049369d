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
from service.conditions import NO_RESOURCE_FILTERS, EndpointFilters, Filters
from service.errors import Overloaded
from service.search import top_k
from service.search.groups import Groups, Units, units_of
from service.search.postings import BLOCK_SIZE, CHAMPIONS, DenseList, Integers, SparseList
from service.search.searcher import GATHER_COST, SPARSE_COST
from service.search.top_k import SPREAD, Accumulator
from service.settings import Settings
from service.snapshot import embedded
from service.snapshot.data import Hits
from service.snapshot.embedded import MAX_WAITING, EmbeddedPostings
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
    monkeypatch.setattr(Accumulator, "rank", gate.wrap(Accumulator.rank))
    monkeypatch.setattr(embedded, "_thread", ThreadPoolExecutor(1, "search"))
    monkeypatch.setattr(embedded, "_waiting", set())
    yield gate
    gate.opened.set()


@pytest.fixture
def expensive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every search an expensive one."""
    monkeypatch.setattr(embedded, "THREAD_FROM", 1)


async def _entered(gate: Gate) -> None:
    """Wait, in the loop, until a ranking has begun."""
    async with asyncio.timeout(SECONDS):
        while not gate.entered.is_set():
            await asyncio.sleep(0)


@pytest.mark.usefixtures("expensive")
def test_other_tasks_run_while_an_expensive_search_does(snapshot: Snapshot, gate: Gate) -> None:
    async def run() -> Hits:
        search = asyncio.create_task(snapshot.engine.search("tides"))
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
        engine = snapshot.engine
        searches = [
            *(engine.search("tides", 1, offset) for offset in range(6)),
            *(engine.search_endpoints("sun", 1, n, EndpointFilters()) for n in range(6)),
            engine.search_resources("sun", 1, 0, NO_RESOURCE_FILTERS),
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
        tasks = [asyncio.create_task(snapshot.engine.search("tides")) for _ in range(MAX_WAITING)]
        await _entered(gate)
        for _ in range(3):
            with pytest.raises(Overloaded):
                await snapshot.engine.search("tides")
        gate.opened.set()
        hits = await asyncio.gather(*tasks)
        return [*hits, await snapshot.engine.search("tides")]

    assert [hits.total for hits in asyncio.run(run())] == [400] * (MAX_WAITING + 1)
    assert len(gate.threads) == MAX_WAITING + 1


@pytest.mark.usefixtures("expensive")
@pytest.mark.filterwarnings("error")
def test_a_cancelled_search_leaves_its_place(snapshot: Snapshot, gate: Gate) -> None:
    async def run() -> None:
        tasks = [asyncio.create_task(snapshot.engine.search("tides")) for _ in range(MAX_WAITING)]
        await _entered(gate)
        for task in tasks[1:]:
            task.cancel()
        await asyncio.gather(*tasks[1:], return_exceptions=True)
        others = [asyncio.create_task(snapshot.engine.search("tides")) for _ in range(5)]
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
            tasks = [
                asyncio.create_task(snapshot.engine.search("tides")) for _ in range(MAX_WAITING)
            ]
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
    assert asyncio.run(snapshot.engine.search("tides")).total == 400
    assert gate.threads == [threading.current_thread().name]


def test_a_deep_page_costs_more_than_the_first(
    snapshot: Snapshot, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate.opened.set()
    parsed, postings = snapshot.parser.parse("tides"), EmbeddedPostings(snapshot)
    cost = postings.cost(parsed, 24, by_group=True)
    monkeypatch.setattr(embedded, "THREAD_FROM", cost + 1)
    for offset, is_apart in ((0, False), (CHAMPIONS, True)):
        gate.threads.clear()
        asyncio.run(snapshot.engine.search("tides", 24, offset))
        assert {name.startswith("search") for name in gate.threads} == {is_apart}


@pytest.mark.parametrize("k", [1, 24, 1000])
@pytest.mark.parametrize("query", ["tides", "sun", "tides sun", "tide 17 x 30", "tid", "zzzz", ""])
def test_the_cost_of_a_search_bounds_the_impacts_that_it_looks_at(
    snapshot: Snapshot, query: str, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[int] = []
    blocks, merge = DenseList.blocks, top_k.merge

    def read(own: DenseList, numbers: Integers) -> Any:
        looked_at.append(len(numbers) * BLOCK_SIZE)
        return blocks(own, numbers)

    def merged(lists: Sequence[SparseList]) -> Any:
        looked_at.extend(len(each.postings) for each in lists)
        return merge(lists)

    monkeypatch.setattr(DenseList, "blocks", read)
    monkeypatch.setattr(top_k, "merge", merged)
    parsed, postings = snapshot.parser.parse(query), EmbeddedPostings(snapshot)
    for by_group in (True, False):
        looked_at.clear()
        scorer = postings.scorer(parsed, None, by_group=by_group)
        top = embedded.run_now(scorer.top(k))
        cost = postings.cost(parsed, k, by_group=by_group)
        assert sum(looked_at) <= cost
        assert (cost > 0) == (top.total > 0)
        assert postings.cost(parsed, 0, by_group=by_group) <= cost


@pytest.mark.parametrize("is_filtered", [False, True])
@pytest.mark.parametrize("query", ["tides", "sun", "tides sun", "tides 17", "tides sun 17 30"])
def test_the_cost_of_a_search_bounds_the_documents_that_reach_the_threshold(
    snapshot: Snapshot, query: str, monkeypatch: pytest.MonkeyPatch, *, is_filtered: bool
) -> None:
    reached: list[int] = []

    def looked_up(documents: Units, groups: Groups | None) -> Units:
        reached.append(len(documents))
        return units_of(documents, groups)

    monkeypatch.setattr("service.search.top_k.units_of", looked_up)
    parsed, postings = snapshot.parser.parse(query), EmbeddedPostings(snapshot)
    for by_group in (True, False):
        units = snapshot.parser.header.groups if by_group else snapshot.parser.header.documents
        mask = np.arange(units) == units - 1 if is_filtered else None
        reached.clear()
        embedded.run_now(postings.scorer(parsed, mask, by_group=by_group).top(100))
        cost = postings.cost(parsed, 100, by_group=by_group, is_filtered=is_filtered)
        assert SPARSE_COST * max(reached) <= cost or max(reached) <= SPREAD * 100


def test_the_cost_of_a_search_for_all_words_bounds_the_documents_of_the_rarest(
    snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[int] = []
    impacts_at = DenseList.impacts_at

    def read(own: DenseList, ordinals: Integers) -> Any:
        looked_at.append(len(ordinals))
        return impacts_at(own, ordinals)

    monkeypatch.setattr(DenseList, "impacts_at", read)
    parsed, postings = snapshot.parser.parse("tides sun"), EmbeddedPostings(snapshot)
    scorer = postings.scorer(parsed, None, by_group=True, match_all=True)
    embedded.run_now(scorer.top(24))
    any_word = postings.cost(parsed, 0, by_group=True)
    cost = postings.cost(parsed, 24, by_group=True, match_all=True)
    assert SPARSE_COST * max(looked_at) + GATHER_COST * sum(looked_at) <= cost - any_word


def test_other_tasks_have_their_turn_between_the_searches_of_a_page(snapshot: Snapshot) -> None:
    async def run() -> list[str]:
        order: list[str] = []

        async def search() -> None:
            order.append("search")

        async def page() -> None:
            for _ in range(3):
                await EmbeddedPostings(snapshot).run(search(), 1 << 18)

        async def client() -> None:
            order.append("client")

        await asyncio.gather(page(), client())
        return order

    assert asyncio.run(run()) == ["search", "client", "search", "search"]


def test_the_cost_of_a_search_has_that_of_its_filters_and_facets(
    snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    costs: list[int] = []
    run = EmbeddedPostings.run

    async def spied(own: EmbeddedPostings, search: Any, cost: int) -> Any:
        costs.append(cost)
        return await run(own, search, cost)

    monkeypatch.setattr(EmbeddedPostings, "run", spied)

    async def ask() -> None:
        engine = snapshot.engine
        await engine.search("tides")
        await engine.search("tides", filters=Filters(category=("c1",)))
        await engine.search("tides", filters=Filters(facets=("category", "tag")))
        await engine.search_endpoints(None, 24, 0, EndpointFilters())
        await engine.search_endpoints(None, 24, 0, EndpointFilters(facets=("category",)))

    asyncio.run(ask())
    plain, filtered, counted, listed, listed_and_counted = costs
    assert filtered >= plain + len(snapshot.filters)
    assert counted >= plain + 2 * len(snapshot.filters)
    assert listed_and_counted >= listed + len(snapshot.endpoints)


def test_threads_have_buffers_of_their_own(snapshot: Snapshot) -> None:
    """A search in the thread does not disturb those in the loop."""
    queries: Sequence[str] = ["tides", "sun", "tides sun", "17", "tides 30"] * 20
    expected = [snapshot.search(query, 24).ids for query in queries]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda query: snapshot.search(query, 24).ids, queries)) == expected
    assert np.unique([len(ids) for ids in expected]).size > 1
