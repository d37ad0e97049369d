"""Documents of any kind: told by content or key, and of the hosts of their source alone."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from msgspec import structs

from indexer.build import build_snapshot
from indexer.catalogue_file import name_source
from indexer.errors import InvalidRecord, LeftOut
from indexer.options import BuildOptions, RankingOptions, SourceOptions
from indexer.report import Report
from indexer.resources.documents import OTHER_HOSTS, Document
from indexer.text import MAX_RECORD
from tests.support.artifacts import ids
from tests.support.intake import CatalogueFolder, source
from tests.support.running import Json
from tests.support.sources.feeds import misbehaving, sending
from tests.support.sources.manifests import described, items
from tests.support.sources.mpp import EMPTY, MAPS, TALK, directory, endpoint, service
from tests.support.sources.openapi import DOCUMENTS, FREE, X402SCAN, document, fixed

FETCHED = "https://docs.weather.example/openapi.json"
SHARED = "https://one.vercel.app/openapi.json"
FEEDS = "--allow-private-feeds"
FAULTY = service("Other", endpoint(payment={"amount": "x"}), 5)
KINDS: dict[str, tuple[Any, set[str]]] = {
    "openapi": (document({"/a": {"get": fixed(), "post": FREE}}), {"api-weather-example"}),
    "manifest": (items(described()), {"api-weather-example"}),
    "mpp": (directory(MAPS, TALK, EMPTY), {"mpp-example-maps", "mpp-example-talk"}),
}
"""A document of each kind, and the ids of its services."""


@pytest.mark.parametrize(
    ("url", "source_", "expected"),
    [
        ("https://api.weather.example/a", {"url": FETCHED}, True),
        ("https://WEATHER.example:8443/a", {"url": FETCHED}, True),
        ("https://weather.example.evil.example/a", {"url": FETCHED}, False),
        ("https://notweather.example/a", {"url": FETCHED}, False),
        ("https://two.vercel.app/a", {"url": SHARED}, False),
        ("https://one.vercel.app/a", {"url": SHARED}, True),
        ("https://evil.example/a", {"url": FETCHED, "curated": True}, True),
        ("https://api.weather.example/a", {"url": FETCHED, "hosts": ("evil.example",)}, False),
        ("https://api.weather.example/a", {"path": "a.json"}, False),
        ("https://api.weather.example/a", {"path": "a.json", "curated": True}, True),
        ("https://a.one.example/a", {"path": "a.json", "hosts": ("*.one.example",)}, True),
        ("https://one.example/a", {"path": "a.json", "hosts": ("*.one.example",)}, False),
        ("https://two.example/a", {"path": "a", "hosts": ("one.example",), "curated": True}, False),
        ("https://xn--bcher-kva.example/a", {"path": "a", "hosts": ("BÜCHER.example",)}, True),
        ("https://a.c.example/a", {"path": "a", "hosts": ("abc.example",)}, False),
    ],
)
def test_a_document_speaks_for_the_hosts_of_its_source(
    url: str, source_: dict[str, object], expected: bool
) -> None:
    document = Document(b"", msgspec.convert({"name": "source"} | source_, SourceOptions))
    if expected:
        document.check_host("$", url)
        return
    with pytest.raises(LeftOut) as raised:
        document.check_host("$", url)
    assert raised.value.rule == OTHER_HOSTS


def test_a_text_that_is_no_url_is_rejected() -> None:
    with pytest.raises(InvalidRecord, match=r"^\$\.a: is not a URL"):
        Document(b"", SourceOptions(name="source")).check_host("$.a", "weather")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_declared", [True, False])
def test_a_fetched_document_is_read_by_its_kind_or_its_content(
    kind: str, is_declared: bool, catalogue: CatalogueFolder
) -> None:
    given, expected = KINDS[kind]
    keys = {"kind": kind} if is_declared else {}
    with misbehaving(sending(given)) as server:
        docs = source("docs", server.url, hosts=["*"], **keys)
        assert catalogue.build(docs, options=[FEEDS]) == 0
    assert {*ids(catalogue.artifacts)} == expected


@pytest.mark.parametrize("kind", KINDS)
def test_a_fetched_document_does_not_speak_for_other_domains(
    kind: str, catalogue: CatalogueFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    with misbehaving(sending(KINDS[kind][0])) as server:
        assert catalogue.build(source("docs", server.url, kind=kind), options=[FEEDS]) == 0
    assert ids(catalogue.artifacts) == []
    assert "is outside of 127.0.0.1, from which the document was fetched" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("kind", "given", "error"),
    [
        ("records", X402SCAN, "is an OpenAPI document where a list of records is expected"),
        ("records", KINDS["mpp"][0], "is an MPP directory where a list of records is expected"),
        ("openapi", {"services": []}, "is not an OpenAPI document; correct its `kind`"),
        ("openapi", {"swagger": "2.0"}, "is a Swagger 2.0 document, which is not read"),
        ("openapi", X402SCAN | {"openapi": "2.0"}, "$.openapi: is not a version of OpenAPI 3"),
        ("openapi", X402SCAN | {"x": "x" * MAX_RECORD}, f"is longer than the {MAX_RECORD:,} bytes"),
        ("manifest", {"services": []}, "is not a manifest; correct its `kind`"),
    ],
)
def test_a_document_of_another_kind_is_an_error(
    kind: str,
    given: Json,
    error: str,
    catalogue: CatalogueFolder,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert catalogue.build(source("docs", [given], kind=kind, on_error="fail")) != 0
    assert error in " ".join(capsys.readouterr().err.split())


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> list[Report]:
    """The reports of two builds from nothing of all documents."""
    folder = tmp_path_factory.mktemp("documents")
    given = DOCUMENTS | {"directory": directory(MAPS, TALK, EMPTY, MAPS, FAULTY)}
    sources = []
    for name, each in given.items():
        (folder / name).write_text(json.dumps(each))
        sources.append(structs.replace(name_source(str(folder / name)), name=name))
    options = BuildOptions(
        sources=tuple(sources),
        out=folder / "artifacts",
        ranking=RankingOptions(is_semantic=False),
        downloads=False,
        max_rejects=Fraction(1),
        from_scratch=True,
    )
    return [build_snapshot(options) for _ in range(2)]


@pytest.mark.parametrize("name", [*DOCUMENTS, "directory"])
def test_counts_add_up_and_a_second_build_changes_nothing(name: str, reports: list[Report]) -> None:
    first, second = reports
    (tally,) = (each for each in first.sources if each.source == name)
    assert tally.records == tally.published + tally.malformed + sum(tally.left_out.values()) > 0
    if name == "directory":
        assert (tally.published, tally.malformed) == (4, 2)
        assert tally.left_out == {
            "free operations": 2,
            "services without endpoints": 1,
            "duplicate listings": 2,
        }
    assert second.snapshot == first.snapshot
