"""Discovered resources: what each becomes, and what is said of those that are not listed."""

from __future__ import annotations

import copy
import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.catalogue.record import normalise
from indexer.errors import InvalidRecord
from indexer.options import Policy
from indexer.sources.records import SourceRecord
from indexer.x402.grouping import Discovery
from indexer.x402.resource import NEVER, Resource, Unlisted, read_resource
from tests.support.running import Json
from tests.support.x402 import PLAY_USDC, SOLANA_USDC, URL, USDC, accept, resource, v1, v2

WETH = "0x4200000000000000000000000000000000000006"


def read(record: Json | bytes, policy: Policy | None = None) -> Resource:
    text = record if isinstance(record, bytes) else json.dumps(record).encode()
    return read_resource(SourceRecord("items[0]", text), policy or Policy())


def endpoint(record: Json | bytes) -> Json:
    found: Json = json.loads(bytes(read(record).endpoint))
    return found


def parameters(record: Json) -> list[Json]:
    found: list[Json] = endpoint(record).get("parameters", [])
    return found


def test_version_1_becomes_an_endpoint() -> None:
    record = v1({"method": "post"}, description="Tomorrow", payTo="0xAb")
    assert endpoint(record) == {
        "url": URL,
        "method": "POST",
        "description": "Tomorrow",
        "pricing": {"amount": "0.0025", "currency": "USDC", "network": "Base", "scheme": "exact"},
        "payTo": "0xAb",
    }


def test_version_2_becomes_an_endpoint() -> None:
    record = resource(
        {"url": URL, "description": "Tomorrow", "mimeType": "application/json"},
        serviceName="Weather",
        tags=["rain", "sun", "Rain", 7, ""],
        iconUrl="https://api.weather-data.example/icon.png",
        lastUpdated="2026-05-01T00:00:00.000001Z",
        metadata={"category": "Data"},
        quality={
            "l30DaysTotalCalls": 12,
            "l30DaysUniquePayers": "3",
            "lastCalledAt": "2026-05-01T01:00:00+01:00",
        },
    )
    found = read(record)
    assert json.loads(bytes(found.endpoint)) == {
        "url": URL,
        "method": "",
        "description": "Tomorrow",
        "pricing": {"amount": "0.01", "currency": "USDC", "network": "Base", "scheme": "exact"},
        "quality": {"l30DaysTotalCalls": "12", "l30DaysUniquePayers": "3"},
        "serviceName": "Weather",
        "tags": ["rain", "sun"],
        "payTo": "0xPay",
    }
    assert (found.metadata.category, found.metadata.icon_url[-8:]) == ("Data", "icon.png")
    assert (found.usage.calls, found.usage.payers) == (12, 3)
    assert found.usage.last_called == "2026-05-01T00:00:00.000Z"
    assert (found.domain, found.networks) == ("api.weather-data.example", ["Base"])
    assert found.updated == 1_777_593_600_000_001


@pytest.mark.parametrize(
    ("given", "updated"),
    [
        (1703123456, 1_703_123_456_000_000),
        (1703123456789, 1_703_123_456_789_000),
        (1703123456.5, 1_703_123_456_500_000),
        ("2023-12-21T01:50:56Z", 1_703_123_456_000_000),
        ("1969-01-01T00:00:00Z", NEVER),
        ("yesterday", NEVER),
        ("2023-12-21T01:50:56", NEVER),
        (-5, NEVER),
        (10**300, NEVER),
        (True, NEVER),
        (None, NEVER),
    ],
)
def test_the_time_of_an_update_is_unix_or_iso(given: Any, updated: int) -> None:
    assert read(resource(lastUpdated=given)).updated == updated


PLAY = accept("7", network="base-sepolia", asset=PLAY_USDC, payTo="0xPlay")
UNKNOWN = accept("7", asset=WETH, payTo="0xEth")
REAL = accept("20", network="solana", asset=SOLANA_USDC, payTo="So1")


