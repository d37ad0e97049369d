"""`python -m tests.support.cluster`: run a cluster until Ctrl-C, to try the service with."""

from __future__ import annotations

import argparse
import signal
import sys
from contextlib import suppress

from tests.support.cluster.cluster import missing, run_cluster


def main() -> int:
    """Run the cluster, and print its addresses as the options take them."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.cluster", description=__doc__)
    parser.add_argument("--nodes", type=int, default=3, help="number of nodes (%(default)s)")
    options = parser.parse_args()
    if reason := missing():
        print(f"error: this {reason}", file=sys.stderr)
        return 1
    with suppress(KeyboardInterrupt), run_cluster(options.nodes) as cluster:
        print(cluster.url, flush=True)
        signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
