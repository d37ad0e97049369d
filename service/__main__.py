"""`python -m service`: serve the published snapshot."""

from __future__ import annotations

import sys

from service.cli import Parser
from service.server.options import add_settings, read_settings, settings_parser
from service.server.run import serve

EXAMPLES = (
    "{prog}",
    "{prog} --artifacts artifacts --port 8080 --workers 2",
    "RATECARD_ROOT_PATH=/api {prog} --trusted-proxies 127.0.0.1",
)


def main(arguments: list[str] | None = None, prog: str = "python -m service") -> int:
    """Serve until stopped; returns the exit status."""
    given = vars(_parser(prog).parse_args(arguments))
    try:
        settings = read_settings(given)
    except ValueError as error:
        print(f"error: {error}; `{prog} --help` lists all settings", file=sys.stderr)
        return 2
    serve(settings)
    return 0


def _parser(prog: str) -> Parser:
    description = "Serve the published snapshot over HTTP."
    parser = settings_parser(prog, "[OPTION...]", description, EXAMPLES)
    add_settings(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
