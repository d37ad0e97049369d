"""Replicas under load: publications, kills and faults, and no failed or torn response."""

from __future__ import annotations

import hashlib
import os
import random
import re
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self

import httpx
import pytest

from indexer.cli.main import main
from service.snapshot.manifest import verify
from tests.support.artifacts import current, folder
from tests.support.running import (
    SOAK,
    endpoint,
    eventually,
    open_client,
    run_fork,
    serve,
    serve_process,
    service,
    write_lines,
)
from tests.support.stores.faults import NONE, random_plan, run_fault_proxy
from tests.support.stores.object_store import ObjectStore
from tests.support.stores.origins import OriginServer, cutting_proxy, serve_origin

BUILDS, SERVICES = (20, 2000) if SOAK else (4, 200)
CHANGED = 20
"""Services that change with each publication; the edition stands in them alone."""
WITHIN = 60.0
"""Seconds for all replicas to have a publication; at a poll of one second it takes some two."""
INTERVAL = ("--follow-interval", "1")
PATHS = (
    f"/v1/services?limit={CHANGED}",
    "/v1/services?limit=50&sort=price&facets=category",
    "/v1/services?endpoints=none&offset=10",
    "/v1/search/services?q=harbour",
    "/v1/search/services?q=harbuor+weather&limit=100",
    "/v1/services/s007",
    "/v1/search/endpoints?q=harbour&maxPrice=1",
)
FETCHED = "ratecard_following_fetched_bytes_total "
REPEATED = "test_faults.py has their faults, and those of another Ratecard run shortened"
EDITION = re.compile(r"edition (\d+)!")


class Response(NamedTuple):
    """A response: the snapshot that it names, the editions in its body, and a hash of that."""

    path: str
    snapshot: str
    editions: frozenset[int]
    digest: str


class Load:
    """One client for each replica, which asks over and over again."""

    def __init__(self) -> None:
        self.responses: list[Response] = []
        self.failures: list[str] = []
        self._stopped = threading.Event()

    @contextmanager
    def on(self, client: httpx.Client, *, is_killed: bool = False) -> Iterator[Self]:
        """Ask a replica while the body of a `with` statement runs; a killed one may not answer."""
        stopped = threading.Event()
        arguments = (str(client.base_url), stopped, is_killed)
        thread = threading.Thread(target=self._request, args=arguments)
        thread.start()
        try:
            yield self
        finally:
            stopped.set()
            thread.join()

    def _request(self, address: str, stopped: threading.Event, is_killed: bool) -> None:
        chance = random.Random(address)  # noqa: S311
        with open_client(address) as client:
            while not stopped.is_set():
                path = chance.choice(PATHS)
                try:
                    response = client.get(path, headers={"Accept-Encoding": "identity"})
                    response.raise_for_status()
                except httpx.TransportError as error:
                    if not is_killed:
                        self.failures.append(f"{path}: {error!r}")
                except httpx.HTTPError as error:
                    self.failures.append(f"{path}: {error!r}")
                else:
                    self.responses.append(_describe(path, response))


def _describe(path: str, response: httpx.Response) -> Response:
    editions = frozenset(map(int, EDITION.findall(response.text)))
    digest = hashlib.sha256(response.content).hexdigest()
    return Response(path, response.headers["ratecard-snapshot"], editions, digest)


class Publisher:
    """Publishes editions of a catalogue, and knows which snapshot has which."""

    def __init__(self, home: Path) -> None:
        self.artifacts = home / "indexer"
        self.editions: dict[str, int] = {}
        self.options: tuple[str, ...] = ()
        self.environment: dict[str, str] = {}

    @property
    def last(self) -> str:
        return current(self.artifacts)

    def publish(self) -> None:
        edition = len(self.editions) + 1
        records = [
            service(
                f"s{number:03}",
                name=f"Harbour {number}",
                description=f"The weather, edition {edition if number < CHANGED else 0}!",
                enriched=number < CHANGED,
                category="Data" if number % 2 else "Media",
                endpoints=[endpoint(amount=f"0.{number + 1:04}")],
            )
            for number in range(SERVICES)
        ]
        source = write_lines(self.artifacts.parent / "services.jsonl", records)
        options = ("--out", self.artifacts, "--quiet", *self.options)
        process = run_fork(main, "build", source, *options, environ=os.environ | self.environment)
        assert process.returncode == 0, process.stderr
        self.editions[self.last] = edition


