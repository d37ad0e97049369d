"""Options of commands that rank: by meaning or by words alone, and with which parameters."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from indexer.cli.options.declared import add_declared, given
from indexer.errors import Misuse
from indexer.options import RankingOptions
from service.search.config import SEARCH_CONFIG, SearchConfig

FIXED = frozenset(("field_weights", "encoder", "analysis", "impact_scale", "dense_share"))
"""Parameters that are no number, or that change no order."""
TUNABLE = [name for name in SearchConfig.__struct_fields__ if name not in FIXED]
ENCODER = "encoder"
KINDS = {"none": False, "static": True}
"""Encoders, and whether these rank by meaning."""


def add_ranking_options(parser: argparse.ArgumentParser) -> None:
    """Add the choice of ranking by words alone, and changes of parameters."""
    add_declared(parser, RankingOptions)
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
    changes: dict[str, Any] = {}
    for change in (*options.set, *more):
        name, _, value = change.partition("=")
        if name == ENCODER and value in KINDS:
            is_semantic = KINDS[value]
        elif name in TUNABLE:
            changes[name] = _convert(name, value)
        else:
            raise Misuse(
                f"{change!r} is no change of the ranking; write {ENCODER}= with one of "
                f"{', '.join(KINDS)}, or NAME=VALUE with one of {', '.join(TUNABLE)}"
            )
    return RankingOptions(is_semantic, replace(SEARCH_CONFIG, **changes))


def _convert(name: str, value: str) -> Any:
    fields = asdict(SEARCH_CONFIG) | {name: value}
    try:
        converted = msgspec.convert(fields, SearchConfig, strict=False)
    except msgspec.ValidationError as error:
        raise Misuse(f"{name}={value}: {error}") from error
    return getattr(converted, name)
