"""Annotations: what is searched of endpoints, and is not in the records of their services."""

from __future__ import annotations

from pathlib import Path

from service.snapshot.snapshot import open_snapshot
from tests.support.running import Build, Json
from tests.support.sources.x402 import resource

HOST = "https://api.weather-data.example"


def listed(path: str, field: str = "zebrafish") -> Json:
    """Return a resource whose output has a field."""
    output = {"type": "json", "example": {field: 1}}
    return resource(f"{HOST}/{path}", extensions={"bazaar": {"info": {"output": output}}})


def found(artifacts: Path, query: str) -> list[str]:
    return open_snapshot(artifacts).search(query).ids


def test_output_fields_of_resources_are_searched_and_not_served(
    build: Build, artifacts: Path
) -> None:
    assert build([listed("a"), listed("b")]) == 0
    (service_id,) = found(artifacts, "zebrafish")
    assert b"zebrafish" not in (open_snapshot(artifacts).find(service_id) or b"")


def test_output_fields_of_resources_beyond_the_record_are_searched(
    build: Build, artifacts: Path
) -> None:
    assert build([listed("a", "other"), listed("b")], policy={"endpoints_per_service": 1}) == 0
    assert open_snapshot(artifacts).resources.beyond(0) == 1
    assert len(found(artifacts, "zebrafish")) == 1


def test_an_overlay_leaves_the_output_fields(build: Build, artifacts: Path) -> None:
    overlay = artifacts.parent / "overlay.json"
    overlay.write_text('{"domain:api.weather-data.example":{"enriched":true}}')
    assert build([listed("a"), listed("b")], options=("--overlay", str(overlay))) == 0
    assert len(found(artifacts, "zebrafish")) == 1
