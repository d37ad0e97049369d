"""`python -m service`: serve the published snapshot."""

from __future__ import annotations

import argparse
import os
import sys

import uvicorn

from service.settings import Settings, settings_from, variable


def main() -> int:
    """Serve until stopped; returns the exit status."""
    try:
        settings = _settings()
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for name in Settings.__struct_fields__:  # how workers, which are processes, learn of them
        os.environ[variable(name)] = str(getattr(settings, name))
    uvicorn.run(
        "service.app:app",
        host=settings.host,
        port=settings.port,
        workers=settings.workers,
        access_log=False,
        server_header=False,
    )
    return 0


def _settings() -> Settings:
    defaults = settings_from()
    parser = argparse.ArgumentParser(
        prog="python -m service",
        description="Serve the published snapshot. Each option has an environment variable.",
        epilog="example: python -m service --artifacts artifacts --port 8080 --workers 2",
    )
    for name in Settings.__struct_fields__:
        default = getattr(defaults, name)
        parser.add_argument(
            f"--{name}", default=default, help=f"{variable(name)} (now: %(default)s)"
        )
    given = vars(parser.parse_args())
    return settings_from({variable(name): str(value) for name, value in given.items()})


if __name__ == "__main__":
    sys.exit(main())
