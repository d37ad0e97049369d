"""A command, and options that several share: sources, ranking, the cluster, and the folder."""

from __future__ import annotations

import argparse
import inspect
import os
import re
import shlex
from collections.abc import Callable, Container, Iterable
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec.structs import asdict, fields, replace

from indexer.catalogue_file import (
    SUFFIX,
    CatalogueFile,
    check_policy,
    name_source,
    read_catalogue_file,
)
from indexer.errors import Misuse
from indexer.options import (
    ARTIFACTS,
    UNITS,
    BuildOptions,
    ClusterOptions,
    Denial,
    Kind,
    Limits,
    OnError,
    Policy,
    RankingOptions,
    SourceOptions,
    read_quantity,
    read_value,
)
from indexer.text import printable, shorten
from service.cli import Parser
from service.opensearch import client_arguments
from service.search.config import SEARCH_CONFIG, SearchConfig

PUBLISHING = ("keep", "downloads")
"""Fields of BuildOptions that mean nothing where nothing is published."""
FIXED = frozenset(("field_weights", "encoder", "analysis", "impact_scale", "dense_share"))
"""Parameters that are no number, or that change no order."""
TUNABLE = [name for name in SearchConfig.__struct_fields__ if name not in FIXED]
ENCODER = "encoder"
ENCODERS = {"none": False, "static": True}
"""Encoders, and whether these rank by meaning."""

_described = re.compile(r"^(\w+)(?: \((--[^)]+)\))?: (.+(?:\n +.+)*)", re.MULTILINE)


class Command(NamedTuple):
    """A command: its help, examples of its command line without the program, and its functions.

    run: takes the options and `prog`, the program as called; returns the exit status
    """

    summary: str
    examples: tuple[str, ...]
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def add_artifacts_option(parser: argparse.ArgumentParser, meaning: str) -> None:
    """Add `--artifacts`."""
    parser.add_argument(
        "--artifacts",
        type=Path,
        default=ARTIFACTS,
        metavar="FOLDER",
        help=f"{meaning} (%(default)s)",
    )


def add_artifacts_argument(parser: argparse.ArgumentParser) -> None:
    """Add the artifacts folder as an optional argument."""
    parser.add_argument(
        "artifacts",
        nargs="?",
        type=Path,
        default=ARTIFACTS,
        help="the artifacts folder (%(default)s)",
    )


def command_line(options: argparse.Namespace, *words: str) -> str:
    """Return the command line of another command on the same artifacts folder."""
    command = f"{options.prog} {shlex.join(words)}"
    if options.artifacts == ARTIFACTS:
        return command
    return f"{command} --artifacts {shlex.quote(str(options.artifacts))}"


class OptionText(NamedTuple):
    """A field as the docstring of its type describes it, with the flag that sets it, if any."""

    name: str
    flag: str
    text: str


def described(options: type[Struct]) -> list[OptionText]:
    """Return the fields that a docstring describes: `name (--flag VALUE): text`."""
    lines = _described.findall(inspect.getdoc(options) or "")
    return [OptionText(name, flag, " ".join(text.split())) for name, flag, text in lines]


def add_flags(
    parser: argparse.ArgumentParser, options: type[Struct], without: Container[str] = ()
) -> None:
    """Add the flags of these options; each is None where it is not given."""
    for name, default, kind, usage, text in _flags(options):
        flag, _, metavar = usage.partition(" ")
        if not flag or name in without:
            continue
        settings: dict[str, Any] = {"action": "store_const", "const": not default}
        if metavar:
            settings = {"metavar": metavar, "type": partial(_read, name, kind)}
        if isinstance(default, tuple | frozenset):
            settings = {"metavar": metavar, "action": "append"}
        shown = f" ({written(name, default)})" if written(name, default) else ""
        parser.add_argument(
            flag,
            dest=f"{options.__name__}.{name}",
            required=default is NODEFAULT,
            help=(text + shown).replace("%", "%%"),
            **settings,
        )


