"""Trust between records and resources, and between one build and the next."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.artifacts import ids, listed, reported
from tests.support.intake import HERE, THERE, CatalogueFolder, listings, source
from tests.support.running import Json, endpoint, service
from tests.support.sources.x402 import accept, resource

HOST = "https://api.victim.example"
PAY = f"{HOST}/pay"


def paid(url: str, payee: str = HERE, amount: str = "10000", **fields: Any) -> Json:
    return resource(url, accept(amount, payTo=payee), **fields)


def record(service_id: str, *urls: str, payee: str | None = None, **fields: Any) -> Json:
    payees = {} if payee is None else {"payTo": payee}
    endpoints = [endpoint(network="Base") | {"url": url, "method": "GET"} | payees for url in urls]
    return service(service_id, endpoints=endpoints, **fields)


def test_a_record_without_a_domain_is_never_replaced_by_a_discovered_neighbour(
    catalogue: CatalogueFolder,
) -> None:
    own = source("own", [record("api-victim-com", PAY, enriched=True)], trust=1, curated=True)
    feed = source("feed", [paid("https://api.victim.com/a")], trust=0)
    neighbour = source("neighbour", [paid("https://api-victim.com/a")], trust=0)
    assert catalogue.build(own, feed) == 0
    assert catalogue.build(own, feed, neighbour) == 0
    assert listed(catalogue.artifacts)[0]["id"] == "api-victim-com"
    assert listed(catalogue.artifacts)[0]["enriched"] is True
    assert len(ids(catalogue.artifacts)) == 3


@pytest.mark.parametrize("domain", ["evil.example", "api.victim.example:443"])
def test_a_less_trusted_record_names_no_url_that_a_more_trusted_source_lists(
    catalogue: CatalogueFolder, domain: str, capsys: pytest.CaptureFixture[str]
) -> None:
    feed = source("feed", [paid(PAY)], trust=1)
    records = [record("x", PAY, payee=THERE, domain=domain)]
    liar = source("liar", records, trust=0, kind="records")
    assert catalogue.build(feed, liar, options=("--json",)) == 0
    assert ids(catalogue.artifacts) == ["api-victim-example"]
    tally = reported(capsys)["sources"][1]
    assert tally["leftOut"] == {"listed by a more trusted source": 1}


def test_a_less_trusted_resource_pays_nobody_but_whom_the_record_of_its_url_names(
    catalogue: CatalogueFolder,
) -> None:
    own = source("own", [record("own", PAY, payee=HERE, domain="api.victim.example")], trust=1)
    feed = source("feed", [paid(PAY, THERE), paid(f"{HOST}/other", THERE)], trust=0)
    assert catalogue.build(own, feed) == 0
    assert [each["resource"] for each in listings(catalogue.artifacts).values()] == [
        f"{HOST}/other"
    ]


def test_the_id_of_a_record_stays_with_its_domain_when_the_record_goes(
    catalogue: CatalogueFolder,
) -> None:
    own = source("own", [record("a-b-com", "https://a.b.com/x", domain="a.b.com")], curated=True)
    feed = source("feed", [paid("https://a.b.com/x")], trust=0)
    stranger = source("stranger", [paid("https://a-b.com/x")], trust=0)
    assert catalogue.build(own) == 0
    assert catalogue.build(feed, stranger) == 0
    by_id = {each["id"]: each["domain"] for each in listed(catalogue.artifacts)}
    assert by_id["a-b-com"] == "a.b.com"


def test_nobody_takes_over_an_id_while_its_source_is_skipped(catalogue: CatalogueFolder) -> None:
    items = [paid("https://a.b.com/x")]
    neighbour = source("neighbour", [paid("https://a-b.com/x")], trust=0)
    first = source("first", items, trust=0, on_error="skip")
    assert catalogue.build(first, neighbour) == 0
    missing = {"name": "first", "path": "gone/*.jsonl", "trust": 0, "on_error": "skip"}
    assert catalogue.build(missing, neighbour) == 0
    (alone,) = listed(catalogue.artifacts)
    assert (alone["domain"], alone["id"] == "a-b-com") == ("a-b.com", False)
    assert catalogue.build(first, neighbour) == 0
    by_domain = {each["domain"]: each["id"] for each in listed(catalogue.artifacts)}
    assert by_domain["a.b.com"] == "a-b-com"


def test_a_feed_whose_prices_break_the_policy_at_once_has_failed(
    catalogue: CatalogueFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    urls = [f"{HOST}/{number}" for number in range(30)]
    assert catalogue.build(source("feed", [paid(url) for url in urls])) == 0
    dear = source("feed", [paid(url, amount="1" + "0" * 18) for url in urls])
    assert catalogue.build(dear, options=("--json",)) == 0
    assert reported(capsys)["sources"][0]["state"] == "last"
    assert len(listings(catalogue.artifacts)) == 30


@pytest.mark.parametrize("text", ["https://denied.com/a b", "//denied.com/y", "denied.com/z"])
def test_a_host_that_is_taken_down_stays_down_in_texts_that_are_no_urls(
    catalogue: CatalogueFolder, text: str
) -> None:
    records = [record("one", "https://fine.example/a", text), record("two", text)]
    denied = [{"host": "denied.com", "reason": "fraud"}]
    assert catalogue.build(source("own", records, curated=True), deny=denied) == 0
    (kept,) = listed(catalogue.artifacts)
    assert [each["url"] for each in kept["endpoints"]] == ["https://fine.example/a"]


def test_a_damaged_copy_of_a_source_is_not_read(
    catalogue: CatalogueFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    many = [paid(f"{HOST}/{number}") for number in range(30)]
    assert catalogue.build(source("feed", many)) == 0
    (copy,) = (catalogue.artifacts / "sources").glob("feed-*/" + "[0-9a-f]" * 64)
    copy.write_bytes(b"\n".join(copy.read_bytes().splitlines()[:3]) + b"\n")
    before = ids(catalogue.artifacts)
    assert catalogue.build(source("feed", many[:5])) == 3
    assert "there is no earlier copy of feed" in capsys.readouterr().err
    assert ids(catalogue.artifacts) == before


def test_a_build_with_a_source_that_is_not_current_is_never_repeated_unread(
    catalogue: CatalogueFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    many = [paid(f"{HOST}/{number}") for number in range(30)]
    assert catalogue.build(source("feed", many)) == 0
    for _ in range(2):
        assert catalogue.build(source("feed", many[:5]), options=("--json",)) == 0
        report = reported(capsys)
        assert report["dependsOnTime"] is True
        assert report["sources"][0]["state"] == "last"
        assert report["sources"][0]["readAt"] is not None


def test_the_usage_of_a_less_trusted_source_counts_whatever_method_it_declares(
    catalogue: CatalogueFolder,
) -> None:
    bazaar = {"info": {"input": {"type": "http", "method": "GET"}}}
    quality = {"l30DaysTotalCalls": 7}
    feed = paid(PAY, THERE, extensions={"bazaar": bazaar}, quality=quality)
    assert (
        catalogue.build(source("own", [paid(PAY)], trust=1), source("feed", [feed], trust=0)) == 0
    )
    (listing,) = listings(catalogue.artifacts).values()
    assert listing["quality"] == quality
    assert THERE not in json.dumps(listing)


def test_a_last_call_in_the_future_is_none(catalogue: CatalogueFolder) -> None:
    quality = {"l30DaysTotalCalls": 7, "lastCalledAt": "9999-01-01T00:00:00Z"}
    assert catalogue.build(source("feed", [paid(PAY, quality=quality)])) == 0
    (served,) = listed(catalogue.artifacts)
    assert "lastCalledAt" not in served["quality"]


def test_another_order_of_repeated_listings_is_no_change(catalogue: CatalogueFolder) -> None:
    urls = [f"{HOST}/{number}" for number in range(30)]
    both = [paid(url, payee) for payee in (HERE, THERE) for url in urls]
    assert catalogue.build(source("feed", both, on_error="fail")) == 0
    assert catalogue.build(source("feed", both[::-1], on_error="fail")) == 0
