"""Sources as an operator names them: in a catalogue file, or on the command line."""

from __future__ import annotations

import glob
import os
import re
import tomllib
from collections.abc import Iterable
from difflib import get_close_matches
from itertools import count, repeat
from pathlib import Path
from typing import Any

from msgspec import NODEFAULT, Struct

from indexer.declarations import Declaration, declarations
from indexer.errors import Misuse
from indexer.intake.lists import STANDARD_INPUT, source_errors
from indexer.intake.rules import fold_host, named, normal_form
from indexer.options import DENIED, SCOPES, Denial, Kind, OnError, Policy, SourceOptions
from indexer.text import printable, shorten
from service.urls import parse_url

SUFFIX = ".toml"
VARIABLE = "env:"
"""The beginning of a value that stands in an environment variable."""

_scheme = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_host = re.compile(r"[a-z0-9*_-]+(?:\.[a-z0-9*_-]+)*|[0-9a-f]*:[0-9a-f:.]+")
_header = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_header_value = re.compile(r"[\t -~]*")


class CatalogueFile(Struct, frozen=True):
    """The sources of a catalogue, and the policy for all of them."""

    sources: tuple[SourceOptions, ...]
    policy: Policy


def name_source(name: str, kind: Kind | None = None) -> SourceOptions:
    """Return a source of the command line by its URL or its path, with the defaults there.

    A file is believed in everything, a URL in the usage of its resources alone.
    """
    if name.lower().startswith(("http://", "https://")):
        shown = name.partition("#")[0].partition("?")[0]
        scheme, _, rest = shown.partition("//")
        host, slash, path = rest.partition("/")
        shown = f"{scheme}//{host.rpartition('@')[2]}{slash}{path}"
        _check_url(name, shorten(shown.rpartition("@")[2]))
        return SourceOptions(name=shown, url=name, kind=kind or Kind.RESOURCES)
    if _scheme.match(name) and not os.path.lexists(name):
        scheme = name.partition("://")[0]
        raise Misuse(f"{scheme}://…: sources are read over http and https only, or from files")
    return SourceOptions(name=printable(name), path=name, kind=kind, trust=1, curated=True)