@cache
def _flags(options: type[Struct]) -> list[tuple[str, Any, Any, str, str]]:
    """Return name, default, type, usage and text of the fields of these options."""
    known = {field.name: field for field in fields(options)}
    return [
        (name, known[name].default, known[name].type, usage, text)
        for name, usage, text in described(options)
    ]


def given(namespace: argparse.Namespace, options: type[Struct]) -> dict[str, Any]:
    """Return the values of the flags that were given, by field."""
    kind, values = f"{options.__name__}.", vars(namespace)
    names = [name for name in options.__struct_fields__ if values.get(kind + name) is not None]
    return {name: values[kind + name] for name in names}


def written(field: str, default: Any) -> str:
    """Return the default of a field as a person writes it, empty where there is none."""
    if isinstance(default, Fraction):
        return f"{float(default) * 100:g}%"
    if isinstance(default, bool) or not default or default is NODEFAULT:
        return ""
    if field not in UNITS:
        return str(default)
    size, unit = max((size, unit) for unit, size in UNITS[field].items() if not default % size)
    return f"{default // size}{unit}"


def add_source_options(parser: argparse.ArgumentParser, *, publishes: bool) -> None:
    """Add the sources, and the flags of sources, policy, reading, and perhaps publishing."""
    parser.add_argument(
        "sources",
        nargs="*",
        metavar="SOURCE",
        help="a catalogue file (`.toml`), or files, folders and http(s) URLs of services or of "
        "x402 discovery resources, as JSON lines, a JSON array or an envelope, plain or gzip; - "
        "for standard input; of equally trusted sources later services win",
    )
    for flag, metavar, nargs, meaning in (
        ("--records", "URL", 1, "a URL that gives catalogue records; may be repeated"),
        ("--transactions", "FILE", "+", "payments as CSV, JSON lines or Parquet, or a pattern"),
        ("--overlay", "FILE", "+", "JSON merge patches by service id, over what the sources say"),
        ("--probes", "FILE", "+", "observations as `ratecard probe` writes them, as JSON lines"),
    ):
        parser.add_argument(
            flag, action="extend", nargs=nargs, default=[], metavar=metavar, help=meaning
        )
    for options in (SourceOptions, Policy, Limits):
        add_flags(parser, options)
    add_flags(parser, BuildOptions, () if publishes else PUBLISHING)
    if isinstance(parser, Parser):
        parser.elsewhere = {
            f"--{flag.replace('_', '-')}": f"`{name}` of {table} in a catalogue file"
            for options, table in ((Policy, "[policy]"), (SourceOptions, "[[source]]"))
            for name in options.__struct_fields__
            for flag in (name, name.removesuffix("s"))
        }
    parser.set_defaults(refuse=parser.error)


