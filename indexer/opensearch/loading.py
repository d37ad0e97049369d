"""Loading the index of a snapshot, switching the alias to it, and removing old indexes.

`service.opensearch.engine` describes its documents.
"""

from __future__ import annotations

import operator
import secrets
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import numpy as np
from opensearchpy import OpenSearch
from opensearchpy.exceptions import OpenSearchException
from opensearchpy.helpers import streaming_bulk

from indexer.derive.records import ENDPOINT_FIELDS, decode_annotations, decode_service
from indexer.errors import IndexerError
from indexer.index.documents import FIELDS_OF_ENDPOINTS, FIELDS_OF_SERVICES
from indexer.options import ClusterOptions
from indexer.progress import Progress
from indexer.snapshot.endpoints import listed_contents
from service.arrays.texts import Texts
from service.conditions import EndpointConditions, ServiceConditions, Sort, conditions_of
from service.filtering.table import Table
from service.opensearch.cluster import cause_of, reason_of
from service.opensearch.engine import ALL, DOCUMENTS, LONGEST_TERM, ORDINAL, UNLIMITED
from service.schema.values import Json
from service.search.analysis import term_of, words_of
from service.search.config import SearchConfig
from service.search.postings import read_header
from service.snapshot.data import SnapshotData
from service.snapshot.manifest import Manifest

