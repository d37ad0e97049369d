"""`/v1/listings`: the fates of URLs, and those of a host or a payee."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.intake import CatalogueFolder, source
from tests.support.running import Json, endpoint, open_app, service
from tests.support.sources.x402 import accept, resource, v1, v2

HERE, THERE, EVIL = ("0x" + digits * 20 for digits in ("11", "22", "ee"))
GET = {"method": "GET", "queryParams": {"q": "rain"}}
BASE = "https://api.one.example"


def described(url: str, **fields: Any) -> Json:
    """Return a resource without faults."""
    return (
        v2(GET) | {"resource": url, "description": "Rain", "accepts": [accept(payTo=HERE)]} | fields
    )


def at(url: str, **fields: Any) -> Json:
    """Return an endpoint of a catalogue record."""
    return endpoint() | {"url": url, "description": "Wind"} | fields


FIRST: list[Any] = [
    described(f"{BASE}/good"),
    described(f"{BASE}/twice", lastUpdated="2026-01-01T00:00:00Z"),
    described(f"{BASE}/twice", lastUpdated="2026-02-01T00:00:00Z"),
    described(f"{BASE}/merged"),
    described("http://api.one.example/plain"),
    described(f"{BASE}/dear", accepts=[accept("10" + "0" * 15, payTo=HERE)]),
    described(f"{BASE}/broken", accepts=[accept("0.01", payTo=HERE)]),
    described(f"{BASE}/items/7")
    | {"extensions": {"bazaar": {"info": {"input": GET}, "routeTemplate": "/items/:id"}}},
    described("https://bad.evil.example/a"),
    described("https://known.evil.example/a"),
    described(f"{BASE}/paid", accepts=[accept(payTo=EVIL)]),
    described("https://templated.example/broken", accepts=[accept("0.01", payTo=HERE)]),
    {"resource": 7, "accepts": []},
    {"resource": "no URL", "accepts": []},
]
SECOND: list[Any] = [
    described(f"{BASE}/merged", accepts=[accept(payTo=THERE)]),
    described(f"{BASE}/broken"),
    described("https://api.curated.example/hidden"),
    v1({"method": "GET"}) | {"resource": f"{BASE}/bare"},
    resource(f"{BASE}/of/:city/{{day}}", accept(), extensions={"bazaar": {"bazaar": {}}}),
    described(f"{BASE}/referring")
    | {
        "extensions": {"bazaar": {"info": {"input": GET}, "schema": {"$ref": "https://x.example/"}}}
    },
    described(f"{BASE}/mixed", x402Version=1),
]
RECORDS: list[Any] = [
    service(
        "curated", domain="api.curated.example", endpoints=[at("https://api.curated.example/a")]
    ),
    service("curated", endpoints=[at("https://api.again.example/a")]),
    service("half", endpoints=[at("https://half.example/a"), at("http://half.example/b")]),
    service("gone", endpoints=[at("https://gone.example/a")]),
    service("faulty", name=7, endpoints=[at("https://faulty.example/a")]),
    service(
        "templated",
        endpoints=[
            at("https://templated.example/{id}", description=""),
            at("https://templated.example/{region}/{day}.json"),
            at("https://templated.example/rain/{day}.json"),
            at("https://templated.example/plain"),
        ],
    ),
]
DENIALS = [
    {"host": "bad.evil.example", "reason": "phishes"},
    {"host": "known.evil.example", "reason": "asked to be removed", "public": True},
    {"payee": EVIL, "reason": "launders"},
    {"id": "gone", "reason": "secret"},
]
SOURCES = (
    source("first", FIRST, trust=0, kind="resources", curated=False),
    source("second", SECOND, trust=0, kind="resources", curated=False),
    source("records", RECORDS, hides=True),
)


@pytest.fixture(scope="module")
def listings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a service of a catalogue in which everything happens."""
    folder = CatalogueFolder(tmp_path_factory.mktemp("listings"))
    assert folder.build(*SOURCES, options=("--max-rejects", "100%"), deny=DENIALS) == 0
    with open_app(folder.artifacts) as client:
        yield client


def explain(client: httpx.Client, url: str) -> Json:
    response = client.get("/v1/listings", params={"url": url})
    assert response.status_code == 200, response.text
    report: Json = response.json()
    names = [each["source"] for each in report["fates"]]
    assert len(names) == len({*names})
    assert all(each["source"] in {"first", "second", "records"} for each in report["fates"])
    return report


