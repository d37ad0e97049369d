"""Loading a snapshot's indexes, switching the aliases to them, and removing what is not in use."""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace
from opensearchpy import OpenSearch
from opensearchpy.exceptions import (
    AuthenticationException,
    AuthorizationException,
    OpenSearchException,
    SSLError,
    TransportError,
)
from opensearchpy.exceptions import ConnectionError as NoConnection
from opensearchpy.helpers import streaming_bulk

from indexer.errors import IndexerError
from indexer.opensearch.documents import (
    Document,
    Documents,
    EndpointDocuments,
    document_counts,
    service_documents,
)
from indexer.options import ClusterOptions
from indexer.progress import Progress
from service.filtering.facets import SERVICE_FACETS
from service.opensearch.indexes import (
    DOCUMENT_FACETS,
    META,
    index_names,
    mapping,
    settings,
)
from service.snapshot.manifest import ClusterIndexes

TIMEOUT = 120.0
"""Seconds for one request: a bulk request may wait for merges."""
THREADS = 4
"""Bulk requests at a time."""
CHUNK_BYTES, CHUNK_DOCUMENTS = 4 << 20, 2000
"""The most of a bulk request."""
REPEATS, BACKOFF, LONGEST_BACKOFF = 6, 1, 30  # the latter two in seconds
"""Times that a document which a busy cluster refuses (429) is sent again."""
GREEN_WITHIN = 60
"""Seconds to wait for copies of the shards."""
LONGEST_MERGE = 3600.0
"""Seconds for merging shards to one segment."""
STALE = 86_400
"""Seconds after which an index that another folder's build still loads is taken for dead."""
OWNER = "owner"
"""The file in the artifacts folder with an id of it: host names of containers change."""
FOREIGN = (
    "the index {} of another artifacts folder is removed when the grace period is over: each "
    "folder needs a `--prefix` of its own"
)


class ClusterFailed(IndexerError):
    """The cluster cannot be reached, refuses a request, or has not all that was loaded."""


class IndexState(Struct, omit_defaults=True):
    """The part of a mapping's `_meta` that is ours.

    owner: the artifacts folder of the build
    retired_at: when a build found that no snapshot needs the index
    """

    owner: str
    is_complete: bool = False
    retired_at: datetime | UnsetType = UNSET


class Loaded(Struct):
    """The outcome of loading: documents, bytes of the primary shards, and what to know."""

    documents: int
    bytes: int
    notes: list[str] = []


