"""Loading the index of a snapshot, switching the alias to it, and removing old indexes."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from opensearchpy import OpenSearch
from opensearchpy.exceptions import OpenSearchException
from opensearchpy.helpers import streaming_bulk

from indexer.errors import IndexerError
from indexer.opensearch.documents import OWNER, ClusterDocuments
from indexer.options import ClusterOptions
from indexer.progress import Progress
from service.opensearch.clauses import index_name
from service.opensearch.cluster import cause_of, reason_of
from service.snapshot.data import SnapshotData
from service.snapshot.manifest import Manifest
from service.storage.texts import Texts

TIMEOUT = 120  # seconds for a request
CHUNK_BYTES = 4 << 20
"""The most of a bulk request; a service that is larger has its own."""
RETRIES = 6
"""Times that what a busy cluster refuses (429) is sent again: for a minute."""
GREEN_WITHIN: dict[str, Any] = {"wait_for_status": "green", "timeout": "60s"}
WITHOUT_COPIES = (
    "copies of shards are on no node yet: a node that is lost now takes a part of the index with it"
)


class ClusterFailed(IndexerError):
    """The cluster cannot be reached, refuses a request, or has not all that was loaded."""


class SearchCluster:
    """The indexes of the builds to one artifacts folder, under its lock.

    Every method raises ClusterFailed.
    """

    def __init__(self, options: ClusterOptions, artifacts: Path) -> None:
        self._options, self._owner = options, _read_owner(artifacts / OWNER)
        # Every request may be repeated at another node: documents have fixed ids.
        self._client = OpenSearch(**options.client, timeout=TIMEOUT, retry_on_timeout=True)
        self._indices = self._client.indices

    def has(self, manifest: Manifest) -> bool:
        """Return whether the cluster has the whole index of a snapshot."""
        index = self._name(manifest.id)
        with _failures("look at the index"):
            # An index that a build is loading, or was when it was killed, is not searched (403).
            counted = self._client.count(index=index, ignore=(403, 404))
            is_whole: bool = counted.get("count") == manifest.counts.services
            return is_whole and self._owners().get(index) is not None

    def load(self, data: SnapshotData, annotations: Texts, progress: Progress) -> None:
        """Load the index of a snapshot, given the annotations of its services.

        The next build removes what was loaded before a failure.
        """
        if self.has(data.manifest):
            return
        documents, index = ClusterDocuments(data, annotations), self._name(data.id)
        stage = progress.stage("load the cluster", len(documents))
        with stage as loading, _failures("load the index"):
            self._indices.delete(index=index, ignore=(404,))
            body = documents.index_body(self._options.shards, self._owner)
            self._indices.create(index=index, body=body)
            actions = (
                {"_index": index, "_id": str(number), "_source": document}
                for number, document in enumerate(documents.read())
            )
            for is_loaded, answer in streaming_bulk(
                self._client,
                actions,
                max_chunk_bytes=CHUNK_BYTES,
                max_retries=RETRIES,
                raise_on_error=False,  # a refused document (429) would not be sent again
            ):
                if not is_loaded:
                    raise ClusterFailed(f"OpenSearch refuses a service: {answer['index']['error']}")
                loading.advance(1)
            self._indices.refresh(index=index)
            loaded = {"refresh_interval": None, "blocks.read": None}
            self._indices.put_settings(index=index, body={"index": loaded})
        if not self.has(data.manifest):
            raise ClusterFailed(f"the index {index} lacks services that were loaded; build again")

    def publish(self, manifest: Manifest) -> list[str]:
        """Copy the shards of the index of a snapshot, and name it by the alias; returns notes."""
        index = self._name(manifest.id)
        with _failures("copy the shards"):
            copies = {"number_of_replicas": self._options.replicas}
            self._indices.put_settings(index=index, body={"index": copies})
            # The client takes `timeout` for its own unless there is another one.
            params = GREEN_WITHIN | {"request_timeout": TIMEOUT}
            health = self._client.cluster.health(index=index, params=params, ignore=(408,))
        self.switch(manifest)
        return [] if health["status"] == "green" else [WITHOUT_COPIES]

    def switch(self, manifest: Manifest) -> None:
        """Name the index of a snapshot alone by the alias of its prefix, in one request."""
        alias = self._options.prefix
        removed = {"index": f"{alias}-*", "alias": alias, "must_exist": False}
        added = {"index": self._name(manifest.id), "alias": alias}
        with _failures("switch the alias"):
            self._indices.update_aliases(body={"actions": [{"remove": removed}, {"add": added}]})

    def clean(self, kept: Collection[str]) -> None:
        """Remove the indexes of this folder that no kept snapshot and no alias names."""
        with _failures("remove old indexes"):
            used = set(map(self._name, kept))
            used |= self._indices.get_alias(name=self._options.prefix, ignore=(404,)).keys()
            for index, owner in self._owners().items():
                if owner == self._owner and index not in used:
                    self._indices.delete(index=index, ignore=(404,))

    def _name(self, snapshot_id: str) -> str:
        return index_name(self._options.prefix, snapshot_id)

    def _owners(self) -> dict[str, str | None]:
        """Return the folder that each index of the prefix was built to, None if by no build."""
        described = self._indices.get_mapping(index=f"{self._options.prefix}-*").items()
        return {index: each["mappings"].get("_meta", {}).get(OWNER) for index, each in described}


def _read_owner(path: Path) -> str:
    """Return the id of an artifacts folder, made on the first use: names of hosts change."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(secrets.token_hex(8))
    return path.read_text()


@contextmanager
def _failures(act: str) -> Iterator[None]:
    """Raise ClusterFailed for what the client raises, without a URL or a credential."""
    try:
        yield
    except (OpenSearchException, LookupError) as error:
        reason = f"OpenSearch: {reason_of(error)} {cause_of(error).get('reason', '')}".rstrip()
        advice = "what was served is served still; build again when the cluster answers"
        raise ClusterFailed(f"cannot {act}: {reason}; {advice}") from None
