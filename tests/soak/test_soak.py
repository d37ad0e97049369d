"""Reindexing under load: no failed request, no mix of snapshots in a response, no leak."""

from __future__ import annotations

import random
import re
import threading
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self

import httpx
import pytest

from tests.support.running import (
    SOAK,
    endpoint,
    eventually,
    open_client,
    payment,
    run_indexer,
    serve_process,
    service,
    write_lines,
)

BUILDS, WARM_UP_BUILDS = (50, 10) if SOAK else (3, 2)
"""The number of builds; memory and open files may not grow after those of the warm-up."""
MAX_GROWTH = 3 << 20
"""Bytes of private memory that the allocator may add after the warm-up."""
CLIENTS = 4 if SOAK else 2
SERVICES = 120
PATHS = (
    "/v1/services?limit=50",
    "/v1/services?limit=200&sort=price&facets=category",
    "/v1/services?endpoints=none",
    "/v1/search/services?q=harbour",
    "/v1/search/services?q=harbuor+weather&limit=100",
    "/v1/services/s7",
    "/v1/search/endpoints?q=harbour&maxPrice=1&sort=price&facets=service",
    "/endpoints?q=harbour",
    "/v1/ecosystem/overview",
    "/v1/ecosystem/transactions",
)
EDITION = re.compile(r"edition (\d+)!|\"total_transactions\":(\d+)|\"provider\":\"e(\d+)\"")


class Response(NamedTuple):
    """A response with the editions of the catalogue that its body mentions."""

    path: str
    snapshot: str
    editions: frozenset[int]


class Load:
    """Concurrent clients that send one request after another, each over a keep-alive connection."""

    def __init__(self, address: str) -> None:
        self.responses: list[Response] = []
        self.failures: list[str] = []
        self._address = address
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._request, args=(n,)) for n in range(CLIENTS)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def has_answers(self, snapshot: str) -> bool:
        """Return whether a snapshot has answered every path."""
        return {each.path for each in self.responses if each.snapshot == snapshot} == {*PATHS}

    def _request(self, seed: int) -> None:
        rng = random.Random(seed)  # noqa: S311  # the same load in every run
        with open_client(self._address) as client:
            while not self._stopped.is_set():
                path = rng.choice(PATHS)
                try:
                    response = client.get(path)
                    response.raise_for_status()
                    mentions = EDITION.findall(response.text)
                    editions = frozenset(int("".join(numbers)) for numbers in mentions)
                    snapshot = response.headers["ratecard-snapshot"]
                except (httpx.HTTPError, KeyError) as error:
                    self.failures.append(f"{path}: {error!r}")
                else:
                    self.responses.append(Response(path, snapshot, editions))


@pytest.mark.soak
def test_reindexing_under_load(tmp_path: Path) -> None:
    artifacts = tmp_path / "artifacts"
    editions = {publish(artifacts, 1): 1}
    memory = files = 0
    with serve_process(artifacts) as (client, process):
        with Load(str(client.base_url)) as load:
            for edition in range(2, BUILDS + 2):
                snapshot = publish(artifacts, edition)
                editions[snapshot] = edition
                eventually(partial(is_served, client, snapshot))
                if edition == WARM_UP_BUILDS + 1:
                    eventually(partial(load.has_answers, snapshot))
                    memory, files = private_memory(process.pid), open_files(process.pid)
            eventually(lambda: private_memory(process.pid) - memory < MAX_GROWTH)
        # Without the connections of the load, any of which may be closed at the count before.
        eventually(lambda: open_files(process.pid) <= files)
    assert load.failures == []
    assert len(load.responses) > 100 * CLIENTS
    mixed = [each for each in load.responses if each.editions != {editions[each.snapshot]}]
    assert mixed == []
    assert len({each.snapshot for each in load.responses}) > BUILDS // 2


def publish(artifacts: Path, edition: int) -> str:
    """Publish a catalogue that mentions its edition in every response; return the snapshot id."""
    records = [
        service(
            f"s{number}",
            name=f"Harbour {number}",
            description=f"The weather of harbours, edition {edition}!",
            category="Data" if number % 2 else "Media",
            endpoints=[
                endpoint(amount=f"0.{number + 1:03}") | {"description": f"edition {edition}!"}
            ],
        )
        for number in range(SERVICES)
    ]
    payments = [
        payment(tx_hash=f"0x{edition}-{number}", provider=f"e{edition}")
        for number in range(edition)
    ]
    folder = artifacts.parent
    source = write_lines(folder / "services.jsonl", records)
    transactions = write_lines(folder / "payments.jsonl", payments)
    process = run_indexer(
        "build", source, "--transactions", transactions, "--out", artifacts, "--quiet"
    )
    assert process.returncode == 0, process.stderr
    return (artifacts / "CURRENT").read_text().strip()


def is_served(client: httpx.Client, snapshot: str) -> bool:
    return bool(client.get("/healthz").headers["ratecard-snapshot"] == snapshot)


def private_memory(process: int) -> int:
    """Return the bytes of memory that are neither shared nor backed by a file."""
    rollup = Path(f"/proc/{process}/smaps_rollup").read_text()
    (kilobytes,) = re.findall(r"^Private_Dirty:\s+(\d+) kB$", rollup, re.MULTILINE)
    return int(kilobytes) << 10


def open_files(process: int) -> int:
    return len(list(Path(f"/proc/{process}/fd").iterdir()))
