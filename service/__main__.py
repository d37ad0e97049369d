"""`python -m service`: serve the published snapshot."""

from __future__ import annotations

import sys

from service.serve import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
