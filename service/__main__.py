"""`python -m service`: serve the published snapshot."""

from __future__ import annotations

import argparse
import os
import sys

from service.cli import Parser
from service.server.run import serve
from service.settings import ServerSettings, Settings, describe, variable

EXAMPLES = (
    "{prog}",
    "{prog} --artifacts artifacts --port 8080 --workers 2",
    "RATECARD_ROOT_PATH=/api {prog} --trusted-proxies 127.0.0.1",
)


def main(arguments: list[str] | None = None, prog: str = "python -m service") -> int:
    """Serve until stopped; returns the exit status."""
    given = vars(_parser(prog).parse_args(arguments))
    environment = os.environ | {variable(name): value for name, value in given.items()}
    try:
        settings = ServerSettings.from_environment(environment)
    except ValueError as error:
        print(f"error: {error}; `{prog} --help` lists all settings", file=sys.stderr)
        return 2
    serve(settings)
    return 0


def option(name: str) -> str:
    """Return the command-line option of a setting."""
    return "--" + name.replace("_", "-")


def _parser(prog: str) -> Parser:
    parser = Parser(
        prog=prog,
        usage="%(prog)s [OPTION...]",
        description="Serve the published snapshot over HTTP. Each option has an environment "
        "variable, which it overrides.",
        examples=[example.format(prog=prog) for example in EXAMPLES],
    )
    parser.add_version()
    application = parser.add_argument_group("settings of the application")
    server = parser.add_argument_group("settings of the server")
    defaults = ServerSettings()
    for name in ServerSettings.__struct_fields__:
        group = application if name in Settings.__struct_fields__ else server
        default = getattr(defaults, name)
        value = os.environ.get(variable(name), default)
        text = f"{describe(name)} ({variable(name)}, now: {value if value != '' else 'none'})"
        argument = group.add_argument(
            option(name),
            dest=name,
            default=argparse.SUPPRESS,
            metavar=name.rpartition("_")[2].upper(),
            help=text.replace("%", "%%"),
        )
        if isinstance(default, bool):  # `--page` alone means true
            argument.nargs, argument.const, argument.metavar = "?", "true", "false"
    return parser


if __name__ == "__main__":
    sys.exit(main())
