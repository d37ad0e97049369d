"""Endpoints and the resources that feeds list for them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from indexer.__main__ import main
from service.conditions import EndpointFilters, ResourceFilters
from service.snapshot.snapshot import Snapshot, open_snapshot
from tests.support.artifacts import overlays
from tests.support.running import Json, endpoint, service, write_lines
from tests.support.searching import rank_endpoints
from tests.support.sources.x402 import accept, resource, v2

PAID: dict[str, Any] = {"pay_to": ("0xPay",)}


def publish(folder: Path, records: list[Json], patches: Json | None = None) -> Snapshot:
    source = write_lines(folder / "source.jsonl", records)
    options = overlays(folder, patches) if patches else ()
    artifacts = str(folder / "artifacts")
    assert main(["build", source, *options, "--out", artifacts, "--quiet", "--no-semantic"]) == 0
    return open_snapshot(artifacts)


def found(snapshot: Snapshot, query: str | None, **conditions: Any) -> int:
    return rank_endpoints(snapshot, query, 24, 0, EndpointFilters(**conditions)).total


def listed(snapshot: Snapshot, query: str) -> int:
    search = snapshot.find_resources(query, 24, 0, ResourceFilters())
    return asyncio.run(search).total


def test_a_resource_is_found_by_the_words_of_its_endpoint_and_of_its_service(
    tmp_path: Path,
) -> None:
    snapshot = publish(tmp_path, [resource("https://tides.example/high", description="Moon")])
    for query in ("high", "moon", "tides"):
        assert (found(snapshot, query), listed(snapshot, query)) == (1, 1)
    assert found(snapshot, "nothing") == listed(snapshot, "nothing") == 0


def test_a_resource_that_an_overlay_takes_the_endpoint_of_is_found_as_a_resource_alone(
    tmp_path: Path,
) -> None:
    records = [resource("https://tides.example/high", description="Moon")]
    other = endpoint() | {"url": "https://tides.example/other"}
    snapshot = publish(tmp_path, records, {"tides-example": {"endpoints": [other]}})
    assert (found(snapshot, "high"), listed(snapshot, "high")) == (0, 1)
    assert (found(snapshot, "other"), listed(snapshot, "other")) == (1, 0)
    assert (found(snapshot, "tides"), listed(snapshot, "tides")) == (1, 1)
    assert found(snapshot, None, **PAID) == 0


def test_a_resource_keeps_its_endpoint_where_a_catalogue_record_spells_it_otherwise(
    tmp_path: Path,
) -> None:
    records = [
        v2({"method": "POST"}) | {"resource": "https://tides.example/high"},
        v2({"method": "GET"}) | {"resource": "https://tides.example/high"},
        service(
            "tides-example",
            domain="tides.example",
            endpoints=[
                endpoint() | {"url": "https://TIDES.example:443/high", "method": "GET, POST"}
            ],
        ),
    ]
    snapshot = publish(tmp_path, records)
    hits = rank_endpoints(snapshot, None, 24, 0, EndpointFilters(**PAID))
    assert hits.total == 1
    assert hits.offers != [-1]
    assert listed(snapshot, "high") == 2


def test_tools_of_one_address_have_offers_of_their_own(tmp_path: Path) -> None:
    tools = [
        v2({"type": "mcp", "toolName": name})
        | {"resource": "https://tools.example/", "accepts": [accept(payTo=name)]}
        for name in ("sun", "moon")
    ]
    snapshot = publish(tmp_path, tools)
    for name in ("sun", "moon"):
        hits = rank_endpoints(snapshot, name, 24, 0, EndpointFilters(pay_to=(name,)))
        assert hits.total == 1
        item = b"".join(snapshot.endpoints.item(hits.ordinals[0], hits.offers[0]))
        assert b'"tool":"%b"' % name.encode() in item


def test_the_endpoints_of_a_removed_service_are_not_found(tmp_path: Path) -> None:
    records = [resource("https://tides.example/high"), service("kept", name="High")]
    snapshot = publish(tmp_path, records, {"tides-example": None})
    assert (found(snapshot, "high"), listed(snapshot, "high")) == (1, 0)
    assert found(snapshot, "tides") == listed(snapshot, "tides") == 0


def test_tools_keep_their_offers_where_a_catalogue_record_spells_their_address_otherwise(
    tmp_path: Path,
) -> None:
    def tool(name: str) -> Json:
        address = {"resource": "https://two.example/m", "accepts": [accept(payTo=name)]}
        return v2({"type": "mcp", "toolName": name}) | address

    record = service(
        "two-example",
        domain="two.example",
        endpoints=[
            endpoint() | {"url": "https://TWO.example/m", "method": "POST", "tool": name}
            for name in ("sun", "moon")
        ],
    )
    snapshot = publish(tmp_path, [tool("sun"), tool("moon"), record])
    for number, name in enumerate(("sun", "moon")):
        hits = rank_endpoints(snapshot, None, 24, 0, EndpointFilters(pay_to=(name,)))
        assert list(hits.ordinals) == [number]


def test_a_tool_is_matched_with_the_endpoint_that_names_it(tmp_path: Path) -> None:
    listed = v2({"type": "mcp", "toolName": "sun"})
    address = {"resource": "https://two.example/m", "accepts": [accept(payTo="sun")]}
    spelt = endpoint() | {"url": "https://TWO.example/m", "method": "POST"}
    record = service(
        "two-example", domain="two.example", endpoints=[spelt, spelt | {"tool": "sun"}]
    )
    snapshot = publish(tmp_path, [listed | address, record])
    hits = rank_endpoints(snapshot, None, 24, 0, EndpointFilters(pay_to=("sun",)))
    assert list(hits.ordinals) == [1]


def test_a_resource_without_an_endpoint_is_found_by_its_tool_and_parameters(
    tmp_path: Path,
) -> None:
    declared = {"type": "mcp", "toolName": "moonPhase", "inputSchema": {"properties": {"day": {}}}}
    records = [v2(declared) | {"resource": "https://tools.example/"}]
    assert listed(publish(tmp_path, records), "moonPhase") == 1
    snapshot = publish(tmp_path, records, {"tools-example": {"endpoints": []}})
    assert found(snapshot, "moonPhase") == 0
    for query in ("moon phase", "day"):
        assert listed(snapshot, query) == 1


def test_the_path_of_a_url_without_a_scheme_is_searched(tmp_path: Path) -> None:
    urls = ("api.example/foo/weatherpath", "/v1/relative", "https://host.example")
    endpoints = [endpoint() | {"url": url} for url in urls]
    snapshot = publish(tmp_path, [service("odd", endpoints=endpoints)])
    assert [found(snapshot, word) for word in ("weatherpath", "relative", "host")] == [1, 1, 0]


def test_endpoints_of_curated_services_come_first_and_those_of_deprecated_ones_last(
    tmp_path: Path,
) -> None:
    facts: list[Json] = [{"status": "deprecated"}, {}, {"enriched": True}]
    records = [service(f"s{n}", name="Tides", **fields) for n, fields in enumerate(facts)]
    snapshot = publish(tmp_path, records)
    hits = snapshot.search_endpoints("tides", 24)
    owners = [each["service"]["id"] for each in hits.endpoints]
    assert owners == ["s2", "s1", "s0"]