class SearchCluster:
    """The indexes of one prefix, for the builds to one artifacts folder, under its lock."""

    def __init__(self, options: ClusterOptions, artifacts: Path) -> None:
        self._options = options
        self._prefix = options.prefix
        self._owner = _read_owner(artifacts / OWNER)
        logging.getLogger("opensearch").setLevel(logging.CRITICAL)  # errors are raised as well
        arguments = options.address.client_arguments()
        # Every request may be repeated at another node: documents have fixed ids.
        arguments |= {"timeout": TIMEOUT, "maxsize": 2 * THREADS, "max_retries": 3}
        self._client = OpenSearch(**arguments)

    def names(self, snapshot_id: str) -> ClusterIndexes:
        """Return the names of the indexes of a snapshot."""
        return index_names(self._prefix, snapshot_id)

    def has(self, folder: Path, indexes: ClusterIndexes) -> bool:
        """Return whether the cluster has the whole indexes of a snapshot folder."""
        with _failures("look at the indexes"):
            states = self._states()
            for name, count in zip(_both(indexes), document_counts(folder), strict=True):
                if name not in states or not states[name].is_complete:
                    return False
                if self._count(name) != count:
                    return False
        return True

    def keep(self, indexes: ClusterIndexes) -> None:
        """Copy the shards of existing indexes as often as the options say, and name them."""
        with _failures("change the replicas"):
            number = {"index": {"number_of_replicas": self._options.replicas}}
            self._client.indices.put_settings(index=",".join(_both(indexes)), body=number)
        self.switch(indexes)

    def load(self, built: Path, snapshot_id: str, progress: Progress) -> Loaded:
        """Load both indexes of a snapshot folder that still has its postings.

        Raises ClusterFailed; the next build removes what was loaded until then.
        """
        indexes = self.names(snapshot_id)
        if self.has(built, indexes):
            with _failures("take over the indexes"):
                self._mark_complete(indexes)
            return Loaded(0, 0, ["the cluster had the indexes of this catalogue already"])
        services, endpoints = service_documents(built), EndpointDocuments(built)
        total = services.count + endpoints.count
        loaded = Loaded(total, 0)
        with progress.stage("load the cluster", total) as stage, _failures("load the indexes"):
            self._remove(_both(indexes))
            for name, documents, facets in (
                (indexes.services, services, SERVICE_FACETS),
                (indexes.endpoints, endpoints, DOCUMENT_FACETS),
            ):
                self._create(name, documents.count, facets, has_services=documents is endpoints)
                self._fill(name, documents, stage.advance)
        with progress.stage("copy the shards"), _failures("complete the indexes"):
            self._complete(indexes, loaded)
        return loaded

    def switch(self, indexes: ClusterIndexes) -> None:
        """Name these indexes by the aliases, in one request."""
        actions: list[dict[str, Any]] = []
        for index in _both(indexes):
            alias = index.rpartition("-")[0]
            actions += [
                {"remove": {"index": f"{alias}-*", "alias": alias, "must_exist": False}},
                {"add": {"index": index, "alias": alias}},
            ]
        with _failures("switch the aliases"):
            self._client.indices.update_aliases(body={"actions": actions})

    def clean(self, kept: Collection[str]) -> list[str]:
        """Remove indexes of the prefix that no kept snapshot and no alias names; returns notes.

        Those of builds that died are removed at once, or after a day where another folder owns
        them and may still load them. Complete ones are marked first, and removed when the grace
        period is over.
        """
        used = {name for each in kept for name in _both(self.names(each))}
        now, notes, removed = datetime.now(UTC), [], []
        with _failures("remove old indexes"):
            aliased = self._client.indices.get_alias(
                name=",".join(_both(self._aliases())), ignore=(404,)
            )
            used |= {name for name in aliased if name not in ("error", "status")}
            for name, state in self._states().items():
                if not state.is_complete:
                    if state.owner == self._owner or self._age(name) > STALE:
                        removed.append(name)
                elif name in used:
                    if state.retired_at is not UNSET:
                        self._describe(name, IndexState(self._owner, is_complete=True))
                elif state.retired_at is UNSET:
                    self._describe(name, replace(state, retired_at=now))
                    if state.owner != self._owner:
                        notes.append(FOREIGN.format(name))
                elif (now - state.retired_at).total_seconds() >= self._options.grace:
                    removed.append(name)
            self._remove(removed)
        return notes

    def _aliases(self) -> ClusterIndexes:
        return ClusterIndexes(f"{self._prefix}-services", f"{self._prefix}-endpoints")

    def _states(self) -> dict[str, IndexState]:
        """Return the state of each index of the prefix that a build made."""
        patterns = ",".join(f"{alias}-*" for alias in _both(self._aliases()))
        mappings = self._client.indices.get_mapping(
            index=patterns, params={"expand_wildcards": "open", "ignore_unavailable": "true"}
        )
        # The pattern is that of prefixes which go on with `-services` or `-endpoints`, too.
        own = re.compile(f"{re.escape(self._prefix)}-(services|endpoints)-[0-9a-f]+")
        states = {}
        for name, described in mappings.items():
            meta = described["mappings"].get("_meta", {}).get(META)
            if meta is not None and own.fullmatch(name):
                states[name] = msgspec.convert(meta, IndexState)
        return states

    def _age(self, name: str) -> float:
        """Return the age of an index in seconds."""
        described = self._client.indices.get_settings(index=name)[name]["settings"]["index"]
        return time.time() - int(described["creation_date"]) / 1000

    def _create(
        self, name: str, documents: int, facets: Sequence[str], *, has_services: bool
    ) -> None:
        properties = mapping(facets, has_services=has_services)
        body = {
            "settings": {"index": settings(documents, self._options.shards)},
            "mappings": {
                "dynamic": "strict",
                "_source": {"enabled": False},
                "_meta": {META: msgspec.to_builtins(IndexState(self._owner))},
                "properties": properties,
            },
        }
        self._client.indices.create(index=name, body=body)

    def _describe(self, name: str, state: IndexState) -> None:
        meta = {META: msgspec.to_builtins(state)}
        self._client.indices.put_mapping(index=name, body={"_meta": meta})

    def _fill(self, name: str, documents: Documents, advance: Callable[[int], None]) -> None:
        """Load the documents of an index by several threads."""

        def fill(ordinals: range) -> int:
            actions = (_action(name, document) for document in documents.read(ordinals))
            loaded = streaming_bulk(
                self._client,
                actions,
                chunk_size=CHUNK_DOCUMENTS,
                max_chunk_bytes=CHUNK_BYTES,
                max_retries=REPEATS,
                initial_backoff=BACKOFF,
                max_backoff=LONGEST_BACKOFF,
                raise_on_error=False,  # a refused document (429) would not be sent again
            )
            count = 0
            for is_loaded, answer in loaded:
                if not is_loaded:
                    raise ClusterFailed(f"a document of {name} is refused: {_refusal(answer)}")
                count += 1
            return count

        with ThreadPoolExecutor(THREADS) as pool:
            try:
                for count in pool.map(fill, documents.passes):
                    advance(count)
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        self._client.indices.refresh(index=name)
        self._client.indices.put_settings(index=name, body={"index": {"blocks.read": None}})
        count = self._count(name)
        if count != documents.count:
            raise ClusterFailed(
                f"the index {name} has {count:,} documents of {documents.count:,}; build again"
            )

    def _complete(self, indexes: ClusterIndexes, loaded: Loaded) -> None:
        """Merge and copy the shards, and mark the indexes as complete."""
        states = self._states()
        for name in _both(indexes):
            if name not in states:
                self._remove([name])  # a bulk request has made it anew, without its fields
                raise ClusterFailed(
                    f"the index {name} was removed while it was loaded; build again"
                )
        names, replicas = ",".join(_both(indexes)), self._options.replicas
        merge = {"max_num_segments": 1, "request_timeout": LONGEST_MERGE}
        merged = self._client.indices.forcemerge(index=names, params=merge)
        if merged["_shards"]["failed"]:
            raise ClusterFailed(f"shards of {names} cannot be merged; look at the cluster's log")
        number = {"index": {"number_of_replicas": replicas, "refresh_interval": None}}
        self._client.indices.put_settings(index=names, body=number)
        health = self._client.cluster.health(
            index=names,
            params={  # the client takes `timeout` for its own unless there is another one
                "wait_for_status": "green",
                "timeout": f"{GREEN_WITHIN}s",
                "request_timeout": TIMEOUT,
            },
            ignore=(408,),
        )
        if health["status"] == "red":
            raise ClusterFailed(f"shards of {names} are on no node; look at _cat/shards")
        if health["status"] != "green":
            loaded.notes.append(
                f"{health['unassigned_shards']} copies of shards are on no node yet: a node that "
                "is lost now takes a part of the index with it"
            )
        stats = self._client.indices.stats(index=names, metric="store")
        loaded.bytes = stats["_all"]["primaries"]["store"]["size_in_bytes"]
        self._mark_complete(indexes)

    def _mark_complete(self, indexes: ClusterIndexes) -> None:
        for name in _both(indexes):
            self._describe(name, IndexState(self._owner, is_complete=True))

    def _count(self, name: str) -> int:
        """Return the number of documents; raises ClusterFailed where a shard does not answer."""
        answer = self._client.count(index=name)
        if answer["_shards"]["successful"] != answer["_shards"]["total"]:
            raise ClusterFailed(f"a shard of {name} is on no node; look at _cat/shards")
        count: int = answer["count"]
        return count

    def _remove(self, names: Sequence[str]) -> None:
        for name in names:
            self._client.indices.delete(index=name, params={"ignore_unavailable": "true"})