@pytest.mark.parametrize(
    ("accepts", "amount", "pay_to", "networks"),
    [
        ([PLAY, REAL], "0.00002", "So1", ["Base Sepolia", "Solana"]),
        ([UNKNOWN, PLAY, REAL], "0.00002", "So1", ["Base", "Base Sepolia", "Solana"]),
        ([PLAY, UNKNOWN], "0.000007", "0xPlay", ["Base Sepolia", "Base"]),
        ([UNKNOWN, PLAY], "", "0xEth", ["Base", "Base Sepolia"]),
        ([REAL, accept("-1"), accept("x", network="base")], "0.00002", "So1", ["Solana", "Base"]),
    ],
)
def test_the_first_real_price_in_a_known_asset_counts_else_the_first(
    accepts: list[Json], amount: str, pay_to: str, networks: list[str]
) -> None:
    found = endpoint(resource(URL, *accepts))
    assert (found["pricing"]["amount"], found["payTo"]) == (amount, pay_to)
    assert read(resource(URL, *accepts)).networks == networks


def test_an_unknown_asset_keeps_no_price_and_is_reported() -> None:
    found = read(resource(URL, UNKNOWN))
    pricing = {"amount": "", "currency": "", "network": "Base", "scheme": "exact"}
    assert json.loads(bytes(found.endpoint))["pricing"] == pricing
    (notice,) = found.notices
    assert notice.path == "$.accepts[0].asset"
    assert "no stablecoin that is known on Base" in notice.reason
    assert not read(resource()).notices


@pytest.mark.parametrize(
    ("network", "asset", "amount"),
    [
        ("base", USDC.lower(), "1"),
        ("base", USDC.upper().replace("X", "x"), "1"),
        ("BASE", f"eip155:8453/erc20:{USDC}", "1"),
        ("eip155:56", "0x8AC76a51cc950d9822D68b83fE1Ad97B32Cd580d", "0.000000000001"),
        ("solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", SOLANA_USDC, "1"),
        ("solana", SOLANA_USDC.lower(), ""),
        ("polygon", USDC, ""),
    ],
)
def test_an_asset_is_known_by_its_network_and_address(
    network: str, asset: str, amount: str
) -> None:
    found = endpoint(resource(URL, accept("1000000", network=network, asset=asset)))
    assert found["pricing"]["amount"] == amount


@given(st.integers(0, 10**10))
def test_amounts_are_exact_and_plain(units: int) -> None:
    amount = endpoint(resource(URL, accept(str(units))))["pricing"]["amount"]
    assert Decimal(amount) == Decimal(units) / 10**6
    assert "E" not in amount
    assert "." not in amount or amount[-1] not in "0."


def test_of_the_scheme_upto_the_amount_is_the_most() -> None:
    pricing = {"amount": "", "currency": "USDC", "network": "Base", "scheme": "upto"}
    found = endpoint(resource(URL, accept("20000", scheme="upto")))
    assert found["pricing"] == pricing | {"maxAmount": "0.02"}
    assert endpoint(resource(URL, accept("7", scheme="batch")))["pricing"]["amount"] == "0.000007"


