"""The documents name what exists, and every name that a user meets is in the right document."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import service
from indexer.catalogue.records import read_record
from indexer.catalogue_file import read_catalogue_file
from indexer.cli.main import COMMANDS
from service.api.documents.openapi import document
from service.app import ROUTES
from service.errors import STATUSES, RatecardError
from service.settings import SHARED_FOLDER, Settings, variable
from tests.reference import render
from tests.support.running import ROOT

DOCUMENTS = {
    path.relative_to(ROOT).as_posix(): path.read_text()
    for path in (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md")))
}
README = DOCUMENTS["README.md"]
ARCHITECTURE = DOCUMENTS["docs/architecture.md"]
RUN = DOCUMENTS["docs/run.md"]
PROMISES = DOCUMENTS["docs/promises.md"]
CURRENT = {name: text for name, text in DOCUMENTS.items() if name != "CHANGELOG.md"}
"""The documents that describe this version only."""

MAX_README = 150  # lines
MAX_WORDS = 24_000
MAX_MAP = 2_500  # words of the page for maintainers
OPENAPI: dict[str, Any] = json.loads(document(""))
CONFIGURATION: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT: dict[str, Any] = CONFIGURATION["project"]
TOOLS: dict[str, Any] = CONFIGURATION["tool"]
INSTALLED = Path(*service.__path__).parent
"""Where the packages are: not beside the documents where the wheel is tested."""
FOLDERS = dict.fromkeys(("tests", "tools", "docs", "seeds", ".ci"), ROOT) | dict.fromkeys(
    ("service", "indexer"), INSTALLED
)


def codes(error: type[RatecardError]) -> set[str]:
    return {error.code}.union(*(codes(special) for special in error.__subclasses__()))


def without_blocks(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def without_links(text: str) -> list[str]:
    """Return the lines, with the texts of links alone."""
    return re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", text).splitlines()


def quoted(text: str) -> list[str]:
    """Return the texts in backticks, outside of blocks of code."""
    return re.findall(r"`([^`\n]+)`", without_blocks(text))


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives to the headings of a document."""
    headings = re.findall(r"^#+ (.+)$", without_blocks(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def words(*names: str) -> int:
    return sum(len(DOCUMENTS[name].split()) for name in names)


def test_there_are_few_words_to_read() -> None:
    assert words(*CURRENT) <= MAX_WORDS
    assert words("docs/architecture.md") <= MAX_MAP


def test_the_reference_is_what_the_code_says() -> None:
    assert DOCUMENTS["docs/reference.md"] == render(), "run `python -m tests.reference`"


def test_every_code_of_an_error_has_a_status() -> None:
    assert codes(RatecardError) <= STATUSES.keys()


def test_the_openapi_document_has_every_path_that_no_standard_describes() -> None:
    undescribed = {
        route.path.removeprefix("/platform").removeprefix("/v2/x402").replace(":path", "")
        for route in ROUTES
    }
    undescribed -= OPENAPI["paths"].keys()
    ard = {"/ard/search", "/ard/agents/{identifier}", "/.well-known/ard.json"}
    assert undescribed == {"/openapi.json", "/llms.txt", "/metrics"} | ard


@pytest.mark.parametrize("name", ["docs/run.md", "docs/sources.md"])
def test_catalogue_files_are_valid(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAYAI_KEY", "Bearer 1")
    path = tmp_path / "catalogue.toml"
    files = re.findall(r"^```toml\n(.*?)^```$", DOCUMENTS[name], re.MULTILINE | re.DOTALL)
    assert files
    for text in files:
        path.write_text(text)
        assert read_catalogue_file(str(path)).sources


def test_the_readme_has_every_command() -> None:
    assert [name for name in [*COMMANDS, "serve"] if f"`ratecard {name}" not in README] == []


def test_the_architecture_document_has_every_dependency_and_no_other() -> None:
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    declared = {re.split(r"[><=;]", listed)[0] for group in groups for listed in group}
    table = ARCHITECTURE[ARCHITECTURE.index("| dependency |") :].partition("\n\n")[0]
    rows = re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)[1:]
    cells = [re.sub(r" \(extra .*\)", "", row) for row in rows if row.strip("-")]
    assert {name for cell in cells for name in cell.split(", ")} == declared


def test_one_release_of_whoosh3_is_pinned_exactly() -> None:
    pins = [each for each in PROJECT["dependencies"] if each.startswith("whoosh")]
    assert pins == [f"whoosh3=={version('whoosh3')}"]


@pytest.mark.parametrize("package", ["service", "indexer"])
def test_the_architecture_document_has_the_layers_of_the_import_contracts(package: str) -> None:
    """One row for each layer, in the same order: `a | b` of a contract is the row `a`, `b`."""
    (layers,) = (
        contract["layers"]
        for contract in TOOLS["importlinter"]["contracts"]
        if contract.get("containers") == [package]
    )
    start = ARCHITECTURE.index(f"| layer of `{package}/` |")
    (_, _, *rows) = ARCHITECTURE[start:].partition("\n\n")[0].splitlines()
    cells = [re.findall(r"`(\w+)`", row.split(" | ")[0]) for row in rows]
    assert cells == [layer.split(" | ") for layer in layers]


def test_the_page_of_operators_has_the_folder_of_shared_metrics() -> None:
    assert f"`{SHARED_FOLDER}`" in RUN


def test_each_promise_names_tests_that_exist() -> None:
    rows = re.findall(r"^\| (?!promise |-).+ \| (.+) \|$", PROMISES, re.MULTILINE)
    assert len(rows) > 25
    for row in rows:
        assert re.fullmatch(r"`tests/[\w/]+\.py::\w+`(, `tests/[\w/]+\.py::\w+`)*", row)
    named = set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PROMISES))
    assert [test for test in sorted(named) if test[1] not in _functions(ROOT / test[0])] == []


