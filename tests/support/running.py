"""Run the two programs as a user does, and make records for them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "data"
SEEDS = ROOT / "seeds"
SOAK = bool(os.environ.get("RATECARD_SOAK"))

Json = dict[str, Any]
Build = Callable[..., int]
"""The type of the fixture `build`, which builds into `artifacts` and returns the exit status."""


def examples(count: int) -> int:
    """Return the number of examples of a property test: twenty times as many in `make soak`."""
    return count * 5 if SOAK else max(count // 4, 5)


def service(service_id: str | None = "one", **fields: Any) -> Json:
    """Return a minimal catalogue record, without an `id` if it is None."""
    record = {"name": "One", "description": "", "endpoints": [endpoint()]} | fields
    return record if service_id is None else {"id": service_id} | record


def endpoint(amount: str = "0.01", currency: str = "USDC", **pricing: Any) -> Json:
    """Return a minimal endpoint."""
    price = {"amount": amount, "currency": currency} | pricing
    return {"url": "https://api.one.example/v1", "method": "GET", "pricing": price}


def priced(*prices: str, **fields: Any) -> list[Json]:
    """Return a service with one endpoint for each price."""
    return [
        service(f"p{number:02}", endpoints=[endpoint(price)]) | fields
        for number, price in enumerate(prices)
    ]


def payment(**fields: Any) -> Json:
    """Return a payment of one cent in the shape of Transaction."""
    return {
        "tx_hash": "0x01",
        "block_timestamp": "2026-05-07T10:16:51.000Z",
        "sender": "0xa",
        "recipient": "0xb",
        "amount": 10_000,
        "decimals": 6,
        "chain": "base",
    } | fields


def write_lines(path: Path, records: Iterable[Any]) -> str:
    """Write JSON lines, and return the path."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


def write_raw(path: Path, record: Json) -> str:
    """Write a record without escaping non-ASCII characters, and return the path."""
    path.write_text(json.dumps(record, ensure_ascii=False))
    return str(path)


def run_indexer(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run `python -m indexer` and capture its output."""
    command = [sys.executable, "-m", "indexer", *map(str, arguments)]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120, **options
    )


@contextmanager
def serve(artifacts: Path, *arguments: str, cwd: Path = ROOT) -> Iterator[httpx.Client]:
    """Run `python -m service` on a free port, and yield a client."""
    with serve_process(artifacts, *arguments, cwd=cwd) as (client, _):
        yield client


@contextmanager
def serve_process(
    artifacts: Path, *arguments: str, cwd: Path = ROOT, **options: Any
) -> Iterator[tuple[httpx.Client, subprocess.Popen[str]]]:
    """Run `python -m service`, and yield a client and the process; stop the process at the end."""
    command = [sys.executable, "-m", "service", "--artifacts", str(artifacts), "--port", "0"]
    environment = {key: os.environ[key] for key in os.environ if not key.startswith("RATECARD_")}
    with subprocess.Popen(
        [*command, *arguments],
        cwd=cwd,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        **options,
    ) as process:
        try:
            with httpx.Client(base_url=wait_for_address(process), timeout=30) as client:
                yield client, process
        finally:
            process.terminate()


def eventually(holds: Callable[[], bool], seconds: float = 30) -> None:
    """Poll until a condition holds, and fail after some seconds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} seconds"
        time.sleep(0.02)


def wait_for_address(process: subprocess.Popen[str]) -> str:
    """Read the log until the service has started, and return its address."""
    stderr = process.stderr
    assert stderr is not None
    lines, address = [], ""
    for line in stderr:
        lines.append(line)
        if "Uvicorn running on" in line:
            address = line.partition("running on ")[2].split()[0]
        if address and any("startup complete" in earlier for earlier in lines):
            threading.Thread(target=stderr.read, daemon=True).start()
            return address
    raise AssertionError("the service did not start:\n" + "".join(lines))
