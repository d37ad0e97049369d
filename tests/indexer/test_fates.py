"""Fates: each record of every source has one, which is found by its URLs or by its position."""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.cli.main import main
from indexer.intake import fates
from indexer.intake.fates import Address, FateSpool, Subject
from indexer.text import drop_ignorable, shorten
from service.api.listings import explain_url
from service.errors import InvalidParameter
from service.schema.listings import DECLINED, Fate, ListingFate
from service.snapshot.listings import position_hash
from service.snapshot.snapshot import Snapshot, open_snapshot
from tests.support.intake import HERE, THERE, CatalogueFolder, source
from tests.support.running import Build, Json, endpoint, serve, service
from tests.support.sources.x402 import accept, resource, v2

HOSTS = ("api.one.example", "two.example", "evil.example", "intranet")
DENIALS = [
    {"host": "evil.example", "reason": "secret of the operator"},
    {"payee": THERE, "reason": "secret of the operator"},
    {"id": "gone", "reason": "secret of the operator"},
]
OPTIONS = ("--max-rejects", "100%")
ACCEPTED = ("--accept", "first", "--accept", "second", "--accept", "curated")
"""Options that publish a first build of which rules leave out everything."""
HOSTILE: list[Any] = [
    "https://one.example/" + "a" * 2**20,
    "https://one.example/\r\nset-cookie: a=b",
    "https://one.example/\ud800",
    "https://one.example/\u202e",
    "https://[::1",
    "https://one.example:99999/",
    "",
    None,
    7,
    [],
    {"url": {}},
]

urls = st.one_of(
    st.builds(
        "{}://{}/{}".format,
        st.sampled_from(["https", "http"]),
        st.sampled_from(HOSTS),
        st.sampled_from(["a", "b/7", "b/{id}", "b/:id", "%61", "c?d=e", "x/../a"]),
    ),
    st.sampled_from(HOSTILE),
    st.text(max_size=8),
)
resources = st.builds(
    lambda url, method, price, payee, updated, route: (
        v2({"method": method})
        | {"resource": url, "accepts": [accept(price, payTo=payee)], "lastUpdated": updated}
        | ({"extensions": {"bazaar": {"routeTemplate": route}}} if route else {})
    ),
    urls,
    st.sampled_from(["GET", "POST"]),
    st.sampled_from(["1000", "2000", "0.1", "1" + "0" * 20]),
    st.sampled_from([HERE, THERE]),
    st.sampled_from(["2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z", "2099-01-01T00:00:00Z"]),
    st.sampled_from(["", "/b/:id"]),
)
records = st.builds(
    lambda service_id, name, given: service(
        service_id, name=name, endpoints=[endpoint() | {"url": url} for url in given]
    ),
    st.sampled_from(["same", "gone", "api-one-example", "two"]),
    st.sampled_from(["One", 7]),
    st.lists(urls, max_size=3),
)
sources = st.tuples(
    st.lists(resources, min_size=1, max_size=6),
    st.lists(resources, min_size=1, max_size=6),
    st.lists(records, min_size=1, max_size=4),
    st.booleans(),
)


def urls_of(record: Json) -> list[Any]:
    if "endpoints" in record:
        return [each["url"] for each in record["endpoints"]]
    return [record.get("resource")]


@settings(max_examples=15, deadline=None)
@given(sources)
def test_each_record_has_one_fate_in_its_source(
    drawn: tuple[list[Json], list[Json], list[Json], bool],
) -> None:
    first, second, curated, hides = drawn
    given_records = {"first": first, "second": second, "curated": curated}
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:  # a file system in memory
        folder, rejects = CatalogueFolder(Path(name)), Path(name) / "rejects.jsonl"
        status = folder.build(
            source("first", first, trust=0, kind="resources", curated=False),
            source("second", second, trust=1, kind="resources", curated=False),
            source("curated", curated, hides=hides),
            options=(*OPTIONS, *ACCEPTED, "--rejects", str(rejects), "--quiet"),
            deny=DENIALS,
        )
        assert status == 0
        snapshot = open_snapshot(folder.artifacts)
        rows = [json.loads(line) for line in rejects.read_bytes().splitlines()]
        check_records(snapshot, given_records)
        for row in rows:
            check_row(snapshot, given_records[row["source"]], row)


