"""Options of commands that read sources: a catalogue file, or sources and flags."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from indexer.cli.options.declared import add_declared, given
from indexer.declarations import declarations
from indexer.errors import Misuse
from indexer.options import SCOPES, BuildOptions, Kind, Limits, Policy, SourceOptions
from indexer.sources.catalogue_file import (
    SUFFIX,
    CatalogueFile,
    check_denial,
    name_source,
    read_catalogue_file,
    resolve_variables,
)
from indexer.text import shorten

READING = ("out", "rejects", "max_rejects", "accept", "forget", "from_scratch", "jobs", "memory")
"""Fields of BuildOptions that count where sources are read, also without publishing."""
START = 2**16  # bytes of a file that tell services from payments

_service_keys = re.compile(rb'"(?:endpoints|accepts)"\s*:')


def add_source_options(parser: argparse.ArgumentParser) -> None:
    """Add the sources, and the flags of sources, policy and reading."""
    parser.add_argument(
        "sources",
        nargs="*",
        metavar="SOURCE",
        help="a catalogue file (`.toml`), or files, folders and http(s) URLs of services or of "
        "x402 discovery resources, as JSON lines, a JSON array or an envelope, plain or gzip; - "
        "for standard input; of equally trusted sources later services win",
    )
    parser.add_argument(
        "--records",
        action="append",
        default=[],
        metavar="URL",
        help="a URL that gives catalogue records; may be repeated",
    )
    for flag, meaning in (
        ("--transactions", "payments as CSV, JSON lines or Parquet; patterns as well"),
        ("--overlay", "JSON merge patches by service id, over whatever the sources say"),
        ("--probes", "observations as `ratecard probe` writes them, as JSON lines"),
    ):
        parser.add_argument(
            flag, action="extend", nargs="+", default=[], metavar="FILE", help=meaning
        )
    for declared in (SourceOptions, Policy, Limits):
        add_declared(parser, declared)
    add_declared(parser, BuildOptions, READING)
    parser.set_defaults(refuse=parser.error)


def parse_reading(options: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of BuildOptions that sources and flags give.

    Raises IndexerError for faults that are found without reading a source.
    """
    if any(name.endswith(SUFFIX) for name in options.sources):
        catalogue = _read_file(options)
    elif options.sources or options.records:
        catalogue = CatalogueFile(_name_sources(options), Policy(**given(options, Policy)))
        for denial in catalogue.policy.deny:
            check_denial(denial, "--deny")
    else:
        options.refuse("the following arguments are required: SOURCE")
    values = given(options, BuildOptions)
    if "rejects" in values:
        _check_writable(values["rejects"])
    names = {source.name for source in catalogue.sources}
    for name in values.get("accept", ()):
        if name not in names:
            raise Misuse(f"--accept {name}: is no source; there are {', '.join(sorted(names))}")
    limits = Limits(**given(options, Limits))
    return {**values, "sources": catalogue.sources, "policy": catalogue.policy, "limits": limits}


def _read_file(options: argparse.Namespace) -> CatalogueFile:
    """Read the catalogue file; raises Misuse for sources, and for flags that contradict it."""
    name = next(name for name in options.sources if name.endswith(SUFFIX))
    others = [other for other in options.sources if other is not name] + options.records
    others += options.transactions + options.overlay + options.probes
    if others:
        places = shorten(", ".join(name_source(other).name for other in others))
        raise Misuse(f"{name}: names all sources; write a [[source]] there for {places}")
    for declared, table in ((SourceOptions, "the [[source]] tables"), (Policy, "[policy]")):
        for key in given(options, declared):
            flag = declarations(declared)[key].flag
            raise Misuse(f"{flag}: write `{key}` into {table} of {name} instead")
    return read_catalogue_file(name)


def _name_sources(options: argparse.Namespace) -> tuple[SourceOptions, ...]:
    """Return the sources of the command line; raises Misuse for flags that none of them takes."""
    for name in options.transactions:
        _check_payments(name)
    sources = [
        *map(name_source, options.sources),
        *(name_source(name, Kind.RECORDS) for name in options.records),
        *(name_source(name, Kind.PAYMENTS) for name in options.transactions),
        *(name_source(name, Kind.OVERLAY) for name in options.overlay),
        *(name_source(name, Kind.PROBES) for name in options.probes),
    ]
    values = given(options, SourceOptions)
    for key in values:
        flag = declarations(SourceOptions)[key].flag
        if not any(source.takes(key) for source in sources):
            raise Misuse(f"{flag}: is for {SCOPES[key]} only, and no source is one")
        if key in {"headers", "params"}:
            values[key] = resolve_variables(key, values[key], flag)
    return tuple(
        replace(source, **{key: value for key, value in values.items() if source.takes(key)})
        for source in sources
    )


def _check_payments(name: str) -> None:
    """Raise Misuse for a file of services: a source may stand after the last file of payments."""
    path = Path(name)
    if path.is_file():
        with path.open("rb") as file:
            if _service_keys.search(file.read(START)):
                raise Misuse(
                    f"--transactions {name}: holds services and no payments; write sources before "
                    "--transactions, or after --"
                )


def _check_writable(rejects: Path) -> None:
    """Raise Misuse for a file that cannot be written beside its folder's other files."""
    if rejects.is_dir():
        raise Misuse(f"--rejects {rejects}: is a folder; name a file in it")
    folder = rejects.resolve().parent
    if not folder.is_dir():
        raise Misuse(f"--rejects {rejects}: there is no folder {folder}; make it first")
    is_device = rejects.exists() and not rejects.is_file()
    if not os.access(rejects if is_device else folder, os.W_OK):
        raise Misuse(f"--rejects {rejects}: cannot be written; name a file in another folder")
