"""Times of searches over services with endpoints, beside Tantivy over the same documents."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from indexer.build import build_snapshot
from indexer.catalogue_file import name_source
from indexer.options import BuildOptions
from service.search.config import SEARCH_CONFIG
from service.snapshot.snapshot import open_snapshot
from tests.benchmarks.corpus import Document, make_documents
from tests.benchmarks.searching.peers import write_tantivy
from tests.benchmarks.searching.report import report
from tests.benchmarks.searching.services import TANTIVY
from tests.benchmarks.searching.worker import Engine, make_workload, measure_in_turns

ENDPOINTS = 5
FIELDS = {
    "title": "title",
    "description": "description",
    "service_name": "service_name",
    "service_description": "service_description",
    "category": "service_category",
}
"""Fields of Tantivy, and those of the index whose weights they have."""
BOOSTS = {name: SEARCH_CONFIG.field_weights[field] for name, field in FIELDS.items()}


def bench_endpoints(count: int) -> None:
    """Print times of searches for endpoints and for services, ENDPOINTS of each of `count`."""
    documents = make_documents(count)
    workload = make_workload(documents)
    with tempfile.TemporaryDirectory(prefix="ratecard-") as name:
        folder = Path(name)
        source, artifacts = folder / "services.jsonl", folder / "artifacts"
        write_services(documents, source)
        build = build_snapshot(
            BuildOptions(sources=(name_source(str(source)),), out=artifacts, downloads=False)
        )
        write_tantivy(_texts(documents), BOOSTS, folder / TANTIVY)
        started = time.perf_counter()
        snapshot = open_snapshot(artifacts)
        opened = time.perf_counter() - started
        print(
            f"\n{count:,} services with {count * ENDPOINTS:,} endpoints: built in "
            f"{build.seconds:.0f} s, opened in {opened:.3f} s, {_describe_bytes(snapshot.folder)}"
        )
        engines = {
            "endpoints": Engine("endpoints", artifacts),
            "services": Engine("services", artifacts),
            "services, facets": Engine("services with facets", artifacts),
            TANTIVY: Engine(TANTIVY, folder / TANTIVY),
        }
        times = measure_in_turns(engines, workload)
    report("searches over endpoints", times, workload.measured, (TANTIVY,))


def _describe_bytes(snapshot: Path) -> str:
    """Return the megabytes of the index and the vectors of a snapshot."""
    sizes = {name: (snapshot / f"{name}.arrays").stat().st_size for name in ("index", "vectors")}
    return ", ".join(f"{name} {size / 1e6:.0f} MB" for name, size in sizes.items())


def write_services(documents: list[Document], source: Path) -> None:
    """Write a service for each document, with endpoints that have the texts of other documents."""
    with source.open("w") as file:
        for number, document in enumerate(documents):
            record = {
                "id": f"{number:09}",
                "name": document.name,
                "description": document.description,
                "category": document.category,
                "endpoints": [
                    {
                        "url": f"https://api{number}.example/v1/{path}",
                        "method": "GET",
                        "description": description,
                        "pricing": {"amount": "0.01", "currency": "USDC", "network": "Base"},
                    }
                    for path, description in _endpoints(number, documents)
                ],
            }
            file.write(json.dumps(record) + "\n")


def _endpoints(number: int, documents: list[Document]) -> Iterator[tuple[str, str]]:
    """Yield the path and the description of each endpoint of a service."""
    for endpoint in range(ENDPOINTS):
        other = documents[(number * (2 * endpoint + 3) + endpoint * 7919) % len(documents)]
        yield other.name, other.description


def _texts(documents: list[Document]) -> Iterator[dict[str, str]]:
    """Yield the texts of each endpoint by field."""
    for number, service in enumerate(documents):
        for path, description in _endpoints(number, documents):
            yield {
                "title": f"v1 {path}",
                "description": description,
                "service_name": service.name,
                "service_description": service.description,
                "category": service.category,
            }