def check_records(snapshot: Snapshot, given_records: dict[str, list[Json]]) -> None:
    """Each URL of a record has one fate in its source; without a readable one, its position has."""
    for name, given_ in given_records.items():
        for number, record in enumerate(given_, 1):
            place = snapshot.listings.explain(position_hash(name, str(number)))
            is_readable = not any(each.path == "$" for each in place.fates)
            is_explained = False
            for url in urls_of(record) if is_readable else ():
                try:
                    report = explain_url(snapshot, url)
                except (InvalidParameter, TypeError):
                    continue
                fates = Counter(each.source for each in report.fates)
                if report.template and not fates[name]:  # the fate of the call itself is a note
                    fates = Counter(each.source for each in report.notes)
                assert fates[name] == 1, (name, url)
                assert "secret" not in str(report)
                is_explained = True
            is_placed = [each.source for each in place.fates] == [name]
            assert is_explained or is_placed, (name, record)


def check_row(snapshot: Snapshot, given_: list[Json], row: Json) -> None:
    """The fate or the note of a row is found by a URL of its record, or by its position."""
    if row["position"]:
        number = int(row["position"].removeprefix("line "))
        reports = [snapshot.listings.explain(position_hash(row["source"], row["position"]))]
        candidates = urls_of(given_[number - 1])
    else:
        reports, candidates = [], [row["id"]]
    for url in candidates:
        with suppress(InvalidParameter, TypeError):
            reports.append(explain_url(snapshot, url))
    shown = {
        (each.source, str(each.fate), each.reason)
        for report in reports
        for each in (*report.fates, *report.notes)
    }
    reasons = {reason for source_, fate, reason in shown if (source_, fate) == key_of(row)}
    assert reasons & {shorten(drop_ignorable(row["reason"])), DECLINED} or not row["position"], (
        row,
        shown,
    )
    assert reasons


