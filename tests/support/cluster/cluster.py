"""A cluster of OpenSearch nodes on this machine, each in a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.support.running import ROOT, eventually

HEAP = ("-Xms512m", "-Xmx1g")
START_SECONDS = 180.0
"""Seconds for nodes to start, of which an idle machine needs 12."""


def find_jars() -> Path | None:
    """Return the folder that `make cluster` filled, also where the tests run in build/wheel."""
    folders = (folder / "opensearch" for folder in (ROOT / "build", ROOT.parent))
    return next((folder for folder in folders if (folder / "installed").exists()), None)


def missing() -> str:
    """Return what is missing for a cluster; empty where one can be started."""
    return "" if find_jars() else "needs OpenSearch: run `make cluster`, which needs Maven"


class Cluster:
    """A running cluster; nodes are numbered from 0."""

    def __init__(self, folder: Path, nodes: int) -> None:
        ports = free_ports(2 * nodes)
        self._http, self._transport = ports[:nodes], ports[nodes:]
        self._folder = folder
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def urls(self) -> list[str]:
        """The addresses of all nodes."""
        return [f"http://127.0.0.1:{port}" for port in self._http]

    @property
    def url(self) -> str:
        """The addresses of all nodes, as the options take them."""
        return ",".join(self.urls)

    def start(self, node: int) -> None:
        """Start a node, or start it again."""
        names = ",".join(f"node{number}" for number in range(len(self._http)))
        addresses = ",".join(f"127.0.0.1:{port}" for port in self._transport)
        ports = (str(self._http[node]), str(self._transport[node]))
        jars = find_jars()
        assert jars is not None
        java = (jars / "java").read_text()
        command = [java, *HEAP, "-cp", f"{jars}:{jars}/*", "Node"]
        command += [str(self._folder / f"node{node}"), f"node{node}", *ports, names, addresses]
        with self._log(node).open("ab") as log:
            self._processes[node] = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, process_group=0
            )

    def kill(self, node: int) -> None:
        """Kill a node."""
        self._signal(node, signal.SIGKILL)
        process = self._processes[node]
        process.wait()
        assert process.stdin is not None
        process.stdin.close()

    def wait_for(self, nodes: int, status: str = "green") -> None:
        """Wait until so many nodes have joined, and all shards have this status."""

        def holds() -> bool:
            if len(self.running) < nodes:
                ended = [node for node in self._processes if node not in self.running]
                logs = [self._log(node).read_text()[-2000:] for node in ended]
                raise RuntimeError("nodes have ended:\n" + "\n".join(logs))
            health = self.health()
            return health.get("number_of_nodes") == nodes and health.get("status") == status

        eventually(holds, START_SECONDS)

    def health(self) -> dict[str, Any]:
        """Return the health of the cluster as the first node that answers has it."""
        for node in self.running:
            try:
                answer = httpx.get(f"{self.urls[node]}/_cluster/health?timeout=1s", timeout=5)
            except httpx.HTTPError:
                continue
            if answer.status_code == httpx.codes.OK:
                health: dict[str, Any] = answer.json()
                return health
        return {}

    @property
    def running(self) -> list[int]:
        """The nodes whose processes live."""
        return [node for node, process in self._processes.items() if process.poll() is None]

    def stop(self) -> None:
        """End all nodes."""
        for node in self.running:
            self.kill(node)

    def _signal(self, node: int, number: int) -> None:
        os.killpg(self._processes[node].pid, number)

    def _log(self, node: int) -> Path:
        return self._folder / f"node{node}.log"


@contextmanager
def run_cluster(nodes: int = 3) -> Iterator[Cluster]:
    """Run a cluster in a temporary folder; it is green when this returns."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="opensearch-"))
        cluster = Cluster(Path(folder), nodes)
        stack.callback(cluster.stop)
        for node in range(nodes):
            cluster.start(node)
        cluster.wait_for(nodes)
        yield cluster


def free_ports(count: int) -> list[int]:
    """Return ports that nothing listens on."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
