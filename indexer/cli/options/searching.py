"""Options of commands that rank or publish: the ranking, and the engine that searches."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from importlib.util import find_spec

import msgspec
from msgspec.structs import asdict

from indexer.cli.options.declared import add_declared, given
from indexer.errors import Misuse
from indexer.search_options import ClusterOptions, RankingOptions
from service.opensearch.connection import MODULES, NEEDS_EXTRA, ClusterAddress, shown
from service.search.config import SEARCH_CONFIG, SearchConfig

ENGINES = ("embedded", "opensearch")
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


def add_engine_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that the service has, too, with the defaults of its environment."""
    url = os.environ.get("RATECARD_OPENSEARCH_URL", "")
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        default=os.environ.get("RATECARD_ENGINE", "embedded"),
        help="what searches: the files of the snapshot, or an OpenSearch cluster, which then gets "
        "the postings (RATECARD_ENGINE, now: %(default)s)",
    )
    parser.add_argument(
        "--opensearch-url",
        default=url,
        metavar="URL",
        help="URLs of nodes of the cluster, separated by commas; user:password@ may stand before "
        f"the host (RATECARD_OPENSEARCH_URL, now: {shown(url) if url else 'none'})".replace(
            "%", "%%"
        ),
    )
    parser.add_argument(
        "--opensearch-credentials",
        default=os.environ.get("RATECARD_OPENSEARCH_CREDENTIALS", ""),
        metavar="FILE",
        help="file with user:password of the cluster (RATECARD_OPENSEARCH_CREDENTIALS)",
    )
    parser.add_argument(
        "--opensearch-ca",
        default=os.environ.get("RATECARD_OPENSEARCH_CA", ""),
        metavar="FILE",
        help="file of certificate authorities of the cluster (RATECARD_OPENSEARCH_CA)",
    )


def parse_cluster(options: argparse.Namespace) -> ClusterOptions | None:
    """Return the cluster of a build, None for the embedded engine; raises Misuse."""
    if (options.engine == "opensearch") != bool(options.opensearch_url):
        raise Misuse("--engine opensearch and --opensearch-url need each other")
    if options.engine != "opensearch":
        return None
    if not all(map(find_spec, MODULES)):
        raise Misuse(NEEDS_EXTRA)
    address = ClusterAddress(
        options.opensearch_url, options.opensearch_credentials, options.opensearch_ca
    )
    try:
        address.client_arguments()
    except ValueError as error:
        raise Misuse(str(error)) from None
    except OSError as error:
        raise Misuse(f"{error.filename} cannot be read: {error.strerror}") from None
    return ClusterOptions(address, **given(options, ClusterOptions))
