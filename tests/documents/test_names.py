"""A name of a type has one meaning, and a constant one definition, in both packages."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import indexer
import service

REASONS = {
    "BATCH": "rows or texts that a module handles at a time, measured for each",
    "BUFFER": "bytes of the buffer of a file, measured for each",
    "MAX_BODY": "bytes of an example of a seller, and of the body of a request",
    "MAX_DESCRIPTION": "characters of a parameter, of a listing, and of a text for a model",
    "MAX_NAME": "characters of a service, of a protocol, of a parameter, and of an asset",
    "MAX_TEXT": "characters of a text in a terminal, and of one in a document",
}
"""Why several modules define a type of this name, or a constant of this name and value."""


def test_several_modules_define_a_name_only_for_a_reason() -> None:
    repeated = repeated_names()

    assert {name: paths for name, paths in repeated.items() if name not in REASONS} == {}
    assert REASONS.keys() - repeated.keys() == set()


def repeated_names() -> dict[str, list[str]]:
    """Return the modules of each public name that several define; constants also by their value."""
    modules = defaultdict(set)
    for package in (service, indexer):
        folder = Path(package.__path__[0])
        for path in folder.rglob("*.py"):
            for definition in public_definitions(ast.parse(path.read_text())):
                modules[definition].add(str(path.relative_to(folder.parent)))
    return {name: sorted(paths) for (name, _), paths in modules.items() if len(paths) > 1}


def public_definitions(module: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the name of each type, and the name and the value of each constant of a module."""
    for node in module.body:
        match node:
            case ast.ClassDef(name=name) if name[0] != "_":
                yield name, ""
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ) if name[0].isupper() and not is_type_variable(name):
                yield name, ast.dump(value) if name.isupper() else ""


def is_type_variable(name: str) -> bool:
    return len(name) == 1