@pytest.fixture
def publisher(tmp_path: Path) -> Publisher:
    return Publisher(tmp_path)


def follow(stack: ExitStack, artifacts: Path, url: str, *options: str) -> httpx.Client:
    """Start a replica, and wait until it serves something."""
    options = ("--follow", url, *INTERVAL, *options)
    client, _ = stack.enter_context(serve_process(artifacts, *options))
    eventually(lambda: client.get("/readyz").status_code == 200, WITHIN)
    return client


def has(client: httpx.Client, snapshot: str) -> bool:
    return bool(client.get("/healthz").headers.get("ratecard-snapshot") == snapshot)


def kill_and_start(artifacts: Path, url: str, load: Load, stopped: threading.Event) -> None:
    """Kill a replica at random instants, and start it again on the folder that it left."""
    chance = random.Random(1)  # noqa: S311
    while not stopped.is_set():
        with serve_process(artifacts, "--follow", url, *INTERVAL) as (client, process):
            eventually(lambda: client.get("/readyz").status_code == 200, WITHIN)
            with load.on(client, is_killed=True):
                stopped.wait(chance.uniform(0, 2))
                process.kill()


def run_replicas(tmp_path: Path, url: str, publisher: Publisher, calm: Callable[[], None]) -> None:
    """Publish under load to three replicas, of which one is killed; `calm` ends the faults."""
    load, stopped, killed = Load(), threading.Event(), tmp_path / "killed"
    with ExitStack() as stack:
        clients = [follow(stack, tmp_path / f"replica{n}", url) for n in range(2)]
        for client in clients:
            stack.enter_context(load.on(client))
        killer = threading.Thread(target=kill_and_start, args=(killed, url, load, stopped))
        killer.start()
        try:
            for _ in range(BUILDS - 1):
                publisher.publish()
        finally:
            stopped.set()
            killer.join()
        calm()
        clients.append(follow(stack, killed, url))
        stack.enter_context(load.on(clients[-1]))
        for client in clients:
            eventually(partial(has, client, publisher.last), WITHIN)
            eventually(partial(is_followed, client), WITHIN)
        publisher.publish()
        published = time.monotonic()
        for client in clients:
            eventually(partial(has, client, publisher.last), WITHIN)
        print(f"all replicas after {time.monotonic() - published:.1f} s")  # noqa: T201
        eventually(lambda: {r.snapshot for r in load.responses[-20:]} == {publisher.last}, WITHIN)
    check(load, publisher)
    for artifacts in (tmp_path / "replica0", tmp_path / "replica1", killed):
        verify(folder(artifacts))


def is_followed(client: httpx.Client) -> bool:
    following = client.get("/readyz").json()["following"]
    return "error" not in following and not following["seconds_behind"]


def check(load: Load, publisher: Publisher) -> None:
    assert load.failures == []
    assert len(load.responses) > 100
    torn = [
        each
        for each in load.responses
        if each.editions - {0, publisher.editions.get(each.snapshot, -1)}
    ]
    assert torn == []
    bodies: dict[tuple[str, str], set[str]] = defaultdict(set)
    for each in load.responses:
        bodies[each.path, each.snapshot].add(each.digest)
    assert [key for key, digests in bodies.items() if len(digests) > 1] == []
    assert {each.snapshot for each in load.responses} <= publisher.editions.keys()


@pytest.mark.soak
@pytest.mark.skipif(not SOAK, reason=REPEATED)
def test_replicas_of_a_store_that_fails_serve_only_what_was_published(
    tmp_path: Path, publisher: Publisher
) -> None:
    bucket = tmp_path / "bucket"
    publisher.options = ("--publish", bucket.as_uri())
    publisher.publish()
    with serve_origin(bucket) as origin:
        make_faults(origin)
        run_replicas(tmp_path, origin.url, publisher, partial(end_faults, origin))


