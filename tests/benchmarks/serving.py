"""Serving beside bare ASGI applications, nginx and a naive implementation, in one run."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import quote

import httpx

from indexer.build import build_snapshot
from indexer.options import BuildOptions
from tests.benchmarks.corpus import Document, make_documents, make_queries
from tests.benchmarks.load import Measured, load, median
from tests.benchmarks.services import write_services
from tests.benchmarks.workers import bench_workers
from tests.benchmarks.writers import write_whoosh
from tests.support.running import ROOT

ROUNDS = 3
SECONDS = 2.0
QUERIES = 10_000
NGINX = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{}}
http {{
  access_log off; default_type application/json; keepalive_requests 10000000;
  open_file_cache max=100; tcp_nopush on; sendfile on;
  client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  server {{ listen 127.0.0.1:{port}; root {folder}/bodies; }}
}}
"""


class Operation:
    """What is asked of the service, and the file of its body for those that only send it."""

    def __init__(self, name: str, targets: list[str], *, naive: bool = False) -> None:
        self.name = name
        self.targets = targets
        self.naive = naive

    @property
    def file(self) -> str:
        """The path of the body at the peers."""
        return f"/{self.name.replace(' ', '-')}.json"


def bench_serving(count: int) -> None:
    """Print throughput, latency and ratios of each operation over a catalogue of `count`."""
    documents = make_documents(count)
    with tempfile.TemporaryDirectory(prefix="ratecard-") as name, ExitStack() as running:
        folder = Path(name)
        source, artifacts = folder / "services.jsonl", folder / "artifacts"
        write_services(source, documents)
        build_snapshot(BuildOptions(sources=(str(source),), out=artifacts))
        (folder / "whoosh").mkdir()
        write_whoosh(documents, folder / "whoosh")
        peer = "tests.benchmarks.serving_peers"
        ours = running.enter_context(
            serve([sys.executable, "-m", "service", "--artifacts", str(artifacts)])
        )
        operations = plan(documents)
        bodies = folder / "bodies"
        bodies.mkdir()
        for operation in operations:
            response = typical_response(ours, operation)
            body = bodies / operation.file[1:]
            body.write_bytes(response.content)
            headers = [pair for pair in response.headers.multi_items() if pair[0] != "date"]
            body.with_suffix(".headers").write_text(json.dumps(headers))
        uvicorn = [sys.executable, "-m", "uvicorn", "--no-access-log", "--no-server-header"]
        bare = running.enter_context(serve([*uvicorn, f"{peer}:constant"], bodies))
        same = running.enter_context(serve([*uvicorn, f"{peer}:same_headers"], bodies))
        naive = running.enter_context(serve([*uvicorn, f"{peer}:naive"], folder))
        nginx = running.enter_context(serve_files(folder)) if shutil.which("nginx") else ""
        print(f"\n{count:,} services, {artifacts_size(artifacts):,.0f} MB of artifacts")
        for operation in operations:
            report(operation, measure(operation, ours, (bare, same), naive, nginx, folder))
        command = [sys.executable, "-m", "service", "--artifacts", str(artifacts)]
        two = running.enter_context(serve([*command, "--workers", "2"]))
        report_gain([each for each in operations if each.naive], ours, two, folder)
        bench_workers(artifacts)


def plan(documents: list[Document]) -> list[Operation]:
    """The operations; each query of the uncached searches is asked once before any comes again."""
    asked = make_queries(documents, QUERIES, seed=11)
    queries = [quote(words) for words in dict.fromkeys(query.words for query in asked) if words]
    search = "/v1/search/services"
    ids = [f"/v1/services/service-{number * 7919 % len(documents)}" for number in range(QUERIES)]
    return [
        Operation("get", ids, naive=True),
        Operation("list", ["/v1/services?limit=24"], naive=True),
        Operation("overview", ["/v1/ecosystem/overview"]),
        Operation("search cached", [f"{search}?q=weather+forecast"]),
        Operation("search uncached", [f"{search}?q={query}" for query in queries], naive=True),
        Operation("search none", [f"{search}?q={query}&endpoints=none" for query in queries]),
    ]