MALFORMED: dict[str, tuple[Json | bytes, str, str]] = {
    "not JSON": (b"nope", "$", "malformed"),
    "no object": (b"[1]", "$", "Expected `object`"),
    "not UTF-8": (b'{"resource": "\xff"}', "$", "not UTF-8 at byte 14"),
    "a lone surrogate": (b'{"resource": "\\ud800"}', "$", "half of a surrogate pair"),
    "nested without end": (b'{"x":' + b"[" * 9999 + b"]" * 9999 + b"}", "$", "too deeply"),
    "no resource": ({"accepts": [accept()]}, "$.resource", "there is no URL"),
    "a resource without URL": (resource({}), "$.resource.url", "there is no URL"),
    "a number for a URL": (resource(7), "$.resource", "is no text"),
    "no URL": (resource("weather"), "$.resource", "no URL with a host"),
    "a path": (resource("/v1/weather"), "$.resource", "no URL with a host"),
    "a script": (resource("javascript:alert(1)"), "$.resource", "no URL with a host"),
    "no host": (resource({"url": "https:///v1"}), "$.resource.url", "no URL with a host"),
    "an impossible host": (resource("https://a..b/"), "$.resource", "no host that there can be"),
    "a long host": (resource(f"https://{'a' * 300}.example/"), "$.resource", "no host"),
    "an impossible port": (resource("https://a.example:99999/"), "$.resource", "is no URL"),
    "an unclosed address": (resource("https://[::1/"), "$.resource", "is no URL"),
    "a blank": (resource("https://a.example/a b"), "$.resource", "in no URL"),
    "a backslash": (resource("https://a.example\\@b.example/"), "$.resource", "in no URL"),
    "a NUL": (resource("https://a.example/\0"), "$.resource", "in no URL"),
    "reversed text": (resource("https://a.example/\u202egnp"), "$.resource", "in no URL"),
    "a long URL": (resource(f"{URL}{'x' * 5000}"), "$.resource", "longer than the 4,096"),
    "no accepts": ({"resource": URL}, "$.accepts", "there is no price"),
    "empty accepts": ({"resource": URL, "accepts": []}, "$.accepts", "there is no price"),
    "accepts of no list": ({"resource": URL, "accepts": {}}, "$.accepts", "Expected `array`"),
    "accepts of numbers": (resource(URL, 7), "$.accepts[0]", "Expected `object`"),  # type: ignore[arg-type]  # that it is none is the point
    "no amount": (resource(URL, accept(None)), "$.accepts[0]", "there is no price"),
    "an empty amount": (resource(URL, accept("")), "$.accepts[0]", "there is no price"),
    "a negative amount": (resource(URL, accept("-1")), "$.accepts[0].amount", "is negative"),
    "a fraction": (resource(URL, accept("0.01")), "$.accepts[0].amount", "whole number"),
    "an exponent": (resource(URL, accept("1e4")), "$.accepts[0].amount", "whole number"),
    "a float": (resource(URL, accept(0.01)), "$.accepts[0].amount", "whole number"),
    "a price in dollars": (resource(URL, accept("$0.01")), "$.accepts[0].amount", "whole number"),
    "a truth": (resource(URL, accept(True)), "$.accepts[0].amount", "whole number"),
    "other digits": (resource(URL, accept("١٢")), "$.accepts[0].amount", "whole number"),
    "endless digits": (resource(URL, accept("9" * 300)), "$.accepts[0].amount", "78 digits"),
    "a negative amount of version 1": (
        v1({}, maxAmountRequired="-5"),
        "$.accepts[0].maxAmountRequired",
        "is negative",
    ),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_resource_is_rejected_with_its_place_and_reason(case: str) -> None:
    record, path, reason = MALFORMED[case]
    with pytest.raises(InvalidRecord) as caught:
        read(record)
    assert caught.value.path == path
    assert reason in caught.value.reason


def test_a_record_that_its_source_could_not_hold_is_rejected() -> None:
    with pytest.raises(InvalidRecord, match="longer than"):
        read_resource(SourceRecord("items[0]", b"", "longer than a record"), Policy())


PRIVATE = """
localhost localhost. LOCALHOST:8443 app.localhost printer.local db.internal nas.lan router.home.arpa
intranet 127.0.0.1 127.1 127.255.255.254 0.0.0.0 10.1.2.3 172.16.0.1 192.168.1.1 169.254.169.254
100.64.0.1 2130706433 0x7f000001 0x7f.1 0177.0.0.1 017700000001 224.0.0.1 [::1] [::] [fe80::1]
[fc00::1] [::ffff:127.0.0.1] [::ffff:7f00:1] [64:ff9b::7f00:1] [2002:7f00:1::] %6c%6fcalhost
127%2e0.0.1 １２７.0.0.1 localhost。 user@127.0.0.1 api.example.com@localhost
"""


@pytest.mark.parametrize("host", PRIVATE.split())
def test_private_addresses_are_left_out_however_they_are_spelt(host: str) -> None:
    with pytest.raises(Unlisted) as caught:
        read(resource(f"https://{host}/v1"))
    assert caught.value.policy == "private addresses"
    assert caught.value.path == "$.resource"


@pytest.mark.parametrize("host", ["8.8.8.8", "[2606:4700::1111]", "local.example", "10.example"])
def test_public_addresses_are_listed(host: str) -> None:
    assert read(resource(f"https://{host}/v1")).identity


@pytest.mark.parametrize(
    ("record", "policy", "allowed"),
    [
        (resource("http://a.example/"), "http resources", Policy(allow_http=True)),
        (resource("https://127.0.0.1/"), "private addresses", Policy(allow_private=True)),
        (
            resource("http://localhost:3000/a"),
            "private addresses",
            Policy(allow_private=True, allow_http=True),
        ),
        (
            resource(URL, accept("100000000000")),
            "implausible prices",
            Policy(max_price=Decimal(100_000)),
        ),
        (
            resource(URL, accept("10000000001", scheme="upto")),
            "implausible prices",
            Policy(max_price=Decimal("10000.000001")),
        ),
        (resource("https://api.example@evil.example/"), "URLs with credentials", None),
        (resource("mcp://tool/weather"), "resources not over https", None),
    ],
)
def test_what_a_policy_leaves_out_a_setting_lets_in(
    record: Json, policy: str, allowed: Policy | None
) -> None:
    with pytest.raises(Unlisted) as caught:
        read(record)
    assert caught.value.policy == policy
    assert caught.value.reason
    if allowed is not None:
        assert read(record, allowed).identity


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://a.example", "https://A.Example:443/"),
        ("https://a.example/x", "HTTPS://a.example./x#part"),
        ("https://bücher.example/x", "https://xn--bcher-kva.example/x"),
        ("https://8.8.8.8/x", "https://0x8080808/x"),
    ],
)
def test_two_spellings_of_a_url_are_one(one: str, other: str) -> None:
    assert read(resource(one)).identity == read(resource(other)).identity
    assert endpoint(resource(other))["url"] == other


