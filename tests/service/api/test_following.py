"""Following the changes while builds publish: swaps, removals, damage, many requests at once."""

from __future__ import annotations

import asyncio
import gc
import shutil
import threading
from itertools import islice
from pathlib import Path
from random import Random

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from indexer.snapshot.rollback import roll_back
from service.app import create_app
from service.errors import Overloaded
from service.settings import Settings
from service.snapshot.changes import Changes
from tests.support.artifacts import current, flip_a_bit, folder
from tests.support.clients.mirror import (
    Mirror,
    error,
    parse_page,
    publish,
    published_lines,
    services,
)
from tests.support.running import Build, eventually, serve, service


def test_the_entity_tag_stays_when_another_snapshot_is_served(artifacts: Path) -> None:
    old, new = (publish(artifacts, services(each)) for each in ("aa", "ab"))
    with serve(artifacts) as client:
        url = httpx.URL("/v1/changes", params={"since": old, "to": new})
        etag = client.get(url).headers["etag"]
        third = publish(artifacts, services("ac"))
        eventually(lambda: client.get("/healthz").headers["ratecard-snapshot"] == third)
        response = client.get(url, headers={"if-none-match": etag})
        assert response.status_code == 304
        assert response.headers["ratecard-snapshot"] == new


def test_a_walk_goes_on_when_other_snapshots_are_published_and_its_own_are_removed(
    artifacts: Path,
) -> None:
    old = publish(artifacts, services("aaaaaaaaaa"))
    before = published_lines(artifacts)
    new = publish(artifacts, services("-bbbbbbbbbb"))
    after = published_lines(artifacts)
    with serve(artifacts) as client:
        params = {"since": old, "limit": "4"}
        first = parse_page(client.get("/v1/changes", params=params))
        third = publish(artifacts, services("cccc"), "--keep", "1")
        eventually(
            lambda: (
                [each["id"] for each in client.get("/v1/snapshots").json()["snapshots"]] == [third]
            )
        )
        eventually(lambda: client.get("/healthz").headers["ratecard-snapshot"] == third)
        assert first.cursor is not None
        rest = parse_page(
            client.get("/v1/changes", params=params | {"limit": "1000", "cursor": first.cursor})
        )
        assert (rest.since, rest.to, rest.total, rest.cursor) == (old, new, 11, None)
        mirror = Mirror(old, before)
        mirror.follow(client, 3, new)
        assert mirror.text == Mirror(new, after).text
        assert error(client.get("/v1/changes", params={"since": new})) == (410, "snapshot_gone")


def test_the_first_snapshot_ever_and_an_empty_catalogue_are_followed(artifacts: Path) -> None:
    first = publish(artifacts, [])
    mirror = Mirror(first, {})
    with serve(artifacts) as client:
        assert mirror.follow(client) == 0
        for versions in ("aaa", "", "b"):
            published = publish(artifacts, services(versions))
            eventually(
                lambda published=published: (  # type: ignore[misc]  # mypy does not infer lambdas with defaults
                    client.get("/healthz").headers["ratecard-snapshot"] == published
                )
            )
            mirror.follow(client)
            assert mirror.snapshot == published
            assert mirror.lines == published_lines(artifacts)


def test_a_mirror_follows_while_random_builds_publish_and_roll_back(artifacts: Path) -> None:
    rng = Random(11)  # noqa: S311  # the same history in every run
    publish(artifacts, services("a" * 30))
    mirror = Mirror(current(artifacts), published_lines(artifacts))
    ended = threading.Event()
    failures: list[BaseException] = []

    def follow(client: httpx.Client) -> None:
        try:
            while not ended.is_set():
                mirror.follow(client, limit=rng.randint(1, 5))
        except BaseException as error:  # noqa: BLE001  # the test reports it
            failures.append(error)

    with serve(artifacts) as client:
        thread = threading.Thread(target=follow, args=(client,))
        thread.start()
        try:
            for number in range(8):
                versions = "".join(rng.choice("abc--") for _ in range(rng.randint(1, 30)))
                publish(artifacts, services(versions), "--keep", "20")
                if number == 4:
                    roll_back(artifacts)
            eventually(lambda: mirror.snapshot == current(artifacts) or bool(failures))
        finally:
            ended.set()
            thread.join()
        assert failures == []
        mirror.follow(client)
    assert mirror.snapshot == current(artifacts)
    assert mirror.text == Mirror("", published_lines(artifacts)).text


def test_a_damaged_snapshot_is_an_error_that_names_it_until_it_is_repaired(
    artifacts: Path,
) -> None:
    records = services("aaaa")
    old, new = publish(artifacts, records), publish(artifacts, services("aabb"))
    whole = shutil.copytree(artifacts / "snapshots" / old, artifacts.parent / "whole")
    flip_a_bit(artifacts / "snapshots" / old / "records.json")
    with serve(artifacts) as client:
        url = httpx.URL("/v1/changes", params={"since": old})
        for _ in range(2):
            response = client.get(url)
            assert error(response) == (503, "snapshot_damaged")
            assert f"the snapshot {old} or {new} is damaged" in response.text
        assert client.get("/v1/changes", params={"since": new}).status_code == 200
        shutil.rmtree(artifacts / "snapshots" / old)
        whole.rename(artifacts / "snapshots" / old)
        eventually(lambda: client.get(url).status_code == 200)
        assert client.get(url).json()["total"] == 2


