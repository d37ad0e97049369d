"""Settings of the service, each from one environment variable."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Annotated, get_type_hints

import msgspec
from msgspec import Meta, Struct

PREFIX = "RATECARD_"


class Settings(Struct, frozen=True, kw_only=True):
    """What an operator can choose; `RATECARD_ARTIFACTS` sets `artifacts`, and so on."""

    artifacts: Annotated[str, Meta(description="the folder that the indexer publishes to")] = (
        "artifacts"
    )
    host: Annotated[str, Meta(description="the address to listen on")] = "127.0.0.1"
    port: Annotated[
        int, Meta(ge=0, le=65535, description="the port to listen on; 0 takes a free one")
    ] = 8000
    workers: Annotated[
        int,
        Meta(
            ge=1,
            description="how many processes serve; they share the snapshot's memory, and one that "
            "dies is replaced",
        ),
    ] = 1
    root_path: Annotated[
        str,
        Meta(
            pattern=r"^(/[!-~]*[!-.0-~])?$",
            description="the prefix under which a gateway publishes the service, and that it "
            "strips",
        ),
    ] = ""
    trusted_proxies: Annotated[
        str,
        Meta(
            description="addresses or networks, separated by commas, whose `X-Forwarded-For` and "
            "`X-Forwarded-Proto` are believed"
        ),
    ] = ""
    client_timeout: Annotated[
        int,
        Meta(
            ge=1,
            description="seconds for which a client may neither finish a request nor read its "
            "answer",
        ),
    ] = 30
    max_age: Annotated[
        int,
        Meta(
            ge=0,
            description="seconds for which clients and gateways may use an answer without asking "
            "again (`Cache-Control`); 0 has them ask every time",
        ),
    ] = 60
    cache_bytes: Annotated[
        int,
        Meta(
            ge=0,
            description="memory of each worker for answers that it made already; gone with their "
            "snapshot",
        ),
    ] = 64 << 20
    max_lag: Annotated[
        float,
        Meta(
            ge=0,
            description="seconds that requests may wait for their turn before searches are refused "
            "with 503; 0 never refuses any",
        ),
    ] = 1.0
    drain: Annotated[
        float,
        Meta(
            ge=0,
            description="seconds after SIGTERM for which `/readyz` answers 503 and all else is "
            "answered still, so that gateways stop sending",
        ),
    ] = 0.0
    log_requests: Annotated[
        bool, Meta(description="write one line of JSON for each request to standard output")
    ] = False
    metrics_folder: Annotated[
        str,
        Meta(
            description="where workers tell each other what they count; `python -m service` makes "
            "one for several workers"
        ),
    ] = ""
    page: Annotated[
        bool, Meta(description="serve the page for people; `false` leaves the JSON alone")
    ] = True


OF_THE_APPLICATION = (
    "artifacts",
    "max_age",
    "cache_bytes",
    "max_lag",
    "drain",
    "log_requests",
    "metrics_folder",
    "page",
)
"""The settings that matter whatever server runs the application."""


def settings_from(
    environment: Mapping[str, str] = os.environ,
    names: Iterable[str] = Settings.__struct_fields__,
) -> Settings:
    """Read the variables of these settings where they are set.

    Raises ValueError when one cannot be read.
    """
    given = {name: environment[variable(name)] for name in names if variable(name) in environment}
    try:
        return msgspec.convert(given, Settings, strict=False)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$.")
        raise ValueError(f"{variable(path.rstrip('`'))}: {reason}") from error


def variable(name: str) -> str:
    """The environment variable of a setting."""
    return PREFIX + name.upper()


def describe(name: str) -> str:
    """What a setting is for, in one line."""
    hints = get_type_hints(Settings, include_extras=True)
    (meta,) = hints[name].__metadata__
    return str(meta.description)
