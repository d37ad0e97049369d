"""Judged queries for services with endpoints, from a set that judges single operations.

`python -m tests.support.judged stabletoolbench FOLDER` writes the corpus and the queries that
`ratecard evaluate` reads.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from indexer.catalogue.services import MAX_DESCRIPTION
from tests.support.running import SHARED, Json, write_lines

RELEVANCE = SHARED / "relevance"
Tool = tuple[str, str]
"""The category and the name of a tool."""


def read(path: Path) -> list[Json]:
    """Return the objects of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def group_by_tool(source: Path, target: Path) -> tuple[str, str]:
    """Write the corpus and the queries of a folder with a service for each tool.

    The id of an operation is `category/tool/operation`. An operation is an endpoint whose path is
    its name, on the host that all services without a domain share: only the name of a service has
    the name of its tool. The grade of a service is the highest grade of its operations.
    """
    tools: dict[Tool, list[Json]] = defaultdict(list)
    for document in read(source / "corpus.jsonl"):
        tools[_tool(document["id"])].append(document)
    queries = []
    for judged in read(source / "queries.jsonl"):
        relevant: dict[str, float] = defaultdict(float)
        for operation, grade in judged["relevant"].items():
            tool = "/".join(_tool(operation))
            relevant[tool] = max(relevant[tool], grade)
        queries.append({"query": judged["query"], "relevant": relevant})
    services = [_service(tool, documents) for tool, documents in tools.items()]
    target.mkdir(parents=True, exist_ok=True)
    return (
        write_lines(target / "corpus.jsonl", services),
        write_lines(target / "queries.jsonl", queries),
    )


def _tool(operation: str) -> Tool:
    category, tool, _ = operation.split("/", 2)
    return category, tool


def _service(tool: Tool, operations: list[Json]) -> Json:
    category, name = tool
    endpoints = [
        {"path": each["id"].split("/", 2)[2], "description": each["description"]}
        for each in operations
    ]
    return {
        "id": "/".join(tool),
        "name": name,
        "description": _join([each["description"] for each in operations], name),
        "category": category,
        "endpoints": endpoints,
    }


def _join(descriptions: Iterable[str], name: str) -> str:
    """Join descriptions as `group_resources` joins those of the resources of a host."""
    joined = ""
    for text in dict.fromkeys(descriptions):
        if not joined:
            joined = text if text != name else ""
        elif text and text != name and len(joined) + len(text) + 2 <= MAX_DESCRIPTION:
            joined = f"{joined.strip().rstrip('.;')}; {text.strip()}"
    return joined


if __name__ == "__main__":
    group_by_tool(RELEVANCE / sys.argv[1], Path(sys.argv[2]))
