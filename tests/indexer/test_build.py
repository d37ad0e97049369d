"""Builds end to end: discovery, catalogues, payments, overlays and feeds in one snapshot."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest

from indexer.__main__ import main
from indexer.text import MAX_LEVELS
from service.snapshot.snapshot import open_snapshot
from tests.support.artifacts import DAMAGES, folder, ids, listed, overlays, reported, snapshots
from tests.support.running import (
    PLAIN,
    SHARED,
    Build,
    Json,
    endpoint,
    payment,
    serve,
    service,
    write_lines,
)
from tests.support.sources.feeds import failing, in_turn, misbehaving, pages_of
from tests.support.sources.x402 import TEST_USDC, accept, resource

PAID = "0xPay"
POLYGON_USDC = "0x3c499c542cEF5E3811e1192ce70d8cC03d5c3359"
ID = "api-weather-data-example"
HOST = "https://api.weather-data.example"


def at(path: str, *accepts: Json, **fields: Any) -> Json:
    return resource(HOST + path, *accepts, **fields)


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 1, 0)])
def test_the_newest_resource_wins_in_any_order_of_sources(
    order: tuple[int, ...], artifacts: Path, build: Build
) -> None:
    sources = [
        [at("/a", accept("10000"), lastUpdated="2026-05-01T00:00:00Z"), at("/b")],
        [at("/a", accept("20000"), lastUpdated="2026-05-03T00:00:00Z"), at("/c")],
        [at("/a", accept("30000"), lastUpdated="2026-05-02T00:00:00Z")],
    ]
    assert build(*(sources[number] for number in order)) == 0
    (service,) = listed(artifacts)
    assert service["id"] == ID
    prices = {each["url"]: each["pricing"]["amount"] for each in service["endpoints"]}
    assert prices == {f"{HOST}/a": "0.02", f"{HOST}/b": "0.01", f"{HOST}/c": "0.01"}


@pytest.mark.parametrize("sources", ["before", "after", "in one file", "in one file with another"])
def test_a_catalogue_record_has_the_resources_that_it_names_and_hides_no_others(
    sources: str, artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    record = service(ID, name="Written", endpoints=[endpoint() | {"url": f"{HOST}/a"}])
    discovered, other = at("/a", lastUpdated="2026-05-01T00:00:00Z"), at("/other")
    inputs = {
        "before": ([record], [discovered, other]),
        "after": ([discovered, other], [record]),
        "in one file": ([discovered, other, record],),
        "in one file with another": ([record, other], [discovered]),
    }[sources]
    assert build(*inputs, options=("--json",)) == 0
    written, rest = listed(artifacts)
    assert (written["id"], written["name"]) == (ID, "Written")
    assert rest["id"].startswith(f"{ID}-")
    assert [each["url"] for each in rest["endpoints"]] == [f"{HOST}/other"]
    report = reported(capsys)
    assert (report["resources"], report["findings"]) == (2, 0)


def test_a_source_that_hides_leaves_out_the_resources_that_its_records_do_not_name(
    tmp_path: Path, artifacts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = service(ID, endpoints=[endpoint() | {"url": f"{HOST}/a"}])
    write_lines(tmp_path / "own.jsonl", [record])
    write_lines(tmp_path / "found.jsonl", [at("/a"), at("/other")])
    catalogue = tmp_path / "catalogue.toml"
    catalogue.write_text(
        '[[source]]\nname = "own"\npath = "own.jsonl"\nhides = true\n'
        '[[source]]\nname = "found"\npath = "found.jsonl"\n'
    )
    assert main(["build", str(catalogue), "--out", str(artifacts), "--json"]) == 0
    report = reported(capsys)
    assert (ids(artifacts), report["resources"]) == ([ID], 1)
    assert report["sources"][1]["leftOut"] == {"hidden by a catalogue record": 1}


def test_a_record_without_an_id_has_the_plain_id_of_its_domain(
    artifacts: Path, build: Build
) -> None:
    written = service(None, name="Written", domain="API.weather-data.example")
    assert build([at("/a")], [written]) == 0
    (first, name), (second, _) = [(each["id"], each["name"]) for each in listed(artifacts)]
    assert (first, name) == (ID, "Written")
    assert second.startswith(f"{ID}-")


BROKEN = [
    at("/good"),
    at("/free", accept(None)),
    at("/negative", accept("-1")),
    resource("not a URL"),
    resource("http://plain.example/"),
    resource("https://localhost/"),
    at("/dear", accept("20000000000")),
    at("/odd", accept(asset="0x0000000000000000000000000000000000000bad")),
]
FATES = [
    ("noted", "line 2", "$.accepts[0]"),
    ("rejected", "line 3", "$.accepts[0].amount"),
    ("rejected", "line 4", "$.resource"),
    ("left out", "line 5", "$.resource"),
    ("left out", "line 6", "$.resource"),
    ("left out", "line 7", "$.accepts[0]"),
    ("noted", "line 8", "$.accepts[0].asset"),
]


def test_every_rejected_filtered_and_noted_resource_is_reported(
    tmp_path: Path, artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    rejects = tmp_path / "rejects.jsonl"
    options = ("--json", "--max-rejects", "50%", "--rejects", str(rejects))
    assert build(BROKEN, options=options) == 0
    lines = [json.loads(line) for line in rejects.read_text().splitlines()]
    assert [(each["fate"], each["position"], each["path"]) for each in lines] == FATES
    assert all(each["reason"] for each in lines)
    (source,) = reported(capsys)["sources"]
    assert (source["records"], source["rejected"]) == (8, 2)
    assert sum(source["reasons"].values()) == 2
    assert source["leftOut"] == {
        "http resources": 1,
        "private addresses": 1,
        "implausible prices": 1,
    }
    assert source["noted"] == {"with an unknown asset": 1, "without a price": 1}
    (service,) = listed(artifacts)
    paths = [each["url"].removeprefix(HOST) for each in service["endpoints"]]
    assert paths == ["/free", "/good", "/odd"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), {"/good"}),
        (("--allow-http",), {"/good", "http://plain.example/"}),
        (("--allow-private",), {"/good", "https://localhost/"}),
        (("--max-price", "20000"), {"/good", "/dear"}),
        (("--max-price", "0.001"), set()),
    ],
)
def test_options_of_the_policy_decide_which_resources_are_listed(
    options: tuple[str, ...], expected: set[str], artifacts: Path, build: Build
) -> None:
    assert build(BROKEN, options=("--max-rejects", "50%", *options)) == 0
    endpoints = [each for service in listed(artifacts) for each in service["endpoints"]]
    urls = {each["url"].removeprefix(HOST) for each in endpoints}
    assert urls == expected | {"/free", "/odd"}


def test_prices_on_test_networks_are_not_summarised_with_others(
    artifacts: Path, build: Build
) -> None:
    play = accept("90000000", network="eip155:84532", asset=TEST_USDC)
    assert build([at("/real"), at("/play", play), resource("https://toy.example/", play)]) == 0
    real, toy = sorted(listed(artifacts), key=lambda each: str(each["id"]))
    assert len(real["endpoints"]) == 2
    assert set(real["networks"]) == {"Base", "Base Sepolia"}
    assert (real["priceSummary"]["minAmount"], real["priceSummary"]["maxAmount"]) == ("0.01",) * 2
    assert toy["priceSummary"]["maxAmount"] == "90"


def test_the_policy_leaves_out_endpoints_of_catalogue_records_and_records_without_others(
    artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = endpoint() | {"url": "http://one.example/"}
    inside = endpoint() | {"url": "https://localhost/"}
    records = [
        service("some", endpoints=[plain, endpoint(), plain]),
        service("none", endpoints=[inside, plain]),
    ]
    assert build(records, options=("--json",)) == 0
    (some,) = listed(artifacts)
    assert (some["id"], some["endpoints"]) == ("some", [endpoint()])
    (source,) = reported(capsys)["sources"]
    assert (source["published"], source["rejected"]) == (1, 0)
    assert source["leftOut"] == {"http resources": 2, "private addresses": 1}
    options = ("--allow-http", "--allow-private")
    assert build(records, options=options) == 0
    endpoints = {each["id"]: each["endpoints"] for each in listed(artifacts)}
    assert endpoints == {each["id"]: each["endpoints"] for each in records}


def priced(service_id: str, *amounts: str, **fields: Any) -> Json:
    """Return a record with an endpoint at each of these prices."""
    urls = (f"https://{service_id}.example/{number}" for number in range(len(amounts)))
    endpoints = [
        endpoint(each) | {"url": url, "description": "Forecasts"}
        for each, url in zip(amounts, urls, strict=True)
    ]
    return service(service_id, endpoints=endpoints, **fields)


def test_a_record_with_implausible_prices_is_served_as_it_came_and_found_by_its_other_prices(
    artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = {"minAmount": "1", "maxAmount": "500000", "currency": "USDC"}
    summary |= {"avgCostPerTransaction": "", "avgCostBasis": "varies"}
    records = [
        priced("some", "0.05", "500000", "0.01"),
        priced("all", "500000", "100000"),
        priced("own", "3", "500000", priceSummary=summary),
        priced("usual", "2"),
    ]
    for name in ("One", "Two"):  # the second build takes over what the first one derived
        assert build(records, [service("more", name=name)], options=("--json",)) == 0
    source = reported(capsys)["sources"][0]
    assert (source["published"], source["leftOut"]) == (4, {})
    assert source["noted"] == {"implausible prices": 4}
    served = {each["id"]: each for each in listed(artifacts)}
    for record in records:
        assert served[record["id"]]["endpoints"] == record["endpoints"]
    assert served["own"]["priceSummary"] == summary
    assert served["all"]["priceSummary"] is None
    derived = served["some"]["priceSummary"]
    assert [derived[key] for key in ("minAmount", "maxAmount", "avgCostPerTransaction")] == [
        "0.01",
        "0.05",
        "0.03",
    ]
    with serve(artifacts) as client:

        def found(path: str, of: str, **parameters: Any) -> list[Json]:
            page: list[Json] = client.get(path, params=parameters | {"limit": 50}).json()[of]
            return page

        dear = found("/v1/services", "services", maxPrice="999999")
        assert {each["id"] for each in dear} == {"some", "own", "usual", "more"}
        by_price = [each["id"] for each in found("/v1/services", "services", sort="price")]
        assert [each for each in by_price if each != "more"] == ["some", "usual", "own", "all"]
        rows = found("/v1/search/endpoints", "endpoints", q="forecasts", maxPrice="999999")
        assert {each["pricing"]["amount"] for each in rows} == {"0.01", "0.05", "2", "3"}
    capsys.readouterr()
    assert main(["why", "https://all.example/1", "--artifacts", str(artifacts)]) == 0
    explained = capsys.readouterr().out
    assert "published as all" in explained
    assert "100000 USDC is more than 10000" in explained
    assert build(records, [service("more")], options=("--json", "--max-price", "500000")) == 0
    served = {each["id"]: each for each in listed(artifacts)}
    assert served["all"]["priceSummary"]["maxAmount"] == "500000"
    assert reported(capsys)["sources"][0]["noted"] == {}


def test_a_resource_is_listed_at_another_price_than_an_implausible_one(
    artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    dear, usual = accept("500000000000"), accept("20000", network="polygon", asset=POLYGON_USDC)
    offers = [at("/both", dear, usual), at("/dear", dear)]
    assert build(offers, options=("--json",)) == 0
    (service,) = listed(artifacts)
    assert [each["pricing"]["amount"] for each in service["endpoints"]] == ["0.02"]
    assert reported(capsys)["sources"][0]["leftOut"] == {"implausible prices": 1}


def test_usage_is_filled_in_from_payments_where_records_have_none(
    artifacts: Path, build: Build
) -> None:
    unused = endpoint(network="Base") | {"payTo": "0xAb"}
    with_usage = endpoint() | {"payTo": "0xc", "quality": {"l30DaysTotalCalls": "7"}}
    records = [
        service("idle"),
        service("paid", endpoints=[unused, endpoint()], quality={"score": 0.5, "totalCalls": 9}),
        service("with-usage", endpoints=[with_usage]),
        at("/a"),
    ]
    rows = [
        payment(tx_hash=f"0x{n}{recipient}", recipient=recipient, sender=f"0x{n % 2}")
        for n in range(3)
        for recipient in ("0xab", "0xC")
    ]
    rows += [payment(tx_hash="0xf", recipient=PAID)]
    assert build(records, payments=rows) == 0
    services = {each["id"]: each for each in listed(artifacts)}
    assert list(services) == ["paid", "with-usage", ID, "idle"]
    assert services["paid"]["quality"] == {
        "score": 0.5,
        "totalCalls": 9,
        "uniquePayers": 2,
        "lastCalledAt": "2026-05-07T10:16:51.000Z",
    }
    used = {"l30DaysTotalCalls": "3", "l30DaysUniquePayers": "2"}
    assert [each.get("quality") for each in services["paid"]["endpoints"]] == [used, None]
    assert services["with-usage"]["endpoints"][0]["quality"] == used | {"l30DaysTotalCalls": "7"}
    assert services[ID]["quality"]["totalCalls"] == 1
    assert "score" not in services[ID]["quality"]
    assert "quality" not in services["idle"]
    assert services["paid"]["priceSummary"]["minAmount"] == "0.01"


def test_overlays_apply_after_usage_and_before_ordering(
    tmp_path: Path, artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    patches = {
        "last": {"enriched": True},
        "dear": {"endpoints": [endpoint("0.5")], "unheard of": 1},
        "scam": None,
        ID: {"quality": {"totalCalls": 1, "score": 0.9}},
        "unknown": {"enriched": True},
    }
    records = [service("last"), service("dear"), service("scam"), at("/a")]
    rows = [payment(tx_hash=f"0x{n}", recipient=PAID) for n in range(5)]
    options = ("--json", *overlays(tmp_path, patches))
    assert build(records, payments=rows, options=options) == 0
    services = {each["id"]: each for each in listed(artifacts)}
    assert list(services) == ["last", ID, "dear"]
    assert services["dear"]["priceSummary"]["maxAmount"] == "0.5"
    assert services["dear"]["unheard of"] == 1
    quality = services[ID]["quality"]
    assert (quality["totalCalls"], quality["score"], quality["uniquePayers"]) == (1, 0.9, 1)
    report = reported(capsys)
    assert report["unusedOverlays"] == [f"{tmp_path / 'overlay.json'}:1: unknown"]
    assert report["sources"][0]["leftOut"] == {"taken down": 1}
    assert open_snapshot(artifacts).search("scam").total == 0


@pytest.mark.parametrize("patch", [{}, {"category": "Data"}])
def test_payments_that_fit_several_endpoints_count_once_in_the_listing_order_and_for_none_of_them(
    patch: Json, tmp_path: Path, artifacts: Path, build: Build
) -> None:
    shared = endpoint() | {"payTo": "0xab"}
    records = [service("shared", endpoints=[shared, shared])]
    for payers in ("2", "4"):
        single = endpoint() | {"quality": {"l30DaysUniquePayers": payers}}
        records.append(service(payers, endpoints=[single]))
    rows = [payment(tx_hash=f"0x{n}", sender=f"0x{n}", recipient="0xab") for n in range(3)]
    options = overlays(tmp_path, {"shared": patch}) if patch else ()
    assert build(records, payments=rows, options=options) == 0
    assert ids(artifacts) == ["4", "shared", "2"]
    services = {each["id"]: each for each in listed(artifacts)}
    assert services["shared"]["quality"]["totalCalls"] == 3
    assert all("quality" not in each for each in services["shared"]["endpoints"])


def test_the_exact_amount_credits_one_of_several_services_that_name_a_payee(
    artifacts: Path, build: Build
) -> None:
    prices = {"cent": "0.01", "dime": "0.10"}
    records = [service(i, endpoints=[endpoint(p) | {"payTo": "0xab"}]) for i, p in prices.items()]
    rows = [
        payment(tx_hash=f"0x{n}", recipient="0xAb", amount=amount)
        for n, amount in enumerate((100_000, 100_000, 10_000, 10_001))
    ]
    assert build(records, payments=rows) == 0
    calls = {each["id"]: each["quality"]["totalCalls"] for each in listed(artifacts)}
    assert calls == {"dime": 2, "cent": 1}


def test_a_service_that_an_overlay_removes_takes_no_credit(
    tmp_path: Path, artifacts: Path, build: Build
) -> None:
    paid = endpoint() | {"payTo": "0xab"}
    records = [service("merchant", endpoints=[paid]), service("scam", endpoints=[paid])]
    options = overlays(tmp_path, {"scam": None})
    assert build(records, payments=[payment(recipient="0xab")], options=options) == 0
    (merchant,) = listed(artifacts)
    assert merchant["quality"]["totalCalls"] == 1


def test_an_overlay_of_endpoints_overrides_calls(
    tmp_path: Path, artifacts: Path, build: Build
) -> None:
    paid = endpoint() | {"payTo": "0xab"}
    called = endpoint() | {"quality": {"l30DaysTotalCalls": "9"}}
    records = [
        service("corrected", endpoints=[paid]),
        service("other", endpoints=[endpoint() | {"quality": {"l30DaysTotalCalls": "8"}}]),
    ]
    options = overlays(tmp_path, {"corrected": {"endpoints": [called]}})
    assert build(records, payments=[payment(recipient="0xab")], options=options) == 0
    assert ids(artifacts) == ["corrected", "other"]


def test_an_overlay_that_makes_a_service_invalid_publishes_nothing(
    tmp_path: Path, artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build([service("a")]) == 0
    overlay = tmp_path / "overlay.jsonl"
    overlay.write_text('{"a":{"name":"Other"}}\n\n{"a":{"endpoints":{}}}\n')
    assert build([service("a", name="New")], options=("--overlay", str(overlay))) == 1
    error = capsys.readouterr().err
    assert f"{overlay}:1, {overlay}:3: makes a invalid: $.endpoints: " in error
    assert "nothing was published" in error
    assert [each["name"] for each in listed(artifacts)] == ["One"]
    assert len(snapshots(artifacts)) == 1


def test_deeply_nested_records_are_rejected_and_others_listed(
    tmp_path: Path, artifacts: Path, build: Build
) -> None:
    """Reject records well below the recursion limit of the decoder, which depends on the stack."""
    lines = [json.dumps(service("good")), json.dumps(at("/good"))]
    quoted = "[" * 2 * MAX_LEVELS
    lines += [json.dumps(service("quoted", x=[quoted, '"\\', quoted]))]
    lines += [json.dumps(service("wide", x=[[{}]] * MAX_LEVELS))]
    for levels in (MAX_LEVELS - 1, MAX_LEVELS, 400, 700, 900, *range(940, 1001, 5)):
        deep = "[" * levels + "]" * levels
        lines += [
            json.dumps(service(f"deep-{levels}", x="deep")).replace('"deep"', deep),
            json.dumps(at(f"/{levels}", extensions={"bazaar": {"info": {"input": "deep"}}})),
        ]
        query = {"type": "http", "queryParams": {"a": "deep"}, "outputSchema": "deep"}
        deep_resource = at(
            f"/q{levels}", extensions={"bazaar": {"info": {"input": query}}}, tags="deep"
        )
        lines.append(json.dumps(deep_resource).replace('"deep"', deep))
    source = tmp_path / "source.jsonl"
    source.write_text("\n".join(lines))
    assert build(source, options=("--max-rejects", "100%", "--quiet")) == 0
    assert {each for each in ids(artifacts) if each != ID} == {
        "good",
        "quoted",
        "wide",
        f"deep-{MAX_LEVELS - 1}",
    }


@pytest.mark.parametrize(("name", "harm"), [("ids.arrays", "ones"), ("records.json", "zeros")])
def test_a_build_replaces_a_damaged_snapshot(
    name: str, harm: str, tmp_path: Path, artifacts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The damaged one is the base of a patch as well."""
    source = tmp_path / "source.jsonl"
    arguments = ["build", str(source), "--out", str(artifacts), "--no-semantic"]
    write_lines(source, [service("a"), service("b")])
    assert main(arguments) == 0
    path = folder(artifacts) / name
    path.write_bytes(DAMAGES[harm](path.read_bytes()))
    damaged = folder(artifacts)
    write_lines(source, [service("a"), service("c")])
    assert main(arguments) == 0
    assert sorted(ids(artifacts)) == ["a", "c"]
    assert main(["verify", str(artifacts)]) == 0
    capsys.readouterr()
    assert main(["diff", str(damaged), str(artifacts)]) == 1
    assert capsys.readouterr().err.startswith(f"error: {damaged}")