def measure(
    operation: Operation, ours: str, bare: tuple[str, str], naive: str, nginx: str, folder: Path
) -> dict[str, Measured]:
    """Return the median of some rounds in which the servers take turns."""
    constant = [operation.file] * min(2, len(operation.targets))
    servers = {
        "Ratecard": (ours, operation.targets),
        "bare, headers": (bare[1], constant),
        "bare ASGI": (bare[0], constant),
    }
    if nginx:
        servers["nginx, files"] = (nginx, constant)
    if operation.naive:
        servers["naive"] = (naive, operation.targets)
    measured: dict[str, list[Measured]] = {name: [] for name in servers}
    for _ in range(ROUNDS):
        for name, (address, targets) in servers.items():
            measured[name].append(load(address, targets, SECONDS, folder))
    return {name: median(each) for name, each in measured.items()}


def report(operation: Operation, measured: dict[str, Measured]) -> None:
    """Print a line for each server; `ratio` is ours to its throughput, `tail` p99 over p50."""
    print(f"\n{operation.name:16}  per second    ratio     p50 ms     p99 ms   tail      bytes")
    ours = measured["Ratecard"]
    for name, each in measured.items():
        print(
            f"{name:16} {each.rate:11,.0f} {ours.rate / each.rate:8.2f} {each.p50:10.2f} "
            f"{each.p99:10.2f} {each.p99 / each.p50:6.2f} {each.bytes:10,.0f}"
        )


def report_gain(operations: list[Operation], one: str, two: str, folder: Path) -> None:
    """Print what two workers answer beside one, where the client takes of the same cores."""
    print(f"\ntwo workers beside one, {os.cpu_count()} cores with the client:")
    for operation in operations:
        turns = [
            [load(address, operation.targets, SECONDS, folder) for address in (one, two)]
            for _ in range(ROUNDS)
        ]
        alone, together = (median(list(each)) for each in zip(*turns, strict=True))
        print(
            f"{operation.name:16} {alone.rate:11,.0f} → {together.rate:,.0f} a second, "
            f"{together.rate / alone.rate:.2f} ×"
        )


def typical_response(address: str, operation: Operation) -> httpx.Response:
    """Return a response of median size of those that the service sends."""
    with httpx.Client(base_url=address, headers={"accept-encoding": "identity"}) as client:
        targets = operation.targets[: len(operation.targets) : max(1, len(operation.targets) // 99)]
        responses = [client.get(target).raise_for_status() for target in targets]
    return sorted(responses, key=lambda response: len(response.content))[len(responses) // 2]


def artifacts_size(artifacts: Path) -> float:
    """Megabytes."""
    return sum(path.stat().st_size for path in artifacts.rglob("*") if path.is_file()) / 1e6


@contextmanager
def serve(command: list[str], folder: Path | None = None) -> Iterator[str]:
    """Run a server on a free port; yields its address once it accepts connections."""
    port = free_port()
    environment = os.environ | {"BENCH_FOLDER": str(folder)}
    with subprocess.Popen(
        [*command, "--port", str(port)],
        cwd=ROOT,
        env=environment,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield accepting(port, process)
        finally:
            process.terminate()


@contextmanager
def serve_files(folder: Path) -> Iterator[str]:
    """Run nginx over the bodies."""
    port = free_port()
    configuration = folder / "nginx.conf"
    configuration.write_text(NGINX.format(folder=folder, port=port))
    command = ["nginx", "-p", str(folder), "-c", str(configuration)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            yield accepting(port, process)
        finally:
            process.terminate()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def accepting(port: int, process: subprocess.Popen[bytes]) -> str:
    """Wait until a server answers; returns its address."""
    address = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        try:
            httpx.get(f"{address}/healthz")
        except httpx.TransportError:
            time.sleep(0.05)
        else:
            return address
    raise SystemExit(f"the server of {process.args!r} did not start")
