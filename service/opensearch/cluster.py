"""A client of an OpenSearch cluster, whose failures are errors of the service.

No message has a URL of a node, which clients must not see, nor a credential.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from opensearchpy import AsyncOpenSearch
from opensearchpy.exceptions import ConnectionError as ConnectionFailed
from opensearchpy.exceptions import ConnectionTimeout, OpenSearchException, TransportError

from service.errors import EngineUnavailable, IndexMissing
from service.schema.values import Json

CLIENT: Json = {
    "maxsize": 32,  # connections to a node, for which further searches wait
    "max_retries": 2,  # at other nodes: a search changes nothing
    "retry_on_timeout": True,
    "retry_on_status": (429, 502, 503, 504),
    "dead_timeout": 5,  # seconds for which a failing node is not asked, doubled each time
}
NO_SOURCE = {"_source": False, "stored_fields": "_none_"}
SEARCH = {
    "allow_partial_search_results": "false",
    "search_type": "dfs_query_then_fetch",  # the frequencies of all shards
}
LOG_INTERVAL = 5  # seconds
# Responses of other programs raise the errors after the first.
FAILURES = (OpenSearchException, LookupError, TypeError, ValueError, AttributeError, RecursionError)
REASONS: dict[str | int, str] = {
    401: "it refuses the credentials",
    403: "it forbids this to the user, or blocks the index",
    429: "it is overloaded",
}
_log = logging.getLogger("uvicorn.error")
# The client warns of each request that fails, in an outage of every one.
logging.getLogger("opensearch").setLevel(logging.CRITICAL)


class Cluster:
    """The connections of one event loop to a cluster, made on first use.

    prefix: of the names of its indexes, one for each snapshot
    """

    def __init__(self, arguments: Json, timeout: float, prefix: str) -> None:
        # The next node is asked after half of the timeout.
        self._arguments = CLIENT | arguments | {"timeout": timeout / 2}
        self._timeout, self.prefix = timeout, prefix
        self._client: AsyncOpenSearch | None = None
        self._logged_at = float("-inf")

    async def search(self, index: str, body: Json) -> Json:
        """Return the response of every shard."""
        self._client = self._client or AsyncOpenSearch(**self._arguments)
        response: Json = await self._client.search(
            index=index, body=body | NO_SOURCE, params=SEARCH
        )
        shards = response["_shards"]
        if response["timed_out"] or not 0 < shards["total"] == shards["successful"]:
            raise EngineUnavailable("OpenSearch searched a part of the index only; try again")
        return response

    @asynccontextmanager
    async def request(self) -> AsyncIterator[None]:
        """Raise EngineUnavailable for a late request, an error, or a response of other programs."""
        try:
            async with asyncio.timeout(self._timeout):
                yield
        except (TimeoutError, ConnectionTimeout):
            late = f"OpenSearch did not answer within {self._timeout:g} seconds; try again"
            raise EngineUnavailable(late) from None
        except FAILURES as error:
            cause, reason, now = cause_of(error), reason_of(error), time.monotonic()
            if cause.get("type") == "index_not_found_exception":
                missing = "OpenSearch lacks the index of this snapshot; build it again"
                raise IndexMissing(missing) from None
            if now - self._logged_at >= LOG_INTERVAL:  # in an outage, every request fails
                self._logged_at = now
                _log.error("OpenSearch: %s %s", reason, str(cause or error)[:300])
            raise EngineUnavailable(f"OpenSearch: {reason}; try again") from None

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            pool = self._client.transport.connection_pool
            await self._client.close()
            # The client forgets connections to nodes that did not answer.
            for connection in getattr(pool, "orig_connections", ()):
                await connection.close()
            self._client = None


def reason_of(error: Exception) -> str:
    """Return why a request failed, for anybody."""
    if isinstance(error, ConnectionFailed):
        is_untrusted = isinstance(error.info, ssl.SSLError) or "certificate" in str(error.error)
        return "its certificate is not trusted" if is_untrusted else "no node can be reached"
    if isinstance(error, TransportError):
        return REASONS.get(error.status_code, f"it cannot do this (status {error.status_code})")
    return f"the response is none of it ({type(error).__name__})"


def cause_of(error: Exception) -> Json:
    """Return the cause of an error that OpenSearch tells, empty where it tells none."""
    info = error.info if isinstance(error, TransportError) else None
    cause = info.get("error") if isinstance(info, dict) else None
    return cause if isinstance(cause, dict) else {}