@pytest.mark.parametrize("other", ["/X", "/x/", "/x?a=1", ":8443/x"])
def test_different_urls_stay_different(other: str) -> None:
    one = read(resource("https://a.example/x")).identity
    assert one != read(resource(f"https://a.example{other}")).identity


BODY = [
    {"group": "body", "name": "city", "type": "string", "description": "Where", "required": True},
    {"group": "body", "name": "days", "type": "number", "default": 3, "required": False},
]


@pytest.mark.parametrize(
    "declared",
    [
        {
            "bodyFields": {
                "city": {"type": "string", "description": "Where", "required": True},
                "days": {"type": "integer", "default": 3, "required": False},
            }
        },
        {
            "body_fields": {
                "type": "object",
                "required": ["city"],
                "properties": {
                    "city": {"type": "string", "description": "Where"},
                    "days": {"anyOf": [{"type": "null"}, {"type": "integer"}], "default": 3},
                },
            }
        },
        {
            "bodyFields": [
                {"name": "city", "type": "string", "description": "Where", "required": True},
                {"name": "days", "type": "number", "default": 3, "required": False},
            ]
        },
        {
            "required": ["city"],
            "properties": {
                "city": {"type": ["null", "string"], "description": "Where"},
                "days": {"type": "int", "default": 3},
            },
        },
    ],
)
def test_the_fields_of_version_1_become_parameters(declared: Json) -> None:
    assert parameters(v1({"method": "POST"} | declared)) == BODY


def test_examples_and_their_schema_become_parameters() -> None:
    record = v2(
        {"method": "GET", "queryParams": {"city": "Oslo", "days": 2}, "headers": {"X-Key": "a"}},
        {
            "queryParams": {
                "type": "object",
                "required": ["city"],
                "properties": {
                    "city": {"type": "string", "enum": ["Oslo", "Rome"]},
                    "days": {"type": "integer", "default": 1.10},
                },
            },
            "headers": {"properties": {"X-Key": {"type": "string"}}},
        },
    )
    assert endpoint(record)["method"] == "GET"
    assert parameters(record) == [
        {
            "group": "query",
            "name": "city",
            "type": "string",
            "example": "Oslo",
            "enumValues": ["Oslo", "Rome"],
            "required": True,
        },
        {
            "group": "query",
            "name": "days",
            "type": "number",
            "example": 2,
            "default": 1.1,
            "required": False,
        },
    ]


