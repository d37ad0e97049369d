"""`python -m service.mcp`: MCP over standard input and output, or over HTTP."""

from __future__ import annotations

import os
import signal
import sys
from importlib.util import find_spec
from pathlib import Path

import anyio
from msgspec.structs import replace

from service.artifacts.manager import SnapshotManager
from service.errors import needs_extra
from service.opensearch import connector_of
from service.server.options import option, parse_settings, settings_parser
from service.server.run import serve
from service.settings import ServerSettings, Settings, variable

EXAMPLES = (
    "{prog} --artifacts artifacts",
    "{prog} --http --port 8001 --mcp-hosts mcp.example.com",
)
NAMES = [name for name in ServerSettings.__struct_fields__ if name not in ("page", "mcp")]
STDIO = {
    name for name in NAMES if name in ("artifacts", "engine") or name.startswith("opensearch_")
}
"""The settings that do not need `--http`."""


def main(arguments: list[str] | None = None, prog: str = "python -m service.mcp") -> int:
    """Serve until the client leaves, or with `--http` until stopped; returns the exit status."""
    if find_spec("mcp") is None:
        print(f"error: {needs_extra(prog, 'mcp')}", file=sys.stderr)
        return 2
    description = "Serve the published snapshot to agents by MCP, over standard input and output."
    parser = settings_parser(prog, "[--http] [OPTION...]", description, EXAMPLES, NAMES)
    parser.add_argument(
        "--http", action="store_true", help="serve streamable HTTP at /mcp, for many clients"
    )
    given = vars(parser.parse_args(arguments))
    is_http = given.pop("http")
    unused = sorted(given.keys() - STDIO)
    if unused and not is_http:
        parser.error(f"`{option(unused[0])}` needs `--http`")
    if is_http and variable("mcp_share") not in os.environ:
        given.setdefault("mcp_share", "1")  # No searches over HTTP need their half of the time.
    settings = parse_settings(parser, given)
    if is_http:
        serve(replace(settings, mcp=True, page=False))
    else:
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