@pytest.mark.soak
@pytest.mark.skipif(not SOAK, reason=REPEATED)
def test_replicas_of_a_bucket_that_fails_serve_only_what_was_published(
    tmp_path: Path,
    publisher: Publisher,
    object_store: ObjectStore,
    bucket: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    publisher.options, publisher.environment = ("--publish", bucket), object_store.environment
    publisher.publish()
    with run_fault_proxy(object_store.endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        proxy.plan = random_plan(4, 0.1)
        calm = partial(setattr, proxy, "plan", lambda *_: NONE)
        run_replicas(tmp_path, bucket, publisher, calm)


def make_faults(origin: OriginServer) -> None:
    """Answer some requests with 500, cut others, and spoil a few bodies."""
    chance = random.Random(2)  # noqa: S311

    def spoil(_: str, body: bytes) -> bytes:
        if not body or chance.random() > 0.01:
            return body
        place = chance.randrange(len(body))
        return body[:place] + bytes((body[place] ^ 1,)) + body[place + 1 :]

    origin.answer_with = lambda _: 500 if chance.random() < 0.05 else None
    origin.cut = lambda _: chance.randrange(1, 100_000) if chance.random() < 0.1 else None
    origin.spoil = spoil


def end_faults(origin: OriginServer) -> None:
    origin.answer_with, origin.cut = lambda _: None, lambda _: None
    origin.spoil = lambda _, body: body


@pytest.mark.soak
def test_replicas_of_another_ratecard_serve_only_what_was_published(
    tmp_path: Path, publisher: Publisher
) -> None:
    publisher.options = ("--no-semantic",)
    publisher.publish()
    chance, limits = random.Random(3), {"cut": 0.3}  # noqa: S311

    def limit() -> int | None:
        return chance.randrange(1000, 500_000) if chance.random() < limits["cut"] else None

    def calm() -> None:
        limits["cut"] = 0

    with serve(publisher.artifacts) as origin:
        port = httpx.URL(str(origin.base_url)).port
        assert port
        with cutting_proxy(port, limit) as url:
            run_replicas(tmp_path, url, publisher, calm)


def test_a_replica_of_a_bucket_fetches_what_changed(
    tmp_path: Path, publisher: Publisher, object_store: ObjectStore, bucket: str
) -> None:
    with ExitStack() as stack:
        publisher.options = ("--publish", bucket)
        publisher.publish()
        client = follow(stack, tmp_path / "replica", bucket)
        whole = fetched(client)
        publisher.publish()
        eventually(partial(has, client, publisher.last), WITHIN)
        eventually(partial(is_followed, client), WITHIN)
        assert fetched(client) - whole < whole / 10
        state = (tmp_path / "replica" / "following.json").read_text()
        assert object_store.secret_key not in state
    verify(folder(tmp_path / "replica"))


def fetched(client: httpx.Client) -> float:
    lines = client.get("/metrics").text.splitlines()
    (value,) = (line.split()[1] for line in lines if line.startswith(FETCHED))
    return float(value)


def test_a_replica_of_a_replica_fetches_what_changed(tmp_path: Path, publisher: Publisher) -> None:
    publisher.publish()
    with ExitStack() as stack:
        origin = stack.enter_context(serve(publisher.artifacts))
        first = follow(stack, tmp_path / "first", str(origin.base_url))
        second = follow(stack, tmp_path / "second", str(first.base_url), "--workers", "2")
        whole = fetched(second)
        publisher.publish()
        eventually(partial(has, second, publisher.last), WITHIN)
        eventually(partial(is_followed, second), WITHIN)
        assert fetched(second) - whole < whole / 10


def test_the_follower_is_started_again_and_ends_with_the_service(
    tmp_path: Path, publisher: Publisher
) -> None:
    bucket = tmp_path / "bucket"
    publisher.options = ("--publish", bucket.as_uri())
    publisher.publish()
    options = ("--follow", bucket.as_uri(), *INTERVAL)
    with serve_process(tmp_path / "replica", *options) as (client, process):
        eventually(lambda: client.get("/readyz").status_code == 200, WITHIN)
        (first,) = followers(process.pid)
        os.kill(first, signal.SIGKILL)
        eventually(lambda: followers(process.pid) not in ([], [first]), WITHIN)
        (second,) = followers(process.pid)
        process.kill()
        eventually(lambda: not is_running(second), WITHIN)


def followers(service: int) -> list[int]:
    """Return the followers that a service has started."""
    children = Path(f"/proc/{service}/task").glob("*/children")
    ids = [int(each) for path in children for each in path.read_text().split()]
    return [each for each in ids if is_running(each)]


def is_running(process: int) -> bool:
    try:
        return "service.replicas" in Path(f"/proc/{process}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
