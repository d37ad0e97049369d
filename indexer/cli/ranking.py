"""Options of commands that rank: by meaning or by words alone, and with which parameters."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import asdict, replace

from indexer.errors import Misuse
from service.search.config import ENDPOINT_SEARCH_CONFIG, SEARCH_CONFIG, SearchConfig

FIXED = frozenset(("field_weights", "encoder", "analysis", "impact_scale", "dense_share"))
"""Parameters that are no number, or that change no order."""
TUNABLE = [name for name in SearchConfig.__struct_fields__ if name not in FIXED]
SEMANTIC = "semantic"
BOOLEANS = {"true": True, "false": False}


class Ranking(NamedTuple):
    """Whether texts are encoded, and the parameters of searches for services and endpoints."""

    semantic: bool
    search: SearchConfig
    endpoint_search: SearchConfig


def add_ranking_options(parser: argparse.ArgumentParser) -> None:
    """Add the choice of lexical ranking, and changes of parameters."""
    parser.add_argument(
        "--no-semantic", action="store_true", help="rank by words alone, without vectors"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="change a parameter of the ranking, such as similarity_weight=6",
    )


def parse_ranking(options: argparse.Namespace, more: Iterable[str] = ()) -> Ranking:
    """Return the ranking that the options ask for, with `more` changes; raises Misuse."""
    semantic = not options.no_semantic
    changes: dict[str, Any] = {}
    for change in (*options.set, *more):
        name, _, value = change.partition("=")
        if name == SEMANTIC and value in BOOLEANS:
            semantic = BOOLEANS[value]
        elif name in TUNABLE:
            changes[name] = _convert(name, value)
        else:
            raise Misuse(
                f"{change!r} is no change of the ranking; write {SEMANTIC}=true, {SEMANTIC}=false "
                f"or NAME=VALUE with one of {', '.join(TUNABLE)}"
            )
    configs = (replace(config, **changes) for config in (SEARCH_CONFIG, ENDPOINT_SEARCH_CONFIG))
    return Ranking(semantic, *configs)


def _convert(name: str, value: str) -> Any:
    fields = asdict(SEARCH_CONFIG) | {name: value}
    try:
        converted = msgspec.convert(fields, SearchConfig, strict=False)
    except msgspec.ValidationError as error:
        raise Misuse(f"{name}={value}: {error}") from error
    return getattr(converted, name)