def fates(report: Json) -> dict[str, str]:
    return {each["source"]: each["fate"] for each in report["fates"]}


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (f"{BASE}/good", {"first": "published"}),
        (f"{BASE}/twice", {"first": "published"}),
        (f"{BASE}/merged", {"first": "published", "second": "published"}),
        ("http://api.one.example/plain", {"first": "left out"}),
        (f"{BASE}/dear", {"first": "left out"}),
        (f"{BASE}/broken", {"second": "published", "first": "rejected"}),
        (f"{BASE}/items/7", {"first": "published"}),
        (f"{BASE}/items/:id", {"first": "published"}),
        (f"{BASE}/items/{{id}}", {"first": "published"}),
        ("https://bad.evil.example/a", {"first": "left out"}),
        (f"{BASE}/paid", {"first": "left out"}),
        ("https://api.curated.example/hidden", {"second": "left out"}),
        ("https://api.curated.example/a", {"records": "published"}),
        ("https://api.again.example/a", {"records": "left out"}),
        ("https://half.example/a", {"records": "published"}),
        ("http://half.example/b", {"records": "left out"}),
        ("https://gone.example/a", {"records": "left out"}),
        ("https://faulty.example/a", {"records": "rejected"}),
    ],
)
def test_each_source_that_names_a_url_has_one_fate(
    listings: httpx.Client, url: str, expected: dict[str, str]
) -> None:
    report = explain(listings, url)
    assert fates(report) == expected
    assert report["listed"] is ("published" in expected.values())


def test_a_url_is_found_in_any_spelling_and_shown_in_its_normal_form(
    listings: httpx.Client,
) -> None:
    report = explain(listings, "HTTPS://API.One.Example:443/x/../%67ood")
    assert report["url"] == f"{BASE}/good"
    assert report["listed"]


def test_a_published_url_names_its_service_and_endpoint(listings: httpx.Client) -> None:
    (fate,) = explain(listings, f"{BASE}/good")["fates"]
    record = listings.get(f"/v1/services/{fate['service']}").json()["service"]
    assert record["endpoints"][fate["endpoint"]]["url"] == f"{BASE}/good"


def test_a_url_that_is_left_out_has_the_reason_and_the_path(listings: httpx.Client) -> None:
    (fate,) = explain(listings, "http://api.one.example/plain")["fates"]
    assert (fate["path"], fate["reason"]) == ("$.resource", "is not encrypted")
    (fate,) = explain(listings, "http://half.example/b")["fates"]
    assert fate["path"] == "$.endpoints[1].url"


def test_another_fate_in_the_same_source_is_a_note(listings: httpx.Client) -> None:
    (note,) = explain(listings, f"{BASE}/twice")["notes"]
    assert note["fate"] == "left out"
    assert note["reason"] == "is listed again, newer or more complete"


def test_a_merged_url_says_so_and_names_the_other_payee(listings: httpx.Client) -> None:
    notes = explain(listings, f"{BASE}/merged")["notes"]
    reasons = [each["reason"] for each in notes]
    assert sum("merged" in reason for reason in reasons) == 2
    (conflict,) = [reason for reason in reasons if "payee" in reason]
    assert HERE in conflict
    assert THERE in conflict


@pytest.mark.parametrize(
    "url", ["https://bad.evil.example/a", f"{BASE}/paid", "https://gone.example/a"]
)
def test_a_denial_is_shown_without_reason_or_place(listings: httpx.Client, url: str) -> None:
    (fate,) = explain(listings, url)["fates"]
    assert fate["reason"] == "declined by the operator"
    assert "path" not in fate


def test_a_public_denial_is_shown_with_its_reason(listings: httpx.Client) -> None:
    (fate,) = explain(listings, "https://known.evil.example/a")["fates"]
    assert fate["reason"] == "declined by the operator: asked to be removed"


@pytest.mark.parametrize(
    ("url", "codes"),
    [
        (f"{BASE}/good", []),
        (f"{BASE}/items/7", []),
        (f"{BASE}/bare", ["no_text"]),
        (f"{BASE}/of/:city/:day", ["no_input", "no_example", "double_wrapped", "no_text"]),
        (f"{BASE}/referring", ["external_ref"]),
        (f"{BASE}/mixed", ["wrong_version"]),
        ("https://templated.example/:id", ["no_example", "no_text"]),
    ],
)
def test_advice_names_what_the_seller_can_mend(
    listings: httpx.Client, url: str, codes: list[str]
) -> None:
    assert [each["code"] for each in explain(listings, url)["advice"]] == codes


