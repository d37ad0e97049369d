"""Paid MCP tools: whose tool an identifier names."""

from __future__ import annotations

from typing import Any

import pytest

from indexer.errors import LeftOut
from indexer.resources.parameters import MAX_NAME as MAX_TOOL
from indexer.resources.x402 import NO_SERVER, tool_of_url
from tests.support.running import Json
from tests.support.sources.x402 import (
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
    for other in ("not a URL", "mcp://server"):
        with pytest.raises(LeftOut, match="nobody can call it") as caught:
            read(resource(TOOL) | place(other))
        assert caught.value.rule == NO_SERVER


def test_a_tool_is_the_same_by_its_identifier_and_by_the_url_of_its_server() -> None:
    by_url = tool(server="", url=SERVER)
    (service,) = services_of(Feed([tool(server=SERVER)]), Feed([by_url], "b"))
    assert [each["tool"] for each in service["endpoints"]] == ["forecast"]


def test_tools_of_one_name_belong_to_their_servers() -> None:
    others = tool(accept(payTo="0x02"), server="https://mcp.other.example/mcp")
    services = services_of(Feed([tool(server=SERVER), others]))
    assert [each["endpoints"][0]["url"] for each in services] == [TOOL, TOOL]
    assert [each["domain"] for each in services] == [
        "mcp.other.example",
        "mcp.weather-data.example",
    ]
