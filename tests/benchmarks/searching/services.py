"""Times of searches for services and endpoints, beside Tantivy over the same documents."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from indexer.build import build_snapshot
from indexer.catalogue_file import name_source
from indexer.options import BuildOptions, RankingOptions
from service.search.config import SEARCH_CONFIG
from service.snapshot.snapshot import open_snapshot
from tests.benchmarks.corpus import Document, make_documents
from tests.benchmarks.searching.peers import write_tantivy
from tests.benchmarks.searching.report import report
from tests.benchmarks.searching.worker import Engine, make_workload, measure_in_turns

TANTIVY = "Tantivy"
ENDPOINTS = 5
BOOSTS = {"name": 2.0, "description": 1.0, "category": 1.0}
FIELDS = {
    "title": "title",
    "description": "description",
    "service_name": "service_name",
    "service_description": "service_description",
    "category": "service_category",
}
"""Fields of Tantivy, and those of the index whose weights they have."""


def bench_search(count: int) -> None:
    """Print the times of searches for services without endpoints, with vectors and by words."""
    documents = make_documents(count)
    with tempfile.TemporaryDirectory(prefix="ratecard-") as name:
        folder = Path(name)
        records = ({"endpoints": []} | asdict(each) for each in documents)
        source = _write(records, folder)
        write_tantivy(map(asdict, documents), BOOSTS, folder / TANTIVY)
        engines = {
            "Ratecard": Engine("services", _build(source, folder / "vectors", is_semantic=True)),
            "by words": Engine("services", _build(source, folder / "words", is_semantic=False)),
        }
        _report(f"{count:,} services without endpoints", documents, engines, folder)


def bench_endpoints(count: int) -> None:
    """Print times of searches for endpoints and for services, ENDPOINTS of each of `count`."""
    documents = make_documents(count)
    boosts = {name: SEARCH_CONFIG.field_weights[field] for name, field in FIELDS.items()}
    with tempfile.TemporaryDirectory(prefix="ratecard-") as name:
        folder = Path(name)
        source = _write(_services(documents), folder)
        write_tantivy(_texts(documents), boosts, folder / TANTIVY)
        artifacts = _build(source, folder / "artifacts", is_semantic=True)
        engines = {
            "endpoints": Engine("endpoints", artifacts),
            "services": Engine("services", artifacts),
            "services, facets": Engine("services with facets", artifacts),
        }
        _report(f"{count * ENDPOINTS:,} endpoints", documents, engines, folder)


def _report(
    title: str, documents: list[Document], engines: dict[str, Engine], folder: Path
) -> None:
    workload = make_workload(documents)
    times = measure_in_turns(engines | {TANTIVY: Engine(TANTIVY, folder / TANTIVY)}, workload)
    report(title, times, workload.measured, (TANTIVY,))


def _write(records: Iterable[dict[str, Any]], folder: Path) -> Path:
    """Write records with ids in their order, and return the path."""
    source = folder / "services.jsonl"
    with source.open("w") as file:
        for number, record in enumerate(records):
            file.write(json.dumps({"id": f"{number:09}"} | record) + "\n")
    return source


def _build(source: Path, artifacts: Path, *, is_semantic: bool) -> Path:
    """Build a catalogue, and print what it takes to build and to open."""
    options = BuildOptions(
        sources=(name_source(str(source)),),
        out=artifacts,
        ranking=RankingOptions(is_semantic),
        downloads=False,
    )
    build = build_snapshot(options)
    started = time.perf_counter()
    snapshot = open_snapshot(artifacts)
    opened = time.perf_counter() - started
    sizes = {path.stem: path.stat().st_size / 1e6 for path in snapshot.folder.glob("*.arrays")}
    described = ", ".join(f"{name} {size:.0f} MB" for name, size in sizes.items())
    print(f"\nbuilt in {build.seconds:.0f} s, opened in {opened:.3f} s, {described}")
    return artifacts


def _services(documents: list[Document]) -> Iterator[dict[str, Any]]:
    """Yield a service for each document, with endpoints that have the texts of other documents."""
    for number, document in enumerate(documents):
        endpoints = [
            {
                "url": f"https://api{number}.example/v1/{other.name}",
                "method": "GET",
                "description": other.description,
                "pricing": {"amount": "0.01", "currency": "USDC", "network": "Base"},
            }
            for other in _others(number, documents)
        ]
        yield asdict(document) | {"endpoints": endpoints}


def _others(number: int, documents: list[Document]) -> Iterator[Document]:
    """Yield the documents whose texts the endpoints of a service have."""
    for endpoint in range(ENDPOINTS):
        yield documents[(number * (2 * endpoint + 3) + endpoint * 7919) % len(documents)]


def _texts(documents: list[Document]) -> Iterator[dict[str, str]]:
    """Yield the texts of each endpoint by field."""
    for number, service in enumerate(documents):
        for other in _others(number, documents):
            yield {
                "title": f"v1 {other.name}",
                "description": other.description,
                "service_name": service.name,
                "service_description": service.description,
                "category": service.category,
            }
