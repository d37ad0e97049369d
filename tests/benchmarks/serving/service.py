"""Throughput and latency compared with bare ASGI applications and nginx."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import httpx
import msgspec

from indexer.build import build_snapshot
from indexer.catalogue_file import name_source
from indexer.options import BuildOptions
from tests.benchmarks.corpus import Document, make_documents, make_queries
from tests.benchmarks.services import write_services
from tests.benchmarks.serving.load import Measurement, load, median
from tests.benchmarks.serving.peers import RECORDED, Recorded
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


class Operation(NamedTuple):
    """An operation with its targets, and the file with its typical body for nginx.

    Bare servers send the bodies of all targets in turn if ours are `cached`, else the typical one.
    """

    name: str
    targets: list[str]
    cached: bool

    @property
    def file(self) -> str:
        """The path of the body on the other servers."""
        return f"/{self.name.replace(' ', '-')}.json"


def bench_serving(counts: Sequence[int]) -> None:
    """Print throughput, latency and ratios of each operation over catalogues of these sizes."""
    for count in counts:
        _bench(count)


def _bench(count: int) -> None:
    documents = make_documents(count)
    with tempfile.TemporaryDirectory(prefix="ratecard-") as name, ExitStack() as stack:
        folder = Path(name)
        source, artifacts = folder / "services.jsonl", folder / "artifacts"
        write_services(source, documents)
        build_snapshot(BuildOptions(sources=(name_source(str(source)),), out=artifacts))
        peer = "tests.benchmarks.serving.peers"
        ours = stack.enter_context(
            serve([sys.executable, "-m", "service", "--artifacts", str(artifacts)])
        )
        operations = plan(documents)
        bodies = folder / "bodies"
        bodies.mkdir()
        recorded: list[Recorded] = []
        for operation in operations:
            responses = record(ours, operation)
            recorded += responses
            typical = sorted(responses, key=lambda each: len(each.body))[len(responses) // 2]
            recorded.append(Recorded(operation.file, b"", typical.headers, typical.body))
            (bodies / operation.file[1:]).write_bytes(typical.body)
        (folder / RECORDED).write_bytes(msgspec.msgpack.encode(recorded))
        uvicorn = [sys.executable, "-m", "uvicorn", "--no-access-log", "--no-server-header"]
        bare = stack.enter_context(serve([*uvicorn, f"{peer}:constant"], folder))
        same = stack.enter_context(serve([*uvicorn, f"{peer}:same_headers"], folder))
        nginx = stack.enter_context(serve_files(folder)) if shutil.which("nginx") else ""
        print(f"\n{count:,} services, {artifacts_size(artifacts):,.0f} MB of artifacts")
        for operation in operations:
            report(operation, measure(operation, ours, (bare, same), nginx))


def plan(documents: list[Document]) -> list[Operation]:
    """Return the operations; uncached searches go through all queries before repeating one."""
    generated = make_queries(documents, QUERIES, seed=11)
    queries = [quote(words) for words in dict.fromkeys(query.words for query in generated) if words]
    search = "/v1/search/services"
    ids = [f"/v1/services/service-{number * 7919 % len(documents)}" for number in range(QUERIES)]
    return [
        Operation("get", ids, cached=True),
        Operation("list", ["/v1/services?limit=24"], cached=True),
        Operation("overview", ["/v1/ecosystem/overview"], cached=True),
        Operation("search cached", [f"{search}?q={quote(documents[0].description)}"], cached=True),
        Operation("search uncached", [f"{search}?q={query}" for query in queries], cached=False),
        Operation(
            "search none", [f"{search}?q={query}&endpoints=none" for query in queries], cached=False
        ),
    ]


def measure(
    operation: Operation, ours: str, bare: tuple[str, str], nginx: str
) -> dict[str, Measurement]:
    """Return the medians of several rounds over all servers."""
    constant = [operation.file] * min(2, len(operation.targets))
    servers = {
        "Ratecard": (ours, operation.targets),
        "bare, headers": (bare[1], operation.targets if operation.cached else constant),
        "bare ASGI": (bare[0], operation.targets if operation.cached else constant),
    }
    if nginx:
        servers["nginx, files"] = (nginx, constant)
    measurements: dict[str, list[Measurement]] = {name: [] for name in servers}
    for _ in range(ROUNDS):
        for name, (address, targets) in servers.items():
            measurements[name].append(load(address, targets, SECONDS))
    return {name: median(each) for name, each in measurements.items()}


def report(operation: Operation, measurements: dict[str, Measurement]) -> None:
    """Print a line for each server: `ratio` is our throughput over its own, `tail` p99 over p50."""
    print(f"\n{operation.name:16}  per second    ratio     p50 ms     p99 ms   tail      bytes")
    ours = measurements["Ratecard"]
    for name, each in measurements.items():
        print(
            f"{name:16} {each.rate:11,.0f} {ours.rate / each.rate:8.2f} {each.p50:10.2f} "
            f"{each.p99:10.2f} {each.p99 / each.p50:6.2f} {each.bytes:10,.0f}"
        )


def record(address: str, operation: Operation) -> list[Recorded]:
    """Return the responses to all targets, or to a sample of those that are not cached."""
    targets = list(dict.fromkeys(operation.targets))
    if not operation.cached:
        targets = targets[:: max(1, len(targets) // 99)]
    with httpx.Client(base_url=address, headers={"accept-encoding": "identity"}) as client:
        responses = [client.get(target).raise_for_status() for target in targets]
    return [
        Recorded(
            response.url.path,
            response.url.query,
            [pair for pair in response.headers.multi_items() if pair[0] != "date"],
            response.content,
        )
        for response in responses
    ]


def artifacts_size(artifacts: Path) -> float:
    """Return the size of all files in megabytes."""
    return sum(path.stat().st_size for path in artifacts.rglob("*") if path.is_file()) / 1e6


@contextmanager
def serve(command: list[str], folder: Path | None = None) -> Iterator[str]:
    """Run a server on a free port, and yield its address when it responds."""
    port = free_port()
    environment = os.environ | {"BENCH_FOLDER": str(folder)}
    with subprocess.Popen(
        [*command, "--port", str(port)],
        cwd=ROOT,
        env=environment,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield wait_for_server(port, process)
        finally:
            process.terminate()


@contextmanager
def serve_files(folder: Path) -> Iterator[str]:
    """Serve the bodies with nginx."""
    port = free_port()
    configuration = folder / "nginx.conf"
    configuration.write_text(NGINX.format(folder=folder, port=port))
    command = ["nginx", "-p", str(folder), "-c", str(configuration)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            yield wait_for_server(port, process)
        finally:
            process.terminate()


def free_port() -> int:
    """Return a port that is free at the moment."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def wait_for_server(port: int, process: subprocess.Popen[bytes]) -> str:
    """Wait until a server responds, and return its address."""
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
