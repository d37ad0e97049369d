"""The page of a service, without a browser."""

from __future__ import annotations

from pathlib import Path

from service.app import create_app
from service.settings import Settings
from tests.support.running import Json, build_records, endpoint, in_process, service


def page_of(folder: Path, *endpoints: Json) -> str:
    artifacts = build_records(folder, [service("a", endpoints=[*endpoints])])
    with in_process(create_app(Settings(artifacts=str(artifacts)))) as client:
        return client.get("/services/a").raise_for_status().text


def test_a_call_without_a_command_has_programs(tmp_path: Path) -> None:
    text = {"group": "body", "name": "text", "type": "string", "example": "one\ntwo"}
    call = endpoint() | {"method": "POST", "bodyType": "text/plain", "wholeBody": True}
    page = page_of(tmp_path, call | {"parameters": [text]})
    assert "curl -i" not in page
    assert 'id="Python-0" checked' in page
    assert "content=&#39;one\\ntwo&#39;" in page
