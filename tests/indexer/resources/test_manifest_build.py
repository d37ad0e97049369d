"""Builds from manifests: complete entries are listed, bare URLs left out."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.build import check_sources
from indexer.catalogue_file import read_catalogue_file
from indexer.cli.main import main
from indexer.options import BuildOptions
from indexer.resources.manifest import REASON
from tests.support.artifacts import ids, records_of
from tests.support.intake import CatalogueFolder, listings, source
from tests.support.running import Json, examples
from tests.support.sources.feeds import misbehaving, sending
from tests.support.sources.manifests import (
    HOST,
    INSTRUCTIONS,
    described,
    entries,
    pointer,
    urls,
)
from tests.support.sources.openapi import FREE, document, fixed
from tests.support.sources.x402 import accept, v2

FEEDS = "--allow-private-feeds"


def listing(path: str, method: str = "GET", **fields: Any) -> Json:
    """Return a resource of a feed, without a description."""
    return v2({"method": method} if method else {}) | {"resource": HOST + path} | fields


def endpoints_of(artifacts: Path) -> dict[tuple[str, str], Json]:
    """Return the endpoints of all records by path and method."""
    return {
        (each["url"].removeprefix(HOST), each["method"]): each
        for record in records_of(artifacts).values()
        for each in record["endpoints"]
    }


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Artifacts of a fetched manifest, a feed, and a document."""
    folder = CatalogueFolder(tmp_path_factory.mktemp("manifests"))
    manifest = urls(
        f"{HOST}/tides",
        "POST /bare",
        pointer("/waves", description="Heights of waves"),
        "https://other.example/a",
        7,
        described(),
        f"{HOST}/bare",
        f"{HOST}/free",
        instructions=INSTRUCTIONS,
    )
    waves = document({"/waves": {"get": fixed(summary="")}, "/free": {"get": FREE}}, HOST)
    with misbehaving(sending(manifest)) as server:
        status = folder.build(
            source("manifest", server.url, hosts=["api.weather.example"]),
            source(
                "feed", [listing("/tides"), listing("/tides", "POST")], kind="resources", trust=0
            ),
            source("waves", [waves], trust=0),
            options=[FEEDS],
        )
    assert status == 0
    return folder.artifacts


def test_endpoints_are_those_that_a_source_lists(published: Path) -> None:
    assert endpoints_of(published).keys() == {
        ("/tides", "GET"),
        ("/tides", "POST"),
        ("/waves", "GET"),
        ("/v1/forecast/:city", "GET"),
    }
    assert listings(published).keys() == {
        f"GET {HOST}/tides",
        f"POST {HOST}/tides",
        f"GET {HOST}/v1/forecast/oslo",
    }


@pytest.mark.parametrize(
    ("url", "fate", "reason"),
    [
        (f"{HOST}/tides", "published", ""),
        (f"{HOST}/waves", "left out", REASON),
        (f"{HOST}/v1/forecast/oslo", "published", ""),
        (f"{HOST}/bare", "left out", REASON),
        (f"{HOST}/free", "left out", REASON),
        ("https://other.example/a", "left out", "other.example is none of the `hosts`"),
    ],
)
def test_each_entry_has_a_fate(
    client: Any,
    published: Path,
    url: str,
    fate: str,
    reason: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    answer = client.get("/v1/listings", params={"url": url}).json()
    assert answer["listed"] == (fate == "published" or url.endswith("/waves"))
    assert any(
        each["fate"] == fate and reason in each.get("reason", "") for each in answer["fates"]
    )
    main(["why", url, "--artifacts", str(published)])
    assert reason in " ".join(capsys.readouterr().out.split())


def of_manifest(manifest: Json) -> Json:
    """Return the source of a manifest of the operator."""
    return source("manifest", [manifest], kind="manifest", trust=1)


def test_bare_urls_change_no_id(catalogue: CatalogueFolder) -> None:
    feed = source("feed", [v2({}) | {"resource": "https://a-b.example/x"}], kind="resources")
    assert catalogue.build(of_manifest(urls("https://a.b.example/y")), feed) == 0
    assert ids(catalogue.artifacts) == ["a-b-example"]


@settings(max_examples=examples(25), deadline=None)
@given(
    st.lists(st.one_of(entries, st.sampled_from([f"{HOST}/a", "POST /a", f"GET {HOST}/b"]))),
    st.lists(st.sampled_from(["", "GET", "POST", "GET, POST"]), min_size=1, max_size=2),
)
def test_any_entry_has_one_fate(
    tmp_path_factory: pytest.TempPathFactory, given_: list[Any], listed: list[str]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    manifest = source("any", [urls(*given_)], kind="manifest", hosts=["*.example"])
    feed = source("feed", [listing("/a", method) for method in listed], kind="resources")
    file = CatalogueFolder(folder).write(manifest, feed)
    catalogue, refused = read_catalogue_file(file), folder / "refused.jsonl"
    report = check_sources(
        BuildOptions(
            sources=catalogue.sources,
            out=folder / "none",
            rejects=refused,
            max_rejects=Fraction(1),
            jobs=1,
        )
    )
    tally = report.sources[0]
    findings = [json.loads(line) for line in refused.read_text().splitlines()]
    fates = [each for each in findings if each["source"] == "any" and each["fate"] != "noted"]
    assert len({each["position"] for each in fates}) == len(fates)
    assert tally.records == len(given_) == tally.published + len(fates)
    assert len(fates) == tally.malformed + sum(tally.left_out.values())


def test_an_entry_of_a_manifest_merges_with_an_operation_of_a_document(
    catalogue: CatalogueFolder,
) -> None:
    openapi = document({"/tides": {"get": fixed() | {"summary": "Tides of a harbour"}}}, HOST)
    api = source("api", [openapi], kind="openapi", curated=True, trust=1)
    entry = {"url": HOST + "/tides", "method": "GET", "accepts": [accept("50000")]}
    assert catalogue.build(of_manifest({"resources": [entry]}), api) == 0
    found = endpoints_of(catalogue.artifacts)["/tides", "GET"]
    assert found["pricing"]["amount"] == "0.05"
    assert found["description"] == "Tides of a harbour"
    assert len(found["paymentOffers"]) == 1
