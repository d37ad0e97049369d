"""Rules: the policy, the denials and the date of a build leave resources out."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from msgspec import structs

from indexer.errors import LeftOut
from indexer.intake.rules import TAKEN_DOWN, Denials, Rules
from indexer.options import Denial, Policy
from indexer.resources.x402 import NO_SERVER
from indexer.untrusted import NEVER
from tests.support.running import Json
from tests.support.sources.x402 import URL, accept, read, resource, v2

NOW = datetime(2026, 5, 7, tzinfo=UTC)


@pytest.mark.parametrize(
    ("updated", "is_known"),
    [
        ("2026-05-07T01:00:00Z", True),
        ("2026-05-07T01:00:00.001Z", False),
        ("9999-12-31T23:59:59Z", False),
        (99_999_999_999, False),
        (9_999_999_999_999, False),
        ("2026-05-07T03:00:00+02:00", True),
    ],
)
def test_a_date_more_than_an_hour_past_the_build_counts_as_none(
    updated: Any, is_known: bool
) -> None:
    rules = Rules(Policy(), now=NOW)
    parsed = read(resource(lastUpdated=updated), rules)
    assert (parsed.updated != NEVER) == (b"lastUpdated" in parsed.text) == is_known
    assert (rules.holds_until is None) == is_known


@pytest.mark.parametrize(
    ("updated", "is_listed"),
    [
        ("2026-05-05T00:00:00Z", True),
        ("2026-05-04T23:59:59Z", False),
        ("yesterday", True),
        (None, True),
    ],
)
def test_a_listing_older_than_the_policy_allows_is_left_out(updated: Any, is_listed: bool) -> None:
    rules = Rules(Policy(max_age=2 * 24 * 3600), now=NOW)
    if is_listed:
        assert read(resource(lastUpdated=updated), rules)
        return
    with pytest.raises(LeftOut) as caught:
        read(resource(lastUpdated=updated), rules)
    assert (caught.value.rule, caught.value.path) == ("old listings", "$.lastUpdated")
    assert "2026-05-04T23:59:59.000Z" in caught.value.reason


@pytest.mark.parametrize(
    "denial",
    [
        Denial(host="API.weather-data.example"),
        Denial(host="*.weather-data.example"),
        Denial(domain="api.weather-data.example"),
        Denial(payee="0XPAY"),
        Denial(url="HTTPS://api.weather-data.example:443/v1/%66orecast"),
    ],
)
def test_a_resource_that_is_taken_down_is_left_out_with_the_reason(denial: Denial) -> None:
    reasoned = structs.replace(denial, reason="phishing")
    rules = Rules(Policy(), Denials([reasoned]))
    other = resource("https://other.example/", accept(payTo="0xOther"))
    assert read(other, rules)
    with pytest.raises(LeftOut) as caught:
        read(resource(URL, accept(payTo="0xFirst"), accept()), rules)
    assert (caught.value.rule, caught.value.reason) == (TAKEN_DOWN, "phishing")


def test_a_url_that_a_route_template_makes_may_be_taken_down() -> None:
    templated = v2({"method": "GET"}, routeTemplate="/v1/:kind")
    denial = Denial(url="https://api.weather-data.example/v1/:kind")
    with pytest.raises(LeftOut):
        read(templated, Rules(Policy(), Denials([denial])))


PRIVATE = """
localhost localhost. LOCALHOST:8443 app.localhost printer.local db.internal nas.lan router.home.arpa
intranet 127.0.0.1 127.1 127.255.255.254 0.0.0.0 10.1.2.3 172.16.0.1 192.168.1.1 169.254.169.254
100.64.0.1 2130706433 0x7f000001 0x7f.1 0177.0.0.1 017700000001 224.0.0.1 [::1] [::] [fe80::1]
[fc00::1] [::ffff:127.0.0.1] [::ffff:7f00:1] [64:ff9b::7f00:1] [2002:7f00:1::] %6c%6fcalhost
127%2e0.0.1 １２７.0.0.1 localhost。 user@127.0.0.1 api.example.com@localhost
"""


@pytest.mark.parametrize("host", PRIVATE.split())
def test_a_private_address_is_left_out_in_any_spelling(host: str) -> None:
    with pytest.raises(LeftOut) as caught:
        read(resource(f"https://{host}/v1"))
    assert caught.value.rule == "private addresses"
    assert caught.value.path == "$.resource"


@pytest.mark.parametrize("host", ["8.8.8.8", "[2606:4700::1111]", "local.example", "10.example"])
def test_a_public_address_is_listed(host: str) -> None:
    assert read(resource(f"https://{host}/v1")).identity


@pytest.mark.parametrize(
    ("record", "rule", "allowed"),
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
        (resource("mcp://server/weather"), "resources not over https", None),
        (resource("mcp://tool/weather", accept(payTo="")), NO_SERVER, None),
        (
            resource("mcp://tool/weather", metadata={"serverUrl": "http://mcp.example/mcp"}),
            "http resources",
            Policy(allow_http=True),
        ),
    ],
)
def test_a_resource_is_left_out_by_a_rule_unless_an_option_allows_it(
    record: Json, rule: str, allowed: Policy | None
) -> None:
    with pytest.raises(LeftOut) as caught:
        read(record)
    assert caught.value.rule == rule
    assert caught.value.reason
    if allowed is not None:
        assert read(record, Rules(allowed)).identity
