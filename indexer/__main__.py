"""The entry points: `python -m indexer`, and the console script `ratecard`."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from service.errors import needs_extra

__all__ = ["main", "ratecard"]


def main(arguments: list[str] | None = None, prog: str = "python -m indexer") -> int:
    """Run a command of the indexer; returns the exit status."""
    from indexer.cli.main import main as run  # noqa: PLC0415  # loads NumPy, which servers do later

    return run(arguments, prog)


def ratecard() -> int:
    """Run `ratecard`: the service has `serve`, `mcp` and `fetch`, the indexer the rest."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["serve"]:
        from service.__main__ import main as serve  # noqa: PLC0415  # loads the whole service

        return serve(arguments[1:], "ratecard serve")
    if arguments[:1] == ["mcp"]:
        from service.mcp.__main__ import main as serve_mcp  # noqa: PLC0415  # loads the service

        return serve_mcp(arguments[1:], "ratecard mcp")
    if arguments[:1] == ["fetch"]:
        if not all(map(find_spec, ("httpx", "stamina"))):
            print(f"error: {needs_extra('ratecard fetch', 'fetch')}", file=sys.stderr)
            return 2
        from service.fetch import main as fetch  # noqa: PLC0415  # loads an HTTP client

        return fetch(arguments[1:], "ratecard fetch")
    return main(arguments, "ratecard")


if __name__ == "__main__":
    sys.exit(main())
