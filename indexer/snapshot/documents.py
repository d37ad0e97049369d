"""Reading back the texts of a stored catalogue that are encoded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from indexer.encoder.parameters import Document
from indexer.record_store import read_record_store
from indexer.segments.texts import EndpointText, ServiceText
from indexer.snapshot.endpoints import declared_endpoint

_text = msgspec.json.Decoder(ServiceText)
_endpoint = msgspec.json.Decoder(EndpointText)


def read_documents(built: Path) -> Iterator[Document]:
    """Yield the services and their endpoints, and the endpoints of all listed resources, cut."""
    for record in read_record_store(built, "records"):
        service = _text.decode(record)
        yield Document(service.name, service.description).cut()
        for endpoint in service.endpoints:
            yield Document(endpoint.path, endpoint.description).cut()
    for resource in read_record_store(built / "resources", "texts"):
        declared = _endpoint.decode(declared_endpoint(resource))
        yield Document(declared.path, declared.description).cut()
