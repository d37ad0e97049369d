"""The discovery API with clients as they are published, which `make clients` installs."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from indexer.__main__ import main
from service.conditions import ResourceFilters
from service.snapshot.snapshot import open_snapshot
from tests.support.clients.published import CLIENTS, skip_without
from tests.support.running import PLAIN, SHARED, Json, serve, write_lines
from tests.support.sources.x402 import accept, resource, v1

REAL = sorted((SHARED / "bazaar").glob("*.json"))
GENERATED = [
    resource("https://busy.example/b"),
    resource("https://two.example/", accept(), accept(network="solana")),
    v1({"method": "GET"}),
    *(resource(f"https://many.example/{number:03}") for number in range(300)),
]

PYTHON = """
import json, sys
from x402.extensions.bazaar import (
    ListDiscoveryResourcesParams,
    SearchDiscoveryResourcesParams,
    with_bazaar,
)
from x402.http import FacilitatorConfig, HTTPFacilitatorClientSync

client = with_bazaar(HTTPFacilitatorClientSync(FacilitatorConfig(url=sys.argv[1])))
bazaar = client.extensions.bazaar
walked, total = [], 1
while len(walked) < total:
    page = bazaar.list_resources(ListDiscoveryResourcesParams(limit=100, offset=len(walked)))
    walked += [item.resource for item in page.items]
    total = page.pagination.total
base = bazaar.list_resources(ListDiscoveryResourcesParams(limit=1, network="base"))
found, cursor = [], None
while not found or cursor:
    page = bazaar.search(SearchDiscoveryResourcesParams(query="data", limit=7, cursor=cursor))
    found += [item.resource for item in page.resources]
    cursor = page.pagination.cursor
try:
    bazaar.list_resources(ListDiscoveryResourcesParams(limit=0))
except Exception as error:
    print(json.dumps([walked, base.pagination.total, found, str(error)]))
"""
NODE = """
import { HTTPFacilitatorClient } from "@x402/core/http";
import { withBazaar } from "@x402/extensions/bazaar";

const { bazaar } = withBazaar(new HTTPFacilitatorClient({ url: process.argv[2] })).extensions;
const walked = [];
for (let total = 1; walked.length < total; ) {
    const page = await bazaar.listResources({ limit: 100, offset: walked.length });
    walked.push(...page.items.map(item => item.resource));
    total = page.pagination.total;
}
const base = await bazaar.listResources({ limit: 1, network: "base" });
const found = [];
let cursor;
do {
    const page = await bazaar.search({ query: "data", limit: 7, cursor });
    found.push(...page.resources.map(item => item.resource));
    cursor = page.pagination.cursor;
} while (cursor);
try {
    await bazaar.listResources({ limit: 0 });
} catch (error) {
    console.log(JSON.stringify([walked, base.pagination.total, found, String(error)]));
}
"""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Serve real resources, or generated ones where there are none."""
    folder = tmp_path_factory.mktemp("clients")
    sources = [*map(str, REAL)] or [write_lines(folder / "feed.jsonl", GENERATED)]
    assert main(["build", *sources, "--out", str(folder / "artifacts"), "--jobs", "1"]) == 0
    with serve(folder / "artifacts") as client:
        yield client


@pytest.fixture(scope="module")
def listed(client: httpx.Client) -> list[Json]:
    """All listed resources."""
    items: list[Json] = []
    total = 1
    while len(items) < total:
        parameters = {"limit": 1000, "offset": len(items)}
        body = client.get("/discovery/resources", params=parameters).json()
        items, total = items + body["items"], body["pagination"]["total"]
    return items


def run(*command: object) -> Any:
    process = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, check=False, timeout=60
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


@pytest.mark.parametrize("prefix", ["", "/v2/x402/"])
def test_the_python_client_walks_searches_filters_and_reads_errors(
    client: httpx.Client, listed: list[Json], prefix: str
) -> None:
    python = CLIENTS / "bin/python"
    skip_without(python)
    check(client, listed, *run(python, "-c", PYTHON, f"{client.base_url}{prefix}"))


@pytest.mark.parametrize("prefix", ["", "/platform/v2/x402"])
def test_the_typescript_client_walks_searches_filters_and_reads_errors(
    client: httpx.Client, listed: list[Json], prefix: str
) -> None:
    skip_without(CLIENTS / "node_modules/@x402/extensions")
    script = CLIENTS / "walk.mjs"
    script.write_text(NODE)
    check(client, listed, *run("node", script, f"{client.base_url}{prefix}"))


def check(
    client: httpx.Client,
    listed: list[Json],
    walked: list[str],
    on_base: int,
    found: list[str],
    error: str,
) -> None:
    assert walked == [each["resource"] for each in listed]
    body = client.get("/discovery/search", params={"query": "data", "limit": 200}).json()
    ranked = [each["resource"] for each in body["resources"]]
    assert len(found) == body["total"]
    assert found[: len(ranked)] == ranked
    assert on_base == sum(has(each, "network", "base") for each in listed)
    assert "(400)" in error
    assert "limit must be an integer of at least 1" in error


def has(item: Json, key: str, value: str) -> bool:
    return any(entry.get(key) == value for entry in item["accepts"])


def test_another_ratecard_that_reads_the_listing_lists_the_same(
    client: httpx.Client, listed: list[Json], tmp_path: Path
) -> None:
    url = f"{client.base_url}/discovery/resources"
    assert main(["build", url, "--out", str(tmp_path), "--jobs", "1", *PLAIN]) == 0
    resources = open_snapshot(tmp_path).resources
    copied: list[Json] = []
    while len(copied) < len(resources):
        page = resources.list(ResourceFilters(), 1000, len(copied))
        copied += json.loads(b"[%b]" % b",".join(page.texts))
    assert copied == listed


def test_the_conformance_vectors_hold(client: httpx.Client, listed: list[Json]) -> None:
    """The vectors V0 to V7 that are proposed for the bazaar extension of x402."""

    def ask(**parameters: Any) -> list[Json]:
        response = client.get("/discovery/resources", params={"limit": 50} | parameters)
        assert response.status_code == 200
        assert len(response.content) < 10 * 2**20
        body = response.json()
        items: list[Json] = body["items"]
        assert bool(items) == bool(body["pagination"]["total"])
        assert "unappliedFilters" not in body
        assert all(isinstance(each["type"], str) for each in items)
        assert all(isinstance(entry, dict) for each in items for entry in each["accepts"])
        assert all(isinstance(each.get("extensions", {}), dict) for each in items)
        return items

    baseline = ask()
    assert len(baseline) == min(50, len(listed))
    assert all(each["type"] == "mcp" for each in ask(type="mcp"))
    assert ask(payTo="0x0000000000000000000000000000000000000001") == []
    assert all(has(each, "scheme", "batch-settlement") for each in ask(scheme="batch-settlement"))
    assert ask(network="eip155:999999999") == []
    assert all(
        "payment-identifier" in each["extensions"] for each in ask(extensions="payment-identifier")
    )
    assert ask(network="!!!") == []
    networks = Counter(entry["network"] for each in baseline for entry in each["accepts"])
    rarest = networks.most_common()[-1][0]
    control = ask(network=rarest)
    assert control
    assert all(has(each, "network", rarest) for each in control)
