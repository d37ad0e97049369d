"""Purchases of observers through a build, over HTTP, on a page and in a terminal."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from indexer.__main__ import main
from service.schema.values import format_timestamp
from tests.support.artifacts import current
from tests.support.clients.mcp import call_in_process, structured, text_of
from tests.support.intake import CatalogueFolder, source
from tests.support.running import Json, endpoint, open_app, service
from tests.support.sources.deliveries import Observer
from tests.support.sources.x402 import accept, resource

NOW = datetime.now(UTC).replace(microsecond=0)
PAYEE, OTHER = "0x" + "aB" * 20, "0x" + "cd" * 20
VET = Observer(1)
WEEK = NOW - timedelta(days=7)


def url(name: str) -> str:
    return f"https://{name}.example/v1/tide"


def record(name: str, **members: Any) -> Json:
    priced = endpoint("0.01", network="Base", scheme="exact") | {"url": url(name)} | members
    return service(f"{name}-example", name="Tide", domain=f"{name}.example", endpoints=[priced])


def bought(name: str, number: int, code: str = "DELIVERED", payee: str = PAYEE) -> Json:
    return VET.buy(url(name), payee, WEEK, number, verdict={"code": code})


RECORDS = [
    record("curated", payTo=PAYEE),
    *(record(name, payTo=OTHER) for name in ("moved", "never")),
    resource(url("listed"), description="Tide", accepts=[accept(payTo=PAYEE)]),
    resource(url("free"), description="Tide", accepts=[accept(payTo=PAYEE)]),
    resource(url("wordy"), description="Tide. " * 100, accepts=[accept(payTo=PAYEE)]),
]
PURCHASES = [
    bought("curated", 1),
    *(bought("listed", number) for number in range(2, 8)),
    bought("listed", 8, "NOT_DELIVERED"),
    bought("moved", 9),
    bought("never", 10, "UNCLEAR", OTHER),
    bought("free", 11),
]
LINES = [
    {"url": url("free"), "observed_at": format_timestamp(WEEK), "outcome": "answered"}
    | {"status": 200}
]


def build(folder: CatalogueFolder, purchases: list[Json], options: tuple[str, ...] = ()) -> Path:
    """Build a catalogue with the records of an observer; returns the artifacts."""
    observer = {"name": "vet", "kind": "probes", "observers": [VET.address], "items": purchases}
    nightly = {"name": "nightly", "kind": "probes", "items": LINES}
    assert folder.build(source("records", RECORDS), observer, nightly, options=options) == 0
    return folder.artifacts


class Published(NamedTuple):
    client: httpx.Client
    artifacts: Path

    def get(self, path: str) -> Any:
        response = self.client.get(path)
        assert response.status_code == 200
        return response.json()

    def names(self, query: str) -> set[str]:
        found = self.get(f"/v1/search/endpoints?{query}")["endpoints"]
        return {each["service"]["id"].removesuffix("-example") for each in found}


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Published]:
    artifacts = build(CatalogueFolder(tmp_path_factory.mktemp("deliveries")), PURCHASES)
    with open_app(artifacts) as client:
        yield Published(client, artifacts)


def test_endpoints_and_resources_say_how_often_they_delivered(published: Published) -> None:
    counts = {"purchases": 7, "delivered": 6, "last": format_timestamp(WEEK), "observers": 1}
    found = published.get("/v1/search/endpoints?service=listed-example&q=tide")["endpoints"]
    assert [each["ratecard"] for each in found] == [{"deliveries": counts}]
    listed = {
        each["resource"]: each["ratecard"].get("deliveries")
        for each in published.get("/discovery/resources")["items"]
    }
    assert listed[url("listed")] == counts
    (curated,) = published.get("/v1/search/endpoints?service=curated-example&q=tide")["endpoints"]
    assert curated["ratecard"]["deliveries"]["delivered"] == 1


def test_a_payee_that_moved_has_no_deliveries(published: Published) -> None:
    (moved,) = published.get("/v1/search/endpoints?service=moved-example&q=tide")["endpoints"]
    assert "ratecard" not in moved


def test_endpoints_are_filtered_by_what_observers_got(published: Published) -> None:
    assert published.names("delivered=true") == {"curated", "listed", "free"}
    assert published.names("delivered=false") == {"never"}
    assert published.names("q=tide&delivered=true") == {"curated", "listed", "free"}
    assert published.client.get("/v1/search/endpoints?delivered=perhaps").status_code == 400


def test_pages_and_the_terminal_say_how_often_an_endpoint_delivered(
    published: Published, capsys: pytest.CaptureFixture[str]
) -> None:
    words = f"delivered 6 of 7 purchases, last on {WEEK.date()}"
    for path in ("/endpoints?q=tide&delivered=true", "/services/listed-example"):
        assert words in published.client.get(path, headers={"accept": "text/html"}).text
    assert main(["show", "listed-example", "--artifacts", str(published.artifacts)]) == 0
    assert words in capsys.readouterr().out


def test_rows_of_mcp_say_how_often_an_endpoint_delivered(published: Published) -> None:
    result = call_in_process(published.artifacts, "search_endpoints", query="tide", limit=20)
    content: Json = result.structured_content
    rows = {each["url"]: each.get("delivered") for each in content["endpoints"]}
    assert (rows[url("listed")], rows[url("never")], rows[url("moved")]) == (
        "6 of 7",
        "0 of 1",
        None,
    )
    told = structured(published.artifacts, "how_to_call", endpoint=url("listed"))
    assert told["delivered"] == "6 of 7"
    (line,) = (each for each in text_of(result).splitlines() if url("listed") in each)
    assert "delivered 6 of 7; seller: " in line


def test_advice_names_what_keeps_facilitators_from_a_listing(published: Published) -> None:
    expected = {"listed": set(), "free": {"answers_unpaid"}, "wordy": {"long_description"}}
    for name, codes in expected.items():
        advice = published.get(f"/v1/listings?url={url(name)}")["advice"]
        found = {each["code"] for each in advice}
        assert found & {"answers_unpaid", "long_description"} == codes


def test_a_snapshot_is_the_same_in_any_order_and_with_what_the_last_build_left(
    tmp_path: Path,
) -> None:
    folder, counted = CatalogueFolder(tmp_path), PURCHASES[:8]
    build(folder, counted[:5])
    grown = current(build(folder, counted))
    assert current(build(folder, counted[::-1])) == grown
    assert current(build(folder, counted, ("--from-scratch",))) == grown
    shutil.rmtree(folder.artifacts)
    assert current(build(folder, counted[::-1])) == grown


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        (
            {"kind": "probes", "observers": ["0x12"]},
            "0x12 is not 0x and 40 hex digits",
        ),
        ({"kind": "records", "observers": [VET.address]}, "is for sources of probes only"),
    ],
)
def test_observers_are_addresses_and_of_probes(
    keys: Json, fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = CatalogueFolder(tmp_path)
    assert folder.build(source("records", RECORDS), {"name": "vet", "items": []} | keys) == 2
    message = capsys.readouterr().err
    assert "source 2 (vet)" in message
    assert "`observers" in message
    assert fault in message
