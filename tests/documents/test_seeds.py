"""The sample catalogue covers every form that the contract allows."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from indexer.__main__ import main
from service.conditions import EndpointFilters
from service.snapshot.snapshot import open_snapshot
from tests.support.running import SEEDS, Json


@pytest.fixture(scope="module")
def endpoints(seeds: list[Json]) -> list[Json]:
    return [endpoint for service in seeds for endpoint in service["endpoints"]]


@pytest.fixture(scope="module")
def payments() -> list[Json]:
    with (SEEDS / "transactions.jsonl").open() as file:
        return [json.loads(line) for line in file]


def test_the_sample_is_large_enough_to_search(seeds: list[Json], endpoints: list[Json]) -> None:
    sizes = Counter(len(service["endpoints"]) for service in seeds)
    assert len(seeds) >= 150
    assert len(endpoints) - 600 >= 1000
    assert sizes[0] >= 1
    assert sizes[600] == 1


def test_every_host_is_reserved_for_examples(seeds: list[Json]) -> None:
    text = json.dumps(seeds)
    hosts = {urlsplit(url).hostname or "" for url in re.findall(r'https?://[^"\s]+', text)}
    assert hosts
    assert all(host.endswith(".example") for host in hosts)
    domains = [service["domain"].partition(":")[0] for service in seeds if "domain" in service]
    assert all(domain.endswith(".example") for domain in domains)


def test_services_cover_every_form(seeds: list[Json]) -> None:
    categories = {service.get("category") for service in seeds}
    assert {"Search", "Inference", "Data", "Media", "Infra", "Trading", ""} <= categories
    assert len(categories) >= 10
    networks = {network for service in seeds for network in service.get("networks", [])}
    assert {"Base", "Solana", "eip155:8453"} <= networks
    assert any(network.startswith("solana:") for network in networks)
    assert {service.get("integrationType") for service in seeds} >= {"1P", "3P", ""}
    assert {service.get("enriched") for service in seeds} >= {True, False}
    assert {type(service.get("priceSummary", "absent")) for service in seeds} == {
        dict,
        str,
        type(None),
    }
    assert any("id" not in service for service in seeds)
    assert any("quality" in service for service in seeds)


def test_endpoints_cover_every_form(endpoints: list[Json]) -> None:
    assert {"GET", "POST", "PUT", "DELETE", "PATCH", "", "GET, POST"} <= {
        endpoint["method"] for endpoint in endpoints
    }
    prices = [endpoint["pricing"] for endpoint in endpoints]
    assert {"exact", "upto"} <= {price.get("scheme") for price in prices}
    assert any(price["amount"] == "" for price in prices)
    assert any(price.get("minAmount") and price.get("maxAmount") for price in prices)
    assert any(re.search(r"/:\w", endpoint["url"]) for endpoint in endpoints)
    assert any(re.search(r"\{\w+\}", endpoint["url"]) for endpoint in endpoints)
    assert {type(endpoint.get("quality", "absent")) for endpoint in endpoints} == {
        dict,
        str,
        type(None),
    }


def test_parameters_cover_every_form(endpoints: list[Json]) -> None:
    parameters = [p for endpoint in endpoints for p in endpoint.get("parameters", [])]
    assert {p["group"] for p in parameters} == {"body", "query", "path"}
    assert {p["type"] for p in parameters} == {"string", "number", "boolean", "array", "object"}
    kinds: set[type[Any]] = {type(p["example"]) for p in parameters if "example" in p}
    assert kinds == {str, int, float, bool, type(None), list, dict}
    assert any(p.get("enumValues") for p in parameters)


@pytest.mark.parametrize(
    "script",
    [
        r"[\u4e00-\u9fff]",
        r"[\u3040-\u30ff]",
        r"[\u0600-\u06ff]",
        r"[éèêàç]",
        r"[\U0001f300-\U0001faff]",
    ],
    ids=["Chinese", "Japanese", "Arabic", "French", "emoji"],
)
def test_names_and_descriptions_are_in_many_scripts(seeds: list[Json], script: str) -> None:
    assert any(re.search(script, service["name"] + service["description"]) for service in seeds)


def test_payments_have_a_long_tail_of_senders_and_recipients(payments: list[Json]) -> None:
    assert len(payments) >= 5000
    moments = [datetime.fromisoformat(payment["block_timestamp"]) for payment in payments]
    assert max(moments) - min(moments) >= timedelta(days=119)
    for party in ("sender", "recipient"):
        counts = sorted(Counter(payment[party].lower() for payment in payments).values())
        assert len(counts) >= 100
        assert sum(counts[-len(counts) // 10 :]) > sum(counts) / 3
        assert counts[len(counts) // 2] <= 2 * len(payments) / len(counts)


def test_the_sample_of_a_feed_lists_endpoints_of_the_catalogue(artifacts: Path) -> None:
    sources = [str(SEEDS / "services.jsonl"), str(SEEDS / "resources.jsonl")]
    assert main(["build", *sources, "--out", str(artifacts), "--quiet"]) == 0
    lines = (SEEDS / "resources.jsonl").read_text().splitlines()
    snapshot = open_snapshot(artifacts)
    services = (SEEDS / "services.jsonl").read_text().splitlines()
    assert len(snapshot.services) == len(services)
    assert len(snapshot.resources) == len(lines) >= 20
    offers = {name for line in lines for name in json.loads(line)["accepts"][0]}
    assert offers >= {"scheme", "network", "asset", "amount", "payTo"}
    matched = EndpointFilters(asset=(json.loads(lines[0])["accepts"][0]["asset"],))
    hits = snapshot.search_endpoints(limit=1, filters=matched)
    assert hits.total > 10
    hosts = {urlsplit(json.loads(line)["resource"]).hostname or "" for line in lines}
    assert all(host.endswith(".example") for host in hosts)
