"""`python -m service.mcp`: MCP over standard input and output."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import anyio

from service.opensearch import connector_of
from service.serve import read_settings, settings_parser
from service.settings import Settings
from service.snapshot.manager import SnapshotManager

SETTINGS = ("artifacts", "opensearch_url", "opensearch_prefix", "opensearch_timeout")


def main(arguments: list[str] | None = None, prog: str = "python -m service.mcp") -> int:
    """Serve until the client leaves; returns the exit status."""
    description = (
        "Serve the published snapshot to an agent by MCP, over standard input and output. "
        "`ratecard serve --mcp` serves many, over HTTP."
    )
    examples = ("{prog} --artifacts artifacts",)
    parser = settings_parser(prog, description, examples, SETTINGS)
    settings = read_settings(parser, vars(parser.parse_args(arguments)) | {"mcp": True})
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