@pytest.mark.parametrize(
    ("described", "expected"),
    [
        ("string", {"type": "string"}),
        ("integer parameter", {"type": "number"}),
        ("The city to look up", {"type": "string", "description": "The city to look up"}),
        ({"type": '"a" | "b"'}, {"type": "string", "enumValues": ["a", "b"]}),
        ({"enum": [1, 2]}, {"type": "number", "enumValues": [1, 2]}),
        ({"items": {"type": "string"}}, {"type": "array"}),
        ({"type": "file", "examples": ["x.png"]}, {"type": "string", "example": "x.png"}),
        ({"type": "datetime", "example": True}, {"type": "boolean", "example": True}),
        ({"type": {"type": []}, "description": 7, "enum": 7}, {"type": "string"}),
        (None, {"type": "string"}),
        (7, {"type": "string"}),
    ],
)
def test_a_field_is_described_in_many_ways(described: Any, expected: Json) -> None:
    found = parameters(v1({"method": "GET", "queryParams": {"q": described}}))
    assert found == [{"group": "query", "name": "q"} | expected]


def test_an_mcp_tool_is_known_by_its_name() -> None:
    record = v2(
        {
            "type": "mcp",
            "tool": "analyse",
            "description": "Analyses a stock",
            "inputSchema": {"properties": {"ticker": {"type": "string"}}, "required": ["ticker"]},
            "example": {"ticker": "AAPL"},
        }
    )
    found = endpoint(record)
    assert (found["method"], found["tool"], found["description"]) == (
        "",
        "analyse",
        "Analyses a stock",
    )
    (ticker,) = found["parameters"]
    assert ticker == {
        "group": "body",
        "name": "ticker",
        "type": "string",
        "example": "AAPL",
        "required": True,
    }


@pytest.mark.parametrize(
    ("url", "template", "expected", "names"),
    [
        ("https://a.example/u/7", "/u/:id", "https://a.example/u/:id", ["id"]),
        ("https://a.example/u/7?v=1", "/u/:id", "https://a.example/u/:id?v=1", ["id"]),
        ("https://a.example/api/u/7", "/u/:id", "https://a.example/api/u/7", []),
        ("https://a.example/u/7", "/w/:id", "https://a.example/u/7", []),
        ("https://a.example/u/7", f"/u/:{'i' * 5000}", "https://a.example/u/7", []),
        ("https://a.example/u/7", "//evil.example", "https://a.example/u/7", []),
        ("https://a.example/{a}/x/:b_c/[d]", None, "https://a.example/{a}/x/:b_c/[d]", list("abd")),
        ("https://a.example/x/urn:swarm:1", None, "https://a.example/x/urn:swarm:1", []),
    ],
)
def test_placeholders_in_the_path_are_parameters(
    url: str, template: str | None, expected: str, names: list[str]
) -> None:
    record = v2({"method": "GET"}, routeTemplate=template) | {"resource": url}
    found = endpoint(record)
    assert found["url"] == expected
    path = [each for each in found.get("parameters", []) if each["group"] == "path"]
    assert [each["name"][0] for each in path] == [name[0] for name in names]
    assert all(each["required"] for each in path)


@pytest.mark.parametrize(
    "schema",
    [
        "text",
        [1],
        {"input": 7},
        {"input": {"queryParams": [[]], "bodyFields": "x", "method": ["GET"]}},
        {"input": {"properties": {"a": 7}, "required": {}}},
        {"input": {"queryParams": {"": {"type": "string"}}}},
    ],
)
def test_a_schema_that_cannot_be_understood_costs_the_parameters_alone(schema: Any) -> None:
    record = v1({})
    record["accepts"][0]["outputSchema"] = schema
    assert parameters(record) == []


