"""`python -m service`: serve the published snapshot."""

from __future__ import annotations

import argparse
import os
import resource
import signal
import sys
import tempfile
from contextlib import suppress
from types import FrameType

import uvicorn

from service.settings import Settings, settings_from, variable
from service.supervisor import Supervisor

KEEP_ALIVE = 75
"""Seconds an idle connection is kept: longer than gateways do, so that theirs is the decision."""
WORKER_ANSWERS = 60
"""Seconds in which a worker has to start, or to answer its supervisor, before it is replaced."""
METRICS_FOLDER = variable("metrics_folder")


def main() -> int:
    """Serve until stopped; returns the exit status."""
    try:
        settings = _settings()
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for name in Settings.__struct_fields__:  # how workers, which are processes, learn of them
        os.environ[variable(name)] = str(getattr(settings, name))
    _open_as_many_files_as_allowed()
    config = uvicorn.Config(
        "service.app:create_app",
        factory=True,
        http="service.protocol:Protocol",
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
    defaults = settings_from()
    parser = argparse.ArgumentParser(
        prog="python -m service",
        description="Serve the published snapshot. Each option has an environment variable.",
        epilog="example: python -m service --artifacts artifacts --port 8080 --workers 2",
    )
    for name in Settings.__struct_fields__:
        default = getattr(defaults, name)
        argument = parser.add_argument(
            option(name), dest=name, default=default, help=f"{variable(name)} (now: {default!r})"
        )
        if isinstance(default, bool):  # a switch needs no value
            argument.nargs, argument.const = "?", "true"
    given = vars(parser.parse_args())
    return settings_from({variable(name): str(value) for name, value in given.items()})


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
