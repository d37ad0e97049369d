"""`python -m service.mcp`: MCP over standard input and output, or over HTTP."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import anyio

from service.opensearch import connector_of
from service.serve import read_settings, serve, settings_parser
from service.settings import Settings, option
from service.snapshot.manager import SnapshotManager

EXAMPLES = ("{prog} --artifacts artifacts", "{prog} --http --port 8001")
STDIO = ("artifacts", "opensearch_")  # beginnings of settings without `--http`


def main(arguments: list[str] | None = None, prog: str = "python -m service.mcp") -> int:
    """Serve until the client leaves, or with `--http` until stopped; returns the exit status."""
    description = "Serve the published snapshot to agents by MCP, over standard input and output."
    parser = settings_parser(prog, "[--http] [OPTION...]", description, EXAMPLES, ("page", "mcp"))
    parser.add_argument(
        "--http", action="store_true", help="serve streamable HTTP at /mcp, for many clients"
    )
    known, rest = parser.parse_some(arguments)
    given = vars(known)
    is_http = given.pop("http")
    unused = [option(name) for name in given if not name.startswith(STDIO)] + rest
    if unused and not is_http:
        parser.error(f"`{unused[0]}` needs `--http`")
    settings = read_settings(parser, given | {"mcp": True, "page": False})
    if is_http:
        serve(parser, settings, rest)
    else:
        # Standard input is read by a thread, which an exception of Ctrl-C would wait for.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        anyio.run(serve_stdio, settings)
    return 0


async def serve_stdio(settings: Settings) -> None:
    """Serve one client until it closes standard input."""
    from service.mcp.server import create_server  # noqa: PLC0415  # needs an optional dependency

    snapshots = SnapshotManager(Path(settings.artifacts), connector_of(settings))
    async with snapshots.run():
        await create_server(snapshots).run_stdio_async()


if __name__ == "__main__":
    sys.exit(main())
