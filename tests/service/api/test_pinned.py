"""Requests that name a snapshot: the same answer again, or a refusal."""

from __future__ import annotations

import asyncio
import gc
import json
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from indexer.__main__ import main
from indexer.snapshot.rollback import roll_back
from service.app import create_app
from service.errors import SnapshotDamaged
from service.http.context import Context
from service.settings import Settings
from tests.support.artifacts import current, flip_a_bit, folder
from tests.support.running import PLAIN, service, write_lines
from tests.support.sources.x402 import resource

UNKNOWN = "0" * 20
PATHS = (
    "/v1/services?limit=2",
    "/v1/services?category=Data&facets=category&sort=name",
    "/v1/search/services?q=tides&explain=true",
    "/v1/services/search?q=tides",
    "/v1/search/endpoints?q=tides&facets=network",
    "/discovery/resources?limit=3",
    "/discovery/search?query=tides",
    "/discovery/merchant?payTo=0x0",
)


def publish(artifacts: Path, names: str, *options: str) -> str:
    """Publish a service and a resource for each name; returns the id of the snapshot."""
    records = [service(each, description=f"Tides {names}", category="Data") for each in names]
    artifacts.mkdir(exist_ok=True)
    catalogue = write_lines(artifacts.parent / "services.jsonl", records)
    feed = artifacts.parent / "feed.json"
    items = [resource(f"https://{each}.example/tides?{names}") for each in names]
    feed.write_text(json.dumps({"items": items}))
    arguments = ["build", catalogue, str(feed), "--out", str(artifacts), "--quiet", *PLAIN]
    assert main([*arguments, "--max-removed", "100%", *options]) == 0
    return current(artifacts)


def run(artifacts: Path, visit: Callable[[httpx.AsyncClient, Context], Awaitable[Any]]) -> Any:
    """Visit an application, and return what the visit returns."""
    app = create_app(Settings(artifacts=str(artifacts), max_lag=0))

    async def connect() -> Any:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://a.example") as client:
            return await visit(client, app.state.context)

    try:
        return asyncio.run(connect())
    finally:
        app.state.context.snapshots.stop()


async def answers(client: httpx.AsyncClient, snapshot: str = "") -> list[tuple[Any, ...]]:
    """Return what each path answers, of a snapshot where one is named."""
    pin = f"&snapshot={snapshot}" if snapshot else ""
    responses = [await client.get(f"{path}{pin}") for path in PATHS]
    assert all(each.status_code == 200 for each in responses)
    names = ("etag", "ratecard-snapshot", "content-type", "vary")
    return [(each.content, *map(each.headers.get, names)) for each in responses]


def mapped(artifacts: Path, snapshot: str) -> bool:
    lines = Path("/proc/self/maps").read_text().splitlines()
    return any(f"{artifacts}/" in line and f"/{snapshot}/" in line for line in lines)


def test_a_request_that_names_a_snapshot_has_the_answer_of_when_it_was_served(
    artifacts: Path, tmp_path: Path
) -> None:
    old = publish(artifacts, "ab")
    before = run(artifacts, lambda client, _: answers(client))
    assert publish(artifacts, "bcd") != old
    replica = shutil.copytree(artifacts, tmp_path / "replica")
    for each in (artifacts, replica):

        async def visit(client: httpx.AsyncClient, _: Context) -> None:
            assert await answers(client) != before
            assert await answers(client, old) == before

        run(each, visit)


def test_answers_of_a_named_snapshot_may_be_stored_for_an_hour_and_are_not_cached_here(
    artifacts: Path,
) -> None:
    old, new = publish(artifacts, "a"), publish(artifacts, "b")

    async def visit(client: httpx.AsyncClient, context: Context) -> None:
        for snapshot in (old, new) * 2:
            response = await client.get(f"/v1/services?snapshot={snapshot}")
            assert response.headers["cache-control"] == "public, max-age=3600"
            headers = {"if-none-match": response.headers["etag"]}
            again = await client.get(f"/v1/services?snapshot={snapshot}", headers=headers)
            assert (again.status_code, again.content) == (304, b"")
            assert again.headers["ratecard-snapshot"] == snapshot
        assert context.metrics.counts.cache_hits == 0
        assert b'"b"' in (await client.get("/v1/services")).content

    run(artifacts, visit)


@pytest.mark.parametrize(
    "path", ["/v1/services?", "/v1/search/services?q=a&", "/discovery/search?query=a&"]
)
def test_a_snapshot_that_was_never_served_is_404_and_no_cache_stores_that(
    path: str, artifacts: Path
) -> None:
    publish(artifacts, "a")

    async def visit(client: httpx.AsyncClient, _: Context) -> None:
        response = await client.get(f"{path}snapshot={UNKNOWN}")
        assert (response.status_code, response.headers["cache-control"]) == (404, "no-store")
        assert "see /v1/snapshots" in response.text
        response = await client.get(f"{path}snapshot=current")
        assert response.status_code == 400
        assert "20 hexadecimal digits" in response.text

    run(artifacts, visit)


def test_a_removed_or_withdrawn_snapshot_is_410_and_the_message_names_the_served_one(
    artifacts: Path,
) -> None:
    removed, kept = publish(artifacts, "a"), publish(artifacts, "b", "--keep", "1")
    withdrawn = publish(artifacts, "c")
    roll_back(artifacts)
    assert current(artifacts) == kept

    async def visit(client: httpx.AsyncClient, _: Context) -> None:
        for snapshot in (removed, withdrawn):
            response = await client.get(f"/v1/services?snapshot={snapshot}")
            assert (response.status_code, response.headers["cache-control"]) == (410, "no-store")
            assert response.json()["error"] == {
                "code": "snapshot_withdrawn",
                "message": f"the snapshot {snapshot} is no longer answered from; ask the served "
                f"one, {kept}, or leave `snapshot` out",
            }
        assert (await client.get(f"/v1/services?snapshot={kept}")).status_code == 200

    run(artifacts, visit)


