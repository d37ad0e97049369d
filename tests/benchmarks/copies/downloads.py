"""The cost of downloads: bytes of patches, seconds of a build, and searches beside ten clients."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote, urlsplit

import msgspec

from service.artifacts.downloads import DOWNLOADS, archive_name, read_download
from service.snapshot.manifest import read_manifest
from service.snapshot.publication import SNAPSHOTS, read_current
from tests.benchmarks.corpus import Document, make_documents, make_queries
from tests.benchmarks.indexing.builds import run
from tests.benchmarks.services import change_services, write_services
from tests.benchmarks.serving.load import Measurement, load, median
from tests.support.running import serve

SHARES = (0.0001, 0.001, 0.01, 0.1)
CLIENTS = 10
ROUNDS = 5
SECONDS = 4
QUERIES = 10_000
DEAREST = 8
"""Files that the table of patches lists."""
DOWNLOAD = """
import socket, sys, threading
host, port, path, count = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
def download():
    buffer = bytearray(1 << 20)
    while True:
        with socket.create_connection((host, port)) as connection:
            request = f"GET {path} HTTP/1.1\\r\\nHost: a.example\\r\\nConnection: close\\r\\n\\r\\n"
            connection.sendall(request.encode())
            while connection.recv_into(buffer):
                pass
threads = [threading.Thread(target=download) for _ in range(count)]
for thread in threads:
    thread.start()
"""


def bench_downloads(count: int) -> None:
    """Print what moves after shares of a catalogue changed, and latencies beside downloads."""
    documents = make_documents(count)
    with tempfile.TemporaryDirectory(prefix="ratecard-") as name:
        folder = Path(name)
        source, artifacts = folder / "services.jsonl", folder / "artifacts"
        write_services(source, documents)
        seconds = _build(source, artifacts)
        print(f"\n{count:,} services, archives from nothing in {seconds:.1f} s")
        print("                   make s  archive MB  moved MB  of the archive  dearest files")
        for share in SHARES:
            changed = folder / "changed.jsonl"
            change_services(source, changed, share, documents)
            _print_moved(artifacts, f"{100 * share:g} % changed", _build(changed, artifacts))
            run(["indexer", "rollback", str(artifacts)])
        _bench_searches(artifacts, documents, folder)


def _build(source: Path, artifacts: Path) -> float:
    """Build, and return the seconds that the downloads took."""
    output, _ = run(["indexer", "build", str(source), "--out", str(artifacts), "--json"])
    seconds: float = json.loads(output)["stages"]["make the downloads"]
    return seconds


def _print_moved(artifacts: Path, name: str, seconds: float) -> None:
    """Print the bytes that a replica fetches: patches, and the sections of new files."""
    snapshot_id = read_current(artifacts).id
    index = read_download(artifacts / DOWNLOADS / snapshot_id)
    files = read_manifest(artifacts / SNAPSHOTS / snapshot_id).files
    before = read_manifest(artifacts / SNAPSHOTS / index.base).files
    known = {file.sha256 for file in before.values()}
    moved = {
        path: sum(piece.bytes for piece in index.patches[path])
        if path in index.patches
        else sum(section.frame.bytes for section in index.sections[path])
        for path, file in files.items()
        if file.sha256 not in known
    }
    lists = len(msgspec.json.encode(index.patch_index) + msgspec.json.encode(index.section_index))
    whole, total = index.archives[archive_name(snapshot_id)].bytes, sum(moved.values()) + lists
    dearest = sorted(moved, key=lambda path: -moved[path])[:DEAREST]
    shown = ", ".join(f"{path} {moved[path] / 1e6:.1f}" for path in dearest)
    print(
        f"{name:18} {seconds:6.1f} {whole / 1e6:11.1f} {total / 1e6:9.1f} "
        f"{total / whole:15.3f}  {shown}"
    )


def _bench_searches(artifacts: Path, documents: list[Document], folder: Path) -> None:
    """Print latencies of different searches, alone and beside downloads, in turns."""
    queries = [each.words for each in make_queries(documents, QUERIES, seed=1)]
    targets = [f"/v1/search/services?endpoints=none&q={quote(query)}" for query in queries]
    path = f"/v1/snapshots/{archive_name(read_current(artifacts).id)}"
    alone: list[Measurement] = []
    beside: list[Measurement] = []
    with serve(artifacts, "--cache-bytes", "0") as client:
        address = str(client.base_url)
        host = urlsplit(address)
        arguments = [str(host.hostname), str(host.port), path, str(CLIENTS)]
        for _ in range(ROUNDS):
            alone.append(load(address, targets, SECONDS, folder))
            with subprocess.Popen([sys.executable, "-c", DOWNLOAD, *arguments]) as downloads:
                beside.append(load(address, targets, SECONDS, folder))
                downloads.kill()
    one, other = median(alone), median(beside)
    print(f"\nsearches beside {CLIENTS} downloads: a second  p50 ms  p99 ms")
    for name, each in (("alone", one), ("beside", other)):
        print(f"{name:30} {each.rate:8,.0f} {each.p50:7.2f} {each.p99:7.2f}")
    print(
        f"{'ratio':30} {other.rate / one.rate:8.2f} {other.p50 / one.p50:7.2f} "
        f"{other.p99 / one.p99:7.2f}"
    )
