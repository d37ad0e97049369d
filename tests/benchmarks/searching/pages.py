"""Time to assemble a page of stored records, compared with decoding and encoding it."""

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
from service.schema.records import Service
from service.snapshot.snapshot import Snapshot, open_snapshot
from tests.support.running import SEEDS

ROUNDS = 200
PAGE = 24


def bench_pages() -> None:
    """Print the median time of each method to make a page of 24 services, and its ratio to ours."""
    with tempfile.TemporaryDirectory() as artifacts:
        main(["build", str(SEEDS / "services.jsonl"), "--out", artifacts])
        snapshot = open_snapshot(Path(artifacts))
    texts = [snapshot.services.text(ordinal) for ordinal in range(PAGE)]
    decoder = msgspec.json.Decoder(Service)
    methods: dict[str, Callable[[], bytes]] = {
        "a slice of the store": lambda: slice_page(snapshot),
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
    medians = measure_medians(methods)
    ours = medians["a slice of the store"]
    for name, median in medians.items():
        print(f"{name:32} {median * 1e6:9.1f} µs {median / ours:8.1f} ×")


def slice_page(snapshot: Snapshot) -> bytes:
    """Assemble a page as the service does."""
    return b'{"services":[%b]}' % bytes(snapshot.services.slice(0, PAGE))


def measure_medians(methods: dict[str, Callable[[], bytes]]) -> dict[str, float]:
    """Return the median seconds of each method; interleave them, so that noise is shared."""
    times: dict[str, list[float]] = {name: [] for name in methods}
    for _ in range(ROUNDS):
        for name, method in methods.items():
            started = time.perf_counter()
            method()
            times[name].append(time.perf_counter() - started)
    return {name: statistics.median(seconds) for name, seconds in times.items()}
