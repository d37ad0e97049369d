"""Paid MCP tools: whose tool an identifier names."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.errors import InvalidRecord, LeftOut
from indexer.intake.rules import TAKEN_DOWN, Denials, Rules
from indexer.options import Denial
from indexer.x402.members.tools import MAX_TOOL, is_seller, tool_of_url
from tests.support.running import Json, examples
from tests.support.sources.x402 import (
    RULES,
    SERVER,
    TOOL,
    Feed,
    accept,
    discover,
    endpoint_of,
    read,
    resource,
    tool,
)


def services_of(*feeds: Feed) -> list[Json]:
    return [service for _, service in discover(feeds).groups()]


@pytest.mark.parametrize(
    ("url", "name"),
    [
        (TOOL, "forecast"),
        ("MCP://Tool/Forecast", "Forecast"),
        ("mcp://tool/a%20b", "a b"),
        ("mcp://tool/", ""),
        ("mcp://tool/a/b", ""),
        ("mcp://tool/a?b", ""),
        ("mcp://tool/%0A", ""),
        ("mcp://tool/" + "x" * (MAX_TOOL + 1), ""),
        ("mcp://server/forecast", ""),
        ("https://tool/forecast", ""),
    ],
)
def test_an_identifier_names_a_tool(url: str, name: str) -> None:
    assert tool_of_url(url) == name


def test_a_tool_is_an_endpoint_of_the_host_of_its_server() -> None:
    record = tool(server=SERVER)
    outline = read(record)
    assert (outline.host, outline.domain, outline.identity) == (
        "mcp.weather-data.example",
        "mcp.weather-data.example",
        SERVER,
    )
    assert endpoint_of(record) == {
        "url": TOOL,
        "method": "",
        "description": "Tomorrow's weather",
        "pricing": {"amount": "0.01", "currency": "USDC", "network": "Base", "scheme": "exact"},
        "parameters": [{"group": "body", "name": "city", "type": "string", "required": True}],
        "payTo": "0xPay",
        "tool": "forecast",
    }


@pytest.mark.parametrize(
    "place",
    [
        lambda server: {"extensions": {"bazaar": {"serverUrl": server}}},
        lambda server: {"extensions": {"bazaar": {"info": {"mcpUrl": server}}}},
        lambda server: {"metadata": {"server": {"url": server}}},
        lambda server: {"resource": {"url": TOOL, "endpoint": server}},
        lambda server: {"server_url": server},
    ],
)
def test_the_server_may_stand_in_several_places(place: Any) -> None:
    assert read(resource(TOOL) | place(SERVER)).identity == SERVER
    assert is_seller(read(resource(TOOL) | place("not a URL")).domain)
    assert is_seller(read(resource(TOOL) | place("mcp://server")).domain)


def test_a_tool_is_the_same_by_its_identifier_and_by_the_url_of_its_server() -> None:
    by_url = tool(server="", url=SERVER)
    (service,) = services_of(Feed([tool(server=SERVER)]), Feed([by_url], "b"))
    assert [each["tool"] for each in service["endpoints"]] == ["forecast"]


def test_tools_of_one_name_belong_to_their_sellers() -> None:
    records = [
        tool(server=SERVER),
        tool(server="https://mcp.other.example/mcp"),
        tool(accept(payTo="0x01")),
        tool(accept(payTo="0x02")),
        tool(accept(payTo="0x02"), serviceName="Second"),
        tool(accept(payTo="0x02"), accept(payTo="0x03", network="eip155:137")),
    ]
    services = services_of(Feed(records))
    assert len(services) == len(records)
    assert all(each["endpoints"][0]["url"] == TOOL for each in services)
    assert sorted(each.get("domain", "") for each in services) == [
        *[""] * 4,
        "mcp.other.example",
        "mcp.weather-data.example",
    ]
    assert max(each["name"] for each in services) == "forecast"


def test_a_seller_has_several_tools_in_any_feed() -> None:
    feeds = (
        Feed([tool(accept(payTo="0xAB")), tool(url="mcp://tool/tides", name="tides")], "one"),
        Feed([tool(accept("7", payTo="0xab"), lastUpdated="2026-05-01T00:00:00Z")], "two"),
    )
    first, second = services_of(*feeds)
    prices = [each["endpoints"][0]["pricing"]["amount"] for each in (first, second)]
    assert sorted(prices) == ["0.000007", "0.01"]
    assert [len(each["endpoints"]) for each in (first, second)] == [1, 1]


def test_a_tool_of_a_denied_seller_is_left_out() -> None:
    domain = read(tool()).domain
    rules = Rules(RULES.policy, Denials([Denial(domain=domain, reason="asked to")]))
    with pytest.raises(LeftOut) as caught:
        read(tool(), rules)
    assert caught.value.rule == TAKEN_DOWN


@settings(max_examples=examples(200), deadline=None)
@given(
    name=st.text(max_size=12),
    payees=st.lists(st.sampled_from(["0xA", "0xa", "0xB", "", "Sol"]), max_size=3),
    server=st.sampled_from(["", SERVER, "https://a.example:8443/", "file:///x", "https://"]),
    service=st.none() | st.text(max_size=20),
)
def test_tools_have_one_identity_only_if_seller_and_name_are_one(
    name: str, payees: list[str], server: str, service: str | None
) -> None:
    accepts = [accept(payTo=payee) for payee in payees] or [accept(payTo="")]
    record = tool(*accepts, server=server, name=name, serviceName=service)
    try:
        found = read(record)
    except InvalidRecord:
        return
    assert found.tool
    assert is_seller(found.domain) == (not found.host)
    other = read(tool(accept(payTo="0xOther"), name=name, serviceName=service))
    assert found.key != other.key
