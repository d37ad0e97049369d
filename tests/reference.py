"""Write docs/reference.md from the code: `python -m tests.reference`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields

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
from service.conditions import SAME
from service.errors import STATUSES
from service.http.metrics import Metrics
from service.settings import FIELDS, as_text, describe, option, variable
from service.web.pages import PAGES
from tests.support.running import ROOT

PATH = ROOT / "docs" / "reference.md"
INTRODUCTION = """\
# Reference

`python -m tests.reference` writes this page from the code. `/openapi.json` has the schemas of all
answers, `ratecard COMMAND --help` the options of every command.

- [Paths](#paths)
- [Parameters](#parameters)
- [Errors](#errors)
- [Settings](#settings)
- [Catalogue file](#catalogue-file)
- [Options of a build](#options-of-a-build)
- [Options of a probe](#options-of-a-probe)
- [Columns of payments](#columns-of-payments)
- [Metrics](#metrics)
"""
TOGETHER = "‡"
PARAMETERS = f"""\
{TOGETHER} marks conditions that must hold together on one entry of `accepts`, `[]` a parameter that
may repeat. Paths are without `/v1/` and `ecosystem/`.
"""
SETTINGS = """\
Each setting is a variable and an option of `ratecard serve`; the option wins. `--no-page` sets
`--page` to `false`. Other options are those of [uvicorn](https://www.uvicorn.org/settings/), as
`--host`, `--port`, `--workers` and `--root-path`: `--port` is `UVICORN_PORT`.
"""
QUANTITIES = """\
A duration is `90s`, `15m`, `1h`, `7d` or a number of seconds; a size is `512M`, `2G` (powers of
1024) or a number of bytes; a share is `10%`.
"""


def render() -> str:
    """Return the page."""
    openapi: dict[str, Any] = json.loads(document(""))
    parts = [
        INTRODUCTION,
        "## Paths\n",
        table(("path", ""), paths(openapi["paths"])),
        "## Parameters\n",
        PARAMETERS,
        table(("parameter", "of", "default", ""), parameters(openapi["paths"])),
        "## Errors\n",
        table(("status", "codes"), errors()),
        "## Settings\n",
        SETTINGS,
        table(("variable", "option", "default", ""), settings()),
        "## Catalogue file\n",
        QUANTITIES,
        table(("key of a source", "default", ""), keys(SourceOptions)),
        table(("key of `[policy]`", "default", ""), keys(Policy)),
        "## Options of a build\n",
        "Without a catalogue file, keys of the tables above that name an option are options.\n",
        table(
            ("option", "default", ""),
            options(Limits, BuildOptions, RankingOptions, ClusterOptions),
        ),
        "## Options of a probe\n",
        table(("option", "default", ""), options(ProbeOptions)),
        "## Columns of payments\n",
        "The first name of each row is ours, which `columns` of a source maps.\n",
        table(("column", "names in files"), columns()),
        "## Metrics\n",
        table(("metric", ""), metrics()),
    ]
    return "\n".join(parts)


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table of Markdown."""
    lines = "".join(f"| {' | '.join(cells)} |\n".replace("  ", " ") for cells in (head, *rows))
    return lines.replace("\n", f"\n|{'---|' * len(head)}\n", 1)


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def paths(described_paths: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for path, operations in described_paths.items():
        (method,) = operations
        verb = "" if method == "get" else f", by {method.upper()}"
        yield code(path), operations[method]["summary"] + verb
    known = {*described_paths}
    others = [route.path for route in (*ROUTES, *SNAPSHOTS) if route.path not in known]
    yield ", ".join(map(code, dict.fromkeys(others))), "The same, files to copy, and the others"
    pages = [route.path for route in PAGES if "{file" not in route.path]
    yield ", ".join(map(code, pages)), "Pages for people"


def parameters(described_paths: dict[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Yield each parameter with the operations that have it with this meaning."""
    names: dict[tuple[str, str, str], list[str]] = {}
    for path, operations in described_paths.items():
        for operation in operations.values():
            for each in operation.get("parameters", []):
                if each["in"] != "query" or path == "/v1/services/search":
                    continue
                schema = each["schema"]
                name = each["name"] + "[]" * (schema.get("type") == "array")
                default = as_text(schema["default"]) if "default" in schema else ""
                default = "required" if each["required"] else default
                values = schema.get("items", schema).get("enum", [])
                text = each["description"].removesuffix(SAME)
                if len(text) < len(each["description"]):
                    text = f"{TOGETHER} {text}"
                if values:
                    text += f" One of {', '.join(code(value or '(empty)') for value in values)}."
                short = path.removeprefix("/v1/").replace("ecosystem/", "").lstrip("/")
                names.setdefault((name, default, text), []).append(short)
    for (name, default, text), of in sorted(names.items(), key=lambda item: item[0][0].lower()):
        yield code(name), ", ".join(of), code(default), text


def errors() -> Iterator[tuple[str, str]]:
    for status in sorted(set(STATUSES.values())):
        yield (
            str(status),
            ", ".join(code(name) for name, each in STATUSES.items() if each == status),
        )


def settings() -> Iterator[tuple[str, ...]]:
    for field in FIELDS:
        default = "" if field.default == "" else code(as_text(field.default))
        yield code(variable(field.name)), code(option(field.name)), default, describe(field)


def keys(kind: type[Struct]) -> Iterator[tuple[str, str, str]]:
    for each in described(kind):
        flag = f" ({code(each.flag)})" if each.flag else ""
        yield code(each.name) + flag, code(default_of(kind, each)), each.text


def options(*kinds: type[Struct]) -> Iterator[tuple[str, str, str]]:
    for kind in kinds:
        for each in described(kind):
            if each.flag:
                yield code(each.flag), code(default_of(kind, each)), each.text


def default_of(kind: type[Struct], each: OptionText) -> str:
    (default,) = (field.default for field in fields(kind) if field.name == each.name)
    return "" if default is NODEFAULT else written(each.name, default)


def columns() -> Iterator[tuple[str, str]]:
    for name, names in COLUMNS.items():
        yield code(name), ", ".join(map(code, names))


def metrics() -> Iterator[tuple[str, str]]:
    for metric in Metrics().collect():
        total = "_total" if metric.type == "counter" else ""
        yield code(metric.name + total), metric.documentation


if __name__ == "__main__":
    PATH.write_text(render())
