"""The examples of `/openapi.json`, which are taken from the catalogue that is served."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from service.api.documents.openapi import document
from service.app import create_app
from service.errors import RatecardError
from service.settings import Settings
from tests.support.running import Build, Json, in_process, service


def _example(document: Json, path: str) -> str | None:
    first: Json = document["paths"][path]["get"]["parameters"][0]
    return first.get("example")


@pytest.mark.parametrize(
    ("name", "query"),
    [
        ("Tide tables", "Tide tables"),
        ("Weather of tomorrow", "weather forecast"),
        ("  <b>x</b> ", "<b>x</b>"),
        ("  ", "weather forecast"),
        ("z" * 3000, "z" * 2000),
    ],
)
def test_the_examples_find_something_in_the_catalogue_served(
    name: str, query: str, artifacts: Path, build: Build
) -> None:
    assert build([service("only", name=name)]) == 0
    app = create_app(Settings(artifacts=str(artifacts)))
    with in_process(app) as client:
        served = client.get("/openapi.json").json()
        assert _example(served, "/v1/services/{id}") == "only"
        assert client.get("/v1/services/only").status_code == 200
        assert _example(served, "/v1/search/services") == query
        found = client.get("/v1/search/services", params={"q": query})
        assert found.json()["total"] == (1 if name.strip() else 0)


def test_an_empty_catalogue_has_no_example_of_an_id(artifacts: Path, build: Build) -> None:
    empty = artifacts.with_name("empty.json")
    empty.write_text("[]")
    assert build(empty) == 0
    app = create_app(Settings(artifacts=str(artifacts)))
    with in_process(app) as client:
        served = json.loads(client.get("/openapi.json").content)
        assert _example(served, "/v1/services/{id}") is None
        assert "0 services" in client.get("/llms.txt").text


def test_the_document_has_every_code_of_503() -> None:
    unavailable = json.loads(document(""))["components"]["responses"]["SnapshotUnavailable"]
    codes = {error.code for error in errors_of(RatecardError) if error.status == 503}
    assert codes <= set(re.findall(r"[a-z_]+", unavailable["description"].partition("Codes: ")[2]))


def test_every_operation_but_health_documents_503() -> None:
    without = [
        path
        for path, operations in json.loads(document(""))["paths"].items()
        for operation in operations.values()
        if "503" not in operation["responses"]
    ]
    assert without == ["/healthz"]


def errors_of(base: type[RatecardError]) -> set[type[RatecardError]]:
    return {base}.union(*map(errors_of, base.__subclasses__()))
