"""A client of a cluster: only whole responses that can be of the snapshot are returned."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from opensearchpy import AsyncOpenSearch
from opensearchpy.exceptions import ConnectionError as ConnectionFailed
from opensearchpy.exceptions import ConnectionTimeout, OpenSearchException, TransportError
from opensearchpy.serializer import JSONSerializer

from service.errors import EngineUnavailable, IndexMissing, Overloaded
from service.opensearch.connection import CONNECTIONS, ClusterAddress
from service.opensearch.index import ClusterIndex
from service.opensearch.requests import SearchRequest
from service.opensearch.responses import (
    SEARCH_MEMBERS,
    ClusterHealth,
    IndexDescription,
    SearchResponse,
    ShardCount,
    decode_search,
)

MAX_SEARCHES = 256
"""Searches that run or wait for a connection; further ones are refused."""
RETRIES = 2
"""Further nodes that a search is sent to where a node fails: it changes nothing."""
RETRIED_STATUSES = (429, 502, 503, 504)
NODE_TIMEOUT_SHARE = 0.5
"""Share of the timeout after which the next node is asked."""
DEAD_SECONDS = 5
"""Seconds for which a failing node is not asked again; they double with each failure."""
LOG_INTERVAL = 5.0  # seconds
STATUSES: dict[str | int, str] = {
    401: "OpenSearch refuses the credentials of the service",
    403: "OpenSearch forbids the service to search, or blocks the index",
    413: "the request is larger than OpenSearch takes",
    429: "OpenSearch is overloaded",
}
INDEX_MISSING = "OpenSearch lacks the index of this snapshot; build it again"
INVALID_RESPONSE = "the response is none of OpenSearch"
PARTIAL_RESPONSE = "OpenSearch searched a part of the index only; try again"
DECODING_ERRORS = (msgspec.MsgspecError, LookupError, ValueError, RecursionError)

_log = logging.getLogger("uvicorn.error")


class _Serializer(JSONSerializer):
    """Leaves the decoding of responses to `Cluster`, which knows their types."""

    def loads(self, s: str) -> Any:
        return s


class Cluster:
    """The connections of one event loop to a cluster, made on first use.

    No message has the URL of a node, which clients must not see, nor a credential.
    """

    def __init__(self, address: ClusterAddress) -> None:
        # It warns of each request that fails, in an outage of every one.
        logging.getLogger("opensearch").setLevel(logging.CRITICAL)
        self._arguments = address.client_arguments()
        self._timeout = address.timeout
        self._client: AsyncOpenSearch | None = None
        self._searches = 0
        self._logged_at = float("-inf")

    async def search(self, index: ClusterIndex, request: SearchRequest) -> SearchResponse:
        """Search an index. Raises EngineUnavailable unless every shard responded, and Overloaded.

        The numbers of a response are within the bounds of the index.
        """
        if self._searches >= MAX_SEARCHES:
            raise Overloaded("too many searches are waiting; try again in a second")
        options = {
            "allow_partial_search_results": "false",
            "include_named_queries_score": "true",
            "filter_path": SEARCH_MEMBERS,
        }
        milliseconds = round(1000 * NODE_TIMEOUT_SHARE * self._timeout)
        body = request.body(index) | {"timeout": f"{milliseconds}ms"}
        self._searches += 1
        try:
            async with self._failures():
                text = await self._connect().search(index=index.name, body=body, params=options)
                response = decode_search(text, index, request)
        finally:
            self._searches -= 1
        if response is None:
            raise EngineUnavailable(PARTIAL_RESPONSE)
        return response

    async def check(self, index: str) -> None:
        """Raise EngineUnavailable where primary shards of an index are missing, or IndexMissing."""
        # OpenSearch waits for an index that is missing; the client takes the `timeout` for its own
        # unless there is another one.
        params = {"level": "indices", "timeout": "1ms", "request_timeout": self._timeout}
        async with self._failures():
            health = self._connect().cluster.health
            text = await health(index=index, params=params, ignore=(408,))
            known = msgspec.json.decode(text, type=ClusterHealth).indices
        if index not in known:
            raise IndexMissing(INDEX_MISSING)
        if known[index].status == "red":
            raise EngineUnavailable(f"a shard of the index {index} is on no node of OpenSearch")

    async def describe(self, index: str) -> tuple[IndexDescription, int]:
        """Return the fields, the settings and the number of documents of an index."""
        async with self._failures():
            client = self._connect()
            text = await client.indices.get(index=index)
            counted = await client.count(index=index)
            (described,) = msgspec.json.decode(text, type=dict[str, IndexDescription]).values()
            count = msgspec.json.decode(counted, type=ShardCount)
        if not count.shards.is_whole:
            raise EngineUnavailable(f"a shard of the index {index} is on no node of OpenSearch")
        return described, count.count

    @asynccontextmanager
    async def deadline(self) -> AsyncIterator[None]:
        """Bound the time of all searches of one request; raises EngineUnavailable."""
        try:
            async with asyncio.timeout(self._timeout):
                yield
        except TimeoutError as error:
            reason = f"OpenSearch did not answer within {self._timeout:g} seconds"
            raise self._report(reason, error) from None

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            pool = self._client.transport.connection_pool
            await self._client.close()
            # The client forgets connections to nodes that did not answer.
            for connection in getattr(pool, "orig_connections", ()):
                await connection.close()
            self._client = None

    def _connect(self) -> AsyncOpenSearch:
        if self._client is None:
            self._client = AsyncOpenSearch(
                **self._arguments
                | {
                    "timeout": NODE_TIMEOUT_SHARE * self._timeout,
                    "max_retries": RETRIES,
                    "retry_on_timeout": True,
                    "retry_on_status": RETRIED_STATUSES,
                },
                maxsize=CONNECTIONS,
                dead_timeout=DEAD_SECONDS,
                serializer=_Serializer(),
            )
        return self._client

    @asynccontextmanager
    async def _failures(self) -> AsyncIterator[None]:
        """Raise EngineUnavailable for an error, a late response or one that cannot be decoded."""
        try:
            async with self.deadline():
                yield
        except ConnectionTimeout as error:
            reason = f"OpenSearch did not answer within {self._timeout:g} seconds"
            raise self._report(reason, error) from None
        except ConnectionFailed as error:
            reason = "no node of OpenSearch can be reached"
            if isinstance(error.info, ssl.SSLError):
                reason = "the certificate of OpenSearch is not trusted"
            raise self._report(reason, error) from None
        except TransportError as error:
            if _cause(error).get("type") == "index_not_found_exception":
                self._report(INDEX_MISSING, error)
                raise IndexMissing(INDEX_MISSING) from None
            reason = f"OpenSearch cannot search (status {error.status_code})"
            raise self._report(STATUSES.get(error.status_code, reason), error) from None
        except (OpenSearchException, AttributeError, TypeError, *DECODING_ERRORS) as error:
            # The client looks for members of errors that are not objects, too.
            raise self._report(INVALID_RESPONSE, error) from None

    def _report(self, reason: str, error: Exception) -> EngineUnavailable:
        """Log a failure now and then: in an outage, every request fails."""
        now = time.monotonic()
        if now - self._logged_at >= LOG_INTERVAL:
            self._logged_at = now
            _log.error("%s: %s", reason, _detail(error))
        return EngineUnavailable(f"{reason}; try again")


def _detail(error: Exception) -> str:
    """Return what OpenSearch says about an error, without the request."""
    if isinstance(error, TransportError):
        cause = _cause(error)
        return str(cause.get("root_cause") or cause or error.error)[:300]
    return f"{type(error).__name__}: {error}"[:300]


def _cause(error: TransportError) -> dict[str, Any]:
    """Return the cause of an error that OpenSearch tells, empty where it tells none."""
    cause = error.info.get("error") if isinstance(error.info, dict) else None
    return cause if isinstance(cause, dict) else {}
