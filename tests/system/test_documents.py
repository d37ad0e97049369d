"""What a user can set, call or meet is in the README."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from indexer.cli.main import COMMANDS
from indexer.payments.columns import COLUMNS
from service import errors
from service.__main__ import option
from service.api.openapi import document
from service.app import ROUTES
from service.cli import Parser
from service.settings import ServerSettings, describe, variable
from service.web.pages import PAGES
from tests.support.running import ROOT

README = (ROOT / "README.md").read_text()
OPENAPI: dict[str, Any] = json.loads(document(""))
PARAMETERS = {
    parameter["name"]
    for operations in OPENAPI["paths"].values()
    for parameter in operations["get"]["parameters"]
    if parameter["in"] == "query"
}


def codes(error: type[errors.RatecardError]) -> set[str]:
    return {error.code}.union(*(codes(special) for special in error.__subclasses__()))


@pytest.mark.parametrize(
    "term",
    [
        *(variable(name) for name in ServerSettings.__struct_fields__),
        *(option(name) for name in ServerSettings.__struct_fields__),
        *(route.path for route in ROUTES),
        *(route.path for route in PAGES if "{file" not in route.path),
        *sorted(PARAMETERS),
        *sorted(codes(errors.RatecardError)),
        *sorted(name for names in COLUMNS.values() for name in names),
    ],
)
def test_every_setting_path_parameter_error_and_column_is_in_the_readme(term: str) -> None:
    assert f"`{term}`" in README


@pytest.mark.parametrize("name", ServerSettings.__struct_fields__)
def test_help_and_readme_say_the_same_of_every_setting(name: str) -> None:
    row = rf"\| `{variable(name)}` \| `{option(name)}` \| (.+) \| {re.escape(describe(name))} \|"
    found = re.search(row, README)
    assert found, describe(name)
    default = found[1].strip("`").replace("none", "")
    assert ServerSettings.from_environment({variable(name): default}) == ServerSettings()


def test_every_path_is_in_the_openapi_document() -> None:
    undescribed = {route.path for route in ROUTES} - OPENAPI["paths"].keys()
    assert undescribed == {"/openapi.json", "/llms.txt", "/metrics"}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_indexer_is_in_the_readme_with_its_options(name: str) -> None:
    parser = Parser()
    COMMANDS[name].add_options(parser)
    options = set(re.findall(r"--[a-z-]+", parser.format_usage()))
    shown = re.findall(rf"^\$ python -m indexer {name} (?:.|\n(?!\$|```))+", README, re.MULTILINE)
    assert options in [set(re.findall(r"--[a-z-]+", synopsis)) for synopsis in shown]
    assert [option for option in options if f"`{option}" not in README] == []


def test_every_dependency_is_justified_in_the_readme() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    names = re.findall(r'^    "([a-z0-9-]+)[>=]', project, re.MULTILINE)
    assert len(names) >= 8
    table = README[README.index("## Dependencies") :]
    assert all(name in table for name in names)


def test_every_file_that_the_readme_links_is_here() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert links
    assert all((ROOT / link).exists() for link in links)
