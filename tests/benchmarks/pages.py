"""What a page costs, beside peers that decode and encode it."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import orjson

from indexer.__main__ import main
from service.records import Service
from service.snapshot.snapshot import Snapshot, open_snapshot
from tests.support.running import SEEDS

ROUNDS = 200
PAGE = 24


def bench_pages() -> None:
    """Print the median time of each way to make a page of 24 services, and its ratio to ours."""
    with tempfile.TemporaryDirectory() as artifacts:
        main(["build", str(SEEDS / "services.jsonl"), "--out", artifacts])
        snapshot = open_snapshot(Path(artifacts))
    texts = [snapshot.services.text(ordinal) for ordinal in range(PAGE)]
    decoder = msgspec.json.Decoder(Service)
    ways: dict[str, Callable[[], bytes]] = {
        "a slice of the store": lambda: spliced(snapshot),
        "msgspec decode, msgspec encode": lambda: msgspec.json.encode(
            {"services": [decoder.decode(text) for text in texts]}
        ),
        "orjson loads, orjson dumps": lambda: orjson.dumps(
            {"services": [orjson.loads(text) for text in texts]}
        ),
        "json loads, json dumps": lambda: json.dumps(
            {"services": [json.loads(text) for text in texts]}
        ).encode(),
    }
    medians = in_turn(ways)
    ours = medians["a slice of the store"]
    for name, median in medians.items():
        print(f"{name:32} {median * 1e6:9.1f} µs {median / ours:8.1f} ×")


def spliced(snapshot: Snapshot) -> bytes:
    """A page as the service makes it."""
    return b'{"services":[%b]}' % bytes(snapshot.services.slice(0, PAGE))


def in_turn(ways: dict[str, Callable[[], bytes]]) -> dict[str, float]:
    """Median seconds of each way, the ways taking turns so that noise meets all alike."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            started = time.perf_counter()
            way()
            times[name].append(time.perf_counter() - started)
    return {name: statistics.median(taken) for name, taken in times.items()}
