"""A client of a cluster: one search at a time is asked, whole answers alone are returned."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import msgspec
import orjson
from msgspec import Struct
from opensearchpy import AsyncOpenSearch
from opensearchpy.exceptions import ConnectionError as NoConnection
from opensearchpy.exceptions import ConnectionTimeout, OpenSearchException, TransportError
from opensearchpy.serializer import JSONSerializer

from service.errors import EngineUnavailable, IndexMissing, Overloaded
from service.opensearch.connection import CONNECTIONS, ClusterAddress

MAX_SEARCHES = 256
"""Searches that run or wait for a connection; further ones are refused."""
RETRIES = 2
"""Further nodes that a search is sent to where a node does not answer: it changes nothing."""
PATIENCE = 0.5
"""Part of the timeout for which one node is waited for, so that a silent one is noticed in time."""
DEAD_SECONDS = 5
"""Seconds for which a node without connection is not asked again; they double with each failure."""
LOG_INTERVAL = 5.0  # seconds
STATUSES = {
    401: "OpenSearch refuses the credentials of the service",
    403: "OpenSearch forbids the service to search, or blocks the index",
    413: "the request is larger than OpenSearch takes",
    429: "OpenSearch is overloaded",
}
NOT_FOUND = 404
MISSING = "OpenSearch lacks an index of this snapshot; build it again"
STRANGE = "OpenSearch answered something else"
NO_ANSWER = (AttributeError, KeyError, TypeError, ValueError, msgspec.ValidationError)
"""Exceptions of a look at an answer that is none of OpenSearch."""
WANTED = (
    "timed_out,_shards.total,_shards.successful,hits.total.value,hits.hits.sort,"
    "hits.hits.matched_queries,aggregations"
)

_log = logging.getLogger("uvicorn.error")


class Shards(Struct):
    """The shards that a search asked, and those that answered."""

    total: int
    successful: int


class Total(Struct):
    """The exact number of matches."""

    value: int


class Hit(Struct):
    """A match: the values that it is sorted by, and the scores of named clauses."""

    sort: list[float] = []
    matched_queries: dict[str, float] = {}


class HitPage(Struct):
    """A page of matches."""

    total: Total
    hits: list[Hit] = []


class SearchResponse(Struct):
    """The answer of a cluster to a search."""

    timed_out: bool
    shards: Shards = msgspec.field(name="_shards")
    hits: HitPage
    aggregations: dict[str, Any] = {}

    @property
    def total(self) -> int:
        """The exact number of matches."""
        return self.hits.total.value


class _Serializer(JSONSerializer):
    """Decodes with orjson, which takes a fifth of the time."""

    def loads(self, s: str) -> Any:
        return orjson.loads(s)


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

    async def search(self, index: str, body: dict[str, Any]) -> SearchResponse:
        """Search an index. Raises EngineUnavailable unless every shard answered, and Overloaded."""
        if self._searches >= MAX_SEARCHES:
            raise Overloaded("too many searches are waiting; try again in a second")
        milliseconds = round(1000 * PATIENCE * self._timeout)
        options = {
            "allow_partial_search_results": "false",
            "include_named_queries_score": "true",
            "filter_path": WANTED,
        }
        body = {
            "_source": False,
            "stored_fields": "_none_",
            "track_total_hits": True,
            "timeout": f"{milliseconds}ms",
            **body,
        }
        self._searches += 1
        try:
            async with self._failures():
                answer = await self._connect().search(index=index, body=body, params=options)
            with _decoding():
                response = msgspec.convert(answer, SearchResponse)
        finally:
            self._searches -= 1
        if response.timed_out or response.shards.successful != response.shards.total:
            raise EngineUnavailable("OpenSearch answered for a part of the index only; try again")
        return response

    async def health(self, indexes: Sequence[str]) -> str:
        """Return the status of the shards of some indexes: green, or yellow without replicas.

        Raises EngineUnavailable where primary shards are missing, and IndexMissing.
        """
        # OpenSearch waits for an index that is missing; the client takes the `timeout` for its own
        # unless there is another one.
        params = {"level": "indices", "timeout": "1ms", "request_timeout": self._timeout}
        async with self._failures():
            health = self._connect().cluster.health
            answer = await health(index=",".join(indexes), params=params, ignore=(408,))
        with _decoding():
            status: str = answer["status"]
            known = {name: each["status"] for name, each in answer["indices"].items()}
        for name in indexes:
            if name not in known:
                raise IndexMissing(MISSING)
            if known[name] == "red":
                raise EngineUnavailable(f"a shard of the index {name} is on no node of OpenSearch")
        return status

    async def describe(self, index: str) -> tuple[dict[str, Any], dict[str, Any], int]:
        """Return the fields, the settings and the number of documents of an index."""
        async with self._failures():
            client = self._connect()
            answers = await client.indices.get(index=index)
            counted = await client.count(index=index)
        with _decoding():
            (described,) = answers.values()
            fields = described["mappings"].get("properties", {})
            shards = msgspec.convert(counted["_shards"], Shards)
            count: int = counted["count"]
            settings = described["settings"]["index"]
        if shards.successful != shards.total:
            raise EngineUnavailable(f"a shard of the index {index} is on no node of OpenSearch")
        return fields, settings, count

    @asynccontextmanager
    async def deadline(self) -> AsyncIterator[None]:
        """Bound the time of all searches of one request; raises EngineUnavailable."""
        try:
            async with asyncio.timeout(self._timeout):
                yield
        except TimeoutError as error:
            reason = f"OpenSearch did not answer within {self._timeout:g} seconds"
            raise self._log(reason, error) from None

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
                    "timeout": PATIENCE * self._timeout,
                    "max_retries": RETRIES,
                    "retry_on_timeout": True,
                    "retry_on_status": (),
                },
                maxsize=CONNECTIONS,
                dead_timeout=DEAD_SECONDS,
                serializer=_Serializer(),
            )
        return self._client

    @asynccontextmanager
    async def _failures(self) -> AsyncIterator[None]:
        """Raise EngineUnavailable for what a client may raise, and for a late answer."""
        try:
            async with asyncio.timeout(self._timeout):
                yield
        except (TimeoutError, ConnectionTimeout) as error:
            reason = f"OpenSearch did not answer within {self._timeout:g} seconds"
            raise self._log(reason, error) from None
        except NoConnection as error:
            reason = "no node of OpenSearch can be reached"
            if isinstance(error.info, ssl.SSLError):
                reason = "the certificate of OpenSearch is not trusted"
            raise self._log(reason, error) from None
        except TransportError as error:
            status = error.status_code if isinstance(error.status_code, int) else 0
            if status == NOT_FOUND:
                self._log(MISSING, error)
                raise IndexMissing(MISSING) from None
            reason = STATUSES.get(status, f"OpenSearch cannot search (status {status})")
            raise self._log(reason, error) from None
        except OpenSearchException as error:
            raise self._log(STRANGE, error) from None

    def _log(self, reason: str, error: Exception) -> EngineUnavailable:
        """Log a failure now and then: in an outage, every request fails."""
        now = time.monotonic()
        if now - self._logged_at >= LOG_INTERVAL:
            self._logged_at = now
            _log.error("%s: %s", reason, _detail(error))
        return EngineUnavailable(f"{reason}; try again")


@contextmanager
def _decoding() -> Iterator[None]:
    """Raise EngineUnavailable for an answer that is none of OpenSearch."""
    try:
        yield
    except NO_ANSWER as error:
        _log.error("%s: %r", STRANGE, error)
        raise EngineUnavailable(f"{STRANGE}; try again") from None


def _detail(error: Exception) -> str:
    """Return what OpenSearch says about an error, without the request."""
    if isinstance(error, TransportError):
        info = error.info
        cause = info.get("error") if isinstance(info, dict) else None
        if isinstance(cause, dict):
            causes = cause.get("root_cause") or [cause]
            return "; ".join(f"{each.get('type')}: {each.get('reason')}" for each in causes[:3])
        return str(error.error)[:300]
    return f"{type(error).__name__}: {error}"[:300]
