"""`python -m indexer`: build, search, compare, verify and withdraw snapshots."""

from __future__ import annotations

import sys

from indexer.cli.main import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
