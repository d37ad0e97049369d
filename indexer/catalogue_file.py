"""Sources as an operator names them: in a catalogue file, or on the command line."""

from __future__ import annotations

import glob
import os
import re
import tomllib
from collections.abc import Collection
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, ValidationError
from msgspec.structs import replace

from indexer.errors import Misuse
from indexer.intake.lists import STANDARD_INPUT, source_errors
from indexer.intake.rules import fold_host, named, normal_form
from indexer.options import (
    DENIED,
    LISTINGS,
    OF_URLS,
    SCOPES,
    Denial,
    Kind,
    OnError,
    Policy,
    SourceOptions,
    Stablecoin,
    read_quantity,
    read_value,
)
from indexer.text import printable, shorten
from service.urls import parse_url

SUFFIX = ".toml"
VARIABLE = "env:"
"""The beginning of a value that stands in an environment variable."""
TABLES: dict[str, type[Struct]] = {"deny": Denial, "stablecoins": Stablecoin}
CHOICES = {"kind": [*Kind], "on_error": [*OnError]}

_scheme = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_host = re.compile(r"[a-z0-9*_-]+(?:\.[a-z0-9*_-]+)*|[0-9a-f]*:[0-9a-f:.]+")
_address = re.compile("0x[0-9a-fA-F]{40}")
_header = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_header_value = re.compile(r"[!-~](?:[ -~]*[!-~])?")


T = TypeVar("T", bound=Struct)


class CatalogueFile(Struct, frozen=True):
    """The sources of a catalogue, and the policy for all of them."""

    sources: tuple[SourceOptions, ...]
    policy: Policy


class _Tables(Struct, frozen=True, forbid_unknown_fields=True):
    """A catalogue file as it is written."""

    source: tuple[dict[str, Any], ...] = ()
    policy: dict[str, Any] = {}


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
    file = _convert(tables, _Tables, name)
    if not file.source:
        raise Misuse(f"{name}: names no source; write a table [[source]] for each")
    sources: dict[str, SourceOptions] = {}
    for number, table in enumerate(file.source, 1):
        given = table.get("name")
        label = f" ({shorten(given)})" if isinstance(given, str) else ""
        where = f"{name}: source {number}{label}"
        source = _complete(_convert(table, SourceOptions, where), table, Path(path).parent, where)
        if sources.setdefault(source.name, source) is not source:
            raise Misuse(f"{where}: another source has this name; each needs its own")
    policy = _convert(file.policy, Policy, f"{name}: [policy]")
    check_policy(policy, f"{name}: [policy]: `max_price`", f"{name}: [policy]: `deny`")
    return CatalogueFile((*sources.values(),), policy)


def check_policy(policy: Policy, price: str, deny: str) -> None:
    """Raise Misuse for a price that is none, and for a denial of no value or of one nothing has.

    `price` and `deny` are the places of the two, for the message.
    """
    if not policy.max_price.is_finite() or policy.max_price < 0:
        raise Misuse(f"{price}: expected an amount such as 100")
    for denial in policy.deny:
        if len([*named(denial)]) != 1 or not denial.reason.strip():
            raise Misuse(f"{deny}: expected one of {', '.join(DENIED)}, and a `reason`, in each")
        ((field, value),) = named(denial)
        try:
            normal_form(field, value)
        except ValueError as error:
            advice = "; leave scheme and path out" if "/" in value and field != "url" else ""
            raise Misuse(f"{deny}: `{field}`: {shorten(value)} {error}{advice}") from error


