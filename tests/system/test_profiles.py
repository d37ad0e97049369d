"""Profiles: an operator describes services and endpoints, in words of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

from indexer.__main__ import main
from service.schema.profiles import MAX_TEXT
from service.snapshot.snapshot import Snapshot, open_snapshot
from tests.support.artifacts import overlays, reported
from tests.support.clients.mcp import call_in_process, structured, text_of
from tests.support.intake import CatalogueFolder, source
from tests.support.running import PLAIN, Build, Json, endpoint, serve, service
from tests.support.sources.x402 import resource

URL = "https://api.weather-data.example/v1/forecast"
OTHER = "https://api.weather-data.example/v1/history"
OF_SERVICE = {"whenToUse": "For narwhal watching", "limitations": "No unicorns", "tags": ["sea"]}
OF_ENDPOINT = {"whenToUse": "Quick wombat checks"}
PATCHES = {
    "domain:api.weather-data.example": {"profile": OF_SERVICE},
    URL: {"profile": OF_ENDPOINT},
}


def made(artifacts: Path, build: Build, patches: Json, *, scratch: bool = False) -> str:
    """Build a service of two resources with an overlay; returns the id of the snapshot."""
    sources = [resource(URL, description="Forecasts"), resource(OTHER, description="History")]
    options = overlays(artifacts.parent, patches)
    assert build(sources, options=(*options, *["--from-scratch"] * scratch)) == 0
    return open_snapshot(artifacts).id


def test_profiles_are_served_as_the_words_of_the_operator(artifacts: Path, build: Build) -> None:
    made(artifacts, build, PATCHES)
    both = {"profile": OF_ENDPOINT, "serviceProfile": OF_SERVICE}
    with serve(artifacts) as client:
        found = client.get("/v1/search/endpoints", params={"q": "wombat"}).json()["endpoints"]
        assert {each["url"]: each["ratecard"] for each in found}[URL] == both
        found = client.get("/v1/search/endpoints", params={"q": "history"}).json()["endpoints"]
        listed = client.get("/discovery/resources").json()["items"]
        facts = {each["resource"]: each["ratecard"] for each in listed}
        assert {name: facts[URL][name] for name in both} == both
        assert "profile" not in facts[OTHER]
        assert facts[OTHER]["serviceProfile"] == OF_SERVICE
        for path in ("/v1/services", "/v1/search/services?q=narwhal"):
            body = client.get(path)
            assert len(body.json()["services"]) == 1
            assert "narwhal" not in body.text.replace("q=narwhal", "")
            assert "wombat" not in body.text
        page = client.get("/services/api-weather-data-example", headers={"accept": "text/html"})
        assert "The operator of this catalogue says" in page.text
        assert "For narwhal watching" in page.text
        assert "Operator, when to use: Quick wombat checks" in page.text


def test_tools_tell_the_words_of_the_operator_from_those_of_the_seller(
    artifacts: Path, build: Build
) -> None:
    made(artifacts, build, PATCHES)
    says = "when to use: Quick wombat checks"
    row = structured(artifacts, "search_endpoints", query="forecast")["endpoints"][0]
    assert (row["seller_says"], row["operator_says"]) == ("Forecasts", says)
    text = text_of(call_in_process(artifacts, "search_endpoints", query="forecast"))
    assert f"; operator: {says}; seller: {URL}; Base; Forecasts" in text
    brief = structured(artifacts, "get", id="api-weather-data-example")["service"]
    assert brief["operator_says"] == (
        "when to use: For narwhal watching; limitations: No unicorns; tags: sea"
    )
    found = structured(artifacts, "get", id=row["id"])
    assert "wombat" in found.pop("operator_says")
    assert "wombat" not in str(found)
    full = structured(artifacts, "get", id=row["id"], detail="full")["endpoint"]
    assert "ratecard" not in full


def test_show_prints_profiles(
    artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    made(artifacts, build, PATCHES)
    assert main(["show", "api-weather-data-example", "--artifacts", str(artifacts)]) == 0
    shown = capsys.readouterr().out
    assert "operator, limitations: No unicorns" in shown
    assert "operator, when to use: Quick wombat checks" in shown


def terms_of(snapshot: Snapshot, word: str) -> list[str]:
    """Return the terms that a word stands for."""
    parser = snapshot.embedded.parser
    return [parser.term(term) for each in parser.parse(word).expansions for term, _ in each.terms]


def test_profiles_are_searched_but_not_their_limitations(artifacts: Path, build: Build) -> None:
    made(artifacts, build, PATCHES)
    snapshot = open_snapshot(artifacts)
    words = ("narwhal", "wombat", "sea", "unicorns")
    assert [bool(terms_of(snapshot, word)) for word in words] == [True, True, True, False]


def test_the_profile_of_an_endpoint_beyond_the_record_is_searched(
    artifacts: Path,
) -> None:
    sources = [resource(URL), resource(OTHER)]
    _, overlay = overlays(artifacts.parent, PATCHES)
    folder = CatalogueFolder(artifacts.parent)
    feed = source("feed", [sources[1] | {"quality": {"l30DaysTotalCalls": 9}}, sources[0]])
    patches = {"name": "patches", "path": overlay, "kind": "overlay"}
    written = folder.write(feed, patches, endpoints_per_service=1)
    assert main(["build", written, "--out", str(artifacts), *PLAIN]) == 0
    snapshot = open_snapshot(artifacts)
    assert snapshot.resources.beyond(0) == 1
    assert snapshot.search("wombat").ids == ["api-weather-data-example"]


def test_a_changed_profile_changes_what_is_found_as_in_a_build_from_nothing(
    artifacts: Path, build: Build
) -> None:
    first = made(artifacts, build, {})
    made(artifacts, build, PATCHES)
    changed = PATCHES | {URL: {"profile": {"whenToUse": "Quick zebra checks"}}}
    again = made(artifacts, build, changed)
    assert not terms_of(open_snapshot(artifacts), "wombat")
    assert terms_of(open_snapshot(artifacts), "zebra") == ["zebra"]
    assert made(artifacts, build, changed, scratch=True) == again
    assert made(artifacts, build, {}) == first


def test_profiles_merge_and_null_removes_them(artifacts: Path, build: Build) -> None:
    patches = PATCHES | {"api-weather-data-example": {"profile": {"tags": None}}, URL: None}
    patches.pop(URL)
    made(artifacts, build, patches)
    profile = open_snapshot(artifacts).endpoints.profile_of(0)
    assert profile is not None
    assert (profile.when_to_use, bool(profile.tags)) == ("For narwhal watching", False)
    patches["api-weather-data-example"] = {"profile": None}
    made(artifacts, build, patches)
    assert open_snapshot(artifacts).endpoints.profile_of(0) is None


def test_records_are_not_patched_by_profiles_and_keep_members_of_that_name(
    artifacts: Path, build: Build
) -> None:
    record = service("a", endpoints=[endpoint() | {"ratecard": {"profile": 5}}]) | {"profile": 7}
    url = record["endpoints"][0]["url"]
    assert build([record]) == 0
    stored = open_snapshot(artifacts).find("a")
    options = overlays(artifacts.parent, {"a": {"profile": {"tags": ["x"]}}, url: PATCHES[URL]})
    assert build([record], options=options) == 0
    assert open_snapshot(artifacts).find("a") == stored
    with serve(artifacts) as client:
        (found,) = client.get("/v1/search/endpoints", params={"q": "wombat"}).json()["endpoints"]
    assert found["ratecard"] == {"profile": OF_ENDPOINT, "serviceProfile": {"tags": ["x"]}}


@pytest.mark.parametrize(
    ("patches", "fault"),
    [
        ({"a": {"profile": {"whenToUse": "x" * (MAX_TEXT + 1)}}}, "$.profile.whenToUse"),
        ({"a": {"profile": {"when": "x"}}}, "unknown field `when`"),
        ({"a": {"profile": {"tags": ["x"] * 21}}}, "$.profile.tags"),
        ({"a": {"profile": "x"}}, "$.profile"),
        ({URL: {"profile": {"tags": ["x"]}, "name": "x"}}, "a URL takes a profile alone"),
        ({URL: {"name": "x"}}, "a URL takes a profile alone"),
        ({"payee:0x1": {"profile": {"tags": ["x"]}}}, "can be removed only"),
    ],
)
def test_an_invalid_profile_is_an_error_with_its_place(
    artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str], patches: Json, fault: str
) -> None:
    options = overlays(artifacts.parent, patches)
    assert build([service("a")], options=options) != 0
    errors = capsys.readouterr().err
    assert f"error: {options[1]}: " in errors
    assert fault in errors


def test_profiles_that_nothing_has_are_reported(
    artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    patches = {url: {"profile": OF_ENDPOINT} for url in (URL, "https://nobody.example/x")}
    made(artifacts, build, patches)
    assert "unused overlay:" in (shown := capsys.readouterr()).err + shown.out
    assert "nobody.example" in shown.err + shown.out
    assert URL not in shown.err + shown.out


def test_a_build_counts_endpoints_without_a_text_of_their_own(
    build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = ("Tides", "", " ", f"GET {URL}", "API request: /v1/forecast")
    sources = [
        service("a", endpoints=[endpoint() | {"url": URL, "description": each} for each in texts])
    ]
    assert build(sources) == 0
    assert "4 of 5 endpoints without a description" in "".join(capsys.readouterr())
    assert build(sources, options=("--json",)) == 0
    assert reported(capsys)["undescribed"] == 4
