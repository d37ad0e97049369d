"""The command-line options of the settings."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import Any

from service.cli import Parser
from service.errors import needs_extra
from service.opensearch.connection import MODULES, NEEDS_EXTRA, address_of, shown
from service.settings import ServerSettings, Settings, describe, variable


def settings_parser(
    prog: str,
    usage: str,
    description: str,
    examples: Iterable[str],
    names: Iterable[str] = ServerSettings.__struct_fields__,
) -> Parser:
    """Return a parser with an option for each of these settings; examples may have `{prog}`."""
    parser = Parser(
        prog=prog,
        usage=f"%(prog)s {usage}",
        description=f"{description} Each option has an environment variable, which it overrides.",
        examples=[example.format(prog=prog) for example in examples],
    )
    parser.add_version()
    application = parser.add_argument_group("settings of the application")
    server = parser.add_argument_group("settings of the server")
    defaults = ServerSettings()
    for name in names:
        group = application if name in Settings.__struct_fields__ else server
        default = getattr(defaults, name)
        value = os.environ.get(variable(name), _text(default))
        if name == "opensearch_url" and value:
            value = shown(value)
        text = f"{describe(name)} ({variable(name)}, now: {value or 'none'})"
        kind: dict[str, Any] = {"metavar": name.rpartition("_")[2].upper()}
        if isinstance(default, bool):
            kind = {"action": argparse.BooleanOptionalAction}
        group.add_argument(
            option(name),
            dest=name,
            default=argparse.SUPPRESS,
            help=text.replace("%", "%%"),
            **kind,
        )
    return parser


def parse_settings(parser: Parser, given: Mapping[str, str | bool]) -> ServerSettings:
    """Return the settings of the environment and of these options, or end the program."""
    try:
        return _read_settings(given)
    except ValueError as error:
        parser.exit(2, f"error: {error}; `{parser.prog} --help` lists all settings\n")


def _read_settings(given: Mapping[str, str | bool]) -> ServerSettings:
    options = {variable(name): _text(value) for name, value in given.items()}
    settings = ServerSettings.from_environment(os.environ | options)
    if settings.mcp and find_spec("mcp") is None:
        raise ValueError(needs_extra("RATECARD_MCP", "mcp"))
    if settings.engine == "opensearch":
        if not all(map(find_spec, MODULES)):
            raise ValueError(NEEDS_EXTRA)
        try:
            address_of(settings).client_arguments()
        except OSError as error:
            raise ValueError(f"{error.filename} cannot be read: {error.strerror}") from error
    return settings


def _text(value: object) -> str:
    """Return the value of a setting as an environment variable has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def option(name: str) -> str:
    """Return the command-line option of a setting."""
    return "--" + name.replace("_", "-")