def _read_owner(path: Path) -> str:
    """Return the id of an artifacts folder, which is made on the first use."""
    with suppress(FileNotFoundError):
        return path.read_text()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(secrets.token_hex(8))
    return path.read_text()


def _both(indexes: ClusterIndexes) -> tuple[str, str]:
    return indexes.services, indexes.endpoints


def _action(name: str, document: Document) -> dict[str, Any]:
    return {
        "_index": name,
        "_id": document.id,
        "routing": document.routing,
        "_source": document.fields,
    }


@contextmanager
def _failures(act: str) -> Iterator[None]:
    """Raise ClusterFailed for what the client raises, without a URL or a credential."""
    advice = "what was served is served still; build again when the cluster answers"
    try:
        yield
    except (AuthenticationException, AuthorizationException) as error:
        reason = f"OpenSearch refuses to {act}: {_reason(error)}"
        raise ClusterFailed(f"{reason}; look at credentials and blocks; {advice}") from None
    except SSLError:
        reason = "the certificate of OpenSearch is not trusted; see --opensearch-ca"
        raise ClusterFailed(f"cannot {act}: {reason}; {advice}") from None
    except NoConnection:
        raise ClusterFailed(f"cannot {act}: no node can be reached in time; {advice}") from None
    except TransportError as error:
        raise ClusterFailed(f"cannot {act}: {_reason(error)}; {advice}") from None
    except (OpenSearchException, msgspec.ValidationError, KeyError) as error:
        raise ClusterFailed(f"cannot {act}: {type(error).__name__}: {error}; {advice}") from None


def _refusal(answer: Any) -> str:
    """Return what a bulk request says about a document."""
    error = next(iter(answer.values())).get("error", {})
    return f"{error.get('type')}: {error.get('reason')}" if isinstance(error, dict) else str(error)


def _reason(error: TransportError) -> str:
    cause = error.info.get("error") if isinstance(error.info, dict) else None
    if isinstance(cause, dict):
        return f"status {error.status_code}, {cause.get('type')}: {cause.get('reason')}"
    return f"status {error.status_code}"
