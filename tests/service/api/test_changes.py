"""`/v1/changes` over HTTP: what changed from one snapshot to another, page by page."""

from __future__ import annotations

import asyncio
import gc
import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.routing import Mount

from indexer.__main__ import main
from indexer.snapshot.rollback import roll_back
from service.api.changes import parse_changes
from service.app import create_app
from service.errors import InvalidParameter, Overloaded
from service.http.responses import IMMUTABLE
from service.settings import Settings
from service.snapshot.changes import Changes
from service.snapshot_records import ChangeList
from tests.support.artifacts import current, flip_a_bit, folder
from tests.support.mirror import Mirror, parse_page, published_lines
from tests.support.running import Build, Json, eventually, serve, service

UNKNOWN = "0" * 20
_changes = msgspec.json.Decoder(ChangeList)


class History(NamedTuple):
    """A served history of snapshots, of which the first is no longer kept."""

    client: httpx.Client
    ids: list[str]
    artifacts: Path


def publish(artifacts: Path, records: list[Json], *options: str) -> str:
    """Publish services; returns the id of the snapshot."""
    artifacts.mkdir(exist_ok=True)
    source = artifacts.parent / "source.json"
    source.write_text(json.dumps(records))
    arguments = ["--out", str(artifacts), "--quiet", "--no-semantic", *options]
    assert main(["build", str(source), *arguments]) == 0
    return current(artifacts)


def services(versions: str) -> list[Json]:
    """Return a service for each letter but `-`: its place is the id, the letter its version."""
    return [
        service(f"s{place}", version=version, big=2**70)
        for place, version in enumerate(versions)
        if version != "-"
    ]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    artifacts = tmp_path_factory.mktemp("history") / "artifacts"
    listings = ("aaaaaa", "aaaaaa-a", "-abbaa-", "-bbb-aaaa")
    ids = [publish(artifacts, services(each)) for each in listings]
    with serve(artifacts) as client:
        yield History(client, ids, artifacts)


