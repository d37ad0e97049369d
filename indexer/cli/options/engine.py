"""The options of builds whose postings go to an OpenSearch cluster."""

from __future__ import annotations

import argparse
import os
import re
from importlib.util import find_spec

from indexer.errors import Misuse
from indexer.options import ClusterOptions
from service.opensearch.connection import MODULES, NEEDS_EXTRA, ClusterAddress, shown

ENGINES = ("embedded", "opensearch")
MAX_NUMBER = 1024

_prefix = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")


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


def add_loading_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of loading."""
    defaults = ClusterOptions(ClusterAddress(""))
    parser.add_argument(
        "--prefix",
        type=_name,
        default=defaults.prefix,
        metavar="NAME",
        help="beginning of the names of indexes and aliases, one for each catalogue (%(default)s)",
    )
    for name, default, meaning in (
        ("shards", defaults.shards, "primary shards of each index"),
        ("replicas", defaults.replicas, "copies of each shard on other nodes"),
        ("grace", defaults.grace, "seconds for which indexes outlast the folder of their snapshot"),
    ):
        parser.add_argument(
            f"--opensearch-{name}",
            type=int,
            default=default,
            metavar="N",
            help=f"{meaning} (%(default)s)",
        )


def parse_cluster(options: argparse.Namespace) -> ClusterOptions | None:
    """Return the cluster of a build, None for the embedded engine; raises Misuse."""
    address = parse_address(options)
    if address is None:
        return None
    if not 1 <= options.opensearch_shards <= MAX_NUMBER:
        raise Misuse(f"--opensearch-shards must be from 1 to {MAX_NUMBER}")
    if options.opensearch_replicas < 0 or options.opensearch_grace < 0:
        raise Misuse("--opensearch-replicas and --opensearch-grace must be at least 0")
    return ClusterOptions(
        address,
        options.prefix,
        options.opensearch_shards,
        options.opensearch_replicas,
        options.opensearch_grace,
    )


def parse_address(options: argparse.Namespace) -> ClusterAddress | None:
    """Return the address of the cluster, None for the embedded engine; raises Misuse."""
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
    return address


def _name(text: str) -> str:
    if not _prefix.fullmatch(text):
        message = f"expected lower case letters, digits, - and _, such as catalogue, got {text!r}"
        raise argparse.ArgumentTypeError(message)
    return text