def read_catalogue_file(path: str) -> CatalogueFile:
    """Read a catalogue file; raises SourceError where it cannot be read, Misuse for its faults."""
    name = printable(path)
    try:
        with source_errors(name):
            tables = tomllib.loads(Path(path).read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise Misuse(f"{name}: is not UTF-8 at byte {error.start}; save it as UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise Misuse(f"{name}: is not TOML: {error}") from error
    except (ValueError, RecursionError) as error:
        reason = "holds a number of too many digits, or is nested too deeply"
        raise Misuse(f"{name}: {reason}") from error
    _check_keys(tables, ("source", "policy"), name, "table of a catalogue")
    sources = tables.get("source")
    if not isinstance(sources, list) or not all(isinstance(each, dict) for each in sources):
        raise Misuse(f"{name}: names no source; write a table [[source]] for each")
    read = []
    for number, table in enumerate(sources, 1):
        given = table.get("name")
        label = f" ({shorten(given)})" if isinstance(given, str) else ""
        where = f"{name}: source {number}{label}"
        read.append(_read_source(table, Path(path).parent, where))
        if any(source.name == given for source in read[:-1]):
            raise Misuse(f"{where}: another source has this name; each needs its own")
    policy = tables.get("policy", {})
    return CatalogueFile(tuple(read), Policy(**_read_table(Policy, policy, f"{name}: [policy]")))


def resolve_variables(key: str, values: dict[str, str], where: str) -> dict[str, str]:
    """Return headers or parameters with the values of environment variables.

    Raises Misuse for variables that are not set and for headers that cannot be sent; the message
    has no value.
    """
    resolved = {}
    for name, given in values.items():
        value = given
        place = f"{where}: `{shorten(name)}`"
        if given.startswith(VARIABLE):
            variable = given.removeprefix(VARIABLE)
            value = os.environ.get(variable, "")
            place += f": the environment variable {shorten(variable)}"
            if not value:
                raise Misuse(f"{place} is not set")
        if key == "headers" and not (_header.fullmatch(name) and _header_value.fullmatch(value)):
            raise Misuse(f"{place} is no header of printable ASCII")
        resolved[name] = value
    return resolved


def _read_source(table: dict[str, Any], folder: Path, where: str) -> SourceOptions:
    values: dict[str, Any] = {"on_error": OnError.LAST} | _read_table(SourceOptions, table, where)
    if not values["name"].isprintable():
        raise Misuse(f"{where}: `name`: expected {declarations(SourceOptions)['name'].expected}")
    if bool(values.get("url")) == bool(values.get("path")):
        raise Misuse(f"{where}: expected one of `url` and `path`")
    if values.get("url"):
        _check_url(values["url"], f"{where}: `url`")
        values = {"kind": Kind.RESOURCES} | values
    elif "\0" in values["path"]:
        raise Misuse(f"{where}: `path`: holds a null character, which no file name has")
    else:
        values = {"trust": 1, "curated": True} | values
        values["path"] = _join(folder, values["path"])
    for host in values.get("hosts", ()):
        if not _host.fullmatch(fold_host(host)):
            raise Misuse(
                f"{where}: `hosts`: {shorten(host)} is no host name; leave scheme and port out"
            )
    for key in ("headers", "params"):
        values[key] = resolve_variables(key, values.get(key, {}), f"{where}: `{key}`")
    source = SourceOptions(**values)
    for key in table:
        if not source.takes(key):
            raise Misuse(f"{where}: `{key}` is for {SCOPES[key]} only; remove it")
    return source


def _check_url(url: str, where: str) -> None:
    """Raise Misuse for a text that is no URL; the message has none of it, as it may be secret."""
    try:
        parse_url(url)
    except ValueError as error:
        reason = str(error).partition(":")[0]
        raise Misuse(f"{where}: {reason}; a blank is written as %20") from None


def _join(folder: Path, path: str) -> str:
    """Return a path relative to a folder, whose name may look like a pattern."""
    if path == STANDARD_INPUT:
        return path
    joined = str(folder / path)
    if glob.has_magic(path) and not os.path.lexists(joined):
        return str(Path(glob.escape(str(folder)), path))
    return joined


def _read_table(options: type[Struct], table: object, where: str) -> dict[str, Any]:
    """Return the values of a table by the fields of its options; raises Misuse."""
    if not isinstance(table, dict):
        raise Misuse(f"{where}: expected a table")
    known = declarations(options)
    _check_keys(table, known, where, "key of a source" if options is SourceOptions else "key here")
    for key, declaration in known.items():
        if declaration.default is NODEFAULT and key not in table:
            raise Misuse(f"{where}: `{key}` is missing")
    return {key: _read_value(known[key], value, where) for key, value in table.items()}


def _read_value(declaration: Declaration, value: Any, where: str) -> Any:
    key, items = declaration.key, declaration.items
    if isinstance(value, list) and items and issubclass(items[0], Struct):
        places = (f"{where}: `{key}` {number}" for number in count(1))
        return tuple(map(_read_item, repeat(items[0]), value, places))
    if key == "params" and isinstance(value, dict):
        value = {name: str(each) if type(each) is int else each for name, each in value.items()}
    try:
        return declaration.convert(value)
    except ValueError as error:
        raise Misuse(f"{where}: `{key}`: {error}") from error


def _read_item(kind: type[Struct], table: object, where: str) -> Struct:
    values = _read_table(kind, table, where)
    if kind is Denial:
        reason = values.get("reason", "")
        if sum(bool(values.get(key)) for key in DENIED) != 1 or not reason.strip():
            raise Misuse(f"{where}: expected one of {', '.join(DENIED)}, and a `reason`")
        check_denial(Denial(**values), where)
    return kind(**values)


def check_denial(denial: Denial, where: str) -> None:
    """Raise Misuse for a denial of a value that nothing has."""
    for field, value in named(denial):
        try:
            normal_form(field, value)
        except ValueError as error:
            advice = "; leave scheme and path out" if "/" in value and field != "url" else ""
            raise Misuse(f"{where}: `{field}`: {shorten(value)} {error}{advice}") from error


def _check_keys(table: Iterable[str], known: Iterable[str], where: str, kind: str) -> None:
    """Raise Misuse for the first key that is not known, with the nearest that is."""
    names = [*known]
    for key in table:
        if key not in names:
            similar = get_close_matches(key, names, 1)
            advice = f"did you mean `{similar[0]}`?" if similar else f"there are {', '.join(names)}"
            raise Misuse(f"{where}: `{printable(key)}` is no {kind}; {advice}")
