"""`python -m service.replicas`: follow the snapshots of another Ratecard or of a bucket."""

from __future__ import annotations

import logging
import os
import random
import resource
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from service.server.options import parse_settings, settings_parser
from service.settings import ServerSettings

if TYPE_CHECKING:
    from service.replicas.follower import Follower

EXAMPLES = (
    "{prog} --follow s3://bucket/prefix",
    "{prog} --follow https://catalogue.example --artifacts artifacts --once",
)
MEMORY = 2 << 30
"""Bytes that the process may take besides those of its start."""
OPTIONS = ("artifacts", "follow", "follow_interval", "trust", "follow_max_age", "keep", "downloads")


def main(arguments: list[str] | None = None, prog: str = "python -m service.replicas") -> int:
    """Follow until stopped, or look once with `--once`; returns the exit status."""
    description = (
        "Keep an artifacts folder as its origin publishes, for a service that runs beside."
    )
    parser = settings_parser(prog, "--follow URL [OPTION...]", description, EXAMPLES, OPTIONS)
    parser.add_argument("--once", action="store_true", help="look once; exit with 1 if that failed")
    parser.add_argument("--supervised", action="store_true", help="end with standard input")
    given = vars(parser.parse_args(arguments))
    is_single, is_supervised = given.pop("once"), given.pop("supervised")
    settings = parse_settings(parser, given)
    if not settings.follow:
        parser.error("`--follow` is missing")
    try:
        follower = make_follower(settings)
    except ValueError as error:
        parser.error(str(error))
    logging.basicConfig(format="%(levelname)s:     %(message)s", level=logging.INFO)
    if is_supervised:
        threading.Thread(target=_end_with_supervisor, daemon=True).start()
    if is_single:
        return 0 if follower.look() else 1
    with suppress(KeyboardInterrupt):
        while True:
            follower.look()
            chance = random.random()  # noqa: S311  # keeps replicas apart
            time.sleep(follower.pause(settings.follow_interval, chance))
    return 0


def make_follower(settings: ServerSettings) -> Follower:
    """Return the follower that the settings describe; raises ValueError."""
    from service.artifacts.pointer import read_public_key  # noqa: PLC0415  # needs the extra
    from service.replicas.follower import Follower  # noqa: PLC0415  # needs the extra
    from service.replicas.origin import open_origin  # noqa: PLC0415  # needs the extra

    return Follower(
        Path(settings.artifacts),
        open_origin(settings.follow),
        settings.keep,
        trust=read_public_key(Path(settings.trust)) if settings.trust else None,
        max_age=settings.follow_max_age,
        downloads=settings.downloads,
    )


def limit_memory() -> None:
    """Have the process end at MEMORY more bytes than it has.

    obstore reads the whole body of an error, which may have no end, and the kernel would choose
    among all processes of a machine without memory.
    """
    with suppress(OSError, ValueError):  # no Linux, or a lower limit
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[5])
        limit = pages * resource.getpagesize() + MEMORY
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def _end_with_supervisor() -> None:
    """End the process when the pipe from the supervisor is closed, at whatever it is."""
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    limit_memory()
    sys.exit(main())