def _complete(
    source: SourceOptions, table: Collection[str], folder: Path, where: str
) -> SourceOptions:
    """Return a source with the defaults of a file for the keys that its table has not."""
    if not source.name.isprintable():
        raise Misuse(f"{where}: `name`: holds a character that cannot be printed; leave it out")
    if bool(source.url) == bool(source.path):
        raise Misuse(f"{where}: expected one of `url` and `path`")
    _check_keys(source, table, where)
    if source.url:
        _check_url(source.url, f"{where}: `url`")
        defaults: dict[str, Any] = {"kind": Kind.RESOURCES, "on_error": OnError.LAST}
    elif "\0" in source.path:
        raise Misuse(f"{where}: `path`: holds a null character, which no file name has")
    else:
        defaults = {"trust": 1, "curated": True, "on_error": OnError.LAST}
        source = replace(source, path=_join(folder, source.path))
    for key in ("headers", "params"):
        places = {name: f"{where}: `{key}`: `{shorten(name)}`" for name in getattr(source, key)}
        values = {name: _resolve(getattr(source, key)[name], places[name]) for name in places}
        for name, value in values.items() if key == "headers" else ():
            if not (_header.fullmatch(name) and _header_value.fullmatch(value)):
                raise Misuse(
                    f"{places[name]} is no header of printable ASCII without blanks at its ends"
                )
        source = replace(source, **{key: values})
    return replace(source, **{key: defaults[key] for key in defaults if key not in table})


def _check_keys(source: SourceOptions, table: Collection[str], where: str) -> None:
    """Raise Misuse for a key that means nothing for this source, and for a faulty value."""
    kinds = {source.kind} if source.kind else LISTINGS - ({Kind.RECORDS} if source.url else set())
    for key in table:
        if key in OF_URLS and not source.url:
            raise Misuse(f"{where}: `{key}` is for URLs only; remove it")
        if not kinds & SCOPES.get(key, kinds):
            meant = " and ".join(kind for kind in Kind if kind in SCOPES[key])
            raise Misuse(f"{where}: `{key}` is for sources of {meant} only; remove it")
    for host in source.hosts:
        if not _host.fullmatch(fold_host(host)):
            raise Misuse(
                f"{where}: `hosts`: {shorten(host)} is no host name; leave scheme and port out"
            )
    for address in source.observers:
        if not _address.fullmatch(address):
            raise Misuse(f"{where}: `observers`: {shorten(address)} is not 0x and 40 hex digits")


def _resolve(given: str | int, where: str) -> str:
    """Return a value, or that of the environment variable that it names; raises Misuse."""
    value = str(given)
    if not value.startswith(VARIABLE):
        return value
    variable = value.removeprefix(VARIABLE)
    if not os.environ.get(variable):
        raise Misuse(f"{where}: the environment variable {shorten(variable)} is not set")
    return os.environ[variable]


def _check_url(url: str, where: str) -> None:
    """Raise Misuse for a text that is no URL; the message has none of it, as it may be secret."""
    try:
        is_web = parse_url(url).scheme in {"http", "https"}
    except ValueError as error:
        reason = str(error).partition(":")[0]
        raise Misuse(f"{where}: {reason}; a blank is written as %20") from None
    if not is_web:
        raise Misuse(f"{where}: is not an http or https URL")


def _join(folder: Path, path: str) -> str:
    """Return a path relative to a folder, whose name may look like a pattern."""
    if path == STANDARD_INPUT:
        return path
    joined = str(folder / path)
    if glob.has_magic(path) and not os.path.lexists(joined):
        return str(Path(glob.escape(str(folder)), path))
    return joined


def _convert(table: dict[str, Any], kind: type[T], where: str) -> T:
    """Convert a table; raises Misuse with the key of a fault, and the nearest of an unknown key."""
    place = ""
    try:
        values = {(place := key): read_quantity(key, table[key]) for key in table}
        return msgspec.convert(values, kind, dec_hook=read_value)
    except ValidationError as error:
        reason, _, place = str(error).partition(" - at `$")
    except ValueError as error:
        reason = str(error)
    place = place.strip(".`")
    key = re.sub(r"\[.*", "", place.rpartition(".")[2])
    if unknown := re.fullmatch("Object contains unknown field `(.*)`", reason, re.DOTALL):
        reason = _name_nearest(printable(unknown[1]), TABLES.get(key, kind).__struct_fields__)
    elif reason.startswith("Invalid enum value"):
        reason = f"expected one of {', '.join(CHOICES[key])}"
    raise Misuse(": ".join(filter(None, (where, place and f"`{place}`", reason))))


def _name_nearest(name: str, known: Collection[str]) -> str:
    similar = get_close_matches(name, known, 1)
    advice = f"did you mean `{similar[0]}`?" if similar else f"there are {', '.join(known)}"
    return f"`{name}` is no key here; {advice}"
