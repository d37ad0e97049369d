"""`python -m service`: serve the published snapshot."""

from __future__ import annotations

import sys

from service.server.options import parse_settings, settings_parser
from service.server.run import serve

EXAMPLES = (
    "{prog}",
    "{prog} --artifacts artifacts --port 8080 --workers 2",
    "RATECARD_ROOT_PATH=/api {prog} --trusted-proxies 127.0.0.1",
)


def main(arguments: list[str] | None = None, prog: str = "python -m service") -> int:
    """Serve until stopped; returns the exit status."""
    description = "Serve the published snapshot over HTTP."
    parser = settings_parser(prog, "[OPTION...]", description, EXAMPLES)
    serve(parse_settings(parser, vars(parser.parse_args(arguments))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
