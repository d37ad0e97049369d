"""docs/mcp.md and docs/server.json name what the server has."""

from __future__ import annotations

import json
import re
import tomllib

import pytest

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

from service.mcp.cards import Cards
from service.mcp.mount import MAX_BODY, PATH
from service.mcp.pacing import MAX_RUNNING, MAX_WAITING
from service.mcp.resources import PROMPT, RESOURCES, TEMPLATES
from service.mcp.tools.definitions import DEFINITIONS
from tests.support.running import ROOT

PAGE = (ROOT / "docs/mcp.md").read_text()
API = (ROOT / "docs/api.md").read_text()


@pytest.mark.parametrize("tool", DEFINITIONS, ids=lambda tool: str(tool.name))
def test_the_document_has_every_tool_with_its_arguments(tool: object) -> None:
    definition = next(each for each in DEFINITIONS if each is tool)
    (row,) = re.findall(rf"^\| `{definition.name}` \|(.+)", PAGE, re.MULTILINE)
    for name in definition.input_schema["properties"]:
        assert f"`{name}`" in row


def test_the_documents_have_every_path_resource_prompt_and_limit() -> None:
    for path in (PATH, *(route.path for route in Cards(["localhost"]).routes)):
        assert f"`{path}`" in API
        assert f"`{path}`" in PAGE
    for uri in (*(each.uri for each in RESOURCES), *(each.uri_template for each in TEMPLATES)):
        assert f"`{uri}`" in PAGE
    assert f"`{PROMPT.name}`" in PAGE
    assert f"{MAX_BODY // 1024} KiB" in PAGE
    assert f"up to {MAX_RUNNING} calls run" in PAGE
    assert f"{MAX_WAITING} calls wait" in PAGE


def test_the_snippets_are_json_and_lead_to_the_server() -> None:
    snippets = re.findall(r"^```json\n(.+?)```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(snippets) >= 4
    for snippet in snippets:
        ((_, servers),) = json.loads(snippet).items()
        server = servers["ratecard"]
        address = server.get("url") or server.get("serverUrl")
        assert address == f"https://catalogue.example{PATH}" or server["command"] == "ratecard"


def test_the_entry_for_the_registry_is_valid_and_of_this_version() -> None:
    entry = json.loads((ROOT / "docs/server.json").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert entry["$schema"].endswith("/2025-12-11/server.schema.json")
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", entry["name"])
    assert entry["version"] == project["version"]
    assert 1 <= len(entry["description"]) <= 100
    (remote,) = entry["remotes"]
    assert remote["type"] == "streamable-http"
    assert remote["url"].endswith(PATH)