OWNER = "owner"
"""Key of the id of an artifacts folder in the `_meta` of its indexes: names of hosts change."""
TIMEOUT = 120  # seconds for a request
CHUNK_BYTES = 4 << 20
"""The most of a bulk request; a service that is larger has its own."""
RETRIES = 6
"""Times that what a busy cluster refuses (429) is sent again: for a minute."""
LONG = {"type": "long"}
FIELDS: Json = {
    column.name: {"type": "double"} if column.holds is operator.le else LONG
    for kind in (ServiceConditions, EndpointConditions)
    for _, _, column in conditions_of(kind)
} | dict.fromkeys(
    (ORDINAL, "is_listed", "shadowed", *(f"by_{sort}" for sort in get_args(Sort))), LONG
)
"""The types of what services, documents and offers have of it: columns, numbers, orders."""
NAMES = (*ENDPOINT_FIELDS, *FIELDS_OF_ENDPOINTS.values())
"""The texts of a document that is not a service."""
SCALE = 100
"""The weight of a frequency of 1: frequencies are whole numbers."""
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
        self._options, owner = options, artifacts / OWNER
        if not owner.exists():
            artifacts.mkdir(parents=True, exist_ok=True)
            owner.write_text(secrets.token_hex(8))
        self._meta = {OWNER: owner.read_text()}
        # Every request may be repeated at another node: documents have fixed ids.
        self._client = OpenSearch(**options.client, timeout=TIMEOUT, retry_on_timeout=True)
        self._indices = self._client.indices

    def has(self, manifest: Manifest) -> bool:
        """Return whether the cluster has the whole index of a snapshot."""
        # An index that OpenSearch made itself, of documents for a removed one, has nothing nested.
        whole = {"nested": {"path": DOCUMENTS, "query": ALL, "ignore_unmapped": True}}
        with _failures("look at the index"):
            # An index that a build is loading, or was when it was killed, is not searched (403).
            index, ignored = self._name(manifest.id), (403, 404)
            counted = self._client.count(index=index, body={"query": whole}, ignore=ignored)
            return bool(counted.get("count") == manifest.counts.services)

    def load(self, data: SnapshotData, annotations: Texts, progress: Progress) -> None:
        """Load the index of a snapshot, given the annotations of its services.

        The next build removes what was loaded before a failure.
        """
        if self.has(data.manifest):
            return
        config, index = read_header(data.index).config, self._name(data.id)
        stage = progress.stage("load the cluster", len(data.services))
        with stage as loading, _failures("load the index"):
            self._indices.delete(index=index, ignore=(404,))
            body = index_body(config, self._options.shards, self._meta)
            self._indices.create(index=index, body=body)
            documents = read_documents(data, annotations, config)
            for is_loaded, answer in streaming_bulk(
                self._client,
                ({"_id": str(each[ORDINAL]), "_source": each} for each in documents),
                index=index,
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
            params = {"wait_for_status": "green", "timeout": "60s", "request_timeout": TIMEOUT}
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
            for index, described in self._indices.get(index=self._name("*")).items():
                is_own = described["mappings"].get("_meta") == self._meta
                is_used = described["aliases"] or index in map(self._name, kept)
                if is_own and not is_used:
                    self._indices.delete(index=index, ignore=(404,))

    def _name(self, snapshot_id: str) -> str:
        return f"{self._options.prefix}-{snapshot_id}"


@contextmanager
def _failures(act: str) -> Iterator[None]:
    """Raise ClusterFailed for what the client raises, without a URL or a credential."""
    try:
        yield
    except (OpenSearchException, LookupError) as error:
        reason = f"OpenSearch: {reason_of(error)} {cause_of(error).get('reason', '')}".rstrip()
        advice = "what was served is served still; build again when the cluster answers"
        raise ClusterFailed(f"cannot {act}: {reason}; {advice}") from None


def index_body(config: SearchConfig, shards: int, meta: Json) -> Json:
    """Return the settings and the mapping of an index that is not searched while it loads."""
    bm25 = {"k1": SCALE * config.saturation, "b": config.length_normalisation}
    weighted = {"tokenizer": "whitespace", "filter": ["delimited_term_freq"]}
    settings = {
        "number_of_shards": shards,
        "number_of_replicas": 0,
        "refresh_interval": "-1",
        "blocks.read": True,
        "max_result_window": UNLIMITED,
        "max_inner_result_window": UNLIMITED,
        "max_terms_count": UNLIMITED,
        "mapping.nested_objects.limit": UNLIMITED,
        "similarity.default": {"type": "BM25"} | bm25,
        "analysis.analyzer.weighted": weighted,
    }
    terms = {"type": "text", "analyzer": "weighted", "index_options": "freqs"}
    own = FIELDS | {"terms": terms, "offers": {"type": "nested", "properties": FIELDS}}
    fields = FIELDS | {DOCUMENTS: {"type": "nested", "properties": own}}
    mappings = {"dynamic": "strict", "_source": {"enabled": False}, "_meta": meta}
    return {"settings": {"index": settings}, "mappings": mappings | {"properties": fields}}


def read_documents(data: SnapshotData, annotations: Texts, config: SearchConfig) -> Iterator[Json]:
    """Yield the documents in listing order, given the annotations of the services."""
    tables = (data.filters, data.endpoints.filters, data.offers)
    read_service, read_endpoint, read_offer = map(_reader, tables)
    weights = {name: round(SCALE * weight) for name, weight in config.field_weights.items()}
    for service in range(len(data.services)):
        record = decode_service(data.services.text(service))
        shared, of_endpoints = record.contents(decode_annotations(annotations.text(service)))
        nested: list[Json] = []
        for document in data.endpoints.groups.documents_of(service).tolist():
            resource, names = data.endpoints.resource_of(document), NAMES
            own: tuple[str, ...] = ()
            fields = {ORDINAL: document, "is_listed": int(resource is not None)}
            if document < len(data.endpoints):
                offers = [*map(read_offer, data.offers.of_endpoint(document))]
                fields |= read_endpoint(document) | {"offers": offers}
                own = of_endpoints[len(nested)]  # the endpoints come first
            elif resource is not None:
                own = listed_contents(data.resources.texts.text(resource))
            else:
                names = (*FIELDS_OF_SERVICES.values(),)
            terms = [
                f"{term_of(word.text)[:LONGEST_TERM]}|{weights[name]}"
                for name, text in zip(names, (*own, *shared), strict=True)
                for word in words_of(text)
            ]
            nested.append(fields | {"terms": " ".join(terms)})
        yield read_service(service) | {ORDINAL: service, DOCUMENTS: nested}


def _reader(table: Table) -> Callable[[int], Json]:
    """Return a function of the fields of a row: numbers of values, and places in the orders."""
    readers: dict[str, Callable[[int], Any]] = {}
    for name in FIELDS.keys() & table.arrays.keys():
        array = table.arrays[name]
        readers[name] = (np.argsort(array) if name.startswith("by_") else array * 1).item
    for name in FIELDS.keys() & table.columns.keys():
        readers[name] = table.columns[name].of_row
    # NaN, which stands for no price, is not equal to itself.
    return lambda row: {name: n for name, read in readers.items() if (n := read(row)) == n}
