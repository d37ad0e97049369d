"""Running the application with uvicorn."""

from __future__ import annotations

import copy
import os
import resource
import signal
import sys
import tempfile
from contextlib import ExitStack, suppress
from typing import Any

import uvicorn
from uvicorn.config import LOGGING_CONFIG

from service.http.logs import STDERR
from service.http.metrics import SHARED_FOLDER
from service.settings import ServerSettings, variable

KEEP_ALIVE = 75
"""Seconds that an idle connection is kept: longer than gateways do, so that they are first."""
WORKER_TIMEOUT = 60
"""Seconds for a worker to start, or to answer its supervisor, before it is replaced."""


def serve(settings: ServerSettings) -> None:
    """Serve until SIGTERM or SIGINT. The workers read their settings from the environment."""
    os.environ.update(
        {variable(name): str(getattr(settings, name)) for name in settings.__struct_fields__}
    )
    _raise_file_limit()
    # uvicorn raises the signal once more when it has stopped: exit with 0 then.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with ExitStack() as stack:
        os.environ.pop(SHARED_FOLDER, None)
        if settings.workers > 1:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ratecard-"))
            os.environ[SHARED_FOLDER] = folder
        # uvicorn catches it itself, but not while it imports the application.
        stack.enter_context(suppress(KeyboardInterrupt))
        uvicorn.run(
            "service.app:app",
            host=settings.host,
            port=settings.port,
            workers=settings.workers,
            root_path=settings.root_path,
            proxy_headers=bool(settings.trusted_proxies),
            forwarded_allow_ips=settings.trusted_proxies,
            http="service.server.protocol:BoundedProtocol",
            ws="none",
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=settings.client_timeout,
            timeout_worker_healthcheck=WORKER_TIMEOUT,
            access_log=False,
            server_header=False,
            log_config=_log_config(),
        )


def _log_config() -> dict[str, Any]:
    """Return uvicorn's logging configuration for standard error that may be stalled.

    Without warnings that any client can cause.
    """
    config = copy.deepcopy(LOGGING_CONFIG)
    config["filters"] = {"faults": {"()": "service.server.protocol.IgnoreClientFaults"}}
    config["handlers"]["default"] = {
        "()": "service.http.logs.LineHandler",
        "descriptor": STDERR,
        "formatter": "default",
        "filters": ["faults"],
    }
    return config


def _raise_file_limit() -> None:
    """Raise the soft limit of open files, often 1,024, to the hard one: a connection is a file."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # some systems allow less than they say
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