def test_values_in_a_schema_are_kept_to_the_last_digit_unless_they_would_break_what_is_beside() -> (
    None
):
    deep = "[" * 500 + "]" * 500
    text = json.dumps(
        v1({"method": "GET", "queryParams": {"a": {"default": "A"}, "b": {"default": "B"}}})
    )
    exact = endpoint(text.replace('"A"', "123456789012345678901234567890.10").encode())
    assert exact["parameters"][0]["default"] == pytest.approx(1.2345678901234568e29)
    raw = bytes(read(text.replace('"A"', "1E400").replace('"B"', deep).encode()).endpoint)
    assert b'"default":1E+400' in raw
    assert b"[[" not in raw
    undecodable = endpoint(text.replace('"A"', "1" * 5000).encode())
    assert "parameters" not in undecodable


@pytest.mark.parametrize(
    "icon",
    [
        "javascript:alert(1)",
        "data:image/png;base64,AAAA",
        "https://127.0.0.1/a.png",
        "https://a@b.example/a.png",
        "/icon.png",
        7,
    ],
)
def test_metadata_that_breaks_a_rule_is_dropped_and_the_rest_kept(icon: Any) -> None:
    record = resource(serviceName="a\nb", iconUrl=icon, tags="x", description=["x"], quality=[1])
    found = read(record | {"metadata": {"serviceName": "Weather"}})
    assert (found.metadata.service_name, found.metadata.icon_url) == ("Weather", "")
    assert (found.metadata.tags, found.metadata.description) == ([], "")
    assert found.usage.calls is None


@pytest.mark.parametrize("count", [-1, 1.5, "x", True, 2**63, "9" * 30, None, {}])
def test_a_count_that_is_none_is_dropped(count: Any) -> None:
    assert "quality" not in endpoint(resource(quality={"l30DaysTotalCalls": count}))


SHAPED = [
    resource(
        {"url": URL, "description": "d", "tags": ["a"]},
        accept(),
        PLAY,
        quality={"l30DaysTotalCalls": 5, "lastCalledAt": "2026-06-14T17:02:31.915Z"},
        lastUpdated="2026-06-14T17:02:31.915Z",
        metadata={},
    ),
    v1(
        {"method": "POST", "bodyFields": {"a": {"type": "string", "enum": ["x"], "required": True}}}
    ),
    v2(
        {"method": "GET", "queryParams": {"city": "Oslo"}},
        {"queryParams": {"properties": {"city": {"type": "string"}}, "required": ["city"]}},
        routeTemplate="/v1/:what",
    ),
]

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(2**64, 10**300)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.sampled_from(
        ["", "\0", "\u202e", "https://x", "https://\u2100", "10000", "-1", "object", '"a" | "b"']
    )
    | st.from_regex(r"https?://[a-z0-9.%:@\[\]]{0,20}(/.*)?", fullmatch=True),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "properties", "url", "enum", "items", "x"]), inner
        )
    ),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if not isinstance(value, (dict, list)):
        return [path]
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    return [path, *(found for key, each in inner for found in places(each, (*path, key)))]


@settings(max_examples=400, deadline=None)
@given(st.data(), st.sampled_from(SHAPED))
def test_whatever_stands_where_in_a_resource_it_is_listed_or_said_why_not(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, shaped: Json
) -> None:
    record = {"": copy.deepcopy(shaped)}
    for path in data.draw(st.lists(st.sampled_from(places(record)[1:]), min_size=1, max_size=3)):
        target: Any = record
        try:
            for key in path[:-1]:
                target = target[key]
            target[path[-1]] = data.draw(json_values)
        except (TypeError, IndexError, KeyError):
            continue  # an earlier change took the place away
    try:
        found = read(json.dumps(record[""]).encode(), Policy(allow_http=True))
    except (InvalidRecord, Unlisted):
        return
    with (tmp_path_factory.getbasetemp() / "mutated").open("wb") as spool:
        discovery = Discovery(spool)
        discovery.add(0, "items[0]", found)
        (service,) = discovery.services()
    assert normalise(SourceRecord(service.position, service.text)).endpoints == 1
