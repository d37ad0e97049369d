"""`python -m service.mcp`: MCP over standard input and output, or over HTTP."""

from __future__ import annotations

import os
import signal
import sys
from importlib.util import find_spec
from pathlib import Path

import anyio

from service.artifacts.manager import SnapshotManager
from service.errors import needs_extra
from service.opensearch import connector_of
from service.serve import read_settings, serve, settings_parser
from service.settings import Settings, option, variable

EXAMPLES = (
    "{prog} --artifacts artifacts",
    "{prog} --http --port 8001 --mcp-hosts mcp.example.com",
)
STDIO = ("artifacts", "engine", "opensearch_")
"""How the names of settings begin that do not need `--http`."""


def main(arguments: list[str] | None = None, prog: str = "python -m service.mcp") -> int:
    """Serve until the client leaves, or with `--http` until stopped; returns the exit status."""
    if find_spec("mcp") is None:
        print(f"error: {needs_extra(prog, 'mcp')}", file=sys.stderr)
        return 2
    description = "Serve the published snapshot to agents by MCP, over standard input and output."
    parser = settings_parser(prog, "[--http] [OPTION...]", description, EXAMPLES, ("page", "mcp"))
    parser.add_argument(
        "--http", action="store_true", help="serve streamable HTTP at /mcp, for many clients"
    )
    known, rest = parser.parse_some(arguments)
    given = vars(known)
    if given.pop("http"):
        if variable("mcp_share") not in os.environ:
            given.setdefault("mcp_share", "1")  # No searches over HTTP need their half of the time.
        settings = read_settings(parser, given | {"mcp": True, "page": False})
        serve(parser, settings, rest)
    else:
        unused = [option(name) for name in given if not name.startswith(STDIO)] + rest
        if unused:
            parser.error(f"`{unused[0]}` needs `--http`")
        settings = read_settings(parser, given)
        # Standard input is read by a thread, which an exception of Ctrl-C would wait for.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        anyio.run(serve_stdio, settings)
    return 0


async def serve_stdio(settings: Settings) -> None:
    """Serve one client until it closes standard input.

    Without a snapshot, calls of tools are errors that say so until one is published.
    """
    from mcp.server.stdio import stdio_server  # noqa: PLC0415  # an optional dependency

    from service.mcp.server import create_server  # noqa: PLC0415  # needs the optional dependency

    snapshots = SnapshotManager(Path(settings.artifacts), connector_of(settings))
    server = create_server(snapshots, lambda _: snapshots.current())
    async with snapshots.run(), stdio_server() as (requests, responses):
        await server.run(requests, responses, server.create_initialization_options())


if __name__ == "__main__":
    sys.exit(main())
