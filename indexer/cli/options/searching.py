"""Options of commands that rank or publish: the ranking, and the cluster that is loaded."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable

import msgspec
from msgspec.structs import asdict

from indexer.cli.options.declared import add_declared, given
from indexer.errors import Misuse
from indexer.search_options import ClusterOptions, RankingOptions
from service.opensearch.address import check_extra, client_arguments
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
    config = SEARCH_CONFIG
    for change in (*options.set, *more):
        name, _, value = change.partition("=")
        if name == ENCODER and value in KINDS:
            is_semantic = KINDS[value]
        elif name in TUNABLE:
            try:
                config = msgspec.convert(asdict(config) | {name: value}, SearchConfig, strict=False)
            except msgspec.ValidationError as error:
                raise Misuse(f"{name}={value}: {error}") from error
        else:
            raise Misuse(
                f"{change!r} is no change of the ranking; write {ENCODER}= with one of "
                f"{', '.join(KINDS)}, or NAME=VALUE with one of {', '.join(TUNABLE)}"
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
    add_declared(parser, ClusterOptions, ["prefix"])


def parse_cluster(options: argparse.Namespace) -> ClusterOptions | None:
    """Return the cluster of a build, None without one; raises Misuse."""
    if not options.opensearch_url:
        return None
    prefix = os.environ.get("RATECARD_OPENSEARCH_PREFIX", "ratecard")
    try:
        check_extra()
        known = {"client": client_arguments(options.opensearch_url), "prefix": prefix}
        return msgspec.convert(known | given(options, ClusterOptions), ClusterOptions)
    except (ValueError, RuntimeError) as error:
        raise Misuse(str(error)) from None
