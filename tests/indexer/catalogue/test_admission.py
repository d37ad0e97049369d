"""Admission: what a source may say in a catalogue record."""

from __future__ import annotations

import json

import pytest

from indexer.catalogue.admission import Admitted, admit
from indexer.catalogue.records import read_record
from indexer.errors import InvalidRecord, LeftOut
from indexer.intake.fates import find_address
from indexer.intake.findings import Notice
from indexer.intake.rules import TAKEN_DOWN, Denials, Rules
from indexer.options import Denial, Policy, SourceOptions
from tests.support.running import Json, endpoint, service

OURS, THEIRS = (SourceOptions(name="source", curated=curated) for curated in (True, False))
URL = "https://api.one.example/v1"


def rules(*denials: Denial, **policy: object) -> Rules:
    return Rules(Policy(**policy), Denials(denials))  # type: ignore[arg-type]  # of any field


def admitted(
    record: Json | str, source: SourceOptions = OURS, within: Rules | None = None
) -> Admitted:
    text = (record if isinstance(record, str) else json.dumps(record)).encode()
    return admit(text, read_record(text), source, within or rules())


def text_of(outcome: Admitted) -> Json:
    text, _ = outcome
    assert text is not None
    record: Json = json.loads(text)
    return record


def at(url: str, amount: str = "0.01", **fields: object) -> Json:
    return endpoint(amount) | {"url": url} | fields


def test_a_record_of_a_curated_source_keeps_every_byte() -> None:
    text = '{"id": "a", "enriched": true, "isNew": true, "name": "\\u0041", "description": "", '
    text += f'"endpoints": [{json.dumps(at(URL))}], "big": 1.{"0" * 40}}}'
    assert admitted(text) == (None, [])
    assert admitted(text, within=rules(Denial(host="other.example"))) == (None, [])


def test_an_uncurated_source_says_nothing_of_ids_and_curation() -> None:
    record = service("own", domain="api.one.example", enriched=True, isNew=True, later=[1.50])
    outcome = admitted(record, THEIRS)
    kept = {name: record[name] for name in record if name not in ("id", "enriched", "isNew")}
    assert text_of(outcome) == kept
    assert outcome[1] == []
    assert admitted(kept, THEIRS) == (None, [])


def test_an_uncurated_source_says_nothing_by_an_escaped_name() -> None:
    text = json.dumps(service(None, domain="api.one.example", isNew=True))
    assert "isNew" not in text_of(admitted(text.replace("isNew", r"\u0069sNew"), THEIRS))


@pytest.mark.parametrize(
    "text", [" " * 10**6, "a" * 10**6, "/" * 10**6, "a:" * 10**5, "https:" + "/" * 10**6]
)
def test_no_text_for_a_url_takes_longer_than_its_length(text: str) -> None:
    """A time that grows with the square of the length would be an hour."""
    record = service("one", domain=text[: 2**18], endpoints=[at(text[: 2**19])])
    assert admitted(record, within=rules(Denial(host="evil.example"))) == (None, [])


def test_a_record_that_loses_its_id_has_the_domain_of_its_first_endpoint() -> None:
    endpoints = [at("no URL"), at("https://API.two.example:8443/x"), at(URL)]
    record = text_of(admitted(service("own", endpoints=endpoints), THEIRS))
    assert record["domain"] == "api.two.example:8443"
    with pytest.raises(InvalidRecord) as caught:
        admitted(service("own", endpoints=endpoints[:1]), THEIRS)
    assert caught.value.path == "$.domain"


@pytest.mark.parametrize(
    ("bad", "rule"),
    [
        (at("http://api.one.example/"), "http resources"),
        (at("https://169.254.169.254/latest/meta-data"), "private addresses"),
        (at("https://user@api.one.example/"), "URLs with credentials"),
        (at("ftp://api.one.example/"), "resources not over https"),
        (at("https://api.evil.example/"), TAKEN_DOWN),
        (at(URL, payTo="0xBAD"), TAKEN_DOWN),
        (at("https://api.one.example:443/%62ad"), TAKEN_DOWN),
    ],
)
@pytest.mark.parametrize("source", [OURS, THEIRS])
def test_an_endpoint_that_breaks_a_rule_is_left_out_and_the_others_are_kept(
    bad: Json, rule: str, source: SourceOptions
) -> None:
    within = rules(
        Denial(host="*.evil.example"),
        Denial(payee="0xbad"),
        Denial(url="https://api.one.example/bad"),
    )
    good = [at(URL, price) for price in ("1.50", "2")]
    record = service(None, domain="api.one.example", endpoints=[good[0], bad, good[1]])
    outcome = admitted(record, source, within)
    assert text_of(outcome) == record | {"endpoints": good}
    ((fault, address),) = outcome[1]
    assert address == find_address(bad["url"])
    assert isinstance(fault, LeftOut)
    assert fault.rule.startswith(rule)
    assert fault.path.startswith("$.endpoints[1].")
    with pytest.raises(LeftOut) as caught:
        admitted(record | {"endpoints": [bad]}, source, within)
    assert caught.value.rule.startswith(rule)


