"""Documents of other formats: recognised by their members, read or named in the error."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from indexer.containers.container import Container, NoList, open_container
from indexer.options import Kind
from tests.support.running import Json, service
from tests.support.sources.manifests import HOST, MANIFESTS, described, items, objects, urls
from tests.support.sources.mpp import EMPTY, MAPS, TALK, directory
from tests.support.sources.openapi import DOCUMENTS, X402SCAN
from tests.support.sources.x402 import resource, v2


def open_text(text: str, kind: Kind | None = None) -> Container:
    return open_container(io.BufferedReader(io.BytesIO(text.encode())), 2**24, kind)


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("name", DOCUMENTS)
def test_an_openapi_document_is_one_item(name: str, indent: int | None) -> None:
    text = json.dumps(DOCUMENTS[name], indent=indent)
    container = open_text(f"\n{text}\n")
    assert container.kind is Kind.OPENAPI
    ((position, item),) = container.items
    assert position == ""
    assert json.loads(item) == DOCUMENTS[name]


@pytest.mark.parametrize(
    ("members", "name"),
    [
        ({"swagger": "2.0", "paths": {}}, "a Swagger 2.0 document, which is not read; convert it"),
        ({"asyncapi": "3.0.0", "channels": {}}, "an AsyncAPI document, which is not read"),
        ({"openrpc": "1.2.6", "methods": []}, "an OpenRPC document, which is not read"),
        ({"linkset": []}, "a linkset, which is not read; name the documents that it links to"),
        ({"openapi": "3.1.0", "webhooks": {}}, "an OpenAPI document without `paths`"),
    ],
)
def test_a_document_that_is_not_read_is_named(members: Json, name: str) -> None:
    with pytest.raises(NoList, match=f"^is {name}"):
        open_text(json.dumps(members, indent=1))


def test_records_and_lists_with_members_of_documents_stay_what_they_are() -> None:
    record = json.dumps(service() | {"openapi": "3.1.0", "paths": {}})
    assert open_text(record).kind is None
    assert open_text(json.dumps([X402SCAN])).kind is None


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_is_one_item(name: str, indent: int | None) -> None:
    container = open_text(json.dumps(MANIFESTS[name], indent=indent))
    assert container.kind is Kind.MANIFEST
    ((position, item),) = container.items
    assert (position, json.loads(item)) == ("", MANIFESTS[name])


@pytest.mark.parametrize(
    "envelope",
    [
        {"x402Version": 2, "items": [resource()], "pagination": {"limit": 1, "total": 1}},
        {"x402Version": 2, "items": [resource()], "lastUpdated": 1781555511},
        items(described(), pagination={"limit": 20, "offset": 0, "total": 1}),
        items(described(), total=1),
        {"x402Version": 2, "items": [described()]},
        {"x402Version": 1, "resources": [v2({})]},
        {"x402Version": 1, "resources": [v2({}) | {"url": HOST}]},
        {"resources": [service() | {"url": HOST}]},
        urls(),
        items(),
        urls(7, HOST),
        items([described()]),
    ],
)
def test_an_envelope_of_a_feed_stays_a_list(envelope: Json) -> None:
    for indent in (None, 1):
        container = open_text(json.dumps(envelope, indent=indent))
        assert container.kind is None
        assert container.key in {"resources", "items"}


@pytest.mark.parametrize(
    "envelope", [urls(), items(), items(described(), total=1), objects(resource()), urls(7)]
)
def test_an_envelope_that_is_declared_a_manifest_is_one(envelope: Json) -> None:
    assert open_text(json.dumps(envelope), Kind.MANIFEST).kind is Kind.MANIFEST


@pytest.mark.parametrize("services", [[MAPS], [TALK], [EMPTY], [5, {"name": "x"}, TALK]])
def test_a_directory_is_told_by_its_items(services: list[Any]) -> None:
    container = open_text(json.dumps(directory(*services)))
    assert container.kind is Kind.MPP
    ((_, item),) = container.items
    assert json.loads(item) == directory(*services)


@pytest.mark.parametrize(
    "item",
    [
        service(),
        service(serviceUrl="https://one.example", path="/a"),
        service(endpoints=[{"url": "https://one.example/a", "path": "/a", "payment": {}}]),
        {"id": "x", "name": "x"},
        {"endpoints": 5},
        {"endpoints": [5, [], {"method": "GET"}]},
    ],
)
def test_an_envelope_of_records_is_a_list(item: Json) -> None:
    container = open_text(json.dumps({"version": 1, "services": [item]}))
    assert (container.kind, container.key) == (None, "services")


def test_the_first_item_that_tells_decides() -> None:
    assert open_text(json.dumps(directory(service(), MAPS))).kind is None
    assert open_text(json.dumps(directory({"name": "x"}, MAPS, service()))).kind is Kind.MPP


@pytest.mark.parametrize("services", [[], [{"id": "x", "name": "x"}], [service()]])
def test_a_declared_directory_needs_no_telling_items(services: list[Any]) -> None:
    assert open_text(json.dumps(directory(*services)), Kind.MPP).kind is Kind.MPP
