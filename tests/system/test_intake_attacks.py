"""Attacks by what a source says: none takes over, hides or dresses up what others list."""

from __future__ import annotations

import gzip
import json
import re
from itertools import permutations
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from indexer.cli.main import main
from indexer.options import Kind
from service.api.listings import explain_url
from service.snapshot.snapshot import open_snapshot
from service.urls import parse_url
from tests.support.artifacts import current, ids, listed, reported
from tests.support.intake import (
    HERE,
    PLAIN,
    THERE,
    CatalogueFolder,
    Offer,
    listings,
    payments,
    source,
    take_in,
)
from tests.support.running import Build, Json, endpoint, examples, payment, serve, service
from tests.support.sources.feeds import failing, misbehaving, pages_of, redirecting, sending
from tests.support.sources.x402 import SOLANA_USDC, accept, resource

VICTIM = "https://api.victim.example"
PAY = f"{VICTIM}/pay"
HONEST, THIEF = HERE, THERE
MAY, JUNE, NEVER = "2026-05-20T00:00:00Z", "2026-06-20T00:00:00Z", "9999-01-01T00:00:00Z"
EQUALS = [(0, 1), (1, 0)]
"""Both orders of two sources."""


def paid(url: str, payee: str, amount: str = "10000", **fields: Any) -> Json:
    """Return a resource that pays an address."""
    return resource(url, accept(amount, payTo=payee), **fields)


def payees(listing: Json) -> list[str]:
    return [entry["payTo"] for entry in listing["accepts"]]


def shop(host: str, *paths: str, payee: str = HONEST, **fields: Any) -> list[Json]:
    """Return resources of a host."""
    return [paid(f"https://{host}/{path}", payee, **fields) for path in paths]


# A. One party takes over, hides or dresses up the record of another.


OFFICIAL = service(
    "api-victim-example",
    name="Victim (official)",
    enriched=True,
    isNew=True,
    endpoints=[
        endpoint("99999") | {"url": "http://169.254.169.254/latest/meta-data"},
        endpoint() | {"url": f"{VICTIM}/0", "payTo": THIEF},
    ],
)
"""A catalogue record as an attacker writes it for the host of another."""


@pytest.mark.parametrize("order", EQUALS)
@pytest.mark.parametrize("record", [OFFICIAL, OFFICIAL | {"endpoints": []}])
def test_an_item_of_a_feed_is_no_catalogue_record(
    catalogue: CatalogueFolder,
    capsys: pytest.CaptureFixture[str],
    order: tuple[int, int],
    record: Json,
) -> None:
    genuine = shop("api.victim.example", *"0123")
    own = shop("api.attacker.example", "own")
    with misbehaving(pages_of(genuine)) as honest, misbehaving(pages_of([record, *own])) as other:
        sources = [source("honest", honest.url), source("attacker", other.url)]
        chosen = [sources[number] for number in order]
        assert catalogue.build(*chosen, options=("--json",)) == 0
    tally = next(each for each in reported(capsys)["sources"] if each["name"] == "attacker")
    assert tally["leftOut"] == {"records of another kind": 1}
    assert ids(catalogue.artifacts) == ["api-attacker-example", "api-victim-example"]
    victim = listed(catalogue.artifacts)[1]
    assert "enriched" not in victim
    assert len(victim["endpoints"]) == 4
    assert THIEF not in json.dumps(victim)


