"""Observations of probers through a build and over HTTP: liveness, drift, and who may decide."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec
import pytest

from indexer.__main__ import main
from service.app import create_app
from service.schema.discovery import ResourceList
from service.schema.probes import ProbeFacts
from service.schema.responses import EndpointList
from service.schema.values import format_timestamp
from service.settings import Settings
from tests.support.artifacts import current, overlays
from tests.support.intake import CatalogueFolder, source
from tests.support.running import (
    Build,
    Json,
    endpoint,
    in_process,
    largest_file,
    open_app,
    service,
    write_lines,
)
from tests.support.sources.x402 import USDC, accept, resource

NOW = datetime.now(UTC).replace(microsecond=0)
FACTS = {field.encode_name for field in msgspec.structs.fields(ProbeFacts)}
FORGED = {"alive": True, "drift": {"listed": []}}


def ago(**age: float) -> str:
    return format_timestamp(NOW - timedelta(**age))


def url(name: str) -> str:
    return f"https://{name}.example/v1/tide"


def seen(name: str, outcome: str, observed_at: str, **members: Any) -> Json:
    return {"url": url(name), "observed_at": observed_at, "outcome": outcome} | members


def quoted(name: str, observed_at: str, **members: Any) -> Json:
    quote = accept(network="base", asset=USDC.lower()) | members
    return seen(name, "quoted", observed_at, status=402, latency_ms=81, quotes=[quote])


def tide(name: str, **members: Any) -> Json:
    priced = endpoint("0.01", network="Base", scheme="exact") | {"url": url(name)} | members
    return service(f"{name}-example", name="Tide", domain=f"{name}.example", endpoints=[priced])


RECORDS = [
    *(tide(name) for name in ("busy", "gone", "quiet")),
    *(resource(url(name), description="Tide", ratecard=FORGED) for name in ("listed", "tenfold")),
]
TRUSTED = [
    quoted("busy", ago(hours=1)),
    seen("gone", "unreachable", ago(days=1)),
    seen("gone", "answered", ago(days=3), status=404),
    seen("quiet", "answered", ago(days=1), status=405),
    quoted("listed", ago(hours=2)) | {"wildcard": True},
    quoted("listed", ago(days=3)) | {"wildcard": True},
    quoted("tenfold", ago(hours=1), amount="100000"),
    quoted("tenfold", ago(days=2), amount="90000"),
    quoted("tenfold", ago(days=4)),
]
LIES = [
    *(seen(name, "unreachable", ago(days=days)) for name in ("busy", "listed") for days in (1, 2)),
    *(quoted(name, ago(minutes=1), amount="1", payTo="0xThief") for name in ("gone", "tenfold")),
]


class Published(NamedTuple):
    """A served catalogue with probes."""

    client: httpx.Client
    artifacts: Path

    def get(self, path: str) -> Any:
        response = self.client.get(path)
        assert response.status_code == 200
        return response.json()

    def facts(self, name: str) -> Json:
        """Return what is said of an endpoint, the same in each answer."""
        found = self.get(f"/v1/search/endpoints?q=tide&service={name}-example")["endpoints"]
        (facts,) = [each.get("ratecard", {}) for each in found]
        for each in self.get("/discovery/resources")["items"]:
            if each["resource"] == url(name):
                listed = {key: each["ratecard"][key] for key in each["ratecard"].keys() & FACTS}
                assert listed == facts
        return dict(facts)


def build_probed(folder: Path, records: list[Json], trusted: list[Json], lies: list[Json]) -> Path:
    """Build a catalogue with two probers; returns the artifacts."""
    catalogue = CatalogueFolder(folder)
    probers = (
        {"name": name, "kind": "probes", "trust": trust, "items": lines}
        for name, trust, lines in (("nightly", 1, trusted), ("liar", 0, lies))
    )
    assert catalogue.build(source("records", records), *probers) == 0
    return catalogue.artifacts


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Published]:
    artifacts = build_probed(tmp_path_factory.mktemp("probes"), RECORDS, TRUSTED, LIES)
    with open_app(artifacts) as client:
        yield Published(client, artifacts)


def test_an_endpoint_says_who_saw_it_alive_or_dead_and_when(published: Published) -> None:
    probe = {"prober": "nightly", "observedAt": ago(hours=1), "outcome": "quoted", "status": 402}
    assert published.facts("busy") == {
        "alive": True,
        "lastSeen": ago(hours=1),
        "probe": probe | {"latencyMs": 81},
    }
    gone = published.facts("gone")
    assert (gone["alive"], gone["since"]) == (False, ago(days=3))
    assert "lastSeen" not in gone
    assert "alive" not in published.facts("quiet")
    assert published.facts("quiet")["probe"]["status"] == 405
    assert published.facts("listed")["wildcard"] is True


def test_the_name_of_a_prober_says_nothing_of_the_folders_of_the_operator(
    tmp_path: Path, artifacts: Path, build: Build
) -> None:
    folder = tmp_path / "of-the-operator"
    folder.mkdir()
    probes = write_lines(folder / "nightly.jsonl", [quoted("busy", ago(hours=1))])
    assert build([tide("busy")], options=("--probes", probes)) == 0
    with open_app(artifacts) as client:
        assert Published(client, artifacts).facts("busy")["probe"]["prober"] == "nightly.jsonl"


def test_an_ard_entry_says_whether_its_service_is_alive(published: Published) -> None:
    def found(**conditions: bool) -> dict[str, bool | None]:
        query = {"text": "tide", "filter": conditions}
        answer = published.client.post("/ard/search", json={"query": query})
        results = answer.json()["results"]
        named = ((each["identifier"].rpartition(":")[2], each["metadata"]) for each in results)
        return {name: facts.get("alive") for name, facts in named}

    everything = found()
    assert everything["busy-example"] is True
    assert everything["gone-example"] is False
    assert everything["quiet-example"] is None
    for verdict in (True, False):
        alive = {name for name, each in everything.items() if each is verdict}
        assert found(**{"metadata.alive": verdict}).keys() == alive


def test_a_price_that_moved_tenfold_is_a_drift_with_both_sides(published: Published) -> None:
    drift = published.facts("tenfold")["drift"]
    assert drift["since"] == ago(days=2)
    (listed,), (quote,) = drift["listed"], drift["quoted"]
    assert (listed["amount"], quote["amount"]) == ("10000", "100000")
    assert listed["payTo"] == quote["payTo"] == "0xPay"
    assert "drift" not in published.facts("listed")


def test_a_price_that_was_asked_at_the_url_of_a_tool_is_no_drift_of_the_tool(
    tmp_path: Path,
) -> None:
    tool = tide("tool", url=url("tenfold"), tool="look_up")
    declared = {"bazaar": {"info": {"input": {"type": "http", "method": "GET"}}}}
    records = [tool, resource(url("tenfold"), description="Tide", extensions=declared)]
    artifacts = build_probed(tmp_path, records, TRUSTED, [])
    with open_app(artifacts) as client:
        published = Published(client, artifacts)
        assert "drift" in published.facts("tenfold")
        facts = published.facts("tool")
    assert facts["lastSeen"] == ago(hours=1)
    assert "drift" not in facts


def test_the_answers_are_those_of_the_schema(published: Published) -> None:
    for path, envelope in (
        ("/v1/search/endpoints?q=tide", EndpointList),
        ("/discovery/resources", ResourceList),
    ):
        msgspec.json.decode(published.client.get(path).content, type=envelope)


def test_alive_filters_services_endpoints_and_listed_resources(published: Published) -> None:
    def found(path: str, items: str, key: str) -> list[set[str]]:
        return [
            {each[key] for each in published.get(f"{path}alive={alive}")[items]}
            for alive in ("true", "false")
        ]

    live = {"busy-example", "listed-example", "tenfold-example"}
    assert found("/v1/services?", "services", "id") == [live, {"gone-example"}]
    assert found("/v1/services/search?q=tide&", "services", "id") == [live, {"gone-example"}]
    urls = [{url(name.removesuffix("-example")) for name in live}, {url("gone")}]
    assert found("/v1/search/endpoints?", "endpoints", "url") == urls
    resources = [{url("listed"), url("tenfold")}, set()]
    assert found("/discovery/search?query=tide&", "resources", "resource") == resources
    refused = published.client.get("/v1/services?alive=maybe")
    assert (refused.status_code, refused.json()["error"]["parameter"]) == (400, "alive")


def test_a_dead_service_is_listed_and_found_behind_its_live_equals(published: Published) -> None:
    for path in ("/v1/services", "/v1/services?sort=popularity", "/v1/services/search?q=tide"):
        ids = [each["id"] for each in published.get(path)["services"]]
        curated = [each for each in ids if each in ("busy-example", "gone-example")]
        assert curated == ["busy-example", "gone-example"]
    found = published.get("/v1/search/endpoints?q=tide")["endpoints"]
    assert [each["url"] for each in found].index(url("gone")) > 0
    (dead,) = [each for each in found if each["url"] == url("gone")]
    assert dead["ratecard"]["alive"] is False


def test_a_dead_endpoint_beyond_the_bounds_of_a_record_is_found_behind_its_live_equals(
    tmp_path: Path,
) -> None:
    offers = [resource(f"{url('wide')}/{number}", description="Tide") for number in range(4)]
    dead = [seen("wide", "unreachable", ago(days=days)) for days in (1, 2)]
    observations = [each | {"url": offers[2]["resource"]} for each in dead]
    prober = {"name": "nightly", "kind": "probes", "trust": 1, "items": observations}
    catalogue = CatalogueFolder(tmp_path)
    assert catalogue.build(source("feed", offers), prober, endpoints_per_service=1) == 0
    with open_app(catalogue.artifacts) as client:
        found = client.get("/discovery/search?query=tide").json()["resources"]
    assert [each["resource"][-1] for each in found] == ["0", "1", "3", "2"]


def test_plain_services_have_no_facts_of_probers(published: Published) -> None:
    for path in ("/v1/services", "/v1/services/busy-example", "/v1/services/search?q=tide"):
        assert "ratecard" not in published.client.get(path).text


def test_pages_show_liveness_and_drift(published: Published) -> None:
    today = ago(hours=1)[:10]
    for path in ("/services/busy-example", "/endpoints?q=tide"):
        assert f"alive on {today}" in published.client.get(path).text
    assert f"Dead since {ago(days=3)[:10]}." in published.client.get("/services/gone-example").text
    page = published.client.get("/services/tenfold-example").text
    moved = "another amount (100000 and not 10000 base units)"
    assert f"Since {ago(days=2)[:10]} its 402 has {moved}." in page


def test_show_prints_liveness_and_drift(
    published: Published, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in (
        ("busy", f"  alive on {ago(hours=1)[:10]}"),
        ("gone", f"  dead since {ago(days=3)[:10]}"),
        ("quiet", f"  answered (405) on {ago(days=1)[:10]}"),
        ("tenfold", f"  since {ago(days=2)[:10]} its 402 has another amount"),
    ):
        assert main(["show", f"{name}-example", "--artifacts", str(published.artifacts)]) == 0
        assert text in capsys.readouterr().out


def test_a_seller_is_advised_of_other_terms_than_the_listing_has(published: Published) -> None:
    advised = [
        name
        for name in ("busy", "listed", "tenfold")
        for each in published.get(f"/v1/listings?url={url(name)}")["advice"]
        if each["code"] == "other_terms"
    ]
    assert advised == ["tenfold"]


@pytest.mark.parametrize("place", ["record", "endpoint", "escaped", "overlay"])
def test_a_record_that_brings_facts_of_ours_loses_them(
    place: str, tmp_path: Path, artifacts: Path, build: Build
) -> None:
    record = tide("busy")
    options: tuple[str, ...] = ()
    if place == "record":
        record["ratecard"] = FORGED
    elif place == "overlay":
        forged = [each | {"ratecard": FORGED} for each in record["endpoints"]]
        patch = {"ratecard": FORGED, "endpoints": forged}
        options = tuple(overlays(tmp_path, {"busy-example": patch}))
    else:
        record["endpoints"][0]["ratecard"] = FORGED
    text = json.dumps(record)
    if place == "escaped":
        text = text.replace("ratecard", r"\u0072atecard")
    path = tmp_path / "source.jsonl"
    path.write_text(text)
    for _ in range(2):  # from the facts that the first build left, too
        assert build(str(path), options=(*options, "--quiet")) == 0
        with in_process(create_app(Settings(artifacts=str(artifacts)))) as client:
            for target in ("/v1/services", "/v1/search/endpoints?q=tide"):
                assert "alive" not in client.get(target).text


def test_the_same_observations_in_any_order_give_the_same_snapshot(
    published: Published, tmp_path: Path
) -> None:
    before = current(published.artifacts)
    assert current(build_probed(tmp_path, RECORDS, TRUSTED[::-1], LIES[::-1])) == before
    changed = [*TRUSTED, seen("busy", "unreachable", ago(minutes=5))]
    assert current(build_probed(tmp_path, RECORDS, changed, LIES)) != before


@pytest.mark.parametrize("room", ["memory", "disk"])
def test_observations_without_room_end_the_build_with_an_error(
    room: str,
    tmp_path: Path,
    artifacts: Path,
    build: Build,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if room == "memory":
        monkeypatch.setattr("indexer.probes.verdicts.MEMORY", "2MB")
    lines = [quoted("busy", ago(seconds=number)) for number in range(20_000)]
    probes = write_lines(tmp_path / "probes.jsonl", lines)
    with largest_file(200_000) if room == "disk" else nullcontext():
        assert build([tide("busy")], options=("--probes", probes)) == 1
    assert capsys.readouterr().err.startswith("error: the observations cannot be judged: ")
    assert not (artifacts / "CURRENT").exists()
