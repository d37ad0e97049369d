"""Object stores by URL: buckets, folders, and the snapshots that another Ratecard serves."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from obstore.exceptions import BaseError
from obstore.store import HTTPStore, from_url

from service.errors import without_credentials

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

SNAPSHOTS_PATH = "/v1/snapshots"
BUCKETS = ("s3", "gs", "az")
CLIENT: ClientConfig = {
    "allow_http": True,
    "connect_timeout": "5s",
    "read_timeout": "30s",
    "timeout": "10m",  # of a transfer, which is resumed then
}
RETRIES: RetryConfig = {"max_retries": 2, "retry_timeout": timedelta(seconds=10)}
MAX_REASON = 1000
"""Characters of an error that are read: obstore quotes the whole body of the response."""

_body = re.compile(r"(status code: \d{3} [^:]*):.*")
_elapsed = re.compile(r" in [\d.]+[a-zµ]+(?:, after [^-]*)? -")


def open_store(url: str) -> ObjectStore:
    """Open the store that a URL names; raises ValueError.

    Credentials and endpoints of buckets come from the environment, as `AWS_ACCESS_KEY_ID`.
    """
    parts = urlsplit(url)
    try:
        if parts.scheme == "file" and parts.path.startswith("/") and not parts.netloc:
            return from_url(url)
        if parts.scheme in ("http", "https") and parts.hostname:
            base = parts._replace(path=parts.path.rstrip("/") + SNAPSHOTS_PATH, query="")
            return HTTPStore.from_url(base.geturl(), client_options=CLIENT, retry_config=RETRIES)
        if parts.scheme in BUCKETS and parts.netloc:
            return from_url(url, client_options=CLIENT, retry_config=RETRIES)
    except (BaseError, ValueError) as error:
        raise ValueError(
            f"the {parts.scheme} store cannot be opened: {reason_of(error)}"
        ) from error
    raise ValueError(
        "what is followed must be a URL as s3://bucket/prefix, gs://bucket/prefix, "
        "az://container/prefix, file:///folder or https://catalogue.example"
    )


def reason_of(error: Exception) -> str:
    """Return the URL and the status of an error of a store, without credentials.

    The body of the response is left out, as a redirect may have led to another server, and so are
    times and retries: the same failure has the same text at each look.
    """
    line = str(error)[:MAX_REASON].partition("\n")[0]
    return without_credentials(_elapsed.sub(":", _body.sub(r"\1", line)))