def test_diff_lists_the_differences_between_the_sources_of_two_builds(
    artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build([service("a"), service("b"), at("/a")]) == 0
    before = folder(artifacts).name
    new = [service("b", name="B"), service("c"), at("/a", accept("50000"))]
    assert build(new) == 0
    capsys.readouterr()
    assert main(["diff", before, folder(artifacts).name, "--artifacts", str(artifacts)]) == 0
    output = capsys.readouterr()
    assert output.err == ""
    lines = output.out.splitlines()
    assert [line.split()[:2] for line in lines[:-1]] == [
        ["+", "c"],
        ["-", "a"],
        ["~", ID],
        ["~", "b"],
    ]
    assert "(0.01 USDC → 0.05 USDC)" in lines[2]
    assert lines[-1] == "1 added, 2 changed, 1 removed"
    assert main(["verify", str(artifacts)]) == 0


def test_a_feed_is_a_source_beside_files(
    artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    resources = [resource(f"https://s{number}.example/") for number in range(25)]
    named = endpoint() | {"url": "https://s3.example/"}
    written = service("s3-example", name="Written", endpoints=[named])
    with misbehaving(pages_of(resources)) as server:
        assert build([written], server.url, options=("--json",)) == 0
    names = {each["id"]: each["name"] for each in listed(artifacts)}
    assert (len(names), names["s3-example"]) == (25, "Written")
    report = reported(capsys)
    assert [each["records"] for each in report["sources"]] == [1, 25]
    assert report["sources"][1]["name"] == server.url
    manifest = open_snapshot(artifacts).manifest
    assert [source.name for source in manifest.sources][1] == server.url


def test_a_feed_that_fails_half_way_publishes_nothing(
    artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    closed = failing(503, {"Retry-After": "9999"})  # beyond the deadline, so without a retry
    always = ("--every", "0s")
    resources = [resource(f"https://s{number}.example/") for number in range(25)]
    whole = pages_of(resources)
    with misbehaving(whole) as server:
        assert build(server.url, options=always) == 0
        before = ids(artifacts)
        resources.append(resource("https://new.example/"))
        server.behaviour = in_turn(whole, whole, closed)
        capsys.readouterr()
        assert build(server.url, [service("other")], options=always) == 1
        assert server.url in capsys.readouterr().err
        assert ids(artifacts) == before
        server.behaviour = whole
        assert build(server.url, [service("other")], options=always) == 0
    assert set(ids(artifacts)) - set(before) == {"new-example", "other"}


def test_another_ratecard_is_a_source(
    sample: Path, client: httpx.Client, artifacts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, options = f"{client.base_url}/v1/services", ["--out", str(artifacts), *PLAIN]
    assert main(["build", url, *options]) == 1
    assert f"error: {url}: gives catalogue records and no resources" in capsys.readouterr().err
    assert main(["build", "--records", url, "--curated", *options]) == 0
    theirs, ours = ({each["id"]: each for each in listed(of)} for of in (sample, artifacts))
    assert ours == theirs  # in another order: who paid is known to the other one alone


@pytest.mark.skipif(not SHARED.exists(), reason="the real data is not available")
def test_real_feeds_catalogue_and_payments_are_built_into_one_catalogue(
    artifacts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("bazaar/resources_v1_2025-12.json", "bazaar/resources_v2_2026-06.json")
    page = SHARED / "agentic" / "services_page_2026-05.json"
    payments = SHARED / "transactions" / "base_payments_2026.csv"
    sources = map(str, [*(SHARED / name for name in names), page])
    options = ["--json", "--max-rejects", "10%", "--max-price", "1000000"]
    options += ["--transactions", str(payments), "--out", str(artifacts)]
    assert main(["build", *sources, *options]) == 0
    report = reported(capsys)
    assert [each["records"] for each in report["sources"][:3]] == [1400, 60, 50]
    written = {each["id"]: each for each in json.loads(page.read_text())["services"]}
    snapshot = open_snapshot(artifacts)
    published = {key: json.loads(snapshot.find(key) or b"null") for key in written}
    assert published == written
    assert report["services"] == len(snapshot.services) > len(written)
    assert report["endpoints"] == snapshot.manifest.counts.endpoints


def test_a_build_that_cannot_write_its_whoosh_index_is_published_and_says_so(
    artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    artifacts.mkdir()
    (artifacts / "whoosh").write_text("no folder")
    assert build([service("a")], options=("--json",)) == 0
    report = reported(capsys)
    assert any("the Whoosh index is not written" in note for note in report["notes"])
    assert open_snapshot(artifacts).id == report["snapshot"]
    (artifacts / "whoosh").unlink()
    assert build([service("a")], options=("--json",)) == 0
    assert reported(capsys)["notes"] == []
    assert main(["query", "name:one", "--artifacts", str(artifacts), "--ids"]) == 0
    assert capsys.readouterr().out == "a\n"


def test_downloads_that_cannot_be_made_leave_what_earlier_builds_kept(
    tmp_path: Path, artifacts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "source.jsonl"
    arguments = ["build", str(source), "--out", str(artifacts), "--no-semantic", "--json"]
    write_lines(source, [service("a")])
    assert main(arguments) == 0
    shutil.rmtree(artifacts / "downloads")
    (artifacts / "downloads").write_text("no folder")
    write_lines(source, [service("c")])
    assert main(arguments) == 1
    assert "the files that others copy cannot be made" in capsys.readouterr().err
    (artifacts / "downloads").unlink()
    write_lines(source, [service("a"), service("b", name="Other")])
    assert main(arguments) == 0
    report = reported(capsys)
    assert report["indexed"] == 1