def error(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


def test_added_changed_and_removed_services_are_listed_in_order_of_id(history: History) -> None:
    _, old, _, new = history.ids
    response = history.client.get("/v1/changes", params={"since": old})
    body = response.json()
    assert list(body) == ["from", "to", "total", "added", "changed", "removed", "cursor"]
    assert (body["from"], body["to"], body["total"]) == (old, new, 7)
    assert [each["id"] for each in body["added"]] == ["s6", "s8"]
    assert [each["id"] for each in body["changed"]] == ["s1", "s2", "s3"]
    assert body["removed"] == ["s0", "s4"]
    assert body["cursor"] is None
    _changes.decode(response.content)


def test_services_are_listed_as_they_are_stored(history: History) -> None:
    old, new = history.ids[1], history.ids[3]
    page = parse_page(history.client.get("/v1/changes", params={"since": old}))
    lines = published_lines(history.artifacts, new)
    for text in map(bytes, (*page.added, *page.changed)):
        assert text == lines[json.loads(text)["id"]]
        assert b'"big":1180591620717411303424' in text


@pytest.mark.parametrize("limit", [1, 2, 3, 1000])
def test_between_any_two_kept_snapshots_a_copy_becomes_the_other(
    limit: int, history: History
) -> None:
    kept = history.ids[1:]
    lines = {each: published_lines(history.artifacts, each) for each in kept}
    for old in kept:
        for new in kept:
            mirror = Mirror(old, lines[old])
            mirror.follow(history.client, limit, new)
            assert mirror.text == Mirror(new, lines[new]).text


def test_from_a_snapshot_to_itself_nothing_changes(history: History) -> None:
    removed, *_, served = history.ids
    empty: Json = {"total": 0, "added": [], "changed": [], "removed": [], "cursor": None}
    for each in (removed, served):  # one that is no longer kept equals itself, too
        response = history.client.get("/v1/changes", params={"since": each, "to": each})
        assert response.json() == {"from": each, "to": each} | empty
    assert history.client.get("/v1/changes", params={"since": served}).json()["total"] == 0
    for params in ({"since": UNKNOWN, "to": UNKNOWN}, {"since": served, "to": UNKNOWN}):
        response = history.client.get("/v1/changes", params=params)
        assert error(response) == (404, "snapshot_not_found")


def test_a_snapshot_that_is_not_kept_is_gone_and_the_message_has_a_download(
    history: History,
) -> None:
    removed, kept, _, served = history.ids
    for params, instead in (
        ({"since": removed}, served),
        ({"since": removed, "to": kept}, kept),
        ({"since": kept, "to": removed}, served),
    ):
        response = history.client.get("/v1/changes", params=params)
        assert error(response) == (410, "snapshot_gone")
        assert response.headers["cache-control"] == "no-store"
        message = response.json()["error"]["message"]
        assert f"download /v1/snapshots/{instead}.jsonl.zst, then ask" in message


def test_an_unknown_snapshot_is_not_found(history: History) -> None:
    response = history.client.get("/v1/changes", params={"since": UNKNOWN})
    assert error(response) == (404, "snapshot_not_found")
    assert response.headers["ratecard-snapshot"] == history.ids[-1]


BAD_PARAMETERS: list[tuple[str, Json]] = [
    ("since", {}),
    ("since", {"since": ""}),
    ("since", {"since": UNKNOWN + "\n"}),
    ("since", {"since": UNKNOWN.replace("0", "A")}),
    ("since", {"since": "../../etc"}),
    ("since", {"since": "٠" * 20}),
    ("since", {"since": "a" * 5000}),
    ("since", {"since": [UNKNOWN, UNKNOWN]}),
    ("to", {"since": UNKNOWN, "to": "current"}),
    ("to", {"since": UNKNOWN, "to": ""}),
    ("limit", {"since": UNKNOWN, "limit": "0"}),
    ("limit", {"since": UNKNOWN, "limit": "-1"}),
    ("cursor", {"since": UNKNOWN, "cursor": ""}),
    ("cursor", {"since": UNKNOWN, "cursor": "1"}),
    ("cursor", {"since": UNKNOWN, "cursor": f"{UNKNOWN}.{UNKNOWN}.-1"}),
    ("cursor", {"since": UNKNOWN, "cursor": f"{UNKNOWN}.{UNKNOWN}.{'9' * 16}"}),
    ("cursor", {"since": UNKNOWN, "cursor": f"{UNKNOWN}.0123456789abcdef.1"}),
    ("cursor", {"since": UNKNOWN, "cursor": f"{'1' * 20}.{UNKNOWN}.1"}),
    ("cursor", {"since": UNKNOWN, "to": "1" * 20, "cursor": f"{UNKNOWN}.{UNKNOWN}.1"}),
    ("cursor", {"since": UNKNOWN, "cursor": [f"{UNKNOWN}.{UNKNOWN}.1"] * 2}),
]


@pytest.mark.parametrize(("name", "params"), BAD_PARAMETERS)
def test_an_invalid_parameter_is_named(name: str, params: Json, history: History) -> None:
    response = history.client.get("/v1/changes", params=params)
    assert error(response) == (400, "invalid_parameter")
    assert response.json()["error"]["parameter"] == name
    assert len(response.content) < 300


@given(
    st.dictionaries(
        st.sampled_from(["since", "to", "limit", "cursor"]),
        st.text() | st.from_regex(r"[0-9a-f.]{19,70}") | st.just(UNKNOWN),
    )
)
def test_any_parameters_are_parsed_or_refused(params: dict[str, str]) -> None:
    query = str(httpx.QueryParams(params)).encode()
    try:
        wanted = parse_changes(query)
    except InvalidParameter as invalid:
        assert str(invalid).startswith(invalid.parameter)  # noqa: PT017  # most are refused
    else:
        assert 1 <= wanted.limit <= 1000
        assert 0 <= wanted.start < 10**15


def test_a_place_past_the_end_is_an_empty_last_page(history: History) -> None:
    _, old, _, new = history.ids
    params = {"since": old, "cursor": f"{old}.{new}.{10**15 - 1}"}
    page = parse_page(history.client.get("/v1/changes", params=params))
    assert (page.total, page.added, page.changed, page.removed) == (7, [], [], [])
    assert page.cursor is None


def test_a_limit_over_1000_means_1000(artifacts: Path) -> None:
    old = publish(artifacts, [])
    publish(artifacts, [service(f"s{number}") for number in range(1101)])
    with serve(artifacts) as client:
        for limit, count in (("10000", 1000), ("", 100)):
            params = {"since": old} | ({"limit": limit} if limit else {})
            page = parse_page(client.get("/v1/changes", params=params))
            assert (len(page.added), page.total) == (count, 1101)
            assert page.cursor is not None


def test_a_page_of_large_services_ends_early(artifacts: Path) -> None:
    old = publish(artifacts, [])
    size = 3 * 2**20
    publish(artifacts, [service(f"s{n}", description="x" * size) for n in range(5)])
    with serve(artifacts) as client:
        sizes, params = [], {"since": old}
        while True:
            page = parse_page(client.get("/v1/changes", params=params))
            sizes.append(len(page.added))
            if page.cursor is None:
                break
            params["cursor"] = page.cursor
    assert sizes == [2, 2, 1]


def test_changes_between_named_snapshots_are_immutable(history: History) -> None:
    _, old, new, served = history.ids
    url = httpx.URL("/v1/changes", params={"since": old, "to": new, "limit": 2})
    for coding in ("identity", "gzip"):
        first, again = (
            history.client.get(url, headers={"accept-encoding": coding}) for _ in range(2)
        )
        assert first.headers["cache-control"] == again.headers["cache-control"] == IMMUTABLE
        assert first.headers.get_list("ratecard-snapshot") == [new]
        etag = first.headers["etag"]
        assert etag == again.headers["etag"]
        assert not etag.startswith("W/")
        assert served not in etag
        known = {"accept-encoding": coding, "if-none-match": etag}
        unmodified = history.client.get(url, headers=known)
        assert (unmodified.status_code, unmodified.content) == (304, b"")
        assert unmodified.headers["cache-control"] == IMMUTABLE
        assert unmodified.headers.get_list("ratecard-snapshot") == [new]
    head = history.client.head(url)
    assert (head.status_code, head.content) == (200, b"")
    other = history.client.get(url.copy_set_param("limit", "3"))
    assert other.headers["etag"] != etag


def test_changes_up_to_the_served_snapshot_are_cached_as_other_responses(history: History) -> None:
    _, old, _, served = history.ids
    response = history.client.get("/v1/changes", params={"since": old, "limit": 2})
    assert response.headers["cache-control"] == "public, max-age=60"
    assert response.headers.get_list("ratecard-snapshot") == [served]
    cursor = response.json()["cursor"]
    params = {"since": old, "limit": 2, "cursor": cursor}
    assert history.client.get("/v1/changes", params=params).headers["cache-control"] == IMMUTABLE


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
            assert f"{old}/records.json is not what was published" in response.text
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

    monkeypatch.setattr("service.snapshot.changes_cache.Changes", open_changes)

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
        "service.snapshot.changes_cache.check_files", lambda *_: begin.wait(30) and None
    )

    async def ask() -> None:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://a.example") as client:
            pairs = [(old, new) for old in ids for new in ids if old != new]
            urls = [f"/v1/changes?since={old}&to={new}" for old, new in pairs]
            requests = [asyncio.create_task(client.get(url)) for url in urls]
            refused = await requests[-1]
            assert error(refused) == (503, "overloaded")
            assert refused.headers["retry-after"] == "1"
            begin.set()
            statuses = [each.status_code for each in await asyncio.gather(*requests)]
            assert statuses == [200] * 8 + [503] * 4

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
                patch.setattr(app.state.load_shedder, "check", refuse)
                assert error(await client.get(url)) == (503, "overloaded")
                assert (await client.get(f"/v1/changes?since={new}")).status_code == 200
            assert (await client.get(url)).status_code == 200
            monkeypatch.setattr(app.state.load_shedder, "check", refuse)
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
    app.state.snapshots.poll()
    assert app.state.snapshots.opened.id == third
    assert mapped(old)
    monkeypatch.setattr("service.snapshot.changes_cache.IDLE", 0.0)
    gc.disable()  # reference counting alone must close them
    try:
        app.state.snapshots.poll()
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
