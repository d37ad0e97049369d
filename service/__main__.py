"""`python -m service`: serve the published snapshot."""

from __future__ import annotations

import argparse
import errno
import os
import resource
import signal
import socket
import sys
import tempfile
from contextlib import suppress
from types import FrameType

import uvicorn

from service.cli import Parser
from service.server.supervisor import Supervisor
from service.settings import OF_THE_APPLICATION, Settings, describe, settings_from, variable

KEEP_ALIVE = 75
"""Seconds an idle connection is kept: longer than gateways do, so that theirs is the decision."""
WORKER_ANSWERS = 60
"""Seconds in which a worker has to start, or to answer its supervisor, before it is replaced."""
METRICS_FOLDER = variable("metrics_folder")
EXAMPLES = (
    "python -m service",
    "python -m service --artifacts artifacts --port 8080 --workers 2",
    "RATECARD_ROOT_PATH=/api python -m service --trusted-proxies 127.0.0.1",
)


def main() -> int:
    """Serve until stopped; returns the exit status."""
    try:
        settings = _settings()
    except ValueError as error:
        print(f"error: {error}; `python -m service --help` has all settings", file=sys.stderr)
        return 2
    if reason := _why_not_there(settings):
        print(f"error: {reason}", file=sys.stderr)
        return 1
    for name in Settings.__struct_fields__:  # how workers, which are processes, learn of them
        os.environ[variable(name)] = str(getattr(settings, name))
    _open_as_many_files_as_allowed()
    config = uvicorn.Config(
        "service.app:create_app",
        factory=True,
        http="service.server.protocol:Protocol",
        ws="none",
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=settings.client_timeout,
        timeout_worker_healthcheck=WORKER_ANSWERS,
        host=settings.host,
        port=settings.port,
        workers=settings.workers,
        root_path=settings.root_path,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=settings.trusted_proxies,
        access_log=False,
        server_header=False,
    )
    with suppress(KeyboardInterrupt):
        if settings.workers == 1:
            signal.signal(signal.SIGTERM, _stop)  # uvicorn raises it once more when it has stopped
            uvicorn.Server(config).run()
        else:
            _supervise(config)
    return 0


def _supervise(config: uvicorn.Config) -> None:
    with tempfile.TemporaryDirectory(prefix="ratecard-metrics-") as folder:
        if not os.environ[METRICS_FOLDER]:
            os.environ[METRICS_FOLDER] = folder
        Supervisor(config, [config.bind_socket()]).run()


def _settings() -> Settings:
    parser = Parser(
        prog="python -m service",
        usage="%(prog)s [OPTION...]",
        description="Serve the published snapshot over HTTP. Each option has an environment "
        "variable, which it overrides.",
        examples=EXAMPLES,
    )
    parser.add_version()
    application = parser.add_argument_group("what is answered")
    server = parser.add_argument_group("how it is served")
    for name in Settings.__struct_fields__:
        group = application if name in OF_THE_APPLICATION else server
        default = getattr(Settings(), name)
        now = os.environ.get(variable(name), default)
        described = f"{describe(name)} ({variable(name)}, now: {now if now != '' else 'none'})"
        argument = group.add_argument(
            option(name),
            dest=name,
            default=argparse.SUPPRESS,
            metavar=name.rpartition("_")[2].upper(),
            help=described.replace("%", "%%"),
        )
        if isinstance(default, bool):  # a switch needs no value
            argument.nargs, argument.const, argument.metavar = "?", "true", "false"
    given = vars(parser.parse_args())
    return settings_from(os.environ | {variable(name): value for name, value in given.items()})


def _why_not_there(settings: Settings) -> str:
    """Why nothing can listen where it should, and what to do; empty as far as can be told.

    The server would log this after it has started, and not what to do.
    """
    try:
        places = socket.getaddrinfo(
            settings.host or None,
            settings.port,
            type=socket.SOCK_STREAM,
            flags=socket.AI_PASSIVE,
        )
        for family, kind, protocol, _, address in places:
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)  # the same
                probe.bind(address)
    except socket.gaierror as error:
        return f"--host {settings.host}: {error.strerror}; 127.0.0.1 is this machine alone"
    except OSError as error:
        other = {
            errno.EADDRINUSE: settings.port % 65535 + 1,
            errno.EACCES: Settings().port,  # those below 1024 are not for everyone
        }.get(error.errno or 0)
        if other is not None:
            where = f"{settings.host}:{settings.port}"
            advice = f"choose another port: python -m service --port {other}"
            return f"{where}: {error.strerror}; {advice}"
    return ""  # what else there may be the server finds out


def option(name: str) -> str:
    """The command-line option of a setting."""
    return "--" + name.replace("_", "-")


def _open_as_many_files_as_allowed() -> None:
    """Each connection is an open file, and the soft limit is often 1,024."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # some systems allow less than they say
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


if __name__ == "__main__":
    sys.exit(main())
