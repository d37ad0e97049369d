"""Times of searches for endpoints compared with Tantivy, over the same texts and queries."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from indexer.build import build_snapshot
from indexer.options import BuildOptions
from service.filtering.endpoint_filters import EndpointFilters
from service.search.config import ENDPOINT_SEARCH_CONFIG
from service.snapshot.snapshot import open_snapshot
from tests.benchmarks.corpus import Document, Query, make_documents
from tests.benchmarks.searching.peers import PAGE, Search, search_tantivy
from tests.benchmarks.searching.services import OURS, measure, report

ENDPOINTS = 5
FIELDS = ("path", "description", "service_name", "service_description", "category")
BOOSTS = {name: ENDPOINT_SEARCH_CONFIG.field_weights[name] for name in FIELDS}


def bench_endpoints(count: int) -> None:
    """Print the times of both engines for `count` services with ENDPOINTS endpoints each."""
    documents = make_documents(count)
    with tempfile.TemporaryDirectory(prefix="ratecard-") as folder:
        artifacts = Path(folder) / "artifacts"
        source = Path(folder) / "services.jsonl"
        write_services(documents, source)
        build = build_snapshot(BuildOptions(sources=(str(source),), out=artifacts))
        started = time.perf_counter()
        snapshot = open_snapshot(artifacts)
        opened = time.perf_counter() - started
        postings = artifacts / "snapshots" / snapshot.id / "endpoints" / "postings"
        size = sum(path.stat().st_size for path in postings.iterdir())
        endpoints = count * ENDPOINTS
        print(
            f"\n{endpoints:,} endpoints: built in {build.seconds:.0f} s, opened in {opened:.3f} s, "
            f"{size / endpoints:.0f} bytes of postings an endpoint"
        )

        def ours(query: Query) -> int:
            filters = EndpointFilters(
                facets={"category": [query.category]} if query.category else {}
            )
            return snapshot.endpoints.search(query.words, PAGE, 0, filters).total

        engines: dict[str, Search] = {OURS: ours}
        peer = Path(folder) / "tantivy"
        peer.mkdir()
        engines["Tantivy"] = search_tantivy(_texts(documents), BOOSTS, peer)
        report({name: measure(name, engines[name], documents) for name in engines})


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
                "path": f"v1 {path}",
                "description": description,
                "service_name": service.name,
                "service_description": service.description,
                "category": service.category,
            }