def test_requests_for_the_same_pair_wait_for_one_comparison(
    artifacts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = publish(artifacts, services("aaaa"))
    publish(artifacts, services("aabb"))
    app = create_app(Settings(artifacts=str(artifacts)))
    opened: list[tuple[Path, Path]] = []
    begin = threading.Event()

    def open_changes(old: Path, new: Path) -> Changes:
        begin.wait(30)
        opened.append((old, new))
        return Changes(old, new)

    monkeypatch.setattr("service.artifacts.changes_cache.Changes", open_changes)

    async def ask() -> None:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://a.example") as client:
            urls = [f"/v1/changes?since={old}&limit={limit}" for limit in range(1, 11)]
            requests = [asyncio.create_task(client.get(url)) for url in urls]
            await client.get("/healthz")  # which is answered while they wait
            begin.set()
            responses = await asyncio.gather(*requests)
            assert [each.json()["total"] for each in responses] == [2] * 10

    asyncio.run(ask())
    assert len(opened) == 1


def test_too_many_waiting_comparisons_are_refused_as_overload(
    artifacts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [publish(artifacts, services(each), "--keep", "4") for each in ("a", "b", "c", "d")]
    app = create_app(Settings(artifacts=str(artifacts)))
    begin = threading.Event()
    monkeypatch.setattr(
        "service.artifacts.changes_cache.check_files", lambda *_: begin.wait(30) and None
    )

    async def ask() -> None:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://a.example") as client:
            pairs = [(old, new) for old in ids for new in ids if old != new]
            urls = [f"/v1/changes?since={old}&to={new}" for old, new in pairs]
            requests = [asyncio.create_task(client.get(url)) for url in urls]
            refused = [await each for each in islice(asyncio.as_completed(requests), 4)]
            assert [error(each) for each in refused] == [(503, "overloaded")] * 4
            assert {each.headers["retry-after"] for each in refused} == {"1"}
            begin.set()
            statuses = [each.status_code for each in await asyncio.gather(*requests)]
            assert sorted(statuses) == [200] * 8 + [503] * 4

    asyncio.run(ask())


def test_comparisons_and_large_pages_are_shed_and_other_pages_are_not(
    artifacts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = (publish(artifacts, services(each)) for each in ("aaaa", "aabb"))
    app = create_app(Settings(artifacts=str(artifacts), cache_bytes=0))

    def refuse() -> None:
        raise Overloaded("busy")

    async def ask() -> None:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://a.example") as client:
            url = f"/v1/changes?since={old}&to={new}"
            with monkeypatch.context() as patch:
                patch.setattr(app.state.context.load_shedder, "check", refuse)
                assert error(await client.get(url)) == (503, "overloaded")
                assert (await client.get(f"/v1/changes?since={new}")).status_code == 200
            assert (await client.get(url)).status_code == 200
            monkeypatch.setattr(app.state.context.load_shedder, "check", refuse)
            assert (await client.get(url)).status_code == 200
            assert (await client.get(f"{url}&limit=200")).status_code == 200
            assert error(await client.get(f"{url}&limit=201")) == (503, "overloaded")

    asyncio.run(ask())


def test_changes_of_removed_snapshots_are_closed_when_nobody_reads_them(
    artifacts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = (publish(artifacts, services(each)) for each in ("aaaa", "aabb"))
    app = create_app(Settings(artifacts=str(artifacts)))

    def mapped(snapshot: str) -> bool:
        lines = Path("/proc/self/maps").read_text().splitlines()
        return any(f"{artifacts}/" in line and f"/{snapshot}/" in line for line in lines)

    async def ask() -> None:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://a.example") as client:
            response = await client.get("/v1/changes", params={"since": old, "to": new})
            assert response.status_code == 200

    asyncio.run(ask())
    third = publish(artifacts, services("c"), "--keep", "1")
    app.state.context.snapshots.poll()
    assert app.state.context.snapshots.opened.id == third
    assert mapped(old)
    monkeypatch.setattr("service.artifacts.open_cache.IDLE", 0.0)
    gc.disable()  # reference counting alone must close them
    try:
        app.state.context.snapshots.poll()
        assert not mapped(old)
        assert not mapped(new)
    finally:
        gc.enable()


def test_changes_are_listed_where_the_service_is_mounted(artifacts: Path, build: Build) -> None:
    assert build([service("a")]) == 0
    old = folder(artifacts).name
    assert build([service("b")]) == 0
    outer = Starlette(routes=[Mount("/shop", create_app(Settings(artifacts=str(artifacts))))])

    async def ask() -> None:
        transport = httpx.ASGITransport(outer)
        async with httpx.AsyncClient(transport=transport, base_url="http://a.example") as client:
            body = (await client.get("/shop/v1/changes", params={"since": old})).json()
            assert (body["total"], body["removed"]) == (2, ["a"])

    asyncio.run(ask())
