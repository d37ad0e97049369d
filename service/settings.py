"""Settings of the service, each from one environment variable."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

PREFIX = "RATECARD_"


Seconds = Annotated[float, Meta(ge=0)]


class Settings(Struct, frozen=True, kw_only=True):
    """What an operator can choose; `RATECARD_ARTIFACTS` sets `artifacts`, and so on."""

    artifacts: str = "artifacts"
    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8000
    workers: Annotated[int, Meta(ge=1)] = 1
    root_path: Annotated[str, Meta(pattern=r"^(/[!-~]*[!-.0-~])?$")] = ""
    trusted_proxies: str = ""
    client_timeout: Annotated[int, Meta(ge=1)] = 30
    max_age: Annotated[int, Meta(ge=0)] = 60
    cache_bytes: Annotated[int, Meta(ge=0)] = 64 << 20
    max_lag: Seconds = 1.0
    drain: Seconds = 0.0
    log_requests: bool = False
    metrics_folder: str = ""
    page: bool = True


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
