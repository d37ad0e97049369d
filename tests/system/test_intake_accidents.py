"""Accidents of sources: nothing is lost without a word, and nothing is emptied."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.cli.main import main
from service.snapshot.manifest import FORMAT, MANIFEST
from service.snapshot.publication import CURRENT
from service.snapshot.snapshot import open_snapshot
from tests.support.artifacts import current, folder, ids, listed, overlays, reported
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
from tests.support.running import (
    Build,
    Json,
    endpoint,
    eventually,
    examples,
    payment,
    serve,
    service,
)
from tests.support.sources.feeds import (
    Behaviour,
    Exchange,
    Server,
    failing,
    in_turn,
    misbehaving,
    pages_of,
    sending,
)
from tests.support.sources.x402 import SERVER, SOLANA_USDC, accept, resource, tool

URL = "https://a.example/x"
MAY, JUNE = "2026-05-20T00:00:00Z", "2026-06-20T00:00:00Z"


def shops(count: int, **fields: Any) -> list[Json]:
    """Return a resource for each of so many hosts."""
    return [resource(f"https://h{n:02}.example/x", **fields) for n in range(count)]


class Fed(NamedTuple):
    """A catalogue, its sources, of which the first is a feed, and the server of the feed."""

    on_error: str
    catalogue: CatalogueFolder
    sources: list[Json]
    server: Server


def failure_of(capsys: pytest.CaptureFixture[str]) -> str:
    """Return what was printed as an error."""
    return capsys.readouterr().err


# B. Data lost without a word, or the catalogue emptied.


def by_cursor(items: Sequence[Json], size: int = 10) -> Behaviour:
    """Serve pages by cursor, without a total."""

    def behave(exchange: Exchange) -> None:
        start = int(exchange.parameters.get("cursor", 0))
        stop = start + size
        cursor = str(stop) if stop < len(items) else None
        page = {"items": items[start:stop], "pagination": {"limit": size, "cursor": cursor}}
        exchange.respond(page)

    return behave


def test_a_feed_without_a_total_is_read_to_its_last_page(catalogue: CatalogueFolder) -> None:
    with misbehaving(by_cursor(shops(35))) as server:
        assert catalogue.build(source("feed", server.url)) == 0
    assert len(ids(catalogue.artifacts)) == 35


EMPTY: list[Any] = [{"items": []}, {"items": None}, [], {"resources": [], "total": 0}]


@pytest.fixture(scope="module")
def fed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fed]:
    """A published catalogue of a feed beside another source, by the parameter `on_error`."""
    catalogue = CatalogueFolder(tmp_path_factory.mktemp("fed"))
    with misbehaving(pages_of(shops(20))) as server:
        feed = source("feed", server.url, on_error=request.param)
        sources = [feed, source("mine", [resource("https://mine.example/x")])]
        assert catalogue.build(*sources) == 0
        yield Fed(request.param, catalogue, sources, server)


@pytest.mark.parametrize("body", EMPTY, ids=json.dumps)
@pytest.mark.parametrize("fed", ["fail", "last", "skip"], indirect=True)
def test_an_answer_without_items_does_not_empty_the_catalogue(
    fed: Fed, capsys: pytest.CaptureFixture[str], body: Any
) -> None:
    artifacts = fed.catalogue.artifacts
    before = current(artifacts)
    fed.server.behaviour = sending(body)
    status = fed.catalogue.build(*fed.sources, options=("--json",))
    captured = capsys.readouterr()
    if fed.on_error == "fail":
        assert status in {1, 3}
        assert current(artifacts) == before
        assert "feed" in captured.err
        return
    assert status == 0
    tally = json.loads(captured.out)["sources"][0]
    assert tally["failure"]
    assert tally["state"] == ("last" if fed.on_error == "last" else "skipped")
    assert len(ids(artifacts)) == (21 if fed.on_error == "last" else 1)


NO_FEEDS: list[Any] = [[1, 2], b"<html>", {"error": "moved"}, [service()], {"items": [[]] * 9}]


@pytest.mark.parametrize("fed", ["last", "skip"], indirect=True)
def test_a_source_that_is_no_longer_a_feed_stops_no_other(fed: Fed) -> None:
    for body in NO_FEEDS:
        fed.server.behaviour = sending(body)
        assert fed.catalogue.build(*fed.sources) == 0
        assert len(ids(fed.catalogue.artifacts)) == (21 if fed.on_error == "last" else 1)


def test_half_an_answer_is_taken_once_it_is_accepted_by_name(
    catalogue: CatalogueFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    with misbehaving(pages_of(shops(40))) as server:
        feed = source("feed", server.url, on_error="fail")
        assert catalogue.build(feed) == 0
        server.behaviour = pages_of(shops(21))
        assert catalogue.build(feed) == 3
        error = failure_of(capsys)
        assert "19 of 40 listings are gone" in error
        assert "--accept feed" in error
        assert len(ids(catalogue.artifacts)) == 40
        assert catalogue.build(feed, options=("--accept", "feed")) == 0
        assert len(ids(catalogue.artifacts)) == 21
        assert catalogue.build(feed) == 0


def test_ten_listings_of_any_source_may_go(catalogue: CatalogueFolder) -> None:
    assert catalogue.build(source("feed", shops(11), on_error="fail")) == 0
    assert catalogue.build(source("feed", shops(1), on_error="fail")) == 0


CHANGES = {
    "pay another address": [accept(payTo=THERE)],
    "cost more": [accept("100000", payTo=HERE)],
}


@pytest.mark.parametrize("kind", CHANGES)
def test_a_source_that_changes_many_payees_or_prices_has_failed(
    catalogue: CatalogueFolder, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    before = shops(30, accepts=[accept("10000", payTo=HERE)])
    after = shops(30, accepts=CHANGES[kind])
    assert catalogue.build(source("feed", before, on_error="fail")) == 0
    assert catalogue.build(source("feed", after[:10] + before[10:], on_error="fail")) == 0
    assert catalogue.build(source("feed", after, on_error="fail", max_removed="10%")) == 3
    assert f"20 of 30 listings {kind}" in failure_of(capsys)


def test_another_order_of_the_same_listings_is_no_change(catalogue: CatalogueFolder) -> None:
    """The methods of one URL pay different addresses, and each keeps its own."""
    both = [
        resource(f"https://h{n:02}.example/x", accept(payTo=payee), extensions={"bazaar": declared})
        for n in range(30)
        for payee, declared in ((HERE, method("GET")), (THERE, method("POST")))
    ]
    assert catalogue.build(source("feed", both, on_error="fail")) == 0
    assert catalogue.build(source("feed", both[::-1], on_error="fail")) == 0


def method(name: str) -> Json:
    """Return the declaration of a method."""
    return {"info": {"input": {"type": "http", "method": name}}}


TAKEN_AWAY: dict[str, Json] = {
    "deny": {"deny": [{"host": "*.example", "reason": "spam"}]},
    "max_price": {"max_price": 0.001},
    "max_age": {"max_age": "1d"},
    "overlay": {},
}


@pytest.fixture(scope="module")
def stated(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, CatalogueFolder, Json]:
    """A published catalogue of a source of the kind that is the parameter, and the source."""
    given = shops(30, lastUpdated=MAY)
    if request.param == "records":
        urls = [each["resource"] for each in given]
        given = [
            service(f"s{n}", endpoints=[endpoint() | {"url": url}]) for n, url in enumerate(urls)
        ]
    catalogue = CatalogueFolder(tmp_path_factory.mktemp("stated"))
    mine = source("mine", given, on_error="fail")
    other = source("other", [resource("https://unrelated.example/x", lastUpdated=MAY)])
    assert catalogue.build(mine, other) == 0
    return request.param, catalogue, mine


@pytest.mark.parametrize("rule", TAKEN_AWAY)
@pytest.mark.parametrize("stated", ["resources", "records"], indirect=True)
def test_what_overlays_and_policy_take_away_is_no_loss_of_the_source(
    stated: tuple[str, CatalogueFolder, Json], rule: str
) -> None:
    kind, catalogue, mine = stated
    nulls = [{f"domain:h{n:02}.example": None, f"s{n}": None} for n in range(30)]
    overlay = {"name": "overlay", "kind": "overlay", "items": nulls if rule == "overlay" else [{}]}
    assert catalogue.build(mine, overlay, **TAKEN_AWAY[rule]) == 0
    # Records have no date, and an implausible price of a record is noted alone.
    stays = kind == "records" and rule in {"max_age", "max_price"}
    assert len(ids(catalogue.artifacts)) == (30 if stays else 0)
    assert catalogue.build(mine) == 0
    assert len(ids(catalogue.artifacts)) == 30


def test_a_feed_whose_listings_are_no_longer_encrypted_has_failed(
    catalogue: CatalogueFolder,
) -> None:
    """The policy leaves them out, and the cause is a change of the source."""
    plain = [each | {"resource": each["resource"].replace("https", "http")} for each in shops(30)]
    assert catalogue.build(source("feed", shops(30), on_error="fail")) == 0
    assert catalogue.build(source("feed", plain, on_error="fail")) == 3


DENIED = [{"host": f"*.{name}.example", "reason": "spam"} for name in ("evil", "scam")]
REMOVED: Json = {"https://h01.example/x": None, "domain:nobody.example": None}
EDITS: dict[str, tuple[str, Json]] = {
    "a blank line in the overlay": ("\n" + json.dumps(REMOVED), {}),
    "a reordered overlay": (json.dumps(dict(reversed(REMOVED.items()))), {}),
    "a new removal": (json.dumps(REMOVED | {"domain:h02.example": None}), {}),
    "a correction": (json.dumps(REMOVED | {"domain:h03.example": {"name": "X"}}), {}),
    "a new denial": (json.dumps(REMOVED), {"deny": [*DENIED, {"payee": "0xab", "reason": "x"}]}),
    "reordered denials": (json.dumps(REMOVED), {"deny": DENIED[::-1]}),
    "no denials": (json.dumps(REMOVED), {"deny": []}),
    "another reason": (json.dumps(REMOVED), {"deny": [each | {"reason": "x"} for each in DENIED]}),
    "a lower price": (json.dumps(REMOVED), {"max_price": 9_000}),
    "a higher price": (json.dumps(REMOVED), {"max_price": 11_000}),
    "the age of listings": (json.dumps(REMOVED), {"max_age": "9999d"}),
    "private addresses": (json.dumps(REMOVED), {"allow_private": True}),
}


def build_edited(catalogue: CatalogueFolder, items: list[Json], edit: tuple[str, Json]) -> int:
    """Build from a feed beside an overlay of this text, with these keys of the policy."""
    overlay, policy = edit
    (catalogue.artifacts.parent / "removed.json").write_text(overlay)
    removed = {"name": "removed", "kind": "overlay", "path": "removed.json"}
    feed = source("feed", items, on_error="fail")
    keys: Json = {"deny": DENIED} | policy
    return catalogue.build(removed, feed, **keys)


@pytest.fixture(scope="module")
def unedited(tmp_path_factory: pytest.TempPathFactory) -> CatalogueFolder:
    """A published catalogue, which no test changes."""
    catalogue = CatalogueFolder(tmp_path_factory.mktemp("unedited"))
    assert build_edited(catalogue, shops(30), (json.dumps(REMOVED), {})) == 0
    return catalogue


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_of_overlays_or_policy_excuses_no_loss_of_a_source(
    unedited: CatalogueFolder, capsys: pytest.CaptureFixture[str], edit: str
) -> None:
    dear = shops(30, accepts=[accept("99000000000000")])
    assert build_edited(unedited, dear, EDITS[edit]) == 3
    assert " of 30 listings cost more" in failure_of(capsys)
    assert len(ids(unedited.artifacts)) == 29


def test_new_rules_excuse_only_the_listings_that_they_leave_out(
    catalogue: CatalogueFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    denied = [{"host": "h0*", "reason": "spam"}]
    dear = shops(10) + shops(30, accepts=[accept("99000000000000")])[10:]
    assert catalogue.build(source("feed", shops(30), on_error="fail")) == 0
    assert catalogue.build(source("feed", dear, on_error="fail"), deny=denied) == 3
    assert "20 of 30 listings cost more" in failure_of(capsys)
    assert catalogue.build(source("feed", shops(30), on_error="fail"), deny=denied) == 0
    assert len(ids(catalogue.artifacts)) == 20


ODD: list[Any] = [{"services": []}, {"items": 1}, [1, 2], {"services": [service()]}, None, 7]


@pytest.mark.parametrize("odd", ODD, ids=json.dumps)
def test_an_odd_first_item_of_a_feed_is_no_more_than_itself(
    catalogue: CatalogueFolder, capsys: pytest.CaptureFixture[str], odd: Any
) -> None:
    with misbehaving(pages_of([odd, *shops(5)])) as server:
        assert catalogue.build(source("feed", server.url), options=("--json",)) == 0
    [tally] = reported(capsys)["sources"]
    assert tally["records"] == 6
    assert tally["published"] == 5
    assert tally["rejected"] + sum(tally["leftOut"].values()) == 1
    assert len(ids(catalogue.artifacts)) == 5


@pytest.mark.parametrize("is_first", [True, False])
def test_a_listing_of_two_facilitators_has_what_either_says(
    catalogue: CatalogueFolder, *, is_first: bool
) -> None:
    usage = {"l30DaysTotalCalls": "120000", "l30DaysUniquePayers": 900}
    older = resource(URL, description="Says it.", quality=usage, lastUpdated=MAY)
    newer = resource(URL, accept(network="solana", asset=SOLANA_USDC), lastUpdated=JUNE)
    sources = [source("older", [older]), source("newer", [newer])]
    assert catalogue.build(*(sources if is_first else reversed(sources))) == 0
    [listing] = listings(catalogue.artifacts).values()
    assert {entry["network"] for entry in listing["accepts"]} == {"eip155:8453", "solana"}
    assert listing["quality"] == usage
    assert listing["description"] == "Says it."
    assert listing["lastUpdated"] == JUNE
    [record] = listed(catalogue.artifacts)
    assert {*record["networks"]} == {"Base", "Solana"}
    assert record["quality"]["totalCalls"] == 120_000


def test_a_catalogue_record_hides_nothing_that_it_does_not_name(
    build: Build, artifacts: Path
) -> None:
    record = service(
        "a-example", domain="a.example", enriched=True, endpoints=[endpoint() | {"url": URL}]
    )
    others = [resource(f"https://a.example/{name}") for name in "xyz"]
    assert build(others, [record], options=PLAIN) == 0
    first, rest = listed(artifacts)
    assert first == record | {"priceSummary": first["priceSummary"]}
    assert rest["domain"] == "a.example"
    assert rest["name"] != record["name"]
    assert "enriched" not in rest
    assert len(rest["endpoints"]) == 2
    services = {
        each["resource"]: each["ratecard"]["service"] for each in listings(artifacts).values()
    }
    assert services == {URL: "a-example"} | {
        f"https://a.example/{name}": rest["id"] for name in "yz"
    }


def test_a_resource_without_a_payee_belongs_to_the_record_that_names_its_url(
    catalogue: CatalogueFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    named = [endpoint() | {"url": URL, "payTo": HERE}]
    mine = source("mine", [service("a-example", domain="a.example", endpoints=named)])
    for payee, left_out in (
        ("", {}),
        (THERE, {"URLs that a more trusted source lists otherwise": 1}),
    ):
        feed = source("feed", [resource(URL, accept(payTo=payee))], trust=0)
        assert catalogue.build(feed, mine, options=("--json", "--accept", "feed")) == 0
        assert reported(capsys)["sources"][0]["leftOut"] == left_out
        assert len(listings(catalogue.artifacts)) == (not left_out)


def served_tool(name: str, payee: str = HERE) -> Json:
    """Return a listing of a tool of one server, which its name describes."""
    return tool(accept(payTo=payee), url=SERVER, name=name, description=name)


def test_a_record_of_one_tool_hides_no_other_tool_of_its_server(
    catalogue: CatalogueFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    named = endpoint() | {"url": SERVER, "method": "", "tool": "translate", "payTo": HERE}
    mine = source("mine", [service("mine", name="Babel", endpoints=[named])])
    tools = [served_tool("translate"), served_tool("tides"), served_tool("moon", THERE)]
    feed = source("feed", tools, trust=0)
    assert catalogue.build(feed, mine, options=("--json",)) == 0
    tally = reported(capsys)["sources"][0]
    assert tally["noted"] == {"second services of hosts": 1}
    assert tally["leftOut"] == {"URLs that a more trusted source lists otherwise": 1}
    snapshot = open_snapshot(catalogue.artifacts)
    owners = [
        [each["service"]["id"] for each in snapshot.search_endpoints(word).endpoints]
        for word in ("translate", "tides", "moon")
    ]
    assert owners == [["mine"], ["mcp-weather-data-example"], []]
    assert catalogue.build(feed, mine | {"hides": True}, options=("--accept", "feed")) == 0
    assert ids(catalogue.artifacts) == ["mine"]


def test_an_endpoint_of_a_record_without_a_tool_names_all_tools_of_its_url(
    catalogue: CatalogueFolder,
) -> None:
    named = endpoint() | {"url": SERVER, "method": "POST"}
    mine = source("mine", [service("mine", endpoints=[named])])
    feed = source("feed", [served_tool("translate"), served_tool("tides")], trust=0)
    assert catalogue.build(feed, mine) == 0
    assert ids(catalogue.artifacts) == ["mine"]
    assert len(open_snapshot(catalogue.artifacts).resources) == 2


def test_a_source_may_hide_what_its_records_do_not_name(
    catalogue: CatalogueFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    record = service("a-example", domain="a.example", endpoints=[endpoint() | {"url": URL}])
    others = source("feed", [resource(f"https://a.example/{name}") for name in "xyz"])
    mine = source("mine", [record], hides=True)
    assert catalogue.build(others, mine, options=("--json",)) == 0
    assert reported(capsys)["sources"][0]["leftOut"] == {"hidden by a catalogue record": 2}
    assert ids(catalogue.artifacts) == ["a-example"]
    assert [*listings(catalogue.artifacts)] == [URL]


@pytest.mark.parametrize("hides", [True, False])
def test_a_conflict_is_told_only_of_a_listing_that_is_published(
    catalogue: CatalogueFolder, capsys: pytest.CaptureFixture[str], hides: bool
) -> None:
    feeds = [
        source(payee, [resource("https://a.example/other", accept(payTo=payee))])
        for payee in ("0xA", "0xB")
    ]
    record = service("a-example", domain="a.example", endpoints=[endpoint() | {"url": URL}])
    assert catalogue.build(*feeds, source("mine", [record], hides=hides), options=("--json",)) == 0
    noted = Counter[str]()
    for each in reported(capsys)["sources"]:
        noted.update(each["noted"])
    assert noted["conflicting payees"] == (0 if hides else 1)


def test_a_less_trusted_record_hides_nothing_of_a_more_trusted_source(
    catalogue: CatalogueFolder,
) -> None:
    named = endpoint() | {"url": "https://api.a.example/named"}
    record = service("a-example", domain="a.example", endpoints=[named])
    feed = source("feed", [resource("https://api.a.example/other")], trust=1)
    assert catalogue.build(feed, source("mine", [record], hides=True, trust=0)) == 0
    assert [*listings(catalogue.artifacts)] == ["https://api.a.example/other"]


@pytest.mark.parametrize("case", ["CURRENT", "manifest", "format"])
def test_ids_stay_where_the_served_snapshot_cannot_be_read(
    catalogue: CatalogueFolder, case: str
) -> None:
    old, new = (resource(f"https://{host}.example/x") for host in ("z.b", "z-b"))
    for feed in ([resource("https://other.example/x")], [old]):
        assert catalogue.build(source("feed", feed, max_removed="100%")) == 0
    manifest = folder(catalogue.artifacts) / MANIFEST
    if case == "CURRENT":
        (catalogue.artifacts / CURRENT).write_text("")
    elif case == "manifest":
        manifest.write_bytes(manifest.read_bytes()[:100])
    else:
        content = json.loads(manifest.read_bytes())
        manifest.write_text(json.dumps(content | {"format": FORMAT - 1}))
    assert catalogue.build(source("feed", [new, old])) == 0
    owners = {each["id"]: each["domain"] for each in listed(catalogue.artifacts)}
    assert owners["z-b-example"] == "z.b.example"


def test_a_record_of_the_greatest_size_has_usage_and_an_overlay(
    catalogue: CatalogueFolder,
) -> None:
    record = service("big", endpoints=[endpoint() | {"payTo": HERE}], description="")
    record["description"] = "x" * (2**20 - len(json.dumps(record, separators=(",", ":"))))
    paid = source("paid", [payment(recipient=HERE)], kind="payments")
    overlay = source("overlay", [{"id": "big", "enriched": True}], kind="overlay")
    assert catalogue.build(source("mine", [record]), paid, overlay) == 0
    (found,) = listed(catalogue.artifacts)
    assert (found["description"], found["enriched"]) == (record["description"], True)
    assert found["endpoints"][0]["quality"]


@pytest.mark.parametrize(
    ("path", "is_named"), [("/items/:id", True), ("/items/7", True), ("/items/{id}", False)]
)
def test_a_resource_with_a_route_is_listed_however_a_record_spells_it(
    catalogue: CatalogueFolder, path: str, *, is_named: bool
) -> None:
    url = f"https://a.example{path}"
    record = service("a-example", domain="a.example", endpoints=[endpoint() | {"url": url}])
    templated = resource(
        "https://a.example/items/7", extensions={"bazaar": {"routeTemplate": "/items/:id"}}
    )
    assert catalogue.build(source("feed", [templated]), source("mine", [record])) == 0
    [listing] = listings(catalogue.artifacts).values()
    assert (listing["ratecard"]["service"] == "a-example") == is_named


def test_a_change_of_a_later_page_is_served_by_the_next_build(catalogue: CatalogueFolder) -> None:
    before = shops(25, accepts=[accept(payTo=HERE)])
    after = before[:-1] + shops(25, accepts=[accept("20000", payTo=THERE)])[-1:]
    tags = {"ETag": '"of the first page"', "Ratecard-Snapshot": "x"}
    with misbehaving(pages_of(before, headers=tags)) as server:
        feed = source("feed", server.url, every=3600)
        assert catalogue.build(feed) == 0
        server.behaviour = pages_of(after, headers=tags)
        assert catalogue.build(feed) == 0
        entry = listings(catalogue.artifacts)["https://h24.example/x"]["accepts"][0]
        assert entry["payTo"] == HERE  # within `every`
        assert catalogue.build(feed, options=("--from-scratch",)) == 0
        entry = listings(catalogue.artifacts)["https://h24.example/x"]["accepts"][0]
        assert (entry["payTo"], entry["amount"]) == (THERE, "20000")
        server.behaviour = pages_of(before, headers=tags)
        assert catalogue.build(feed | {"every": 0}) == 0
    entry = listings(catalogue.artifacts)["https://h24.example/x"]["accepts"][0]
    assert entry["payTo"] == HERE


def test_builds_as_often_as_every_walk_a_feed_each_time_however_long_a_walk_takes(
    catalogue: CatalogueFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1_800_000_000.0]
    monkeypatch.setattr("indexer.intake.fetch.time", lambda: clock[0])

    def slowly(exchange: Exchange) -> None:
        clock[0] += 60
        pages_of(shops(25))(exchange)

    walks = []
    with misbehaving(slowly) as server:
        feed = source("feed", server.url, every="10m")
        for start in (0, 290, 600, 1190, 1795, 2390):
            clock[0] = 1_800_000_000.0 + start
            before = len(server.requests)
            assert catalogue.build(feed) == 0
            walks.append(len(server.requests) > before)
    assert walks == [True, False, True, True, True, True]


def test_records_of_one_id_are_counted_in_a_feed_as_in_a_file(
    catalogue: CatalogueFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    records = [service("one", name="First"), service("two"), service("one", name="Last")]
    believed = {"kind": "records", "trust": 1, "curated": True}
    answers = []
    with misbehaving(pages_of(records, name="services")) as server:
        for given in (records, server.url):
            assert catalogue.build(source("mine", given, **believed), options=("--json",)) == 0
            [tally] = reported(capsys)["sources"]
            counts = tally["records"], tally["published"], tally["leftOut"]
            names = {each["id"]: each["name"] for each in listed(catalogue.artifacts)}
            answers.append((counts, names))
    expected = (3, 2, {"duplicate ids": 1}), {"one": "First", "two": "One"}
    assert answers == [expected, expected]


@pytest.mark.parametrize("name", ["services", "items", "resources"])
def test_a_saved_page_says_how_much_of_its_feed_it_is(
    catalogue: CatalogueFolder, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    page = {name: shops(3), "pagination": {"limit": 3, "offset": 0, "total": 33_993}}
    assert catalogue.build(source("saved", [page]), options=("--json",)) == 0
    [note] = reported(capsys)["notes"]
    assert "33,993" in note
    assert "saved" in note


def test_a_file_and_a_url_of_one_text_have_the_same_items(catalogue: CatalogueFolder) -> None:
    both = {"resources": shops(2), "items": shops(5)}
    answers = []
    with misbehaving(sending(both)) as server:
        for given in (source("file", [both]), source("url", server.url)):
            assert catalogue.build(given) == 0
            answers.append(ids(catalogue.artifacts))
    assert answers[0] == answers[1]


# C. Availability: an accident of one source stops no other.


def test_one_faulty_listing_of_a_seller_is_left_out_alone(
    catalogue: CatalogueFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    faulty = resource("https://slip.example/x", accept("0.01"))
    with misbehaving(pages_of([*shops(5), faulty])) as server:
        assert catalogue.build(source("feed", server.url), options=("--json",)) == 0
    report = reported(capsys)
    [tally] = report["sources"]
    assert (tally["published"], tally["rejected"]) == (5, 1)
    [finding] = report["firstFindings"]
    assert finding["path"] == "$.accepts[0].amount"
    assert len(ids(catalogue.artifacts)) == 5


def test_a_listing_is_published_by_the_entries_that_are_right(
    catalogue: CatalogueFolder,
) -> None:
    mixed = resource(URL, accept("0.01", network="polygon"), accept("10000"))
    with misbehaving(pages_of([mixed])) as server:
        assert catalogue.build(source("feed", server.url)) == 0
    [record] = listed(catalogue.artifacts)
    assert record["endpoints"][0]["pricing"]["amount"] == "0.01"


@pytest.mark.parametrize(("on_error", "count"), [("fail", 28), ("last", 28), ("skip", 0)])
def test_a_source_with_more_faulty_listings_than_before_has_failed(
    catalogue: CatalogueFolder, capsys: pytest.CaptureFixture[str], on_error: str, count: int
) -> None:
    faulty = [resource(f"https://h{n:02}.example/x", accept("0.01")) for n in range(30)]
    mine = source("mine", [resource("https://mine.example/x")])
    with misbehaving(pages_of(shops(28) + faulty[28:])) as server:
        feed = source("feed", server.url, on_error=on_error)
        assert catalogue.build(feed, mine) == 0
        server.behaviour = pages_of(shops(25) + faulty[25:])
        capsys.readouterr()
        status = catalogue.build(feed, mine, options=("--json",))
    assert len(ids(catalogue.artifacts)) == count + 1
    captured = capsys.readouterr()
    if on_error == "fail":
        assert status == 3
        assert "5 of 30 records are malformed" in captured.err
    else:
        assert status == 0
        assert "5 of 30" in json.loads(captured.out)["sources"][0]["failure"]


def broken(exchange: Exchange) -> None:
    exchange.respond({"error": "down"}, 403)


@pytest.mark.parametrize("status", [403, 404])
def test_a_facilitator_that_is_down_stops_no_other(
    catalogue: CatalogueFolder, capsys: pytest.CaptureFixture[str], status: int
) -> None:
    with misbehaving(pages_of(shops(3))) as one, misbehaving(pages_of(shops(9)[3:])) as two:
        first, second = source("one", one.url), source("two", two.url)
        assert catalogue.build(first, second) == 0
        one.behaviour = failing(status)
        two.behaviour = pages_of(shops(12)[3:])
        capsys.readouterr()
        assert catalogue.build(first, second, options=("--json",)) == 0
        last, live = reported(capsys)["sources"]
        assert (last["state"], live["state"]) == ("last", "current")
        assert str(status) in last["failure"]
        assert last["readAt"] < live["readAt"]
        assert len(ids(catalogue.artifacts)) == 12
        assert catalogue.build(first | {"max_age": 0}, second) == 1
        assert "max_age" in failure_of(capsys)
        assert catalogue.build(first | {"on_error": "skip"}, second) == 0
        assert len(ids(catalogue.artifacts)) == 9


def test_the_service_says_which_sources_are_old(catalogue: CatalogueFolder) -> None:
    with misbehaving(pages_of(shops(3))) as server:
        sources = source("feed", server.url), source("mine", shops(1))
        assert catalogue.build(*sources) == 0
        with serve(catalogue.artifacts) as client:
            assert "sources" not in client.get("/readyz").json()
            server.behaviour = failing(404)
            assert catalogue.build(*sources) == 0
            eventually(lambda: "sources" in client.get("/readyz").json())
            [old] = client.get("/readyz").json()["sources"]
            items = client.get("/discovery/resources").json()["items"]
    assert (old["name"], old["state"]) == ("feed", "last")
    assert "404" in old["failure"]
    assert len(items) == 3


def test_each_of_several_feeds_that_are_down_is_named(
    catalogue: CatalogueFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    with misbehaving(broken) as one, misbehaving(broken) as two:
        sources = [source(each.origin, each.url, on_error="skip") for each in (one, two)]
        mine = source("mine", shops(1))
        assert catalogue.build(*sources, mine, options=("--json",)) == 0
        states = [each["state"] for each in reported(capsys)["sources"]]
        assert states == ["skipped", "skipped", "current"]


def test_a_feed_that_has_recovered_is_read_again(catalogue: CatalogueFolder) -> None:
    behaviour = in_turn(pages_of(shops(3)), failing(404), pages_of(shops(4)))
    with misbehaving(behaviour) as server:
        for count in (3, 3, 4):
            assert catalogue.build(source("feed", server.url)) == 0
            assert len(ids(catalogue.artifacts)) == count


def test_of_five_sources_one_down_one_emptied_and_one_that_lies_do_no_harm(
    catalogue: CatalogueFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    genuine = resource(URL, accept(payTo=HERE))
    lie = resource(URL, accept("9000000", payTo=THERE), lastUpdated="9999-01-01T00:00:00Z")
    paid = {"name": "payments", "kind": "payments", "items": [payment(recipient=HERE)]}
    with (
        misbehaving(pages_of([genuine])) as honest,
        misbehaving(pages_of(shops(3))) as down,
        misbehaving(pages_of(shops(23)[3:])) as emptied,
        misbehaving(
            pages_of([lie, service("a-example", domain="a.example", endpoints=[])])
        ) as liar,
    ):
        feeds = {"liar": liar, "down": down, "emptied": emptied, "honest": honest}
        sources = [source(name, server.url) for name, server in feeds.items()]
        sources[-1]["trust"] = 1
        assert catalogue.build(*sources, paid) == 0
        before = listed(catalogue.artifacts), listings(catalogue.artifacts)
        down.behaviour, emptied.behaviour = failing(404), sending({"items": []})
        capsys.readouterr()
        assert catalogue.build(*sources, paid, options=("--json",)) == 0
        states = {each["name"]: each["state"] for each in reported(capsys)["sources"]}
    assert states == dict.fromkeys(("liar", "honest", "payments"), "current") | dict.fromkeys(
        ("down", "emptied"), "last"
    )
    assert (listed(catalogue.artifacts), listings(catalogue.artifacts)) == before
    assert len(before[0]) == 24
    assert before[1][URL]["accepts"][0]["payTo"] == HERE


# E. Reports, messages and the command line.


def test_the_error_that_stops_a_build_has_reasons_of_its_own_source(
    catalogue: CatalogueFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = [resource(f"http://h{n}.example/x") for n in range(8)]
    faults = [service(f"s{n}") | {"name": 7} for n in range(3)]
    noisy = source("noisy", shops(1) + plain)
    broken = source("broken", [service(), *faults], on_error="fail")
    assert catalogue.build(noisy, broken) == 3
    first, *reasons, last = failure_of(capsys).splitlines()
    assert "broken: 3 of 4 records are malformed" in first
    assert last.endswith("nothing was published; what was published before stays")
    assert [each.partition(": ")[0].strip() for each in reasons] == [
        f"broken:{line}" for line in (2, 3, 4)
    ]
    assert all("$.name" in each for each in reasons)


def test_a_report_shows_malformed_records_before_others(
    catalogue: CatalogueFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    items = [resource(f"http://h{n}.example/x") for n in range(8)]
    items += [resource("https://b.example/x"), resource("https://a.example/x", accept("-1"))]
    with misbehaving(pages_of(items)) as server:
        assert catalogue.build(source("feed", server.url), options=("--max-rejects", "99%")) == 0
    assert "$.accepts[0].amount" in capsys.readouterr().out


UNCHECKED = {
    "a folder that is missing": lambda folder: ["--rejects", str(folder / "no" / "bad.jsonl")],
    "an overlay that is missing": lambda folder: ["--overlay", str(folder / "no.json")],
    "an overlay with a fault": lambda folder: [*overlays(folder, [{"a": {"id": "b"}}])],
    "a source that is missing": lambda folder: [str(folder / "no.jsonl")],
    "payments that are missing": lambda folder: ["--transactions", str(folder / "no.csv")],
    "payments without columns": lambda folder: ["--transactions", _columnless(folder)],
}


def _columnless(folder: Path) -> str:
    path = folder / "payments.csv"
    path.write_text("a,b\n1,2\n")
    return str(path)


@pytest.mark.parametrize("fault", UNCHECKED)
@pytest.mark.parametrize("command", ["build", "check"])
def test_what_needs_no_network_is_checked_before_the_first_request(
    artifacts: Path, tmp_path: Path, fault: str, command: str
) -> None:
    options = UNCHECKED[fault](tmp_path)
    with misbehaving(pages_of(shops(3))) as server:
        out = ["--out", str(artifacts)]
        assert main([command, server.url, *options, *out]) in {1, 2}
        assert server.requests == []


def test_a_check_reports_and_publishes_nothing(
    catalogue: CatalogueFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert catalogue.build(source("feed", shops(3))) == 0
    before = current(catalogue.artifacts)
    capsys.readouterr()
    path = catalogue.write(source("feed", shops(5)))
    assert main(["check", path, "--out", str(catalogue.artifacts), "--json"]) == 0
    report = reported(capsys)
    assert report["services"] == 5
    assert report["changes"]["added"] == 2
    assert current(catalogue.artifacts) == before
    assert len(ids(catalogue.artifacts)) == 3


@pytest.mark.parametrize("spelt", [URL, "HTTPS://A.example:443/%78"])
def test_an_overlay_takes_one_endpoint_out_everywhere(
    build: Build, artifacts: Path, tmp_path: Path, spelt: str
) -> None:
    feed = [resource(f"https://a.example/{name}") for name in "xyz"]
    record = service(
        "b-example",
        endpoints=[endpoint() | {"url": url} for url in (URL, "https://b.example/kept")],
    )
    options = (*overlays(tmp_path, {spelt: None}), *PLAIN)
    assert build(feed, [record], options=options) == 0
    endpoints = [each["url"] for record in listed(artifacts) for each in record["endpoints"]]
    kept = {f"https://a.example/{name}" for name in "yz"}
    assert {*endpoints} == kept | {"https://b.example/kept"}
    assert listings(artifacts).keys() == kept


def test_a_later_patch_brings_nothing_back(build: Build, artifacts: Path, tmp_path: Path) -> None:
    feed = [resource("https://a.example/x"), resource("https://b.example/x")]
    patches = [{"a-example": None}, {"a-example": {"name": "Back"}}]
    assert build(feed, options=(*overlays(tmp_path, patches), *PLAIN)) == 0
    assert ids(artifacts) == ["b-example"]
    assert [*listings(artifacts)] == ["https://b.example/x"]


@pytest.mark.parametrize(
    "text", ['{"a":{"id":%s}}' % ("9" * 5000), "[" * 10_000, '{"a":%s1}' % ('{"b":' * 10_000)]
)
def test_an_overlay_of_any_text_is_an_error_that_names_its_file(
    build: Build, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    path = tmp_path / "overlay.json"
    path.write_text(text)
    assert build([service("a")], options=("--overlay", str(path), *PLAIN)) == 1
    assert "overlay.json" in failure_of(capsys)


def test_positions_of_a_feed_are_lines_of_the_file_that_the_report_names(
    catalogue: CatalogueFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    faulty = resource("https://slip.example/x", accept("0.01"))
    with misbehaving(pages_of([*shops(14), faulty, *shops(20)[14:]])) as server:
        assert catalogue.build(source("feed", server.url), options=("--json",)) == 0
    report = reported(capsys)
    [tally], [finding] = report["sources"], report["firstFindings"]
    number = int(finding["position"].removeprefix("line "))
    line = Path(tally["file"]).read_text().splitlines()[number - 1]
    assert json.loads(line) == faulty


def test_results_are_printed_apart_from_progress(
    build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build([service()], options=(*PLAIN, "--json")) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


# Properties of a whole build.


_entries = st.builds(
    lambda chain, payee, amount, scheme: accept(amount, payTo=payee, scheme=scheme, **chain),
    st.sampled_from([{}, {"network": "base"}, {"network": "polygon", "asset": ""}]),
    st.sampled_from([HERE, THERE, "0xPay"]),
    st.sampled_from(["10000", "20000", None]),
    st.sampled_from(["exact", "upto"]),
)
_listed = st.lists(
    st.builds(
        lambda host, path, entries, updated: resource(
            f"https://{host}.example/{path}", *entries, lastUpdated=updated
        ),
        st.sampled_from(["a-b", "a.b", "c"]),
        st.sampled_from("xyz"),
        st.lists(_entries, min_size=1, max_size=2),
        st.sampled_from([MAY, JUNE, "9999-01-01T00:00:00Z"]),
    ),
    max_size=5,
)
_claiming = st.lists(
    st.builds(
        lambda name, payee: service(
            f"s-{name}",
            endpoints=[endpoint(payTo=payee) | {"payTo": payee, "url": f"https://{name}.example"}],
        ),
        st.sampled_from("cde"),
        st.sampled_from([HERE, THERE]),
    ),
    max_size=2,
)


@settings(max_examples=examples(20))
@given(
    first=_listed,
    second=_listed,
    records=_claiming,
    paid=payments,
    trusts=st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(0, 1)),
)
def test_credits_never_exceed_the_payments_and_stay_when_a_build_is_repeated(
    scratch: Path,
    first: list[Json],
    second: list[Json],
    records: list[Json],
    paid: list[Json],
    trusts: tuple[int, int, int],
) -> None:
    offers = [
        Offer("one", first, trusts[0]),
        Offer("two", second, trusts[1]),
        Offer("mine", records, trusts[2], None, curated=True),
    ]
    built = take_in(scratch, offers, payments=paid)
    services = [json.loads(text) for text in built.services.values()]
    credited = [each.get("quality", {}).get("totalCalls", 0) for each in services]
    assert sum(credited) <= built.payments <= len(paid)
    for each, calls in zip(services, credited, strict=True):
        parts = [part.get("quality", {}) for part in each["endpoints"]]
        assert sum(int(part.get("l30DaysTotalCalls", 0)) for part in parts) <= calls
    again = take_in(scratch, offers, built.decisions, paid)
    assert again == built


@settings(max_examples=examples(16))
@given(first=_listed, second=_listed, before=_listed, records=_claiming)
def test_a_build_repeated_with_its_own_decisions_is_the_same_snapshot(
    tmp_path_factory: pytest.TempPathFactory,
    first: list[Json],
    second: list[Json],
    before: list[Json],
    records: list[Json],
) -> None:
    catalogue = CatalogueFolder(tmp_path_factory.mktemp("repeated"))
    keys = {"trust": 0, "max_removed": "100%"}
    loose = ("--max-rejects", "100%", "--quiet")
    sources = [
        source("one", first or shops(1), **keys),
        source("two", second or shops(2), **keys),
        source("mine", records or [service()]),
    ]
    served = source("two", before or shops(3), **keys)
    assert catalogue.build(served, options=loose) == 0
    assert catalogue.build(*sources, options=loose) == 0
    built = current(catalogue.artifacts)
    other = (*loose, "--max-rejects", "99%")  # an option that makes the build read again
    assert catalogue.build(*sources, options=other) == 0
    assert current(catalogue.artifacts) == built
    assert catalogue.build(*sources, options=(*loose, "--from-scratch")) == 0
    assert current(catalogue.artifacts) == built
    assert open_snapshot(catalogue.artifacts).manifest.id == built
