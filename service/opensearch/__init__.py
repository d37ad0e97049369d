"""Searching in an OpenSearch cluster that has the postings of a snapshot; needs an extra."""

from __future__ import annotations

from service.opensearch.connection import MODULES, NEEDS_EXTRA, address_of
from service.settings import Settings
from service.snapshot.snapshot import Connector


def connector_of(settings: Settings) -> Connector | None:
    """Return the connector of snapshots to a cluster, None for the embedded engine.

    Raises RuntimeError without the extra, ValueError and OSError as `client_arguments`.
    """
    if settings.engine != "opensearch":
        return None
    try:
        from service.opensearch.postings import OpenSearch  # noqa: PLC0415  # optional dependencies
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in MODULES:
            raise
        raise RuntimeError(NEEDS_EXTRA) from error
    return OpenSearch(address_of(settings))
