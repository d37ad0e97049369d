"""Valid records: their ids, their order, their price summaries, and nothing else changed."""

from __future__ import annotations

import json
from decimal import Context, Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.catalogue.record import normalise
from indexer.sources.records import SourceRecord
from service.snapshot.snapshot import open_snapshot
from tests.support.running import Build, Json, endpoint, serve, service

EXACT = Context(prec=99)
NOTHING_PRICED = {
    "minAmount": "",
    "maxAmount": "",
    "avgCostPerTransaction": "",
    "avgCostBasis": "varies",
    "currency": "",
}


def stored(artifacts: Path) -> list[Json]:
    records: list[Json] = json.loads(
        b"[%b]" % bytes(open_snapshot(artifacts).services.slice(0, 999))
    )
    return records


def ids(artifacts: Path) -> list[str]:
    return [record["id"] for record in stored(artifacts)]


def summary(*endpoints: Json) -> Json | None:
    text = json.dumps(service(endpoints=list(endpoints))).encode()
    record = json.loads(normalise(SourceRecord("line 1", text)).text)
    found: Json | None = record["priceSummary"]
    return found


def test_a_record_is_served_as_it_came(tmp_path: Path, artifacts: Path, build: Build) -> None:
    text = (
        '{"id":"kept","name":"Cafe\\u0301 \\ud83e\\udd8a ﬁ Å","description":" \\/ \\u0000 ",'
        '"later":{"z":123456789012345678901234567890,"a":1.000000000000000000001,"e":1E400,"n":-0},'
        '"endpoints":[{"url":"u","method":"GET, POST","pricing":{"amount":"1.50","currency":"X",'
        '"scheme":"stream","more":[null]},"parameters":[{"group":"body","name":"n","type":"array",'
        '"example":99999999999999999999,"default":{"b":1,"a":2},"enumValues":[1,"1",null]}],'
        '"new":true}],"priceSummary":null}'
    )
    source = tmp_path / "feed.json"
    source.write_text("[ " + text.replace(',"', ' , "') + " ]")
    assert build(source) == 0
    with serve(artifacts) as client:
        assert client.get("/v1/services/kept").text == f'{{"service":{text}}}'
        assert client.get("/v1/services").text.startswith(f'{{"services":[{text}],')


def test_only_what_is_absent_is_added(artifacts: Path, build: Build) -> None:
    record = service(None, domain="One.Example:8443")
    assert build([record]) == 0
    (found,) = stored(artifacts)
    assert found.keys() - record.keys() == {"id", "priceSummary"}
    assert found["id"] == "one-example-8443"
    assert {key: found[key] for key in record} == record


def test_domains_that_would_share_an_id_get_a_hash_each(artifacts: Path, build: Build) -> None:
    domains = ("a.b.example", "a-b.example", "c.example")
    records = [service(None, domain=domain) for domain in domains]
    assert build(records) == 0
    first = set(ids(artifacts))
    assert len(first) == 3
    assert all(len(i) == len("a-b-example-") + 8 for i in first - {"c-example"})
    assert build(records[::-1]) == 0
    assert set(ids(artifacts)) == first


def test_a_derived_id_that_another_service_was_given_gets_a_hash(
    artifacts: Path, build: Build
) -> None:
    given_one = service("a-example", domain="other.example")
    assert build([given_one, service(None, domain="a.example")]) == 0
    one, other = sorted(ids(artifacts))
    assert one == "a-example"
    assert other.startswith("a-example-")


def test_a_derived_id_replaces_the_same_service_of_an_earlier_source(
    artifacts: Path, build: Build
) -> None:
    raw = service("a-example", domain="a.example", name="raw")
    curated = service(None, domain="A.example", name="curated")
    assert build([raw], [curated]) == 0
    (found,) = stored(artifacts)
    assert (found["id"], found["name"]) == ("a-example", "curated")


@pytest.mark.parametrize(
    ("domain", "more"),
    [
        ("api.example.com", {}),
        ("API.example.com", {"domain": "api.example.com"}),
        ("api.example.com", {"domain": "https://api.example.com"}),
        ("https://api.example.com/", {"domain": "Api.Example.com"}),
        ("api.example.com", {"domain": ""}),
        ("bücher.example", {"domain": "xn--bcher-kva.example"}),
        ("xn--bcher-kva.example", {"domain": "http://Bücher.example/"}),
    ],
)
def test_a_later_source_replaces_a_service_by_its_derived_id(
    domain: str, more: Json, artifacts: Path, build: Build
) -> None:
    assert build([service(None, domain=domain, name="raw")]) == 0
    (served,) = ids(artifacts)
    assert build([service(None, domain=domain, name="raw")], [service(served, **more)]) == 0
    (found,) = stored(artifacts)
    assert (found["id"], found["name"]) == (served, "One")


def test_a_derived_id_replaces_a_service_without_a_domain_of_an_earlier_source(
    artifacts: Path, build: Build
) -> None:
    curated = service(None, domain="a.example", name="curated")
    assert build([service("a-example", name="raw")], [curated]) == 0
    (found,) = stored(artifacts)
    assert (found["id"], found["name"]) == ("a-example", "curated")


