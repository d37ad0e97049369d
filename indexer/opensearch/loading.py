"""Loading the index of a snapshot, switching the alias to it, and removing old indexes."""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
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
from indexer.opensearch.documents import ClusterDocuments
from indexer.options import ClusterOptions
from indexer.progress import Progress
from service.opensearch.index import FIELDS, META, ORDINAL, index_name, settings
from service.search.postings import read_header

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
        self._alias = options.prefix
        self._owner = _read_owner(artifacts / OWNER)
        logging.getLogger("opensearch").setLevel(logging.CRITICAL)  # errors are raised as well
        arguments = options.address.client_arguments()
        # Every request may be repeated at another node: documents have fixed ids.
        arguments |= {"timeout": TIMEOUT, "maxsize": 2 * THREADS, "max_retries": 3}
        self._client = OpenSearch(**arguments)

    def index_of(self, snapshot_id: str) -> str:
        """Return the name of the index of a snapshot."""
        return index_name(self._options.prefix, snapshot_id)

    def has(self, folder: Path, index: str) -> bool:
        """Return whether the cluster has the whole index of a snapshot folder."""
        with _failures("look at the index"):
            state = self._states().get(index)
            is_complete = state is not None and state.is_complete
            return is_complete and self._count(index) == read_header(folder / "postings").documents

    def keep(self, index: str) -> None:
        """Copy the shards of an existing index as often as the options say, and name it."""
        with _failures("change the replicas"):
            number = {"index": {"number_of_replicas": self._options.replicas}}
            self._client.indices.put_settings(index=index, body=number)
        self.switch(index)

    def load(self, built: Path, snapshot_id: str, progress: Progress) -> Loaded:
        """Load the index of a snapshot folder that still has its postings.

        Raises ClusterFailed; the next build removes what was loaded until then.
        """
        index = self.index_of(snapshot_id)
        if self.has(built, index):
            with _failures("take over the index"):
                self._describe(index, IndexState(self._owner, is_complete=True))
            return Loaded(0, 0, ["the cluster had the index of this catalogue already"])
        documents = ClusterDocuments(built)
        loaded = Loaded(documents.count, 0)
        stage = progress.stage("load the cluster", documents.count)
        with stage as loading, _failures("load the index"):
            self._remove([index])
            self._create(index, documents.count)
            self._fill(index, documents, loading.advance)
        with progress.stage("copy the shards"), _failures("complete the index"):
            self._complete(index, loaded)
        return loaded

    def switch(self, index: str) -> None:
        """Name this index alone by the alias of its prefix, in one request."""
        alias = index.rpartition("-")[0]
        removed = {"index": f"{alias}-*", "alias": alias, "must_exist": False}
        actions = [{"remove": removed}, {"add": {"index": index, "alias": alias}}]
        with _failures("switch the alias"):
            self._client.indices.update_aliases(body={"actions": actions})

    def clean(self, kept: Collection[str]) -> list[str]:
        """Remove indexes of the prefix that no kept snapshot and no alias names; returns notes.

        Indexes of dead builds are removed at once, or after a day where another folder owns
        them and may still load them. Complete ones are marked first, and removed when the grace
        period is over.
        """
        used = {self.index_of(each) for each in kept}
        now, notes, removed = datetime.now(UTC), [], []
        with _failures("remove old indexes"):
            aliased = self._client.indices.get_alias(name=self._alias, ignore=(404,))
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

    def _states(self) -> dict[str, IndexState]:
        """Return the state of each index of the prefix that a build made."""
        mappings = self._client.indices.get_mapping(
            index=f"{self._alias}-*",
            params={"expand_wildcards": "open", "ignore_unavailable": "true"},
        )
        # The pattern is that of longer prefixes, too.
        own = re.compile(f"{re.escape(self._alias)}(-services|-endpoints)?-[0-9a-f]+")
        states = {}
        for name, described in mappings.items():
            meta, match = described["mappings"].get("_meta", {}).get(META), own.fullmatch(name)
            if meta is not None and match is not None:
                state = msgspec.convert(meta, IndexState)
                # Of another folder, a name of two parts is that of a longer prefix.
                if match[1] is None or state.owner == self._owner:
                    states[name] = state
        return states

    def _age(self, name: str) -> float:
        described = self._client.indices.get_settings(index=name)[name]["settings"]["index"]
        return time.time() - int(described["creation_date"]) / 1000

    def _create(self, name: str, documents: int) -> None:
        body = {
            "settings": {"index": settings(documents, self._options.shards)},
            "mappings": {
                "dynamic": "strict",
                "_source": {"enabled": False},
                "_meta": {META: msgspec.to_builtins(IndexState(self._owner))},
                "properties": FIELDS,
            },
        }
        self._client.indices.create(index=name, body=body)

    def _describe(self, name: str, state: IndexState) -> None:
        meta = {META: msgspec.to_builtins(state)}
        self._client.indices.put_mapping(index=name, body={"_meta": meta})

    def _fill(self, name: str, documents: ClusterDocuments, advance: Callable[[int], None]) -> None:
        def fill(ordinals: range) -> int:
            actions = (
                {"_index": name, "_id": str(document[ORDINAL]), "_source": document}
                for document in documents.read(ordinals)
            )
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
            for count in pool.map(fill, documents.passes):
                advance(count)
        self._client.indices.refresh(index=name)
        self._client.indices.put_settings(index=name, body={"index": {"blocks.read": None}})
        count = self._count(name)
        if count != documents.count:
            raise ClusterFailed(
                f"the index {name} has {count:,} documents of {documents.count:,}; build again"
            )

    def _complete(self, name: str, loaded: Loaded) -> None:
        """Merge and copy the shards, and mark the index as complete."""
        indices = self._client.indices
        if name not in self._states():
            self._remove([name])  # a bulk request has made it anew, without its fields
            raise ClusterFailed(f"the index {name} was removed while it was loaded; build again")
        merge = {"max_num_segments": 1, "request_timeout": LONGEST_MERGE}
        merged = indices.forcemerge(index=name, params=merge)
        if merged["_shards"]["failed"]:
            raise ClusterFailed(f"shards of {name} cannot be merged; look at the cluster's log")
        number = {"number_of_replicas": self._options.replicas, "refresh_interval": None}
        indices.put_settings(index=name, body={"index": number})
        health = self._client.cluster.health(
            index=name,
            params={  # the client takes `timeout` for its own unless there is another one
                "wait_for_status": "green",
                "timeout": f"{GREEN_WITHIN}s",
                "request_timeout": TIMEOUT,
            },
            ignore=(408,),
        )
        if health["status"] == "red":
            raise ClusterFailed(f"shards of {name} are on no node; look at _cat/shards")
        if health["status"] != "green":
            loaded.notes.append(
                f"{health['unassigned_shards']} copies of shards are on no node yet: a node that "
                "is lost now takes a part of the index with it"
            )
        stats = indices.stats(index=name, metric="store")
        loaded.bytes = stats["_all"]["primaries"]["store"]["size_in_bytes"]
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
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(secrets.token_hex(8))
    return path.read_text()


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
