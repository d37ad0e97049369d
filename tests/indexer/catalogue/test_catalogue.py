"""Valid records: ids, listing order and price summaries; everything else is unchanged."""

from __future__ import annotations

import json
from decimal import Context, Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.catalogue.records import read_record
from service.snapshot.snapshot import open_snapshot
from tests.support.artifacts import overlays, records_of, reported
from tests.support.running import Build, Json, endpoint, serve, service
from tests.support.sources.x402 import resource

EXACT = Context(prec=99)
NOTHING_PRICED = {
    "minAmount": "",
    "maxAmount": "",
    "avgCostPerTransaction": "",
    "avgCostBasis": "varies",
    "currency": "",
}


def stored(artifacts: Path) -> list[Json]:
    return [*records_of(artifacts).values()]


def ids(artifacts: Path) -> list[str]:
    return [*records_of(artifacts)]


def summary(*endpoints: Json) -> Json | None:
    text = json.dumps(service(endpoints=list(endpoints))).encode()
    record = json.loads(read_record(text).text)
    price_summary: Json | None = record["priceSummary"]
    return price_summary


def test_a_record_is_served_unchanged(tmp_path: Path, artifacts: Path, build: Build) -> None:
    text = (
        '{"id":"unchanged","name":"Cafe\\u0301 \\ud83e\\udd8a ﬁ Å","description":" \\/ \\u0000 ",'
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
        assert client.get("/v1/services/unchanged").text == f'{{"service":{text}}}'
        assert client.get("/v1/services").text.startswith(f'{{"services":[{text}],')


def test_only_missing_fields_are_derived(artifacts: Path, build: Build) -> None:
    record = service(None, domain="One.Example:8443")
    assert build([record]) == 0
    (served,) = stored(artifacts)
    assert served.keys() - record.keys() == {"id", "priceSummary"}
    assert served["id"] == "one-example-8443"
    assert {key: served[key] for key in record} == record


def domain_ids(artifacts: Path) -> dict[str, str]:
    return {record["domain"]: record["id"] for record in stored(artifacts)}


def test_of_domains_with_one_derived_id_the_served_one_keeps_it_and_the_others_get_a_hash(
    artifacts: Path, build: Build
) -> None:
    domains = ("a.b.example", "a-b.example", "c.example")
    records = [service(None, domain=domain) for domain in domains]
    assert build(records) == 0
    first = domain_ids(artifacts)
    suffixed = first.pop("a-b.example")
    assert first == {"a.b.example": "a-b-example", "c.example": "c-example"}
    assert suffixed.startswith("a-b-example-")
    assert len(suffixed) == len("a-b-example-") + 8
    neighbours = [service(None, domain=domain) for domain in ("a.b-example", "a-b-example")]
    assert build([*neighbours, *records[::-1]], options=("--from-scratch",)) == 0
    assert domain_ids(artifacts).items() > {**first, "a-b.example": suffixed}.items()
    assert build(records[::-1], options=("--forget",)) == 0
    assert domain_ids(artifacts)["a-b.example"] == "a-b-example"


def test_a_domain_may_be_taken_down_by_its_name(
    tmp_path: Path, artifacts: Path, build: Build
) -> None:
    records = [service(None, domain=each) for each in ("scam.shop.example", "scam-shop.example")]
    for options in (
        overlays(tmp_path, {"domain:SCAM.shop.example": None}),
        ("--deny", "domain:scam.shop.example"),
    ):
        assert build(records, options=options) == 0
        assert domain_ids(artifacts).keys() == {"scam-shop.example"}


@pytest.mark.parametrize("is_overlay", [True, False])
def test_a_domain_is_taken_down_at_every_port(
    tmp_path: Path, artifacts: Path, build: Build, *, is_overlay: bool
) -> None:
    hosts = [f"{host}.example{port}" for host in ("scam", "shop") for port in ("", ":8443")]
    named = [endpoint() | {"url": "https://scam.example:81/x"}, endpoint()]
    records = [service(f"of{n}", domain=host) for n, host in enumerate(hosts)]
    patch = overlays(tmp_path, {"domain:scam.example": None})
    options = patch if is_overlay else ("--deny", "domain:scam.example")
    resources = [resource(f"https://{host}/x") for host in hosts]
    assert build([service("own", endpoints=named), *records], resources, options=options) == 0
    left = [url for each in stored(artifacts) for url in _addresses(each)]
    assert left
    assert not [url for url in left if "scam" in url]
    assert {each.get("domain") for each in stored(artifacts)} == {None, *hosts[2:]}


def _addresses(record: Json) -> list[str]:
    return [record.get("domain", ""), *(each["url"] for each in record["endpoints"])]


@pytest.mark.parametrize("more", [{}, {"domain": "A.example"}])
def test_a_derived_id_replaces_the_same_service_of_an_earlier_source(
    more: Json, artifacts: Path, build: Build
) -> None:
    curated = service(None, domain="a.example", name="curated")
    assert build([service("a-example", name="raw", **more)], [curated]) == 0
    (record,) = stored(artifacts)
    assert (record["id"], record["name"]) == ("a-example", "curated")


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
    (record,) = stored(artifacts)
    assert (record["id"], record["name"]) == (served, "One")


def test_a_derived_id_given_with_another_domain_is_another_service(
    artifacts: Path, build: Build
) -> None:
    raw = service(None, domain="api.example.com")
    other = service("api-example-com", domain="not idna \u2024.example")
    assert build([raw], [other]) == 0
    assert len(ids(artifacts)) == 2


def test_domains_that_differ_in_idna_2008_are_two_services(artifacts: Path, build: Build) -> None:
    sharp, double = service(None, domain="faß.example"), service(None, domain="fass.example")
    assert build([sharp], [double]) == 0
    assert sorted(ids(artifacts)) == ["fass-example", "xn--fa-hia-example"]


@pytest.mark.parametrize("more", [{}, {"domain": "A.example"}])
def test_within_one_source_an_id_that_another_record_derives_is_a_duplicate(
    more: Json, artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    derived = service(None, domain="a.example", name="derived")
    records = [derived, service("a-example", name="given", **more)]
    for each in (records, records[::-1]):
        assert build(each, options=("--json",)) == 0
        assert [record["name"] for record in stored(artifacts)] == [each[0]["name"]]
        assert reported(capsys)["sources"][0]["leftOut"] == {"duplicate ids": 1}


@pytest.mark.parametrize(
    ("domain", "service_id"),
    [("search", "search-"), ("bücher.example", "xn--bcher-kva-example"), ("x" * 300, "x" * 247)],
)
def test_unusual_domains_get_valid_ids(
    domain: str, service_id: str, artifacts: Path, build: Build
) -> None:
    assert build([service(None, domain=domain)]) == 0
    (derived,) = ids(artifacts)
    assert derived.startswith(service_id)
    assert len(derived) <= 256
    assert open_snapshot(artifacts).find(derived) is not None


def test_of_duplicate_ids_the_last_source_wins_and_within_it_the_first_record(
    artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = [service("a", name="raw a"), service("b", name="raw b"), service("a", name="again")]
    overlay = [service("a", name="curated a"), service("c", name="new c")]
    assert build(raw, overlay, options=("--json",)) == 0
    names = [record["name"] for record in stored(artifacts)]
    assert names == ["curated a", "raw b", "new c"]
    first, second = reported(capsys)["sources"]
    assert first["leftOut"] == {"duplicate ids": 1, "replaced by a later source": 1}
    assert (first["records"], first["published"]) == (3, 1)
    assert (second["records"], second["published"], second["leftOut"]) == (2, 2, {})


def test_the_listing_order_is_enriched_then_payers_then_id(artifacts: Path, build: Build) -> None:
    def paid(service_id: str, *payers: str | None, **fields: object) -> Json:
        endpoints = [
            endpoint() | {"quality": count and {"l30DaysUniquePayers": count}} for count in payers
        ]
        return service(service_id, endpoints=endpoints, **fields)

    most = str(2**63 - 1)
    records = [
        paid("z", "5", None, "5"),
        paid("y", most),
        paid("x", most, most),
        paid("b", enriched=False),
        paid("a"),
        paid("q", "1", enriched=True),
        paid("p", "9", enriched=True),
        paid("B", "0"),
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


def test_a_price_of_an_empty_scheme_is_exact() -> None:
    assert summary(endpoint("0.01", scheme="")) == summary(endpoint("0.01"))


def test_without_any_price_there_is_no_summary() -> None:
    assert summary() is None
    assert summary(endpoint("", scheme="exact"), endpoint("")) is None


def test_prices_on_test_networks_are_summarised_only_without_others() -> None:
    play = endpoint("0.001", network="eip155:84532", scheme="exact")
    summarised = summary(play, endpoint("5", network="Base", scheme="exact"), play)
    assert summarised is not None
    assert (summarised["minAmount"], summarised["avgCostPerTransaction"]) == ("5", "5")
    alone = summary(play)
    assert alone is not None
    assert alone["minAmount"] == "0.001"
    assert summary(play, endpoint("", network="Base")) is None


def test_prices_in_the_currency_of_most_endpoints_are_compared() -> None:
    summarised = summary(endpoint("9", "EURC"), endpoint("1"), endpoint("2"), endpoint("7", "EURC"))
    assert summarised is not None
    assert (summarised["currency"], summarised["maxAmount"]) == ("EURC", "9")


@settings(deadline=None)  # slow on a loaded machine
@given(st.lists(st.integers(0, 10**40), min_size=1, max_size=9), st.integers(0, 30))
def test_the_average_is_exact_before_rounding(units: list[int], places: int) -> None:
    amounts = [Fraction(unit, 10**places) for unit in units]
    texts = [f"{Decimal(unit).scaleb(-places, EXACT):f}" for unit in units]
    summarised = summary(*(endpoint(text, scheme="exact") for text in texts))
    assert summarised is not None
    assert Fraction(summarised["minAmount"]) == min(amounts)
    assert Fraction(summarised["maxAmount"]) == max(amounts)
    average = sum(amounts, Fraction(0)) / len(amounts)
    step = Fraction(1, 100) if average >= 1 else Fraction(1, 10**6)
    assert abs(Fraction(summarised["avgCostPerTransaction"]) - average) <= step / 2
