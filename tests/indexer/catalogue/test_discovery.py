"""Discovered resources of all sources, merged and grouped into services."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.catalogue.derived_ids import Identity, derive_ids
from indexer.catalogue.reading import apply_rules
from indexer.catalogue.services import HostItems
from indexer.decisions import Decisions
from indexer.errors import InvalidRecord, LeftOut
from indexer.resources.assets import is_test_network
from indexer.resources.x402 import read_resource
from tests.support.running import SHARED, Json, examples
from tests.support.sources.x402 import (
    RULES,
    SOLANA_USDC,
    TEST_USDC,
    Feed,
    accept,
    resource,
    v1,
    v2,
)
from tests.support.sources.x402 import discover as discover_feeds

VERSION_1 = SHARED / "bazaar" / "resources_v1_2025-12.json"
VERSION_2 = SHARED / "bazaar" / "resources_v2_2026-06.json"

Discover = Callable[..., list[Json]]


def group(feeds: Sequence[Feed]) -> list[tuple[HostItems, Json]]:
    return [*discover_feeds(feeds).groups()]


def group_equal(*sources: Sequence[Json]) -> list[tuple[HostItems, Json]]:
    """Group resources of equally trusted sources."""
    return group([Feed(each, f"feed {number}") for number, each in enumerate(sources)])


@pytest.fixture
def discover() -> Discover:
    """Return the catalogue records of resources by source, each normalised as in a build."""

    def discover(*sources: list[Json]) -> list[Json]:
        return [service for _, service in group_equal(*sources)]

    return discover


def at(path: str, **fields: object) -> Json:
    return resource(f"https://api.one.example{path}", **fields)


def test_without_resources_there_are_no_services(discover: Discover) -> None:
    assert discover() == []
    assert discover([]) == []


def test_resources_of_a_host_are_one_service(discover: Discover) -> None:
    play = accept(network="base-sepolia", asset=TEST_USDC)
    solana = accept("30000", network="solana", asset=SOLANA_USDC)
    quality = {"l30DaysTotalCalls": 4, "l30DaysUniquePayers": 2}
    first = at("/a", description="Rain. ", tags=["Rain", "x"], quality=quality)
    second = resource("https://API.one.example/b", play, solana, description="Sun", tags=["rain"])
    services = discover([second | {"quality": {"lastCalledAt": "2026-01-01T00:00:00Z"}}, first])
    (service,) = services
    endpoints = service.pop("endpoints")
    assert [each["url"][-2:] for each in endpoints] == ["/a", "/b"]
    assert service == {
        "name": "One",
        "description": "Rain; Sun",
        "domain": "api.one.example",
        "networks": ["Base", "Solana", "Base Sepolia"],
        "quality": {"totalCalls": 4, "lastCalledAt": "2026-01-01T00:00:00.000Z"},
        "tags": ["Rain", "x"],
        "priceSummary": {
            "minAmount": "0.01",
            "maxAmount": "0.03",
            "avgCostPerTransaction": "0.02",
            "avgCostBasis": "exact",
            "currency": "USDC",
        },
    }


def test_each_host_is_a_service_with_an_id_of_its_own(discover: Discover) -> None:
    hosts = ("a.b.example", "a-b.example", "a.b.example:8443", "8.8.8.8", "[2606:4700::1]:444")
    services = discover([resource(f"https://{host}/") for host in hosts])
    identities = [Identity(None, each["domain"], 0) for each in services]
    ids = derive_ids(identities, Decisions())
    assert len(set(ids)) == len(hosts)
    assert {"a-b-example-8443", "8-8-8-8"} < set(ids)


def test_the_newest_of_resources_with_one_url_and_method_wins(discover: Discover) -> None:
    def dated(description: str, moment: str | None) -> Json:
        return at("/a", description=description, lastUpdated=moment)

    old, new = dated("old", "2026-01-01T00:00:00Z"), dated("new", "2026-01-02T00:00:00Z")
    for sources in ([old, new],), ([new, old],), ([new], [old]), ([old], [new]), ([old, new, old],):
        (service,) = discover(*sources)
        (endpoint,) = service["endpoints"]
        assert endpoint["description"] == "new"
    (undated,) = discover([old], [dated("undated", None)])
    assert undated["description"] == "old"
    (later,) = discover([dated("one", None)], [dated("other", None)])
    assert later["description"] == "other"
    (earlier,) = discover([dated("other", None)], [dated("one", None)])
    assert earlier["description"] == "one"
    for one_source in permutations([dated("one", None), dated("other", None)]):
        (greater,) = discover([*one_source])
        assert greater["description"] == "other"


def test_methods_and_tools_of_one_url_are_separate_endpoints(discover: Discover) -> None:
    tools = [v2({"type": "mcp", "tool": tool}) for tool in ("rain", "sun", "rain")]
    (service,) = discover([v1({"method": "GET"}), v1({"method": "POST"}), *tools])
    methods = [(each["method"], each.get("tool")) for each in service["endpoints"]]
    assert methods == [("", "rain"), ("", "sun"), ("GET", None), ("POST", None)]


def test_the_place_of_a_service_is_that_of_its_newest_resource() -> None:
    records = [at("/a"), at("/b", lastUpdated="2026-01-02T00:00:00Z")]
    other = [at("/c", lastUpdated="2026-01-01T00:00:00Z")]
    ((service, _),) = group_equal(records, other)
    assert (service.newest.source, service.newest.position) == (0, "items[1]")


def test_payers_are_not_added_up(discover: Discover) -> None:
    quality = {"l30DaysTotalCalls": 2**63 - 1, "l30DaysUniquePayers": 5}
    (one,) = discover([at("/a", quality=quality)])
    assert one["quality"] == {"totalCalls": 2**63 - 1, "uniquePayers": 5}
    (two,) = discover([at("/a", quality=quality), at("/b", quality=quality)])
    assert two["quality"] == {"totalCalls": 2**63 - 1}  # clients decode integers of 64 bits
    (unused,) = discover([at("/a", quality={"l30DaysTotalCalls": 0})])
    assert "quality" not in unused


def test_two_spellings_of_a_network_appear_once(discover: Discover) -> None:
    names = ("base", "eip155:8453", "Base", "Newnet", "newnet", "base-sepolia", "eip155:84532")
    (service,) = discover([resource("https://a.example/", *(accept(network=n) for n in names))])
    assert service["networks"] == ["Base", "Newnet", "Base Sepolia"]


def numbered(host: int, path: int, moment: int, calls: int | None, name: str, text: str) -> Json:
    return resource(
        f"https://h{host}.example/{path}",
        accept(network=["base", "eip155:8453", "New", "new"][path], payTo=f"0x{moment}"),
        lastUpdated=f"2026-01-01T00:00:00.{moment:06}Z",
        description=text,
        serviceName=name,
        tags=[name.lower(), name, text],
        metadata={"category": text},
        quality={"l30DaysTotalCalls": calls, "l30DaysUniquePayers": calls},
        iconUrl=f"https://h{host}.example/{name}.png",
    )


numbered_resources = st.lists(
    st.builds(
        numbered,
        st.integers(0, 1),
        st.integers(0, 3),
        st.integers(0, 10**5),
        st.none() | st.integers(0, 2),
        st.sampled_from(["", "A", "B", "C"]),
        st.sampled_from(["", "x", "y"]),
    ),
    unique_by=lambda each: each["lastUpdated"],
    max_size=10,
)


@settings(max_examples=examples(60), deadline=None)
@given(numbered_resources, st.data())
def test_services_do_not_depend_on_the_order_of_resources_or_of_sources_with_other_dates(
    records: list[Json], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(records)))
    feeds = [Feed(records[:cut], "one"), Feed(records[cut:], "other")]
    shuffled = [
        feed._replace(records=data.draw(st.permutations([*feed.records, *feed.records[:1]])))
        for feed in data.draw(st.permutations(feeds))
    ]
    once, again = group(feeds), group(shuffled)
    assert [service for _, service in once] == [service for _, service in again]
    urls = {each["resource"] for each in records}
    assert sum(len(service["endpoints"]) for _, service in once) == len(urls)


@pytest.mark.skipif(not VERSION_2.exists(), reason="the real data is not available")
def test_the_real_resources_become_services() -> None:
    fates: Counter[str] = Counter()
    feeds = [
        Feed(json.loads(path.read_text())["resources"], path.name)
        for path in (VERSION_1, VERSION_2)
    ]
    for feed in feeds:
        for record in feed.records:
            try:
                read = read_resource(json.dumps(record).encode())
                apply_rules(read, RULES)
            except LeftOut as left_out:
                fates[left_out.rule] += 1
            except InvalidRecord as fault:
                fates[fault.reason.partition(":")[0]] += 1
            else:
                fates["listed"] += 1
                fates.update(notice.kind for notice in read.notices)
    records = {each.domain: service for each, service in group(feeds)}
    assert fates == {"listed": 1420, "http resources": 40, "without a price": 2}
    networks = [each["networks"] for each in records.values()]
    assert all(is_test_network(each[0]) == (each == ["Base Sepolia"]) for each in networks)
    endpoints = sum(len(record["endpoints"]) for record in records.values())
    assert (len(records), endpoints) == (352, 1416)
    prices = [each["pricing"] for record in records.values() for each in record["endpoints"]]
    assert max(Decimal(price["amount"] or 0) for price in prices) == 1478
    assert records["x402.ottoai.services"]["name"] == "Otto AI"
    assert records["x402.ottoai.services"]["quality"]["totalCalls"] == 4381
    assert records["orbisapi.com"]["name"] == "Orbisapi"
    assert len(records["api.questflow.ai"]["endpoints"]) == 188
