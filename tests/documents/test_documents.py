"""The documents name what exists, and every name that a user meets is in the right document."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from importlib.metadata import version
from pathlib import Path
from shutil import which
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import fields

import service
from indexer.catalogue.records import read_record
from indexer.catalogue_file import read_catalogue_file
from indexer.cli.main import COMMANDS
from indexer.cli.options import OptionText, described, written
from indexer.options import (
    BuildOptions,
    ClusterOptions,
    Limits,
    Policy,
    RankingOptions,
    SourceOptions,
)
from indexer.payments.columns import COLUMNS
from indexer.probing.options import ProbeOptions
from service.api.documents.openapi import document
from service.api.snapshots import SNAPSHOTS
from service.app import ROUTES
from service.cli import Parser
from service.errors import STATUSES, RatecardError
from service.http.metrics import SHARED_FOLDER
from service.settings import Settings, as_text, describe, option, variable
from service.web.pages import PAGES
from tests.support.running import ROOT

DOCUMENTS = {
    path.relative_to(ROOT).as_posix(): path.read_text()
    for path in (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md")))
}
README = DOCUMENTS["README.md"]
API = DOCUMENTS["docs/api.md"]
INDEXING = DOCUMENTS["docs/indexing.md"]
SEARCH = DOCUMENTS["docs/search.md"]
ARCHITECTURE = DOCUMENTS["docs/architecture.md"]
OPERATIONS = DOCUMENTS["docs/operations.md"]
PROMISES = DOCUMENTS["docs/promises.md"]
SETTINGS = DOCUMENTS["docs/settings.md"]
CURRENT = {name: text for name, text in DOCUMENTS.items() if name != "CHANGELOG.md"}
"""The documents that describe this version only."""

KEYS = [(kind, each) for kind in (SourceOptions, Policy) for each in described(kind)]
"""Keys of a catalogue file."""
OPTIONS = [
    (kind, each)
    for kind in (Limits, BuildOptions, RankingOptions, ClusterOptions, ProbeOptions)
    for each in described(kind)
    if each.flag
]
"""Options of the command line that set a field."""
MAX_README = 150  # lines
OPENAPI: dict[str, Any] = json.loads(document(""))
PARAMETERS = {
    parameter["name"]
    for operations in OPENAPI["paths"].values()
    for parameter in operations["get"]["parameters"]
    if parameter["in"] == "query"
}
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


def options_of(command: str) -> set[str]:
    parser = Parser()
    COMMANDS[command].add_options(parser)
    return set(re.findall(r"--[a-z-]+", parser.format_usage()))


def test_the_settings_document_has_the_table_of_the_declared_settings() -> None:
    rows = "".join(
        f"| `{variable(field.name)}` | `{option(field.name)}` | "
        f"{'none' if field.default == '' else f'`{as_text(field.default)}`'} "
        f"| {describe(field)} |\n"
        for field in fields(Settings)
    )
    table = f"| variable | option | default | |\n|---|---|---|---|\n{rows}\n"
    assert table in SETTINGS, f"docs/settings.md needs this table:\n{table}"


@pytest.mark.parametrize(
    "term",
    [
        *(route.path for route in (*ROUTES, *SNAPSHOTS)),
        *(route.path for route in PAGES if "{file" not in route.path),
        *sorted(PARAMETERS),
    ],
)
def test_the_api_document_has_every_path_and_parameter(term: str) -> None:
    assert f"`{term}`" in API


def test_the_api_document_has_every_code_with_its_status() -> None:
    rows = re.findall(r"^\| (\d{3}) \| ((?:`\w+`(?:, )?)+) \|", API, re.MULTILINE)
    documented = [(code, int(status)) for status, codes in rows for code in quoted(codes)]
    assert sorted(documented) == sorted(STATUSES.items())
    assert codes(RatecardError) <= STATUSES.keys()


def test_the_openapi_document_has_every_path() -> None:
    undescribed = {
        route.path.removeprefix("/platform").removeprefix("/v2/x402") for route in ROUTES
    }
    undescribed -= OPENAPI["paths"].keys()
    assert undescribed == {"/openapi.json", "/llms.txt", "/metrics"}


@pytest.mark.parametrize("column", sorted(name for names in COLUMNS.values() for name in names))
def test_the_indexing_document_has_every_column_of_payments(column: str) -> None:
    assert f"`{column}`" in INDEXING


@pytest.mark.parametrize("name", COMMANDS)
def test_the_indexing_document_has_every_command_with_its_options(name: str) -> None:
    (*_, synopsis) = re.findall(rf"^\$ ratecard {name} (?:.|\n(?!\$|```))+", INDEXING, re.MULTILINE)
    assert set(re.findall(r"--[a-z-]+", synopsis)) == options_of(name)
    explained = {word for text in quoted(INDEXING + SEARCH) for word in text.split()}
    assert options_of(name) <= explained


def row(kind: type[Struct], each: OptionText, name: str) -> str:
    """Return the row of a table that describes a field by its default and its docstring."""
    (default,) = (field.default for field in fields(kind) if field.name == each.name)
    text = written(each.name, default)
    cells = [f"`{name}`", f"`{text}`" if text else "", each.text]
    return re.sub(" +", " ", f"| {' | '.join(cells)} |")


@pytest.mark.parametrize(("kind", "key"), KEYS)
def test_the_indexing_document_describes_each_key_as_its_type_does(
    kind: type[Struct], key: OptionText
) -> None:
    assert row(kind, key, key.name) in without_links(INDEXING)
    assert not key.flag or f"`{key.flag}`" in INDEXING


@pytest.mark.parametrize(("kind", "option"), OPTIONS)
def test_the_indexing_document_describes_each_option_as_its_type_does(
    kind: type[Struct], option: OptionText
) -> None:
    assert row(kind, option, option.flag) in without_links(INDEXING)


def test_the_catalogue_files_of_the_indexing_document_are_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAYAI_KEY", "Bearer 1")
    path = tmp_path / "catalogue.toml"
    names = []
    for text in re.findall(r"^```toml\n(.*?)^```$", INDEXING, re.MULTILINE | re.DOTALL):
        path.write_text(text)
        names.append([source.name for source in read_catalogue_file(str(path)).sources])
    assert sorted(names) == [
        ["directory"],
        ["manifest"],
        ["own", "payai", "payments"],
        ["vet402"],
        ["weather", "partners"],
    ]


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


def test_the_operations_document_has_the_folder_of_shared_metrics() -> None:
    assert f"`{SHARED_FOLDER}`" in OPERATIONS


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
        body = ast.parse(path.read_text()).body if qualified else []
        for part in filter(None, qualified.split(".")):
            definitions = [node for node in body if getattr(node, "name", "") == part]
            assert definitions, text
            body = getattr(definitions[0], "body", [])


@pytest.mark.parametrize("name", ["README.md", "docs/indexing.md"])
def test_the_smallest_record_is_a_record(name: str) -> None:
    pattern = r'^```json\n\[?(\{"id".+?)\]?\n```'
    (record,) = re.findall(pattern, DOCUMENTS[name], re.MULTILINE | re.DOTALL)
    assert read_record(record.encode()).id == "tidewatch-example"


@pytest.mark.skipif(not (which("jq") and which("curl")), reason="needs curl and jq")
def test_the_snippets_of_the_readme_run(
    sample: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "artifacts").symlink_to(sample)
    monkeypatch.chdir(tmp_path)
    snippets = re.findall(r"^```python\n(.+?)```", README, re.MULTILINE | re.DOTALL)
    assert len(snippets) == 2
    for snippet in snippets:
        exec(snippet, {})  # noqa: S102  # the README's own
    assert re.match(r"\d+ \['", capsys.readouterr().out)


def test_the_snippets_for_python_run(
    sample: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "artifacts").symlink_to(sample)
    monkeypatch.chdir(tmp_path)
    section = API.partition("\n## From Python\n")[2].partition("\n## ")[0]
    snippets = re.findall(r"^```python\n(.+?)```", section, re.MULTILINE | re.DOTALL)
    assert len(snippets) == 3
    for snippet in snippets:
        exec(snippet, {})  # noqa: S102  # the document's own
        assert "-example" in capsys.readouterr().out


def _functions(path: Path) -> set[str]:
    """Return the names of the test functions of a file."""
    tree = ast.parse(path.read_text()) if path.exists() else ast.Module([], [])
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
