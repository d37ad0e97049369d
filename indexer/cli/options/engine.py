"""The options of builds whose postings go to an OpenSearch cluster."""

from __future__ import annotations

import argparse
import os
from importlib.util import find_spec

from indexer.cli.options.declared import given
from indexer.errors import Misuse
from indexer.options import ClusterOptions
from service.opensearch.connection import MODULES, NEEDS_EXTRA, ClusterAddress, shown

ENGINES = ("embedded", "opensearch")


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
    address = parse_address(options)
    if address is None:
        return None
    return ClusterOptions(address, **given(options, ClusterOptions))


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