def test_a_derived_id_given_with_another_domain_is_another_service(
    artifacts: Path, build: Build
) -> None:
    raw = service(None, domain="api.example.com")
    other = service("api-example-com", domain="not idna \u2024.example")
    assert build([raw], [other]) == 0
    assert len(ids(artifacts)) == 2


def test_domains_that_idna_2008_tells_apart_are_two_services(artifacts: Path, build: Build) -> None:
    sharp, double = service(None, domain="faß.example"), service(None, domain="fass.example")
    assert build([sharp], [double]) == 0
    assert sorted(ids(artifacts)) == ["fass-example", "xn--fa-hia-example"]


def test_within_one_source_an_id_and_a_domain_that_derives_it_are_two_services(
    artifacts: Path, build: Build
) -> None:
    assert build([service(None, domain="a.example"), service("a-example")]) == 0
    assert len(ids(artifacts)) == 2


@pytest.mark.parametrize(
    ("domain", "service_id"),
    [("search", "search-"), ("bücher.example", "xn--bcher-kva-example"), ("x" * 300, "x" * 247)],
)
def test_unusual_domains_get_valid_ids(
    domain: str, service_id: str, artifacts: Path, build: Build
) -> None:
    assert build([service(None, domain=domain)]) == 0
    (found,) = ids(artifacts)
    assert found.startswith(service_id)
    assert len(found) <= 256
    assert open_snapshot(artifacts).find(found) is not None


def test_of_duplicate_ids_the_last_source_wins_and_within_it_the_first_record(
    artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = [service("a", name="raw a"), service("b", name="raw b"), service("a", name="again")]
    overlay = [service("a", name="curated a"), service("c", name="new c")]
    assert build(raw, overlay) == 0
    names = [record["name"] for record in stored(artifacts)]
    assert names == ["curated a", "raw b", "new c"]
    assert "1 duplicate ids, 1 replaced by a later source" in capsys.readouterr().out


def test_services_are_listed_curated_first_then_by_calls_then_by_id(
    artifacts: Path, build: Build
) -> None:
    def called(service_id: str, *calls: str | None, **fields: object) -> Json:
        endpoints = [
            endpoint() | {"quality": count and {"l30DaysTotalCalls": count}} for count in calls
        ]
        return service(service_id, endpoints=endpoints, **fields)

    most = str(2**63 - 1)
    records = [
        called("z", "5", None, "5"),
        called("y", most),
        called("x", most, most),
        called("b", enriched=False),
        called("a"),
        called("q", "1", enriched=True),
        called("p", "9", enriched=True),
        called("B", "0"),
    ]
    assert build(records) == 0
    assert ids(artifacts) == ["p", "q", "x", "y", "z", "B", "a", "b"]


def test_the_price_summary_covers_amounts_and_bounds() -> None:
    assert summary(
        endpoint("0.0100", scheme="exact"),
        endpoint("0.02", scheme="exact"),
        endpoint("0.5", scheme="upto", minAmount="0.001", maxAmount="10.00"),
        endpoint("", scheme="exact"),
    ) == {
        "minAmount": "0.001",
        "maxAmount": "10",
        "avgCostPerTransaction": "0.015",
        "avgCostBasis": "exact",
        "currency": "USDC",
    }


def test_without_a_fixed_price_the_cost_varies() -> None:
    bounded = summary(endpoint("", scheme="upto", minAmount="0.001", maxAmount="1"))
    assert bounded is not None
    assert (bounded["avgCostPerTransaction"], bounded["avgCostBasis"]) == ("", "varies")
    assert summary(endpoint("", scheme="upto")) == NOTHING_PRICED


def test_without_any_price_there_is_no_summary() -> None:
    assert summary() is None
    assert summary(endpoint("", scheme="exact"), endpoint("")) is None


def test_prices_on_test_networks_count_only_where_there_are_no_others() -> None:
    play = endpoint("0.001", network="eip155:84532", scheme="exact")
    found = summary(play, endpoint("5", network="Base", scheme="exact"), play)
    assert found is not None
    assert (found["minAmount"], found["avgCostPerTransaction"]) == ("5", "5")
    alone = summary(play)
    assert alone is not None
    assert alone["minAmount"] == "0.001"
    assert summary(play, endpoint("", network="Base")) is None


def test_prices_in_the_currency_of_most_endpoints_are_compared() -> None:
    found = summary(endpoint("9", "EURC"), endpoint("1"), endpoint("2"), endpoint("7", "EURC"))
    assert found is not None
    assert (found["currency"], found["maxAmount"]) == ("EURC", "9")


@settings(deadline=None)  # a loaded machine is slow
@given(st.lists(st.integers(0, 10**40), min_size=1, max_size=9), st.integers(0, 30))
def test_the_average_is_exact_before_it_is_rounded(units: list[int], places: int) -> None:
    amounts = [Fraction(unit, 10**places) for unit in units]
    texts = [f"{Decimal(unit).scaleb(-places, EXACT):f}" for unit in units]
    found = summary(*(endpoint(text, scheme="exact") for text in texts))
    assert found is not None
    assert Fraction(found["minAmount"]) == min(amounts)
    assert Fraction(found["maxAmount"]) == max(amounts)
    average = sum(amounts, Fraction(0)) / len(amounts)
    step = Fraction(1, 100) if average >= 1 else Fraction(1, 10**6)
    assert abs(Fraction(found["avgCostPerTransaction"]) - average) <= step / 2