@pytest.mark.parametrize("stated", [None, {"minAmount": "1", "maxAmount": "5"}])
def test_a_stated_price_summary_goes_with_an_endpoint_that_is_left_out(stated: Json | None) -> None:
    if stated:
        stated |= {"avgCostPerTransaction": "3", "avgCostBasis": "exact", "currency": "USDC"}
    endpoints = [at("https://api.evil.example/", "1"), at(URL, "5")]
    record = service(endpoints=endpoints, priceSummary=stated)
    within = rules(Denial(host="*.evil.example"))
    outcome = admitted(record, within=within)
    assert text_of(outcome) == service(endpoints=endpoints[1:])
    whole = record | {"endpoints": endpoints[1:]}
    assert admitted(whole, within=within) == (None, [])


def test_an_endpoint_that_pays_a_denied_address_by_any_of_its_offers_is_left_out() -> None:
    offers = [
        {"protocol": "x402", "statedBy": "openapi", "payTo": payee}
        for payee in ("0xgood", "0xBAD", "")
    ]
    good = at(URL, payTo="0xgood", paymentOffers=offers[::2])
    bad = at(URL, payTo="0xgood", paymentOffers=offers)
    outcome = admitted(service(endpoints=[bad, good]), within=rules(Denial(payee="0xbad")))
    assert text_of(outcome)["endpoints"] == [good]
    assert [fault.path for fault, _ in outcome[1]] == ["$.endpoints[0].paymentOffers"]


DENIED = (
    Denial(url="https://api.one.example/leak"),
    Denial(url="https://api.one.example/a%20b"),
    Denial(host="api.scam.example"),
    Denial(payee="0xbad"),
)


@pytest.mark.parametrize(
    "bad",
    [
        at("https://api.one.example/leak "),
        at("https://api.one.example/leak\t"),
        at("\x00\xa0https://api.one.example/le\nak\x1f"),
        at("https:\\\\api.one.example\\leak"),
        at("https://api.one.example/a b"),
        at("ht\ntps://api.scam.example/"),
        at("https:/\\api.scam.example/"),
        at("HTTPS:api.scam.example/x"),
        at("https:////api.scam.example/x"),
        at("https:////api%2Escam.example/\u200b"),
        at("\\\\api.scam.example./x"),
        at("api.scam.example.:8443/x"),
        at(URL, payTo="0xBAD "),
        at(URL, payTo="\t0xbad"),
    ],
    ids=lambda bad: f"{bad['url']}{bad.get('payTo', '')}",
)
def test_a_denial_holds_for_each_spelling_that_clients_take_for_the_same(bad: Json) -> None:
    good = at("https://api.one.example/leaks ", payTo=" 0xgood")
    outcome = admitted(service(endpoints=[good, bad]), within=rules(*DENIED))
    assert text_of(outcome)["endpoints"] == [good]
    ((fault, _),) = outcome[1]
    assert isinstance(fault, LeftOut)
    assert fault.rule == TAKEN_DOWN


@pytest.mark.parametrize("url", [" http://api.one.example/", "https:\\\\127.0.0.1\\admin"])
@pytest.mark.parametrize("within", [rules(), rules(Denial(id="other"))])
def test_the_policy_holds_for_odd_spellings_of_urls(url: str, within: Rules) -> None:
    outcome = admitted(service(endpoints=[at(url), at(URL)]), within=within)
    assert text_of(outcome)["endpoints"] == [at(URL)]


def test_an_implausible_price_is_noted_and_the_record_keeps_every_byte() -> None:
    ranged = {"amount": "", "currency": "USDC", "maxAmount": "99999"}
    endpoints = [at(URL, "10001"), at(URL, "10000"), at(URL, pricing=ranged)]
    text, found = admitted(service(endpoints=endpoints))
    assert text is None
    assert [fault.path for fault, _ in found] == [
        "$.endpoints[0].pricing",
        "$.endpoints[2].pricing",
    ]
    assert {type(fault) for fault, _ in found} == {Notice}


def test_options_of_the_policy_hold_for_records() -> None:
    dear = service(endpoints=[at("http://localhost/")])
    with pytest.raises(LeftOut):
        admitted(dear)
    allowing = rules(allow_http=True, allow_private=True)
    assert admitted(dear, within=allowing) == (None, [])


@pytest.mark.parametrize("domain", ["evil.example", "https://EVIL.example/", "evil.example:443"])
def test_a_record_of_a_domain_that_is_taken_down_is_left_out(domain: str) -> None:
    denial = Denial(host="evil.example", reason="phishing")
    with pytest.raises(LeftOut) as caught:
        admitted(service(domain=domain), within=rules(denial))
    assert (caught.value.rule, caught.value.path) == (TAKEN_DOWN, "$.domain")
    assert caught.value.reason == "phishing"


def test_a_record_without_endpoints_and_texts_that_are_no_urls_break_no_rule() -> None:
    within = rules(Denial(host="*"))
    for endpoints in ([], [at("/v1"), at("no URL", payTo=[7])]):
        assert admitted(service(endpoints=endpoints), within=within) == (None, [])
