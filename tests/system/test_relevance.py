"""The relevance of the ranking on judged queries."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from urllib.parse import quote

import pytest

from indexer.__main__ import main
from indexer.relevance import discounted_gain
from service.snapshot.endpoints import EndpointFilters
from service.snapshot.snapshot import open_snapshot
from tests.support.running import SHARED, Json, endpoint, service, write_lines

RELEVANCE = SHARED / "relevance"
EVERY = 5  # queries, of which one is asked
pytestmark = pytest.mark.skipif(
    not RELEVANCE.exists(), reason="the judged queries are not available"
)


@pytest.mark.parametrize(
    ("corpus", "minimum"), [("stabletoolbench", 0.68), ("sealtools", 0.84), ("metatool", 0.56)]
)
def test_ndcg_of_services_reaches_its_minimum_with_one_configuration(
    capsys: pytest.CaptureFixture[str], corpus: str, minimum: float
) -> None:
    folder = RELEVANCE / corpus
    files = ["--corpus", str(folder / "corpus.jsonl"), "--queries", str(folder / "queries.jsonl")]
    assert main(["evaluate", *files, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ndcg@10"] >= minimum


@pytest.mark.parametrize(
    ("corpus", "minimum"), [("stabletoolbench", 0.69), ("sealtools", 0.84), ("metatool", 0.57)]
)
def test_ndcg_of_endpoints_reaches_its_minimum_with_one_configuration(
    tmp_path: Path, corpus: str, minimum: float
) -> None:
    folder = RELEVANCE / corpus
    source = write_lines(tmp_path / "services.jsonl", as_services(folder / "corpus.jsonl"))
    artifacts = tmp_path / "artifacts"
    assert main(["build", source, "--out", str(artifacts), "--quiet"]) == 0
    endpoints = open_snapshot(artifacts).endpoints
    gains = []
    for judged in read(folder / "queries.jsonl")[::EVERY]:
        hits = endpoints.search(judged["query"], 10, 0, EndpointFilters(per_service=0))
        found = (json.loads(b"".join(endpoints.item(n, -1)))["x-id"] for n in hits.ordinals)
        wanted = judged["relevant"]
        ideal = discounted_gain(sorted(wanted.values(), reverse=True)[:10])
        gains.append(discounted_gain([wanted.get(name, 0) for name in found]) / ideal)
    assert sum(gains) / len(gains) >= minimum


def as_services(corpus: Path) -> list[Json]:
    """Return a service for each tool, with its documents as endpoints, named by their path."""
    tools: dict[tuple[str, str], list[Json]] = defaultdict(list)
    for document in read(corpus):
        parts = document["id"].split("/", 2)
        tool, operation = parts[1:] if len(parts) == 3 else ("-", document["name"])
        url = f"https://tool.example/{quote(operation, safe='')}"
        described = {"url": url, "description": document["description"], "x-id": document["id"]}
        tools[tool, document["category"]].append(endpoint() | described)
    return [
        service(f"tool-{number:05}", name=tool, category=category, endpoints=endpoints)
        for number, ((tool, category), endpoints) in enumerate(tools.items())
    ]


def read(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_text().splitlines()]
