"""`/v1/snapshots/current`, the paths of earlier releases, and requests that name a snapshot."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import msgspec
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount, Route

from service.app import ROUTES, create_app
from service.schema.status import SnapshotEnvelope
from service.settings import Settings
from service.web.pages import PAGES
from tests.support.artifacts import current
from tests.support.running import Build, eventually, in_process, open_app, service

PATH = "/v1/snapshots/current"
REMOVED = (
    "/v1/changes",
    "/v1/changes?since={id}",
    "/v1/snapshots",
    "/v1/snapshots/{id}",
    "/v1/snapshots/{id}/datapackage.json",
    "/v1/snapshots/{id}/{id}.tar.zst",
    "/v1/snapshots/pointer-13.json",
    "/v1/snapshots/manifests/0123.json",
    "/v1/snapshots/sections/0123.json",
    "/v1/snapshots/sections/0123.zst",
    "/v1/snapshots/patches/{id}-{id}.json",
    "/v1/snapshots/patches/{id}-{id}.zst",
)
UNKNOWN = "0" * 20
VALUES = {
    "id": "tidewatch-example",
    "file": "style.css",
    "identifier": "urn:air:ratecard.localhost:service:tidewatch-example",
}
TARGETS = {
    "/v1/search/services": "q=weather",
    "/v1/search/endpoints": "q=weather",
    "/v1/services/search": "q=weather",
    "/discovery/search": "query=weather",
    "/v1/endpoints/alternatives": "url=https://inkreader.example/v1/ocr",
    "/discovery/merchant": "payTo=0x0",
    "/v1/listings": "host=tidewatch.example",
}
"""Parameters that a path needs."""

_envelope = msgspec.json.Decoder(SnapshotEnvelope)


def error(response: httpx.Response) -> tuple[int, str, str]:
    """Return the status, the code and the message of an error."""
    body = response.json()["error"]
    return response.status_code, body["code"], body["message"]


def test_the_served_snapshot_is_described_as_readiness_does(client: httpx.Client) -> None:
    response = client.get(PATH)
    described, ready = response.json()["snapshot"], client.get("/readyz").json()
    assert list(described) == ["id", "built_at", "checked_at", "counts", "files"]
    assert described["id"] == ready["snapshot"] == response.headers["ratecard-snapshot"]
    assert [described[each] for each in ("built_at", "checked_at", "counts")] == [
        ready[each] for each in ("built_at", "checked_at", "counts")
    ]
    _envelope.decode(response.content)
    snapshot_id = described["id"]
    assert [each["path"] for each in described["files"]] == [
        f"{snapshot_id}.{kind}" for kind in ("tar.zst", "jsonl.zst", "index.jsonl.zst")
    ]
    for file in described["files"]:
        sent = client.get(httpx.URL(PATH).join(file["path"]))
        assert (file["bytes"], f'"{file["sha256"]}"') == (len(sent.content), sent.headers["etag"])


def test_a_description_is_tagged_until_a_build_finds_the_snapshot_up_to_date_again(
    artifacts: Path, build: Build
) -> None:
    assert build([service("a")]) == 0
    with open_app(artifacts) as client:
        first = client.get(PATH)
        assert first.headers["cache-control"] == "public, max-age=5"
        known = {"If-None-Match": first.headers["etag"]}
        assert client.get(PATH, headers=known).status_code == 304
        assert build([service("a")]) == 0
        eventually(lambda: client.get(PATH, headers=known).status_code == 200)
        before, after = (each.json()["snapshot"] for each in (first, client.get(PATH)))
        assert before.pop("checked_at") < after.pop("checked_at")
        assert before == after


def test_a_build_or_setting_without_downloads_names_no_files(artifacts: Path, build: Build) -> None:
    assert build([service("a")]) == 0
    with open_app(artifacts, downloads=False) as client:
        assert client.get(PATH).json()["snapshot"]["files"] == []
    assert build([service("b")], options=("--no-downloads",)) == 0
    with open_app(artifacts) as client:
        assert client.get(PATH).json()["snapshot"]["files"] == []


def test_a_served_snapshot_that_was_removed_is_still_described(
    artifacts: Path, build: Build
) -> None:
    assert build([service("a")]) == 0
    app = create_app(Settings(artifacts=str(artifacts)))
    with in_process(app) as client:
        client.get("/healthz")
        artifacts.rename(artifacts.with_name("moved"))
        app.state.context.snapshots.poll()
        described = client.get(PATH).json()["snapshot"]
        assert described["id"] == app.state.context.snapshots.opened.id
        assert described["files"] == []


def test_without_a_snapshot_it_is_unavailable(tmp_path: Path) -> None:
    with open_app(tmp_path) as client:
        assert error(client.get(PATH))[:2] == (503, "snapshot_missing")
        assert error(client.get("/v1/services?snapshot=x"))[:2] == (503, "snapshot_missing")


@pytest.mark.parametrize("path", REMOVED)
@pytest.mark.parametrize("prefix", ["", "/shop"])
def test_a_path_of_an_earlier_release_is_410_with_the_new_address(
    path: str, prefix: str, sample: Path
) -> None:
    app: Starlette = create_app(Settings(artifacts=str(sample)))
    if prefix:
        app = Starlette(routes=[Mount(prefix, app)])
    with in_process(app) as client:
        response = client.get(prefix + path.format(id=current(sample)))
        status, code, message = error(response)
        assert (status, code) == (410, "path_removed")
        assert response.headers["cache-control"] == "no-store"
        (address,) = re.findall(r"(/\S+/v1/\S+|/v1/\S+)", message)
        assert address == f"{prefix}{PATH}"
        assert client.get(address).status_code == 200


def targets() -> list[str]:
    """Return a target of each path that answers GET requests."""
    routes = [*ROUTES, Route(PATH, ROUTES[0].endpoint), *PAGES]
    gets = (route for route in routes if "GET" in (route.methods or ()))
    paths = [route.path for route in gets if route.path != "/metrics"]
    filled = [re.sub(r"\{(\w+).*?\}", lambda match: VALUES[match[1]], path) for path in paths]
    return [f"{path}?{TARGETS.get(re.sub('.*/v2/x402', '', path), '')}" for path in filled]


@pytest.mark.parametrize("target", targets())
def test_a_request_that_names_another_snapshot_than_the_served_one_is_410_on_every_path(
    target: str, client: httpx.Client, sample: Path
) -> None:
    served = current(sample)
    plain = client.get(target)
    assert plain.status_code in {200, 404}, plain.text
    for name in (UNKNOWN, "", "current", served.upper(), f"{served}&snapshot={UNKNOWN}"):
        for method in ("GET", "HEAD"):
            refused = client.request(method, f"{target}&snapshot={name}")
            assert refused.status_code == 410
            assert refused.headers["cache-control"] == "no-store"
            assert refused.headers["ratecard-snapshot"] == served
        text = client.get(f"{target}&snapshot={name}", headers={"Accept": "*/*"}).text
        assert f"answers come from the served snapshot alone, {served}; leave" in text
    pinned = client.get(f"{target}&snapshot={served}")
    assert (pinned.status_code, pinned.headers["content-type"]) == (
        plain.status_code,
        plain.headers["content-type"],
    )
    if plain.headers["content-type"] == "application/json":
        assert pinned.content == plain.content
