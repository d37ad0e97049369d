"""Options of the command line that fields declare, and the values that were given for them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import NODEFAULT, Struct

from indexer.declarations import Declaration, declarations


def add_declared(
    parser: argparse.ArgumentParser, options: type[Struct], keys: Iterable[str] | None = None
) -> None:
    """Add the flags of these fields, all by default; each is None where it is not given."""
    known = declarations(options)
    for declaration in map(known.__getitem__, known if keys is None else keys):
        if declaration.flag:
            _add(parser, declaration)


def given(options: argparse.Namespace, declared: type[Struct]) -> dict[str, Any]:
    """Return the values of the flags that were given, by field."""
    values = {}
    for key, declaration in declarations(declared).items():
        value = getattr(options, _destination(declaration), None) if declaration.flag else None
        if value is not None:
            values[key] = declaration.kind(value) if declaration.items else value
    return values


def _add(parser: argparse.ArgumentParser, declaration: Declaration) -> None:
    settings: dict[str, Any]
    if declaration.kind is bool:
        settings = {"action": "store_const", "const": not declaration.default}
    else:
        settings = {"type": _reader(declaration), "metavar": declaration.metavar}
        if declaration.items:
            settings["action"] = "append"
    default = declaration.written_default
    text = f"{declaration.description} ({default})" if default else declaration.description
    settings |= {"dest": _destination(declaration), "help": text.replace("%", "%%")}
    settings["required"] = declaration.default is NODEFAULT
    parser.add_argument(declaration.flag, **settings)


def _destination(declaration: Declaration) -> str:
    return declaration.flag.removeprefix("--").replace("-", "_")


def _reader(declaration: Declaration) -> Callable[[str], Any]:
    """Return the parser of a value, or of each value of an option that may be repeated."""

    def read(text: str) -> Any:
        try:
            if declaration.kind is dict:
                return _read_pair(text)
            if declaration.items:
                (item, *_) = declaration.items
                return item.parse(text) if hasattr(item, "parse") else text
            return declaration.convert(text, strict=False)
        except ValueError as error:
            quoted = "" if declaration.kind is dict else f", got {text!r}"
            raise argparse.ArgumentTypeError(f"{error}{quoted}") from error

    return read


def _read_pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ValueError("expected NAME=VALUE")  # without the text, which may hold a secret
    return name, value