@pytest.mark.parametrize("name", ["a", "nobody"])
def test_snapshots_from_before_a_denial_are_410(name: str, artifacts: Path) -> None:
    """A denial may take down what an older snapshot alone has."""
    denied = ("--deny", "host:denied.example")
    before, after = publish(artifacts, "ab", *denied), publish(artifacts, "abc", *denied)
    newest = publish(artifacts, "abcd", *denied, "--deny", f"id:{name}")

    async def visit(client: httpx.AsyncClient, _: Context) -> None:
        for snapshot, status in ((before, 410), (after, 410), (newest, 200)):
            response = await client.get(f"/v1/services?snapshot={snapshot}")
            assert response.status_code == status

    run(artifacts, visit)


def test_a_denial_that_is_lifted_or_explained_anew_withdraws_nothing(artifacts: Path) -> None:
    old = publish(artifacts, "a", "--deny", "id:x", "--deny", "host:y.example")
    publish(artifacts, "b", "--deny", "host:Y.example")

    async def visit(client: httpx.AsyncClient, _: Context) -> None:
        assert (await client.get(f"/v1/services?snapshot={old}")).status_code == 200

    run(artifacts, visit)


def test_one_snapshot_is_open_beside_the_served_one_and_closed_when_nobody_asks(
    artifacts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [publish(artifacts, each) for each in ("a", "ab", "abc")]

    async def visit(client: httpx.AsyncClient, context: Context) -> None:
        for old in (*ids[:2], *ids[:2]):
            responses = await asyncio.gather(
                *(client.get(f"/v1/services?snapshot={old}&limit={n + 1}") for n in range(9))
            )
            assert {each.headers["ratecard-snapshot"] for each in responses} == {old}
            assert [each for each in ids[:2] if mapped(artifacts, each)] == [old]
        monkeypatch.setattr("service.artifacts.open_cache.IDLE", 0.0)
        context.snapshots.poll()
        assert not any(mapped(artifacts, each) for each in ids[:2])
        assert mapped(artifacts, ids[2])

    gc.disable()  # reference counting alone must close them
    try:
        run(artifacts, visit)
    finally:
        gc.enable()


def test_requests_for_different_snapshots_at_once_are_all_answered(artifacts: Path) -> None:
    ids = [publish(artifacts, each) for each in ("a", "ab", "abc")]

    async def visit(client: httpx.AsyncClient, _: Context) -> None:
        target = "/v1/search/services?q=tides&snapshot="
        targets = [f"{target}{each}&x={number}" for number in range(4) for each in ids]
        responses = await asyncio.gather(*map(client.get, targets))
        for response, snapshot in zip(responses, ids * 4, strict=True):
            assert response.headers["ratecard-snapshot"] == snapshot
            assert response.json()["total"] == 2 * (ids.index(snapshot) + 1)

    run(artifacts, visit)


def test_a_damaged_snapshot_is_503_and_one_that_is_pruned_meanwhile_410(
    artifacts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = publish(artifacts, "a")
    damaged = folder(artifacts)
    publish(artifacts, "b")
    flip_a_bit(damaged / "records.json")

    async def visit(client: httpx.AsyncClient, _: Context) -> None:
        response = await client.get(f"/v1/services?snapshot={old}")
        assert (response.status_code, response.headers["cache-control"]) == (503, "no-store")
        assert str(artifacts) not in response.text

        def prune(_: Path) -> None:
            damaged.rename(artifacts / "pruned")
            raise SnapshotDamaged("records.json is missing")

        monkeypatch.setattr("service.artifacts.manager.verify", prune)
        assert (await client.get(f"/v1/services?snapshot={old}")).status_code == 410
        assert (await client.get("/v1/services")).status_code == 200

    run(artifacts, visit)


def test_cursors_are_of_the_snapshot_that_a_request_names(artifacts: Path) -> None:
    old, new = publish(artifacts, "abc"), publish(artifacts, "abcd")

    async def visit(client: httpx.AsyncClient, _: Context) -> None:
        target = "/discovery/search?query=tides&limit=1"
        first = (await client.get(f"{target}&snapshot={old}")).json()
        cursor = first["pagination"]["cursor"]
        assert cursor.startswith(old)
        second = await client.get(f"{target}&snapshot={old}&cursor={cursor}")
        assert second.json()["resources"] != first["resources"]
        for other in ("", f"&snapshot={new}"):
            refused = await client.get(f"{target}&cursor={cursor}{other}")
            assert (refused.status_code, "another snapshot" in refused.text) == (400, True)

    run(artifacts, visit)


def test_a_long_page_of_a_named_snapshot_has_its_whole_records(artifacts: Path) -> None:
    """A page above 1 MiB is sent from the map of the named snapshot."""
    padding = "x" * 2**19
    records = [service(each, padding=padding) for each in "abc"]
    artifacts.mkdir()
    source = write_lines(artifacts.parent / "large.jsonl", records)
    assert main(["build", source, "--out", str(artifacts), "--quiet", "--no-downloads"]) == 0
    old = current(artifacts)
    publish(artifacts, "b")

    async def visit(client: httpx.AsyncClient, _: Context) -> None:
        page = (await client.get(f"/v1/services?snapshot={old}")).json()
        assert [each["padding"] for each in page["services"]] == [padding] * 3

    run(artifacts, visit)
