"""The cost of copies: a build with downloads, and `fetch` beside `curl` and `tar`."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from pathlib import Path

from service.artifacts.downloads import names_of
from service.snapshot.publication import SNAPSHOTS, read_current
from tests.benchmarks.corpus import make_documents
from tests.benchmarks.indexing.builds import run
from tests.benchmarks.services import change_services, write_services
from tests.support.running import serve

CURL, TAR = "/usr/bin/curl", "/usr/bin/tar"
SHARE = 0.01
ROUNDS = 3


def bench_copies(count: int) -> None:
    """Print the seconds of a build with and without downloads, and of a copy by two programs."""
    documents = make_documents(count)
    with tempfile.TemporaryDirectory(prefix="ratecard-") as name:
        folder = Path(name)
        source, changed = folder / "services.jsonl", folder / "changed.jsonl"
        write_services(source, documents)
        change_services(source, changed, SHARE, documents)
        print(f"\n{count:,} services           from nothing s  {SHARE:.0%} changed s  peak MB")
        for label, options in (("without downloads", ["--no-downloads"]), ("with", [])):
            artifacts = folder / label
            first, _ = _build(source, artifacts, *options)
            second, peak = _build(changed, artifacts, *options)
            print(f"{label:28} {first:14.1f} {second:13.1f} {peak:8.0f}")
        _bench_fetch(folder / "with", folder)


def _build(source: Path, artifacts: Path, *options: str) -> tuple[float, float]:
    """Build, and return the seconds and the peak megabytes."""
    command = ["indexer", "build", str(source), "--out", str(artifacts), "--json", *options]
    output, peak = run(command)
    return json.loads(output)["seconds"], peak


def _bench_fetch(artifacts: Path, folder: Path) -> None:
    """Print the seconds of `fetch`, and of `curl` and `tar`, in turns."""
    snapshot_id = read_current(artifacts).id
    print("\na copy                    curl + tar s  fetch s  ratio  peak MB")
    with serve(artifacts) as client:
        for number in range(ROUNDS):
            target, copy = folder / f"curl-{number}" / SNAPSHOTS, folder / f"copy-{number}"
            target.mkdir(parents=True)
            started = time.monotonic()
            for name in names_of(snapshot_id):
                address = f"{client.base_url}/v1/snapshots/{name}"
                subprocess.run([CURL, "-sf", "-o", folder / name, address], check=True)
            archive = folder / names_of(snapshot_id)[0]
            subprocess.run([TAR, "--zstd", "-xf", archive, "-C", target], check=True)
            plain = time.monotonic() - started
            started = time.monotonic()
            command = ["service.fetch", str(client.base_url), "--artifacts", str(copy)]
            _, peak = run(command)
            fetched = time.monotonic() - started
            print(f"{'':24} {plain:13.2f} {fetched:8.2f} {fetched / plain:6.2f} {peak:8.0f}")