def key_of(row: Json) -> tuple[str, str]:
    return row["source"], row["fate"]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The artifacts folder of a catalogue of hostile URLs."""
    folder = CatalogueFolder(tmp_path_factory.mktemp("fates"))
    good = v2({"method": "GET"}) | {
        "resource": "https://api.one.example/a",
        "accepts": [accept(payTo=HERE)],
    }
    given_ = [good | {"resource": url} for url in HOSTILE]
    many = [service("many", endpoints=[endpoint() | {"url": url} for url in HOSTILE])]
    assert (
        folder.build(
            source("hostile", [*given_, good], kind="resources", curated=False),
            source("many", [*many, service("none", endpoints=[])]),
            options=OPTIONS,
        )
        == 0
    )
    return folder.artifacts


def test_a_record_without_a_url_is_explained_by_its_position(
    published: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(1, len(HOSTILE) + 1):
        arguments = ["--source", "hostile", "--position", str(number), "--json"]
        assert main(["why", *arguments, "--artifacts", str(published)]) == 0
        (fate,) = json.loads(capsys.readouterr().out)["fates"]
        assert (fate["source"], fate["path"][0]) == ("hostile", "$")
        assert fate["fate"] in {"left out", "rejected"}
        assert len(fate["reason"]) < 300
        assert fate["reason"].isprintable()
    assert main(["why", "--source", "many", "--position", "2", "--artifacts", str(published)]) == 0
    assert capsys.readouterr().out.splitlines() == ["listed", "  many: published as none"]


def test_the_command_line_answers_as_the_address_does(
    published: Path, client: httpx.Client, capsys: pytest.CaptureFixture[str]
) -> None:
    url = "https://API.one.example/a"
    assert main(["why", url, "--json", "--artifacts", str(published)]) == 0
    answer = capsys.readouterr().out
    assert client.get("/v1/listings", params={"url": url}).text == answer.rstrip("\n")
    assert main(["why", url, "--artifacts", str(published)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "https://api.one.example/a: listed"
    assert lines[1] == "  hostile: published as api-one-example, endpoint 0"
    assert lines[2].startswith("  advice: the endpoint has no description")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "expected a URL, or --source and --position"),
        (["--source", "many"], "expected a URL, or --source and --position"),
        (["https://a.example/", "--source", "many"], "expected a URL"),
        (["nothing"], "nothing: is not a URL with a host"),
        (["--source", "many", "--position", "99"], "many:99: nothing is known of this record"),
    ],
)
def test_an_unknown_place_or_a_wrong_argument_is_an_error(
    published: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], error: str
) -> None:
    assert main(["why", *arguments, "--artifacts", str(published)]) != 0
    assert capsys.readouterr().err.startswith(f"error: {error}")


@pytest.mark.parametrize("name", ["url", "host", "payTo"])
def test_hostile_parameters_are_refused_or_unknown(client: httpx.Client, name: str) -> None:
    for value in ("%ED%A0%80", "%0D%0Aset-cookie:%20a=b", "%00", "\u202e", "a" * 60_000):
        response = client.get(f"/v1/listings?{name}={value}")
        assert response.status_code in {200, 400, 414, 431}
        assert "set-cookie" not in response.headers
        if response.status_code == 200:
            assert response.json()["total"] == 0


def test_sources_keep_so_many_urls_and_say_how_many_more_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fates, "MAX_UNLISTED", 2)
    folder = CatalogueFolder(tmp_path)
    plain = [
        v2({}) | {"resource": f"http://one.example/{number}", "accepts": [accept()]}
        for number in range(5)
    ]
    good = v2({}) | {"resource": "https://one.example/", "accepts": [accept()]}
    assert folder.build(source("plain", [*plain, good]), options=OPTIONS) == 0
    snapshot = open_snapshot(folder.artifacts)
    kept = [bool(explain_url(snapshot, each["resource"]).fates) for each in plain]
    assert kept == [True, True, False, False, False]
    beyond = explain_url(snapshot, plain[4]["resource"])
    assert not beyond.is_named
    assert beyond.notes == [
        ListingFate(
            source="plain",
            fate=Fate.NOTED,
            reason="has 3 more URLs that are not listed than are kept here; this one may be of "
            "them",
        )
    ]


def test_the_note_of_a_second_service_is_found_by_the_url_that_a_feed_gives(tmp_path: Path) -> None:
    folder, call = CatalogueFolder(tmp_path), "https://api.one.example/b/7"
    route = {"extensions": {"bazaar": {"routeTemplate": "/b/:id"}}}
    other = v2({}) | {"resource": call, "accepts": [accept()]} | route
    record = service("one", endpoints=[endpoint() | {"url": "https://api.one.example/a"}])
    feed = source("feed", [other], kind="resources", curated=False)
    assert folder.build(feed, source("own", [record]), options=OPTIONS) == 0
    snapshot = open_snapshot(folder.artifacts)
    for url in (call, "https://api.one.example/b/:id"):
        (note,) = explain_url(snapshot, url).notes
        assert "is a second service of the host of one" in str(note.reason)


def test_a_record_of_many_urls_and_payees_keeps_few_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fates, "MAX_UNLISTED", 5)
    spool = FateSpool()
    spool.start("feed", "feed")
    subject = Subject(tuple(Address(url, 1) for url in range(1, 5)), (7, 8, 9))
    spool.add(0, Fate.REJECTED, ("feed", "line 1"), "$", "is no record", subject)
    assert (len(spool.rows()), len(spool.payees())) == (4, 5)


def test_a_source_of_the_command_line_is_named_without_its_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    private = tmp_path / "private"
    private.mkdir()
    path, again = private / "shop.jsonl", tmp_path / "shop.jsonl"
    for each, url in ((path, "https://one.example/"), (again, "http://one.example/")):
        each.write_text(
            json.dumps(service(each.parent.name, endpoints=[endpoint() | {"url": url}]))
        )
    artifacts = tmp_path / "artifacts"
    arguments = ["build", str(path), str(again), "--out", str(artifacts), "--no-semantic"]
    assert main(arguments) == 0
    capsys.readouterr()
    snapshot = open_snapshot(artifacts)
    body = b"".join(
        msgspec.json.encode(explain_url(snapshot, url))
        for url in ("https://one.example/", "http://one.example/", "https://unknown.example/")
    )
    assert b"private" not in body.replace(b'"service":"private"', b"")
    assert body.count(b'"source":"shop.jsonl"') == 1
    assert b'"source":"shop.jsonl (2)"' in body


def test_an_overlay_declines_without_its_name(tmp_path: Path) -> None:
    folder = CatalogueFolder(tmp_path)
    (tmp_path / "patch.json").write_text(json.dumps({"gone": None, "domain:one.example": None}))
    given_ = [
        service("gone", endpoints=[endpoint() | {"url": "https://gone.example/"}]),
        service("kept", endpoints=[endpoint() | {"url": "https://kept.example/"}]),
    ]
    found = [v2({}) | {"resource": "https://one.example/", "accepts": [accept()]}]
    status = folder.build(
        source("records", given_),
        source("found", found, kind="resources"),
        {"name": "patch", "path": "patch.json", "kind": "overlay"},
        options=OPTIONS,
    )
    assert status == 0
    snapshot = open_snapshot(folder.artifacts)
    for url in ("https://gone.example/", "https://one.example/"):
        report = explain_url(snapshot, url)
        (fate,) = report.fates
        assert (fate.fate, fate.reason, fate.path) == (Fate.LEFT_OUT, DECLINED, msgspec.UNSET)
        assert "patch" not in str(report)


def test_the_page_of_an_endpoint_beyond_its_record_leads_to_the_service(
    build: Build, artifacts: Path
) -> None:
    urls = [f"https://api.one.example/{name}" for name in "ab"]
    assert build([resource(url) for url in urls], policy={"endpoints_per_service": 1}) == 0
    with serve(artifacts) as client:
        pages = [client.get("/listed", params={"url": url}).text for url in urls]
    links = [re.findall(r'href="(/services/[^"]+)"', page) for page in pages]
    assert links == [["/services/api-one-example#endpoint-0"], ["/services/api-one-example"]]


def test_a_call_of_a_listed_template_is_listed_on_the_command_line_and_the_page(
    build: Build, artifacts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    template = "https://api.one.example/v1/tides/:station"
    assert build([service(endpoints=[endpoint() | {"url": template}])]) == 0
    url = "https://api.one.example/v1/tides/halden"
    capsys.readouterr()
    assert main(["why", url, "--artifacts", str(artifacts)]) == 0
    first, fate, *_ = capsys.readouterr().out.splitlines()
    assert first == f"{url}: listed as the template {template}"
    assert fate.endswith(": published as one, endpoint 0")
    with serve(artifacts) as client:
        page = client.get("/listed", params={"url": url}).text
    assert "<h1>Listed</h1>" in page
    assert f"<bdi>{url}</bdi>, listed as the template <bdi>{template}</bdi>" in page
    assert 'href="/services/one#endpoint-0"' in page


def test_a_page_shows_what_the_address_answers(client: httpx.Client) -> None:
    form = client.get("/listed")
    assert form.status_code == 200
    assert 'name="url"' in form.text
    listed = client.get("/listed", params={"url": "https://api.one.example/a"})
    assert "<h1>Listed</h1>" in listed.text
    assert 'href="/services/api-one-example#endpoint-0"' in listed.text
    unknown = client.get("/listed", params={"url": "https://unknown.example/?a=<b>"})
    assert unknown.status_code == 400
    unknown = client.get("/listed", params={"url": "https://unknown.example/?a='b'&c"})
    assert unknown.headers["cache-control"] == "no-store"
    assert "<h1>Not listed</h1>" in unknown.text


def test_a_second_service_of_a_host_is_noted_with_the_way_to_mend_it(
    artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    url = "https://api.northwind.example/b"
    record = service("api-northwind-example", domain="api.northwind.example")
    assert build([record], [resource(url), resource("https://other.example/")]) == 0
    assert re.search(r"1 noted of \S+ \(second services of hosts\)", capsys.readouterr().out)
    assert main(["why", url, "--artifacts", str(artifacts)]) == 0
    reason = "is a second service of the host of api-northwind-example"
    answer = capsys.readouterr().out
    assert reason in answer
    assert "`hides = true`" in answer


@pytest.mark.parametrize(
    ("domain", "services"),
    [
        (None, 1),
        ("northwind.example", 1),
        ("NorthWind.example.", 1),
        ("api.northwind.example", 1),
        ("wind.example", 2),
        ("market.example", 2),
    ],
)
def test_a_record_has_the_resources_of_hosts_below_its_domain_that_it_names(
    domain: str | None, services: int, artifacts: Path, build: Build
) -> None:
    url = "https://api.northwind.example/b"
    record = service("northwind", endpoints=[endpoint() | {"url": url}])
    assert build([record | ({"domain": domain} if domain else {})], [resource(url)]) == 0
    snapshot = open_snapshot(artifacts)
    assert (snapshot.manifest.counts.services, snapshot.manifest.counts.endpoints) == (
        services,
    ) * 2
