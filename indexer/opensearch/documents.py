"""The documents of an OpenSearch index: services as `service.opensearch.clauses` describes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isnan

import numpy as np

from indexer.derive.records import (
    ENDPOINT_FIELDS,
    SERVICE_FIELDS,
    decode_annotations,
    decode_service,
)
from indexer.index.documents import FIELDS_OF_ENDPOINTS, FIELDS_OF_SERVICES
from indexer.snapshot.endpoints import listed_contents
from service.opensearch.clauses import DOCUMENTS, LONGEST_TERM, ORDINAL, text_fields
from service.schema.values import Json
from service.search.analysis import term_of, words_of
from service.search.postings import read_header
from service.snapshot.data import SnapshotData
from service.storage.container import Arrays, open_arrays
from service.storage.texts import Texts

OWNER = "owner"
"""Key of the artifacts folder of an index, in the `_meta` of its mapping."""
LONG, DOUBLE = {"type": "long"}, {"type": "double"}
LIMITS = (
    "max_result_window",
    "max_inner_result_window",
    "max_terms_count",
    "mapping.nested_objects.limit",
)
MOST = 2**31 - 1
"""No service is too large, and no page too far."""
OF_OFFERS = ("network", "scheme", "asset", "payTo", "prices", "usd_prices", "shadowed")


class ClusterDocuments:
    """The documents of a snapshot folder, given the annotations of its services."""

    def __init__(self, data: SnapshotData, annotations: Texts) -> None:
        self._data, self._annotations = data, annotations
        folder = data.folder
        self._config = read_header(data.index).config
        self._fields = text_fields(self._config)
        self._services = _Rows(open_arrays(folder / "filters.arrays"))
        self._endpoints = _Rows(open_arrays(folder / "endpoints" / "filters.arrays"))
        offers = open_arrays(folder / "offers" / "offers.arrays")
        self._offers = _Rows({name: offers[name] for name in OF_OFFERS})
        self._bounds = offers["bounds"]

    def __len__(self) -> int:
        return len(self._data.services)

    def index_body(self, shards: int, owner: str) -> Json:
        """Return the settings and the mapping of an index that is not searched while it loads."""
        least = min(self._config.field_weights.values())
        bm25 = {"k1": self._config.saturation / least, "b": self._config.length_normalisation}
        settings = {
            "number_of_shards": shards,
            "number_of_replicas": 0,
            "refresh_interval": "-1",
            "blocks.read": True,
            "similarity.default": {"type": "BM25"} | bm25,
        }
        text: Json = {"type": "text", "analyzer": "whitespace"}
        own = {name: text for name, _ in self._fields.values()} | self._endpoints.mapping
        own |= dict.fromkeys((ORDINAL, "service", "is_listed"), LONG)
        own["offers"] = {"type": "nested", "properties": self._offers.mapping}
        fields = self._services.mapping | {ORDINAL: LONG}
        fields[DOCUMENTS] = {"type": "nested", "properties": own}
        mappings = {"dynamic": "strict", "_source": {"enabled": False}, "_meta": {OWNER: owner}}
        return {
            "settings": {"index": settings | dict.fromkeys(LIMITS, MOST)},
            "mappings": mappings | {"properties": fields},
        }

    def read(self) -> Iterator[Json]:
        """Yield the documents in listing order."""
        for ordinal in range(len(self)):
            document = self._services.read(ordinal)
            document[ORDINAL] = ordinal
            document[DOCUMENTS] = list(self._nested(ordinal))
            yield document

    def _nested(self, service: int) -> Iterator[Json]:
        """Yield the nested documents of a service."""
        data, endpoints = self._data, self._data.endpoints
        record = decode_service(data.services.text(service))
        contents = record.contents(decode_annotations(self._annotations.text(service)))
        own = dict(zip(SERVICE_FIELDS, contents.service, strict=True))
        shared = {FIELDS_OF_ENDPOINTS[name]: text for name, text in own.items()}
        first = endpoints.of_service(service).start
        for document in endpoints.groups.documents_of(service).tolist():
            resource = endpoints.resource_of(document)
            fields = {ORDINAL: document, "service": service}
            fields["is_listed"] = int(resource is not None)
            if document < len(endpoints):
                texts = dict(
                    zip(ENDPOINT_FIELDS, contents.endpoints[document - first], strict=True)
                )
                fields |= self._endpoints.read(document)
                offers = range(*self._bounds[document : document + 2].tolist())
                fields["offers"] = [*map(self._offers.read, offers)]
            elif resource is not None:
                listed = listed_contents(data.resources.texts.text(resource))
                texts = dict(zip(ENDPOINT_FIELDS, listed, strict=True))
            else:
                texts, shared = {FIELDS_OF_SERVICES[name]: own[name] for name in own}, {}
            yield fields | self._texts(texts | shared)

    def _texts(self, texts: Mapping[str, str]) -> Json:
        """Return the terms of texts, given by field, in the field of each weight."""
        fields: dict[str, list[str]] = {}
        for name, text in texts.items():
            field, _ = self._fields[self._config.field_weights[name]]
            terms = [term_of(word.text)[:LONGEST_TERM] for word in words_of(text)]
            fields.setdefault(field, []).extend(terms)
        return {name: " ".join(terms) for name, terms in fields.items() if terms}


class _Rows:
    """The values and the places in orders of the rows of a filter layout."""

    def __init__(self, arrays: Arrays) -> None:
        self._values = {
            name: np.argsort(array) if name.startswith("by_") else array * 1  # no flags
            for name, array in arrays.items()
            if "." not in name
        }
        self._numbers = {
            name: (np.cumsum([0, *arrays[f"{name}.sizes"]]), arrays[f"{name}.numbers"])
            for name in (each.removesuffix(".sizes") for each in arrays if each.endswith(".sizes"))
        }

    @property
    def mapping(self) -> Json:
        """The types of the fields."""
        is_double = {name: array.dtype.kind == "f" for name, array in self._values.items()}
        types = {name: DOUBLE if is_double[name] else LONG for name in is_double}
        return types | dict.fromkeys(self._numbers, LONG)

    def read(self, row: int) -> Json:
        """Return the fields of a row without those that are NaN; flags are numbers."""
        values = {name: array[row].item() for name, array in self._values.items()}
        fields: Json = {name: value for name, value in values.items() if not isnan(value)}
        for name, (bounds, numbers) in self._numbers.items():
            fields[name] = numbers[bounds[row] : bounds[row + 1]].tolist()
        return fields
