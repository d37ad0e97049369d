"""Serving the application with uvicorn, whose options and variables are passed through."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import tempfile
from collections.abc import Collection, Iterable
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from typing import Any

import click
import uvicorn
from uvicorn.config import LOGGING_CONFIG
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.cli import Parser
from service.errors import needs_extra
from service.opensearch import connector_of
from service.settings import (
    FIELDS,
    PREFIX,
    SHARED_FOLDER,
    Settings,
    as_text,
    describe,
    option,
    variable,
)

MAX_HEAD = 64 * 1024
"""Bytes of a request line with its headers, and of a chunked body between two pieces of data."""
PIECE = 1024  # bytes of a read that are parsed at a time
SHARED_MEMORY = "/dev/shm"  # noqa: S108  # a folder of a random name is made there
EXAMPLES = (
    "{prog}",
    "{prog} --artifacts artifacts --port 8080 --workers 2",
    "RATECARD_MCP=true {prog} --root-path /api",
)
UVICORN_OPTIONS = (
    "--host, --port, --workers, --root-path, --forwarded-allow-ips, --timeout-graceful-shutdown "
    "and all others of `uvicorn --help` are passed to uvicorn, which also reads UVICORN_HOST and "
    "so on."
)
DEFAULTS: dict[str, Any] = {
    "http": "service.serve:BoundedProtocol",
    "ws": "none",
    "access_log": False,
    "server_header": False,
    "timeout_keep_alive": 75,  # longer than gateways keep connections, so that they close first
    "timeout_graceful_shutdown": 30,
    "timeout_worker_healthcheck": 60,  # for a worker to start or to answer, else it is replaced
}
"""Options of uvicorn with other defaults here."""


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol with a size limit for the head of a request."""

    _unparsed = 0  # bytes since the last complete head, or the last piece of a body

    def data_received(self, data: bytes) -> None:
        """Refuse a head that has not ended within the limit; a read may have more than one head."""
        for start in range(0, len(data), PIECE):
            piece = data[start : start + PIECE]  # most reads are shorter, and are not copied
            self._unparsed += len(piece)
            super().data_received(piece)
            if self._unparsed > MAX_HEAD and not self.transport.is_closing():
                self.send_400_response(f"The request line and headers exceed {MAX_HEAD} bytes.")
            if self.transport.is_closing():
                return

    def on_headers_complete(self) -> None:
        """Expect the body, or another head."""
        self._unparsed = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Expect more of the body, or another head."""
        self._unparsed = 0
        super().on_body(body)


def main(arguments: list[str] | None = None, prog: str = "python -m service") -> int:
    """Serve until stopped; returns the exit status."""
    description = f"Serve the published snapshot over HTTP. {UVICORN_OPTIONS}"
    parser = settings_parser(prog, description, EXAMPLES, Settings.__struct_fields__)
    given, rest = parser.parse_some(arguments)
    serve(parser, read_settings(parser, vars(given)), rest)
    return 0


def settings_parser(
    prog: str, description: str, examples: Iterable[str], names: Collection[str]
) -> Parser:
    """Return a parser with an option for each of these settings; examples may have `{prog}`."""
    parser = Parser(
        prog=prog,
        usage="%(prog)s [OPTION...]",
        description=description,
        examples=[example.format(prog=prog) for example in examples],
    )
    parser.add_version()
    group = parser.add_argument_group("settings, which override their environment variables")
    for field in FIELDS:
        if field.name in names:
            is_flag = isinstance(field.default, bool)
            text = f"{describe(field)} ({variable(field.name)}, "
            text += f"default: {as_text(field.default) or 'none'})"
            kind: dict[str, Any] = {"metavar": field.name.rpartition("_")[2].upper()}
            group.add_argument(
                option(field.name),
                default=argparse.SUPPRESS,
                help=text.replace("%", "%%"),
                **({"action": argparse.BooleanOptionalAction} if is_flag else kind),
            )
    return parser


def read_settings(parser: Parser, given: dict[str, str | bool]) -> Settings:
    """Return the settings of the environment and of these options, or end the program.

    Warns of variables that are no settings.
    """
    known = {variable(field.name) for field in FIELDS}
    for name in sorted(os.environ):
        if name.startswith(PREFIX) and name not in known:
            sys.stderr.write(f"warning: {name} has no effect; it is no setting of this version\n")
    options = {variable(name): as_text(value) for name, value in given.items()}
    try:
        settings = Settings.from_environment(os.environ | options)
        connector_of(settings)
    except (OSError, RuntimeError, ValueError) as error:
        parser.end(f"{error}; `{parser.prog} --help` lists all settings")
    if settings.mcp and find_spec("mcp") is None:
        parser.end(needs_extra(variable("mcp"), "mcp"))
    return settings


def serve(parser: Parser, settings: Settings, arguments: list[str]) -> None:
    """Serve with these options of uvicorn until SIGTERM or SIGINT."""
    try:
        context = uvicorn.main.make_context(
            parser.prog, ["service.app:app", *arguments], default_map=DEFAULTS
        )
    except click.NoSuchOption as error:
        parser.refuse_unknown(error.option_name)
    except click.UsageError as error:
        parser.error(error.format_message())
    root_path = context.params["root_path"]
    if not re.fullmatch("(/[!-~]*[!-.0-~])?", root_path):
        parser.error(f"the root path `{root_path}` is none; write /api, without a slash at its end")
    if not 0 <= context.params["port"] < 2**16:  # uvicorn would listen at another one
        parser.error(f"the port {context.params['port']} is none; the greatest is 65535")
    for name in settings.__struct_fields__:  # the workers read them
        os.environ[variable(name)] = as_text(getattr(settings, name))
    LOGGING_CONFIG["handlers"]["default"] = {  # standard error may be stalled
        "()": "service.http.logs.LineHandler",
        "descriptor": 2,
        "formatter": "default",
    }
    # uvicorn raises the signal once more when it has stopped: exit with 0 then.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    concurrency = os.environ.get("WEB_CONCURRENCY", "1")  # uvicorn reads it without a check
    if not concurrency.isdecimal():
        parser.error(f"WEB_CONCURRENCY is `{concurrency}`, no number of workers")
    workers = context.params["workers"] or int(concurrency)
    os.environ.pop(SHARED_FOLDER, None)  # only workers of one supervisor share a folder
    with ExitStack() as stack:
        if workers > 1:
            # Workers map files of the folder: on a full disk each would end by SIGBUS.
            is_free = "TMPDIR" not in os.environ and os.access(SHARED_MEMORY, os.W_OK)
            memory = SHARED_MEMORY if is_free else None
            folder = stack.enter_context(tempfile.TemporaryDirectory("", "ratecard-", memory))
            os.environ[SHARED_FOLDER] = folder
        # uvicorn catches it itself, but not while it imports the application.
        stack.enter_context(suppress(KeyboardInterrupt))
        uvicorn.main.invoke(stack.enter_context(context))
