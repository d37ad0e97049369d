"""Builds end to end: discovery, catalogues, payments, overlays and feeds in one snapshot."""

from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from whoosh import index

from indexer.__main__ import main
from indexer.text import MAX_LEVELS
from service.snapshot.snapshot import open_snapshot
from tests.support.artifacts import ids, listed, overlays, reported, snapshots
from tests.support.running import (
    Build,
    Json,
    endpoint,
    payment,
    serve,
    service,
    write_lines,
)
from tests.support.sources.x402 import accept, resource

PAID = "0xPay"
POLYGON_USDC = "0x3c499c542cEF5E3811e1192ce70d8cC03d5c3359"
ID = "api-weather-data-example"
HOST = "https://api.weather-data.example"


def at(path: str, *accepts: Json, **fields: Any) -> Json:
    return resource(HOST + path, *accepts, **fields)


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
    assert report["unusedOverlays"] == [f"{tmp_path / 'overlay.json'}: unknown"]
    assert report["sources"][0]["leftOut"] == {"taken down": 1}
    assert open_snapshot(artifacts).search("scam").total == 0


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
    assert f"{overlay}: a: makes a invalid: $.endpoints: " in error
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


def test_a_build_that_cannot_write_its_whoosh_index_is_published_and_says_so(
    artifacts: Path,
    build: Build,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fill_disk(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(index, "create_in", fill_disk)
        assert build([service("a")], options=("--json",)) == 0
    report = reported(capsys)
    assert any("the Whoosh index is not written" in note for note in report["notes"])
    assert open_snapshot(artifacts).id == report["snapshot"]
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