@pytest.mark.parametrize(
    ("url", "template"),
    [
        (f"{BASE}/items/8", f"{BASE}/items/:id"),
        (f"{BASE}/of/lisbon/monday", f"{BASE}/of/:city/{{day}}"),
        (f"{BASE}/of/lisbon/monday?unit=C", f"{BASE}/of/:city/{{day}}"),
        ("HTTPS://Templated.example:443/7", "https://templated.example/{id}"),
        ("https://templated.example/{name}", "https://templated.example/{id}"),
        ("https://templated.example/snow/1.json", "https://templated.example/{region}/{day}.json"),
        ("https://templated.example/rain/1.json", "https://templated.example/rain/{day}.json"),
        (f"{BASE}/of/lisbon", None),
        (f"{BASE}/of/lisbon/monday/noon", None),
        ("https://templated.example/", None),
        ("https://templated.example/rain/.json", None),
        ("https://templated.example/rain/1.xml", None),
        ("http://templated.example/7", None),
        ("https://templated.example:8443/7", None),
    ],
)
def test_a_url_that_fills_in_a_listed_template_has_the_fates_of_the_template(
    listings: httpx.Client, url: str, template: str | None
) -> None:
    report = explain(listings, url)
    assert (report["listed"], report.get("template")) == (template is not None, template)
    if template is not None:
        (published,) = report["fates"]
        assert published["fate"] == "published"
        endpoints = listings.get(f"/v1/services/{published['service']}").json()
        assert endpoints["service"]["endpoints"][published["endpoint"]]["url"] == template
        assert "not_named" not in {each["code"] for each in report["advice"]}
        response = listings.get("/v1/listings", params={"url": url})
        assert response.headers["cache-control"] == "no-store"  # There are any number of them.


def test_a_listed_url_is_no_call_of_a_template(listings: httpx.Client) -> None:
    for url in ("https://templated.example/plain", f"{BASE}/items/7"):
        report = explain(listings, url)
        assert report["listed"]
        assert "template" not in report


def test_a_rejected_url_that_fills_in_a_listed_template_has_its_own_fate_as_a_note(
    listings: httpx.Client,
) -> None:
    report = explain(listings, "https://templated.example/broken")
    assert report["template"] == "https://templated.example/{id}"
    assert fates(report) == {"records": "published"}
    assert [(each["source"], each["fate"]) for each in report["notes"]] == [("first", "rejected")]


def test_an_unknown_url_says_which_sources_are_read_and_is_not_stored(
    listings: httpx.Client,
) -> None:
    before = cached(listings)
    response = listings.get("/v1/listings", params={"url": "https://unknown.example/"})
    assert response.headers["cache-control"] == "no-store"
    report = response.json()
    assert (report["listed"], report["fates"], report["notes"]) == (False, [], [])
    ((code, text),) = [each.values() for each in report["advice"]]
    assert code == "not_named"
    assert text.endswith("first, second, records")
    assert cached(listings) == before
    known = listings.get("/v1/listings", params={"url": f"{BASE}/good"})
    assert known.headers["cache-control"] != "no-store"


def cached(client: httpx.Client) -> int:
    hits = client.get("/v1/listings", params={"url": "https://unknown.example/"})
    assert "age" not in hits.headers
    counts = re.findall(
        r'^ratecard_request_seconds_count{cache="hit",\S* (\S+)$',
        client.get("/metrics").text,
        re.MULTILINE,
    )
    return sum(int(float(count)) for count in counts)


def test_the_listed_endpoints_of_a_host_are_paged_and_the_others_counted(
    listings: httpx.Client,
) -> None:
    whole = listings.get("/v1/listings", params={"host": "API.one.example"}).json()
    urls = [each["url"] for each in whole["endpoints"]]
    assert len(urls) == whole["total"]
    assert {f"{BASE}/good", f"{BASE}/merged"} < {*urls}
    assert whole["others"] == {"left out": 3}
    page = listings.get("/v1/listings?host=api.one.example&limit=2&offset=1").json()
    assert page["endpoints"] == whole["endpoints"][1:3]
    assert (page["limit"], page["offset"], page["total"]) == (2, 1, whole["total"])
    past = listings.get("/v1/listings?host=api.one.example&offset=100").json()
    assert past["endpoints"] == []


def test_the_endpoints_of_a_payee_are_listed_and_the_others_counted(listings: httpx.Client) -> None:
    found = listings.get("/v1/listings", params={"payTo": HERE.upper().replace("0X", "0x")}).json()
    assert f"{BASE}/good" in {each["url"] for each in found["endpoints"]}
    assert found["others"]["left out"] >= 2
    evil = listings.get("/v1/listings", params={"payTo": EVIL}).json()
    assert (evil["endpoints"], evil["total"], evil["others"]) == ([], 0, {"left out": 1})


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("", "url"),
        ("url=https://a.example/&host=a.example", "url"),
        ("url=nothing", "url"),
        ("url=https://a.example/%00", "url"),
        ("url=https://a.example/" + "a" * 4096, "url"),
        ("host=a.example/path", "host"),
        ("host=a.example:8443", "host"),
        ("host=me@a.example", "host"),
        ("host=a.example&limit=0", "limit"),
        ("url=", "url"),
    ],
)
def test_an_invalid_request_names_the_parameter(
    listings: httpx.Client, query: str, parameter: str
) -> None:
    response = listings.get(f"/v1/listings?{query}")
    assert response.status_code == 400
    assert response.json()["error"]["parameter"] == parameter
