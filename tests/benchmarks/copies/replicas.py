"""Seconds and bytes until three replicas serve a publication, beside copying the folder."""

from __future__ import annotations

import shutil
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import httpx

from service.snapshot.manifest import read_manifest, verify
from tests.benchmarks.corpus import make_documents
from tests.benchmarks.indexing.builds import run
from tests.benchmarks.services import change_services, write_services
from tests.support.artifacts import current, folder
from tests.support.running import eventually, serve

REPLICAS = 3
SHARE = 0.01
INTERVAL = "1"
"""Seconds between two looks of a replica."""
PATIENCE = 600
"""Seconds after which a replica is taken for broken."""
FETCHED = "ratecard_following_fetched_bytes_total "


def bench_replicas(count: int) -> None:
    """Print what three replicas cost at the start, and after some services changed."""
    documents = make_documents(count)
    with tempfile.TemporaryDirectory(prefix="ratecard-") as name, ExitStack() as stack:
        home = Path(name)
        source, changed, artifacts = home / "one.jsonl", home / "two.jsonl", home / "artifacts"
        write_services(source, documents)
        change_services(source, changed, SHARE, documents)
        run(["indexer", "build", str(source), "--out", str(artifacts), "--quiet"])
        origin = str(stack.enter_context(serve(artifacts)).base_url)
        options = ("--follow", origin, "--follow-interval", INTERVAL)
        print(f"\n{f'{count:,} services, {REPLICAS} replicas':40} seconds   MB each   MB of copies")
        started = time.time()
        clients = [
            stack.enter_context(serve(home / f"replica{number}", *options))
            for number in range(REPLICAS)
        ]
        seconds = _wait(clients, current(artifacts)) - started
        before = _print("from nothing", seconds, clients, artifacts, 0)
        run(["indexer", "build", str(changed), "--out", str(artifacts), "--quiet"])
        published = (artifacts / "CURRENT").stat().st_mtime
        seconds = _wait(clients, current(artifacts)) - published
        _print(f"{SHARE:.0%} changed", seconds, clients, artifacts, before)
        _print_copy(folder(artifacts), home)


def _wait(clients: list[httpx.Client], snapshot: str) -> float:
    """Wait until all replicas serve a snapshot, and return the time."""
    for client in clients:
        eventually(partial(_serves, client, snapshot), PATIENCE)
    reached = time.time()
    for client in clients:
        eventually(partial(_has_said_so, client), PATIENCE)
    return reached


def _serves(client: httpx.Client, snapshot: str) -> bool:
    return bool(client.get("/healthz").headers.get("ratecard-snapshot") == snapshot)


def _has_said_so(client: httpx.Client) -> bool:
    return not client.get("/readyz").json()["following"]["seconds_behind"]


def _print(
    label: str, seconds: float, clients: list[httpx.Client], artifacts: Path, before: float
) -> float:
    """Print the seconds and the bytes fetched since `before`; return the bytes fetched so far."""
    lines = clients[0].get("/metrics").text.splitlines()
    (fetched,) = (float(line.split()[1]) for line in lines if line.startswith(FETCHED))
    size = sum(file.bytes for file in read_manifest(folder(artifacts)).files.values())
    print(f"{label:40} {seconds:7.1f} {(fetched - before) / 1e6:9.1f} {size / 1e6:14.1f}")
    return fetched


def _print_copy(snapshot: Path, home: Path) -> None:
    """Print the time to copy and verify a snapshot on one disk, for each replica in turn."""
    started = time.time()
    for number in range(REPLICAS):
        target = home / f"copy{number}" / snapshot.name
        shutil.copytree(snapshot, target)
        verify(target)
    size = sum(file.bytes for file in read_manifest(snapshot).files.values()) / 1e6
    print(f"{'copying the folder':40} {time.time() - started:7.1f} {size:9.1f} {size:14.1f}")
