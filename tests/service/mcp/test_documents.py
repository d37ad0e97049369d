"""docs/mcp.md and docs/server.json name what the server has."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

from service.api.routes import MAX_BODY
from service.mcp.server import find_and_call
from tests.support.clients.mcp import run_client
from tests.support.running import ROOT

PAGE = (ROOT / "docs/mcp.md").read_text()
API = (ROOT / "docs/api.md").read_text()


def test_the_document_has_every_tool_with_its_arguments(sample: Path) -> None:
    for tool in run_client(sample, lambda client: client.list_tools()).tools:
        (row,) = re.findall(rf"^\| `{tool.name}` \|(.+)", PAGE, re.MULTILINE)
        for name in tool.input_schema["properties"]:
            assert f"`{name}`" in row


def test_the_documents_have_the_path_the_prompt_and_the_limit() -> None:
    assert "`/mcp`" in API
    assert "`/mcp`" in PAGE
    assert f"`{find_and_call.__name__}`" in PAGE
    assert f"{MAX_BODY // 1024} KiB" in PAGE


def test_the_snippets_are_json_and_lead_to_the_server() -> None:
    snippets = re.findall(r"^```json\n(.+?)```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(snippets) >= 4
    for snippet in snippets:
        ((_, servers),) = json.loads(snippet).items()
        server = servers["ratecard"]
        address = server.get("url") or server.get("serverUrl")
        assert address == "https://catalogue.example/mcp" or server["command"] == "ratecard"


def test_the_entry_for_the_registry_is_valid_and_of_this_version() -> None:
    entry = json.loads((ROOT / "docs/server.json").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert entry["$schema"].endswith("/2025-12-11/server.schema.json")
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", entry["name"])
    assert entry["version"] == project["version"]
    assert 1 <= len(entry["description"]) <= 100
    (remote,) = entry["remotes"]
    assert remote["type"] == "streamable-http"
    assert remote["url"].endswith("/mcp")