@pytest.mark.parametrize("name", CURRENT)
def test_only_settings_that_exist_are_named(name: str) -> None:
    named = set(re.findall(r"RATECARD_[A-Z_]*[A-Z]", DOCUMENTS[name]))
    assert named <= {variable(field) for field in Settings.__struct_fields__}


def test_the_readme_is_short_and_links_every_document() -> None:
    assert len(README.splitlines()) <= MAX_README
    links = re.findall(r"\]\(([^)#]+)", README)
    assert DOCUMENTS.keys() - {"README.md"} <= set(links)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_link_leads_somewhere(name: str) -> None:
    folder = (ROOT / name).parent
    for link in re.findall(r"\]\(([^)\s]+)\)", DOCUMENTS[name]):
        if re.match(r"https?://", link):
            continue
        path, _, anchor = link.partition("#")
        target = folder / path if path else ROOT / name
        assert target.exists(), link
        assert not anchor or anchor in anchors(target.read_text()), link


@pytest.mark.parametrize("name", CURRENT)
def test_every_file_and_every_name_in_a_file_exists(name: str) -> None:
    """Paths such as `service/app.py`, also with a name: `service/app.py:create_app`."""
    for text in quoted(DOCUMENTS[name]):
        folder = FOLDERS.get(text.partition("/")[0])
        if folder is None or not re.fullmatch(r"[\w.]+/[\w./:]*", text):
            continue
        name_of_file, _, qualified = text.replace("::", ":").partition(":")
        path = folder / name_of_file
        assert path.exists(), text
        body = _statements(path) if qualified else []
        for part in filter(None, qualified.split(".")):
            definitions = [node for node in body if getattr(node, "name", "") == part]
            assert definitions, text
            body = getattr(definitions[0], "body", [])


@pytest.mark.parametrize("name", ["README.md", "docs/sources.md"])
def test_the_smallest_record_is_a_record(name: str) -> None:
    pattern = r'^```json\n\[?(\{"id".+?)\]?\n```'
    (record,) = re.findall(pattern, DOCUMENTS[name], re.MULTILINE | re.DOTALL)
    assert read_record(record.encode()).id == "tidewatch-example"


def _functions(path: Path) -> set[str]:
    """Return the names of the test functions of a file."""
    statements = _statements(path) if path.exists() else []
    return {each.name for each in statements if isinstance(each, ast.FunctionDef)}


@cache
def _statements(path: Path) -> list[ast.stmt]:
    return ast.parse(path.read_text()).body