def parse_reading(options: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of BuildOptions that sources and flags give.

    Raises IndexerError for faults that are found without reading a source.
    """
    if any(name.endswith(SUFFIX) for name in options.sources):
        catalogue = _read_file(options)
    elif options.sources or options.records:
        catalogue = _name_sources(options)
    else:
        options.refuse("the following arguments are required: SOURCE")
    values = given(options, BuildOptions)
    values["accept"] = frozenset(map(printable, values.get("accept", ())))
    names = {source.name for source in catalogue.sources}
    if unknown := sorted(values["accept"] - names):
        raise Misuse(f"--accept {unknown[0]}: is no source; there are {', '.join(sorted(names))}")
    if rejects := values.get("rejects"):
        place = rejects if rejects.exists() and not rejects.is_file() else rejects.resolve().parent
        if rejects.is_dir() or not os.access(place, os.W_OK):
            raise Misuse(f"--rejects {rejects}: cannot be written; name a file in another folder")
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
    for kind, table in ((SourceOptions, "the [[source]] tables"), (Policy, "[policy]")):
        for key in given(options, kind):
            flag = f"--{key.replace('_', '-')}"
            raise Misuse(f"{flag}: write `{key}` into {table} of {name} instead")
    return read_catalogue_file(name)


def _name_sources(options: argparse.Namespace) -> CatalogueFile:
    """Return the sources of the command line, and the policy; raises Misuse for a fault."""
    names: tuple[tuple[list[str], Kind | None], ...] = (
        (options.sources, None),
        (options.records, Kind.RECORDS),
        (options.transactions, Kind.PAYMENTS),
        (options.overlay, Kind.OVERLAY),
        (options.probes, Kind.PROBES),
    )
    sources = [name_source(name, kind) for group, kind in names for name in group]
    flags = given(options, SourceOptions)
    policy = given(options, Policy)
    denials = []
    for text in policy.pop("deny", ()):
        try:
            denials.append(Denial.parse(text))
        except ValueError as error:
            raise Misuse(f"--deny {shorten(text)}: {error}") from error
    catalogue = CatalogueFile(
        tuple(replace(each, **flags) if each.is_listed else each for each in sources),
        Policy(deny=tuple(denials), **policy),
    )
    check_policy(catalogue.policy, "--max-price", "--deny")
    return catalogue


def _read(field: str, kind: Any, text: str) -> Any:
    """Return the value of a flag; raises ArgumentTypeError with the form that is expected."""
    try:
        if kind is Path and not text:
            raise argparse.ArgumentTypeError("expected a path, got nothing")
        value = read_quantity(field, text)
        return msgspec.convert(value, kind, strict=False, dec_hook=read_value)
    except ValueError as error:
        forms = [meta.title for meta in getattr(kind, "__metadata__", ()) if meta.title]
        forms += [f"one of {', '.join(OnError)}"] if kind is OnError else []
        reason = f"Expected {forms[0]}" if forms else str(error).partition(", got")[0]
        reason = f"{reason[0].lower()}{reason[1:]}, got {shorten(text)!r}"
        raise argparse.ArgumentTypeError(reason) from error


def add_ranking_options(parser: argparse.ArgumentParser) -> None:
    """Add the choice of ranking by words alone, and changes of parameters."""
    add_flags(parser, RankingOptions)
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="change a parameter of the ranking, such as similarity_weight=6",
    )


def parse_ranking(options: argparse.Namespace, more: Iterable[str] = ()) -> RankingOptions:
    """Return the ranking that the options ask for, with `more` changes; raises Misuse."""
    is_semantic: bool = given(options, RankingOptions).get("is_semantic", True)
    config = SEARCH_CONFIG
    for change in (*options.set, *more):
        name, _, value = change.partition("=")
        if name == ENCODER and value in ENCODERS:
            is_semantic = ENCODERS[value]
        elif name in TUNABLE:
            try:
                config = msgspec.convert(asdict(config) | {name: value}, SearchConfig, strict=False)
            except msgspec.ValidationError as error:
                raise Misuse(f"{name}={value}: {error}") from error
        else:
            raise Misuse(
                f"{change!r} is no change of the ranking; write {ENCODER}= with one of "
                f"{', '.join(ENCODERS)}, or NAME=VALUE with one of {', '.join(TUNABLE)}"
            )
    return RankingOptions(is_semantic, config)


def add_cluster_options(parser: argparse.ArgumentParser) -> None:
    """Add the address of a cluster; the service has it, too."""
    parser.add_argument(
        "--opensearch-url",
        default=os.environ.get("RATECARD_OPENSEARCH_URL", ""),
        metavar="URL",
        help="nodes of an OpenSearch cluster to load, with commas (RATECARD_OPENSEARCH_URL)",
    )
    add_flags(parser, ClusterOptions, ("shards", "replicas"))


def parse_cluster(options: argparse.Namespace) -> ClusterOptions | None:
    """Return the cluster of a build, None without one; raises Misuse."""
    if not options.opensearch_url:
        return None
    prefix = os.environ.get("RATECARD_OPENSEARCH_PREFIX", "ratecard")
    try:
        known = {"client": client_arguments(options.opensearch_url), "prefix": prefix}
        return msgspec.convert(known | given(options, ClusterOptions), ClusterOptions)
    except (ValueError, RuntimeError) as error:
        raise Misuse(str(error)) from None
