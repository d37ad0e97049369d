"""The engine that searches an OpenSearch cluster; needs the extra `opensearch`."""

from __future__ import annotations

from service.opensearch.address import check_extra, client_arguments
from service.settings import Settings
from service.snapshot.snapshot import Connector


def connector_of(settings: Settings) -> Connector | None:
    """Return the connector of snapshots to a cluster, None for the embedded engine.

    Raises RuntimeError without the extra, and ValueError as `client_arguments`.
    """
    if not settings.opensearch_url:
        return None
    check_extra()
    from service.opensearch.engine import OpenSearch  # noqa: PLC0415  # optional dependencies

    arguments = client_arguments(settings.opensearch_url)
    return OpenSearch(arguments, settings.opensearch_timeout, settings.opensearch_prefix)