def test_a_url_of_catalogue_records_alone_is_an_error_that_names_the_option(
    artifacts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with misbehaving(sending({"services": [OFFICIAL]})) as server:
        assert main(["build", server.url, "--out", str(artifacts), *PLAIN]) == 1
    assert "--records" in capsys.readouterr().err
    assert not (artifacts / "CURRENT").exists()


def test_a_record_of_a_url_is_neither_curated_nor_above_the_policy(
    artifacts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with misbehaving(sending({"services": [OFFICIAL]})) as server:
        command = ["build", "--records", server.url, "--out", str(artifacts), *PLAIN, "--json"]
        assert main(command) == 0
    [tally] = reported(capsys)["sources"]
    assert tally["leftOut"] == {"private addresses": 1}
    [record] = listed(artifacts)
    assert [each["url"] for each in record["endpoints"]] == [f"{VICTIM}/0"]
    assert "enriched" not in record
    assert "isNew" not in record


@pytest.mark.parametrize("order", EQUALS)
def test_a_date_in_the_future_takes_no_payee(
    catalogue: CatalogueFolder, capsys: pytest.CaptureFixture[str], order: tuple[int, int]
) -> None:
    spelt = "https://API.victim.example:443/pay"
    sources = [
        source("honest", [paid(PAY, HONEST, lastUpdated=MAY)], trust=0),
        source("thief", [paid(spelt, THIEF, "9000000", lastUpdated=NEVER)], trust=0),
    ]
    chosen = [sources[number] for number in order]
    assert catalogue.build(*chosen, options=("--json",)) == 0
    [listing] = listings(catalogue.artifacts).values()
    assert payees(listing) == [HONEST]
    assert listing["lastUpdated"] == MAY
    tally = next(each for each in reported(capsys)["sources"] if each["name"] == "thief")
    assert tally["noted"]["conflicting payees"] == 1


def test_the_source_that_was_served_keeps_the_payee_and_may_change_it(
    catalogue: CatalogueFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    honest = source("honest", [paid(PAY, HONEST, lastUpdated=MAY)], trust=0)
    thief = source("thief", [paid(PAY, THIEF, lastUpdated=JUNE)], trust=0)
    assert catalogue.build(honest) == 0
    before = current(catalogue.artifacts)
    assert catalogue.build(thief, honest) == 0
    [listing] = listings(catalogue.artifacts).values()
    assert payees(listing) == [HONEST]
    moved = "0x" + "12" * 20
    assert catalogue.build(thief, honest | {"items": [paid(PAY, moved, lastUpdated=MAY)]}) == 0
    [listing] = listings(catalogue.artifacts).values()
    assert payees(listing) == [moved]
    capsys.readouterr()
    after = current(catalogue.artifacts)
    assert main(["diff", before, after, "--artifacts", str(catalogue.artifacts)]) == 0
    assert THIEF in capsys.readouterr().out


def test_a_more_trusted_source_has_the_last_word_on_payees(catalogue: CatalogueFolder) -> None:
    facilitator = source("feed", [paid(PAY, THIEF, lastUpdated=JUNE)], trust=0)
    mine = source("mine", [paid(PAY, HONEST, lastUpdated=MAY)], trust=1)
    assert catalogue.build(facilitator) == 0
    assert catalogue.build(facilitator, mine) == 0
    [listing] = listings(catalogue.artifacts).values()
    assert payees(listing) == [HONEST]


def test_a_less_trusted_source_adds_neither_entry_nor_method_nor_name(
    catalogue: CatalogueFolder,
) -> None:
    mine = source("mine", [paid(PAY, HONEST)], trust=1)
    assert catalogue.build(mine) == 0
    before = listings(catalogue.artifacts), listed(catalogue.artifacts)
    solana = accept(network="solana", asset=SOLANA_USDC, payTo="Thief")
    feed = source(
        "feed",
        [
            resource(PAY, solana, serviceName="Claim free USDC", description="at evil.example"),
            resource(PAY, solana, extensions={"bazaar": {"info": {"input": {"method": "POST"}}}}),
        ],
        trust=0,
    )
    assert catalogue.build(feed, mine) == 0
    assert (listings(catalogue.artifacts), listed(catalogue.artifacts)) == before


@pytest.mark.parametrize(
    "extension",
    [
        {"info": {"input": {"type": "mcp", "tool": "pay"}}},
        {"info": {"input": {"type": "http", "method": "PUT"}}},
        {"routeTemplate": "/:what"},
    ],
)
@pytest.mark.parametrize("is_declared", [True, False])
def test_a_less_trusted_source_lists_no_url_of_a_more_trusted_one_again(
    catalogue: CatalogueFolder, extension: Json, *, is_declared: bool
) -> None:
    """An endpoint is told by its URL, its method, its tool and its route: each can be made up."""
    plain: Json = {}
    declared = {"bazaar": extension}
    mine = paid(PAY, HONEST, extensions=declared if is_declared else plain)
    theirs = paid(PAY, THIEF, extensions=plain if is_declared else declared)
    sources = source("feed", [theirs], trust=0), source("mine", [mine], trust=1)
    assert catalogue.build(*sources) == 0
    [listing] = listings(catalogue.artifacts).values()
    assert payees(listing) == [HONEST]


def test_endpoints_of_a_less_trusted_source_displace_none_of_a_record(
    catalogue: CatalogueFolder,
) -> None:
    busy = {"l30DaysTotalCalls": 2**60, "l30DaysUniquePayers": 2**60}
    junk = shop("api.victim.example", *"0123456789", payee=THIEF, quality=busy)
    feed = source("feed", junk, trust=0)
    mine = source("mine", shop("api.victim.example", "x", "y"), trust=1)
    assert catalogue.build(feed, mine, endpoints_per_service=3) == 0
    [record] = listed(catalogue.artifacts)
    assert {f"{VICTIM}/x", f"{VICTIM}/y"} <= {each["url"] for each in record["endpoints"]}


def test_a_neighbour_with_a_hyphen_changes_no_id(
    catalogue: CatalogueFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    victim = source("a", shop("api.victim.example", "x"), trust=0)
    neighbour = source("b", shop("api-victim.example", "x"), trust=0)
    patch = {"name": "mine", "kind": "overlay", "items": [{"api-victim-example": {"badge": 1}}]}
    assert catalogue.build(victim, patch) == 0
    assert catalogue.build(neighbour, victim, patch, options=("--json",)) == 0
    assert reported(capsys)["unusedOverlays"] == []
    domains = {each["id"]: each["domain"] for each in listed(catalogue.artifacts)}
    assert domains["api-victim-example"] == "api.victim.example"
    assert len(domains) == 2
    [badged] = [each for each in listed(catalogue.artifacts) if "badge" in each]
    assert badged["domain"] == "api.victim.example"


def test_an_id_that_a_source_gives_itself_takes_no_served_id(catalogue: CatalogueFolder) -> None:
    victim = source("a", shop("api.victim.example", "x"), trust=0)
    forged = service("api-victim-example", domain="evil.example", name="Victim")
    records = source("b", [forged], kind="records", trust=0, curated=False)
    assert catalogue.build(victim) == 0
    assert catalogue.build(records, victim) == 0
    domains = {each["id"]: each["domain"] for each in listed(catalogue.artifacts)}
    assert domains == {
        "api-victim-example": "api.victim.example",
        "evil-example": "evil.example",
    }


@pytest.mark.parametrize("order", EQUALS)
def test_a_resource_belongs_to_the_more_trusted_of_two_records_that_name_it(
    catalogue: CatalogueFolder, order: tuple[int, int]
) -> None:
    named = [endpoint() | {"url": PAY}]
    sources = [
        source("worse", [service("other", domain="api.victim.example", endpoints=named)], trust=1),
        source(
            "better", [service("genuine", domain="api.victim.example", endpoints=named)], trust=2
        ),
    ]
    feed = source("feed", [paid(PAY, HONEST)], trust=0)
    assert catalogue.build(feed, *(sources[number] for number in order)) == 0
    [listing] = listings(catalogue.artifacts).values()
    assert listing["ratecard"]["service"] == "genuine"


@pytest.mark.parametrize("order", EQUALS)
def test_a_less_trusted_record_names_no_other_payee_for_a_url_of_a_more_trusted_one(
    catalogue: CatalogueFolder, capsys: pytest.CaptureFixture[str], order: tuple[int, int]
) -> None:
    def at(path: str, amount: str, **fields: str) -> Json:
        return endpoint(amount) | {"url": f"{VICTIM}/{path}"} | fields

    genuine = [at("pay", "1", payTo=HONEST), at("free", "1")]
    copied = [
        at("%70ay", "2", method="POST", payTo=THIEF),
        at("pay", "3", payTo=HONEST.upper().replace("X", "x")),
        at("pay", "4", payTo=""),
        at("free", "5", payTo=THIEF),
        at("more", "6", payTo=THIEF),
    ]
    theirs = [service("copy", endpoints=copied), service("thief", endpoints=copied[:1])]
    sources = [
        source("mine", [service("genuine", endpoints=genuine)]),
        source("theirs", theirs, trust=-1),
    ]
    assert catalogue.build(*(sources[number] for number in order), options=("--json",)) == 0
    tallies = {each["name"]: each for each in reported(capsys)["sources"]}
    rule = "URLs that a more trusted source lists otherwise"
    assert tallies["mine"]["leftOut"] == {}
    assert (tallies["theirs"]["published"], tallies["theirs"]["leftOut"]) == (1, {rule: 2})
    records = {each["id"]: each for each in listed(catalogue.artifacts)}
    assert {name: each["endpoints"] for name, each in records.items()} == {
        "genuine": genuine,
        "copy": copied[1:],
    }
    assert records["copy"]["priceSummary"]["minAmount"] == "3"
    report = explain_url(open_snapshot(catalogue.artifacts), f"{VICTIM}/pay")
    assert "a more trusted source lists this URL" in str(report)


SCAMS = ["scam-shop-example", "domain:scam.shop.example", f"payee:{THIEF}"]


@pytest.mark.parametrize("key", SCAMS)
@pytest.mark.parametrize("is_known", [True, False])
def test_what_is_taken_down_stays_down_whatever_neighbours_are_listed(
    catalogue: CatalogueFolder, key: str, *, is_known: bool
) -> None:
    scam = source("a", shop("scam.shop.example", "x", payee=THIEF), trust=0)
    other = source("c", shop("other.example", "x"), trust=0)
    if is_known:
        assert catalogue.build(scam, other) == 0
    takedown = {"name": "mine", "kind": "overlay", "items": [{key: None}, {key: {"name": "Back"}}]}
    if key.startswith("payee:"):
        takedown["items"] = [{key: None}]
    assert catalogue.build(scam, other, takedown) == 0
    assert ids(catalogue.artifacts) == ["other-example"]
    neighbour = source("b", shop("scam-shop.example", "x"), trust=0)
    for _ in range(2):
        assert catalogue.build(neighbour, scam, other, takedown) == 0
        domains = {each["domain"] for each in listed(catalogue.artifacts)}
        assert "scam.shop.example" not in domains
        assert not any("scam.shop.example" in url for url in listings(catalogue.artifacts))


def test_one_listing_of_many_does_not_name_the_service(catalogue: CatalogueFolder) -> None:
    loud = paid(
        f"{VICTIM}/loud",
        THIEF,
        serviceName="CLAIM FREE USDC at evil.example",
        iconUrl="https://evil.example/icon.png",
        category="Security",
    )
    quiet = shop("api.victim.example", *map(str, range(40)))
    assert catalogue.build(source("feed", [*quiet, loud])) == 0
    [record] = listed(catalogue.artifacts)
    assert record["name"] == "Victim"
    assert not {"iconUrl", "category", "serviceName"} & record.keys()


def test_listings_of_a_less_trusted_source_unname_no_service(catalogue: CatalogueFolder) -> None:
    fields = {"serviceName": "Shop", "iconUrl": "https://shop.example/icon.png", "category": "Data"}
    mine = source("mine", shop("api.victim.example", "x", **fields), trust=1)
    junk = source("feed", shop("api.victim.example", *"012345", payee=THIEF), trust=0)
    assert catalogue.build(junk, mine) == 0
    [record] = listed(catalogue.artifacts)
    assert record["name"] == "Shop"
    assert record["category"] == "Data"
    assert record["iconUrl"] == "https://shop.example/icon.png"


def test_naming_the_payee_of_another_takes_none_of_its_payments(
    catalogue: CatalogueFolder,
) -> None:
    items = [
        payment(tx_hash=hex(number), sender=hex(number % 3 + 1), recipient=HONEST)
        for number in range(12)
    ]
    paid_for = {"name": "payments", "kind": "payments", "items": items}
    merchant = source("a", shop("merchant.example", "x"), trust=0)
    parasite = source(
        "b",
        [
            resource(
                "https://parasite.example/x",
                accept(payTo=HONEST),
                accept("1", payTo=THIEF, network="polygon", asset=""),
            )
        ],
        trust=0,
    )
    assert catalogue.build(merchant, paid_for) == 0
    assert catalogue.build(parasite, merchant, paid_for) == 0
    by_id = {each["id"]: each for each in listed(catalogue.artifacts)}
    assert by_id["merchant-example"]["quality"]["totalCalls"] == 12
    assert "quality" not in by_id["parasite-example"]
    assert ids(catalogue.artifacts)[0] == "merchant-example"


def test_a_payee_in_another_spelling_keeps_its_claim_on_payments(
    catalogue: CatalogueFolder,
) -> None:
    payee = "0x" + "aB" * 20
    paid_for = source("payments", [payment(recipient=payee)], kind="payments")
    merchant, other = (
        source("a", shop("merchant.example", "x", payee=spelt), trust=0)
        for spelt in (payee, payee.lower())
    )
    parasite = source("b", shop("parasite.example", "x", payee=payee), trust=0)
    assert catalogue.build(merchant, paid_for) == 0
    assert catalogue.build(merchant, parasite, paid_for) == 0
    assert catalogue.build(other, parasite, paid_for) == 0
    by_id = {each["id"]: each for each in listed(catalogue.artifacts)}
    assert by_id["merchant-example"]["quality"]["totalCalls"] == 1
    assert "quality" not in by_id["parasite-example"]


def test_payments_that_fit_two_newcomers_are_credited_to_none(
    catalogue: CatalogueFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    items = [payment(tx_hash=hex(number), recipient=HONEST) for number in range(12)]
    paid_for = {"name": "payments", "kind": "payments", "items": items}
    both = shop("merchant.example", "x") + shop("parasite.example", "x")
    assert catalogue.build(source("feed", both), paid_for, options=("--json",)) == 0
    assert all("quality" not in each for each in listed(catalogue.artifacts))
    assert any("12 payments" in note for note in reported(capsys)["notes"])


@pytest.mark.parametrize(
    ("host", "fields", "name"),
    [
        ("xn--pypal-4ve.com", {}, "xn--pypal-4ve"),
        ("xn--80ak6aa92e.com", {}, "xn--80ak6aa92e"),
        ("a.example", {"serviceName": "Coin\u200bbase"}, "Coinbase"),
        ("a.example", {"serviceName": "Coin\u00adbase\u2060\ufeff\u061c\U000e0041"}, "Coinbase"),
    ],
)
def test_a_name_is_not_made_to_look_like_another(
    catalogue: CatalogueFolder, host: str, fields: Json, name: str
) -> None:
    assert catalogue.build(source("feed", shop(host, "x", **fields))) == 0
    [record] = listed(catalogue.artifacts)
    assert record["name"] == name


# C. One party stops the build, or fills the machine.


def test_a_record_of_a_host_is_bounded_and_its_resources_are_all_listed(
    build: Build, artifacts: Path
) -> None:
    names = [f"p{number}" for number in range(40)]
    wide = {
        "bazaar": {
            "info": {"input": {"type": "http", "method": "GET"}},
            "schema": {"properties": {"input": {"properties": {"queryParams": {
                "properties": {name: {"type": "string", "description": "d" * 90} for name in names}
            }}}}},
        }
    }  # fmt: skip
    spam = shop("spam.example", *map(str, range(150)), extensions=wide)
    assert build(spam, options=PLAIN) == 0
    snapshot = open_snapshot(artifacts)
    assert len(snapshot.find("spam-example") or b"") < 300_000
    [record] = listed(artifacts)
    found = listings(artifacts)
    assert len(found) == 150
    assert 0 < len(record["endpoints"]) < 150
    beyond = [each for each in found.values() if each["ratecard"].get("inRecord") is False]
    assert len(beyond) == 150 - len(record["endpoints"])


def test_the_page_of_a_service_and_the_command_line_count_what_its_record_lacks(
    catalogue: CatalogueFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    nine = shop("Spam.example", *map(str, range(9)))
    feed = source("feed", [*nine, *shop("other.example", "1", "2")])
    assert catalogue.build(feed, endpoints_per_service=4) == 0
    capsys.readouterr()
    assert main(["show", "spam-example", "--artifacts", str(catalogue.artifacts)]) == 0
    assert "5 more endpoints are beyond the bounds of a record" in capsys.readouterr().out
    with serve(catalogue.artifacts) as client:
        page = client.get("/services/spam-example", headers={"Accept": "text/html"}).text
        assert "5 endpoints more are beyond the bounds of a record" in page
        [link] = re.findall(r'href="(/discovery/[^"]+)"', page)
        found = client.get(link).json()
        assert found["total"] == 9
        assert "unappliedFilters" not in found


def test_a_catalogue_record_above_a_megabyte_is_rejected_alone(
    build: Build, artifacts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    large = service("large", description="d" * 2**20)
    assert build([large, service()], options=(*PLAIN, "--max-rejects", "50%", "--json")) == 0
    assert ids(artifacts) == ["one"]
    [finding] = reported(capsys)["firstFindings"]
    assert finding["fate"] == "rejected"
    assert "at most 1,048,576" in finding["reason"]


def test_a_listing_of_many_megabytes_is_left_out_before_it_is_decoded(
    build: Build, artifacts: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "feed.jsonl"
    nested = '{"resource":"https://a.example/x","accepts":%s}' % ("[" * 2**20)  # no JSON, if read
    path.write_text(json.dumps(shop("b.example", "x")[0]) + "\n" + nested + "\n")
    assert build(path, options=(*PLAIN, "--json")) == 0
    assert ids(artifacts) == ["b-example"]
    [tally] = reported(capsys)["sources"]
    assert (tally["rejected"], tally["leftOut"]) == (0, {"listings that are too large": 1})


def test_a_page_of_millions_of_items_fails_its_source_alone(
    catalogue: CatalogueFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    body = b'{"items":[' + b"0," * 2_000_000 + b"0]}"  # 4 KB of gzip
    with misbehaving(lambda exchange: exchange.respond_compressed(body)) as server:
        hostile = source("hostile", server.url, on_error="skip")
        mine = source("mine", shop("b.example", "x"))
        assert catalogue.build(hostile, mine, options=("--json",)) == 0
    skipped, _ = reported(capsys)["sources"]
    assert skipped["state"] == "skipped"
    assert "200,000 items on one page" in skipped["failure"]
    assert ids(catalogue.artifacts) == ["b-example"]


@pytest.mark.parametrize("body", [b"[" * 2**20, b'{"items":[' * 50_000, b'"' * 2**20])
def test_a_page_that_is_hard_to_parse_fails_its_source_alone(
    catalogue: CatalogueFolder, body: bytes
) -> None:
    mine = source("mine", shop("b.example", "x"))
    with misbehaving(lambda exchange: exchange.respond_compressed(body)) as server:
        hostile = source("hostile", server.url, on_error="skip")
        assert catalogue.build(hostile, mine) == 0
    assert ids(catalogue.artifacts) == ["b-example"]


def test_sums_of_hostile_counts_stay_numbers_of_64_bits(
    catalogue: CatalogueFolder,
) -> None:
    most = {"l30DaysTotalCalls": str(2**63 - 1)}
    assert catalogue.build(source("feed", shop("a.example", *"xyz", quality=most))) == 0
    [record] = listed(catalogue.artifacts)
    assert record["quality"]["totalCalls"] == 2**63 - 1


# E. What an attacker reads.


def test_no_secret_of_a_source_is_in_an_artifact_a_report_or_an_error(
    catalogue: CatalogueFolder,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secrets = ["hush-query", "hush-header", "hush-param", "hush-user"]
    monkeypatch.setenv("INTAKE_KEY", "hush-header")
    keys = {
        "headers": {"X-Key": "env:INTAKE_KEY"},
        "params": {"apikey": "hush-param"},
        "on_error": "skip",
    }
    with misbehaving(pages_of(shop("a.example", "x"))) as server:
        host = server.url.removeprefix("http://")
        feed = source("feed", f"http://me:hush-user@{host}?key=hush-query", **keys)
        unnamed = f"http://me:hush-user@{host}?key=hush-query"
        assert catalogue.build(feed, options=("--json", "--from-scratch")) == 0
        assert "hush-param" in server.queries[-1]
        assert server.requests[-1].headers["X-Key"] == "hush-header"
        out = ["--out", str(catalogue.artifacts), *PLAIN]
        assert main(["build", unnamed, *out]) == 0
        for failure in (failing(403), redirecting("http://x:abc/")):
            server.behaviour = failure
            assert main(["build", unnamed, *out, "--from-scratch"]) == 1
            assert catalogue.build(feed, options=("--json", "--from-scratch")) == 0
            with serve(catalogue.artifacts) as client:
                ready = client.get("/readyz").text
            assert "127.0.0.1" in ready
            assert not [secret for secret in secrets if secret in ready]
    printed = "".join(capsys.readouterr())
    assert "127.0.0.1" in printed
    for secret in secrets:
        assert secret not in printed
        for path in catalogue.artifacts.rglob("*"):
            assert secret not in str(path)
            content = path.read_bytes() if path.is_file() else b""
            if content.startswith(b"\x1f\x8b"):
                content = gzip.decompress(content)
            assert secret.encode() not in content, path


# Properties of sources of unequal trust.


HOSTS = ("a.example", "b.example", "a-b.example", "a.b.example")
_entries = st.builds(
    lambda chain, payee, amount, scheme: accept(amount, payTo=payee, scheme=scheme, **chain),
    st.sampled_from(
        [
            {"network": "eip155:8453"},
            {"network": "base"},
            {"network": "solana", "asset": SOLANA_USDC},
            {"network": "base", "asset": "0xUnknown"},
        ]
    ),
    st.sampled_from([HONEST, THIEF, THIEF.upper().replace("X", "x")]),
    st.sampled_from(["1", "10000", "0.01"]),
    st.sampled_from(["exact", "upto"]),
)
_methods = st.sampled_from(["", "GET", "POST"])
_inputs = st.sampled_from(
    [
        {},
        {"info": {"input": {"type": "http", "method": "GET"}}},
        {"info": {"input": {"type": "http", "method": "POST"}}},
        {"info": {"input": {"type": "mcp", "tool": "look"}}},
        {"routeTemplate": "/:letter"},
    ]
)
_resources = st.builds(
    lambda host, path, entries, declared, fields: (
        resource(f"https://{host}/{path}", *entries)
        | fields
        | ({"extensions": {"bazaar": declared}} if declared else {})
    ),
    st.sampled_from((*HOSTS, "A.example:443")),
    st.sampled_from(["x", "y", "%78"]),
    st.lists(_entries, min_size=1, max_size=3),
    _inputs,
    st.fixed_dictionaries(
        {},
        optional={
            "lastUpdated": st.sampled_from([MAY, JUNE, NEVER, 1_700_000_000, "soon"]),
            "quality": st.sampled_from(
                [None, {}, {"l30DaysTotalCalls": 5}, {"l30DaysTotalCalls": "70"}]
            ),
            "serviceName": st.sampled_from(["Shop", "Store"]),
            "description": st.sampled_from(["Sells things.", ""]),
            "category": st.sampled_from(["Data", "Media"]),
            "metadata": st.sampled_from([{}, {"description": "In metadata."}]),
            "tags": st.lists(st.sampled_from(["red", "Red", "blue"]), max_size=2),
        },
    ),
)
_records = st.builds(
    lambda host, name, method, payee, fields: (
        service(
            None,
            name=name,
            domain=host,
            endpoints=[
                endpoint() | {"url": f"https://{host}/x", "method": method, "payTo": payee},
                endpoint() | {"url": "https://shared.example/x", "payTo": payee},
            ],
        )
        | fields
    ),
    st.sampled_from(HOSTS),
    st.sampled_from(["Shop", "Store"]),
    _methods,
    st.sampled_from(["", HONEST, THIEF]),
    st.fixed_dictionaries(
        {},
        optional={
            "id": st.sampled_from(["a-b-example", "a-example", "own"]),
            "enriched": st.booleans(),
            "isNew": st.booleans(),
        },
    ),
)


def _offer(number: int, trust: int) -> st.SearchStrategy[Offer]:
    """Return sources of one trust: of resources, or of catalogue records."""
    resources = st.builds(
        lambda items: Offer(f"s{number}", items, trust), st.lists(_resources, max_size=6)
    )
    records = st.builds(
        lambda items, curated: Offer(f"s{number}", items, trust, Kind.RECORDS, curated),
        st.lists(_records, max_size=3),
        st.booleans(),
    )
    return st.one_of(resources, resources, records)


unequal = st.integers(2, 3).flatmap(
    lambda count: st.tuples(*(_offer(number, number) for number in range(count)))
)
"""Two or three sources, each more trusted than the one before."""


_named = {"endpoints": [endpoint() | {"url": "https://h.example/1"}]}
RIVALS = (
    Offer("s0", [resource("https://h.example/1")], 0),
    Offer("s1", [service("y", **_named)], 1, Kind.RECORDS, curated=True),
    Offer("s2", [service("x", **_named), service("y", **_named)], 2, Kind.RECORDS, curated=True),
)
"""Two records that name one listing, of which one replaces a less trusted one."""


@settings(max_examples=examples(100))
@given(unequal, unequal)
@example(RIVALS, RIVALS)
def test_permuting_sources_of_unequal_trust_changes_nothing(
    scratch: Path, offers: tuple[Offer, ...], before: tuple[Offer, ...]
) -> None:
    served = take_in(scratch, before).decisions
    for decisions in (None, served):
        first, *others = (take_in(scratch, order, decisions) for order in permutations(offers))
        for other in others:
            assert other == first


@settings(max_examples=examples(100))
@given(st.lists(st.lists(_records, min_size=1, max_size=3), min_size=2, max_size=3))
def test_a_url_pays_whom_the_most_trusted_records_of_it_name(
    scratch: Path, sources: list[list[Json]]
) -> None:
    offers = [Offer(f"s{n}", items, n, Kind.RECORDS) for n, items in enumerate(sources)]
    stated: dict[str, set[str]] = {}
    for items in sources:
        named: dict[str, set[str]] = {}
        for each in (one for record in items for one in record["endpoints"]):
            named.setdefault(each["url"], set()).update({each["payTo"]} - {""})
        stated |= {url: payees for url, payees in named.items() if payees}
    for text in take_in(scratch, offers).services.values():
        for each in json.loads(text)["endpoints"]:
            assert each["payTo"] in {"", *stated.get(each["url"], ())}


def _without_id(record: bytes) -> bytes:
    """Return a record after its first member."""
    return record.partition(b",")[2]


def _url_of(listing: bytes) -> str:
    return parse_url(json.loads(listing)["resource"]).identity


def _without_quality(listing: bytes) -> bytes:
    """Return a listing without its usage, with all other bytes."""
    fields = msgspec.json.decode(listing, type=dict[str, msgspec.Raw])
    fields.pop("quality", None)
    return msgspec.json.encode(fields)


@settings(max_examples=examples(100))
@given(
    better=st.lists(_resources, min_size=1, max_size=6),
    worse=st.lists(_resources, max_size=6),
    is_served=st.booleans(),
    is_first=st.booleans(),
)
def test_a_less_trusted_source_changes_no_byte_of_the_listings_of_a_more_trusted_one(
    scratch: Path, better: list[Json], worse: list[Json], *, is_served: bool, is_first: bool
) -> None:
    mine, theirs = Offer("mine", better, 1), Offer("theirs", worse, 0)
    alone = take_in(scratch, [mine])
    decisions = take_in(scratch, [theirs]).decisions if is_served else None
    both = take_in(scratch, [theirs, mine] if is_first else [mine, theirs], decisions)
    for key, text in alone.listings.items():
        other = both.listings[key]
        assert _without_quality(_text_of(other)) == _without_quality(_text_of(text))
        if json.loads(text).get("quality") is not None:
            assert _text_of(other) == _text_of(text)
    added = both.listings.keys() - alone.listings.keys()
    urls = set(map(_url_of, alone.listings.values()))
    assert not {_url_of(both.listings[key]) for key in added} & urls
    only = {key[0] for key in alone.listings} - {
        key[0] for key in take_in(scratch, [theirs]).listings
    }
    for domain in only:
        record, other = alone.records[domain], both.records[domain]
        assert _without_id(other) == _without_id(record)
        if decisions is None:
            assert other == record


def _text_of(listing: bytes) -> bytes:
    """Return a listing as its source has it, without the facts that end it."""
    return listing.rpartition(b',"ratecard":')[0] + b"}"


@settings(max_examples=examples(16))
@given(
    better=st.lists(_resources, min_size=1, max_size=4),
    worse=st.lists(_resources, min_size=1, max_size=4),
    paid=payments,
)
def test_a_less_trusted_source_takes_no_credit_of_a_more_trusted_one(
    scratch: Path, better: list[Json], worse: list[Json], paid: list[Json]
) -> None:
    mine, theirs = Offer("mine", better, 1), Offer("theirs", worse, 0)
    alone = take_in(scratch, [mine], payments=paid).records
    both = take_in(scratch, [theirs, mine], payments=paid).records
    for domain in alone.keys() - take_in(scratch, [theirs]).records.keys():
        assert both[domain] == alone[domain]


@settings(max_examples=examples(60))
@given(
    better=st.lists(_resources, min_size=1, max_size=6),
    worse=st.lists(_records, min_size=1, max_size=3),
    is_curated=st.booleans(),
)
def test_records_that_are_less_trusted_hide_nothing(
    scratch: Path, better: list[Json], worse: list[Json], *, is_curated: bool
) -> None:
    mine = Offer("mine", better, 1)
    theirs = Offer("theirs", worse, 0, Kind.RECORDS, is_curated)
    alone, both = take_in(scratch, [mine]), take_in(scratch, [theirs, mine])
    assert {key: _text_of(text) for key, text in both.listings.items()} == {
        key: _text_of(text) for key, text in alone.listings.items()
    }
    for domain, record in alone.records.items():
        assert _without_id(both.records[domain]) == _without_id(record)
        if not is_curated:
            assert both.records[domain] == record


@settings(max_examples=examples(60))
@given(
    better=st.lists(_records, min_size=1, max_size=3),
    resources=st.lists(_resources, max_size=4),
    records=st.lists(_records, max_size=3),
)
def test_a_less_trusted_source_changes_no_byte_of_the_records_of_a_more_trusted_one(
    scratch: Path, better: list[Json], resources: list[Json], records: list[Json]
) -> None:
    mine = Offer("mine", better, 1, Kind.RECORDS, curated=True)
    theirs = [
        Offer("resources", resources, 0),
        Offer("records", records, 0, Kind.RECORDS),
    ]
    alone = take_in(scratch, [mine]).services
    both = take_in(scratch, [*theirs, mine]).services
    assert {service_id: both[service_id] for service_id in alone} == alone
