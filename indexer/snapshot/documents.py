"""Reading back the texts of a stored catalogue that are encoded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from indexer.encoder.embeddings import LONGEST_TEXT
from indexer.encoder.quantising import Document
from indexer.record_store import read_record_store
from indexer.search.endpoint_texts import EndpointText
from indexer.search.spans import Text
from indexer.snapshot.endpoints import declared_endpoint

_text = msgspec.json.Decoder(Text)
_endpoint = msgspec.json.Decoder(EndpointText)


def read_documents(built: Path) -> Iterator[Document]:
    """Yield the services and their endpoints, and the endpoints of all listed resources.

    Texts are cut to LONGEST_TEXT.
    """
    for record in read_record_store(built, "records"):
        service = _text.decode(record)
        yield _cut(service.name, service.description)
        for endpoint in service.endpoints:
            yield _cut(endpoint.path, endpoint.description)
    for resource in read_record_store(built / "resources", "texts"):
        declared = _endpoint.decode(declared_endpoint(resource))
        yield _cut(declared.path, declared.description)


def _cut(title: str, text: str) -> Document:
    return Document(title[:LONGEST_TEXT], text[:LONGEST_TEXT])
