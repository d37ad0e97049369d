"""Copies under load: publications, rollbacks and kills, and no failed or torn response."""

from __future__ import annotations

import hashlib
import os
import random
import re
import signal
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from indexer.cli.main import main
from service.artifacts.downloads import read_downloads
from service.fetch import main as fetch
from service.snapshot.manifest import hash_file, verify
from tests.support.artifacts import current, folder
from tests.support.running import (
    SOAK,
    Program,
    endpoint,
    eventually,
    forked,
    open_client,
    plain_environment,
    run_fork,
    serve_process,
    service,
    write_lines,
)

PUBLICATIONS, SERVICES = (50, 2000) if SOAK else (20, 200)
ROLLBACKS = 4
"""Each publication of this number is a rollback."""
CHANGED = 20
"""Services that change with each build; the edition stands in them alone."""
WITHIN = 60.0
"""Seconds for all copies to have a publication; at a look every 0.3 seconds it takes some two."""
KILLS = "kills.txt"
"""The file of the processes that were killed."""
PATHS = (
    f"/v1/services?limit={CHANGED}",
    "/v1/services?limit=50&sort=price&facets=category",
    "/v1/services?endpoints=none&offset=10",
    "/v1/search/services?q=harbour",
    "/v1/search/services?q=harbuor+weather&limit=100",
    "/v1/services/s007",
    "/v1/search/endpoints?q=harbour&maxPrice=1",
)
EDITION = re.compile(r"edition (\d+)!")


class Response(NamedTuple):
    """A response: the snapshot that it names, the editions in its body, and a hash of that."""

    path: str
    snapshot: str
    editions: frozenset[int]
    digest: str


class Load:
    """One client for each service, which asks over and over again."""

    def __init__(self) -> None:
        self.responses: list[Response] = []
        self.failures: list[str] = []

    @contextmanager
    def on(self, client: httpx.Client) -> Iterator[None]:
        """Ask a service while the body of a `with` statement runs."""
        stopped = threading.Event()
        thread = threading.Thread(target=self._request, args=(str(client.base_url), stopped))
        thread.start()
        try:
            yield
        finally:
            stopped.set()
            thread.join()

    def _request(self, address: str, stopped: threading.Event) -> None:
        chance = random.Random(address)  # noqa: S311
        with open_client(address) as client:
            while not stopped.is_set():
                path = chance.choice(PATHS)
                try:
                    response = client.get(path, headers={"Accept-Encoding": "identity"})
                    response.raise_for_status()
                except httpx.HTTPError as error:
                    self.failures.append(f"{path}: {error!r}")
                else:
                    self.responses.append(_describe(path, response))


def _describe(path: str, response: httpx.Response) -> Response:
    editions = frozenset(map(int, EDITION.findall(response.text)))
    digest = hashlib.sha256(response.content).hexdigest()
    return Response(path, response.headers["ratecard-snapshot"], editions, digest)


class Publisher:
    """Publishes editions of a catalogue, rolls back, and knows which snapshot has which."""

    def __init__(self, home: Path) -> None:
        self.artifacts = home / "origin"
        self.editions: dict[str, int] = {}

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
        self._run("build", source, "--out", self.artifacts, "--no-semantic", "--quiet")
        self.editions[current(self.artifacts)] = edition

    def roll_back(self) -> None:
        self._run("rollback", self.artifacts)

    def _run(self, *arguments: object) -> None:
        process = run_fork(main, *arguments)
        assert process.returncode == 0, process.stderr


@contextmanager
def fetching(url: str, artifacts: Path, program: Program = fetch) -> Iterator[None]:
    """Make a copy with `ratecard fetch --every` while the body of a `with` statement runs."""
    arguments = [url, "--every", "0.3", "--artifacts", str(artifacts)]
    nowhere = Path(os.devnull)
    with forked(program, arguments, (nowhere, nowhere), plain_environment()):
        yield


def fetch_and_die(arguments: list[str]) -> int:
    """Kill a fetching process at random instants, and start it again on what it left."""
    chance, end = random.Random(1), {signal.SIGTERM}  # noqa: S311
    signal.pthread_sigmask(signal.SIG_BLOCK, end)
    is_ended = False
    while not is_ended:
        child = os.fork()
        if not child:
            os._exit(fetch(arguments))
        is_ended = signal.sigtimedwait(end, chance.uniform(0.5, 3)) is not None
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with Path(arguments[-1]).with_name(KILLS).open("a") as file:
            file.write(f"{child}\n")
    return 0


def has(client: httpx.Client, snapshot: str) -> bool:
    return bool(client.get("/healthz").headers.get("ratecard-snapshot") == snapshot)


def start(stack: ExitStack, artifacts: Path) -> httpx.Client:
    """Serve a folder with two workers, once it has a snapshot."""
    eventually((artifacts / "CURRENT").exists, WITHIN)
    client, _ = stack.enter_context(serve_process(artifacts, "--workers", "2"))
    return client


@pytest.mark.soak
def test_copies_serve_only_what_was_published_while_builds_publish_and_fetches_are_killed(
    tmp_path: Path,
) -> None:
    publisher, load, calm, dying = Publisher(tmp_path), Load(), tmp_path / "a", tmp_path / "b"
    publisher.publish()
    with ExitStack() as stack:
        origin = start(stack, publisher.artifacts)
        url = str(origin.base_url)
        stack.enter_context(fetching(url, calm))
        with fetching(url, dying, fetch_and_die):
            clients = [origin, start(stack, calm), start(stack, dying)]
            for client in clients:
                stack.enter_context(load.on(client))
            for number in range(1, PUBLICATIONS):
                if number % ROLLBACKS:
                    publisher.publish()
                else:
                    publisher.roll_back()
        kills = (tmp_path / KILLS).read_text().splitlines()
        assert len(kills) > PUBLICATIONS / 10
        stack.enter_context(fetching(url, dying))
        last = current(publisher.artifacts)
        for client in clients:
            eventually(partial(has, client, last), WITHIN)
        offered = origin.get("/v1/snapshots/current").content
        for client, artifacts in zip(clients[1:], (calm, dying), strict=True):
            eventually(partial(is_answered, client, "/v1/snapshots/current", offered), WITHIN)
            for path in PATHS:
                assert client.get(path).content == origin.get(path).content
            check_files(artifacts, last)
    check(load, publisher)


def is_answered(client: httpx.Client, path: str, content: bytes) -> bool:
    return client.get(path).content == content


def check_files(artifacts: Path, snapshot: str) -> None:
    assert current(artifacts) == snapshot
    verify(folder(artifacts))
    files = read_downloads(artifacts, snapshot)
    assert len(files) == 3
    for file in files:
        assert hash_file(artifacts / "downloads" / file.path).sha256 == file.sha256


def check(load: Load, publisher: Publisher) -> None:
    assert load.failures == []
    assert len(load.responses) > (10_000 if SOAK else 1000)
    assert len({each.snapshot for each in load.responses}) > PUBLICATIONS / 4
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
