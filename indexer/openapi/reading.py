"""OpenAPI documents to resources: one service, and a resource for each paid operation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec

from indexer.documents.document import FREE, Bounds, Document
from indexer.documents.resource import encode_resource, read_names, read_text
from indexer.errors import InvalidRecord, LeftOut
from indexer.intake.records import SourceRecord
from indexer.openapi.parameters import Parameters
from indexer.openapi.payment import is_paid, read_offers
from indexer.openapi.references import References
from indexer.resources.resource import ServiceTexts
from indexer.resources.x402 import MAX_NAME
from indexer.untrusted import decode_object, line, mapping
from indexer.x402.described import DescribedResource
from service.urls import MAX_URL

VERSION = "3."
PATH_ITEM_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
MAX_OPERATIONS = 5_000  # paid ones of a document
MAX_INFO = 8 * 1024  # bytes
MAX_DEFAULT = 256  # characters of a variable

_variable = re.compile(r"\{([^{}]*)\}")
_encode = msgspec.json.Encoder(decimal_format="number").encode


def read_openapi(document: Document) -> Iterator[SourceRecord]:
    """Yield a record for each operation of a document, or a fault for one of another version."""
    try:
        values = decode_object(document.text)
        _check(values)
    except InvalidRecord as fault:
        yield SourceRecord("", b"", fault)
        return
    reader = _OperationReader(document, values)
    for path, item in values["paths"].items():
        yield from reader.read_path(path, item)


def _check(values: dict[str, Any]) -> None:
    version = values.get("openapi")
    if not isinstance(version, str) or not version.startswith(VERSION):
        raise InvalidRecord("$.openapi", "is not a version of OpenAPI 3")
    if not isinstance(values.get("paths"), dict):
        raise InvalidRecord("$.paths", "Expected `object`")


class _OperationReader:
    """Reads the operations of one document."""

    def __init__(self, document: Document, values: dict[str, Any]) -> None:
        info, extension = mapping(values, "info"), mapping(values, "x-service-info")
        self._document, self._servers = document, values.get("servers")
        self._parameters = Parameters(References(values))
        self._name = line(info.get("title"), MAX_NAME)
        self._category, *self._tags = [*read_names(extension, "categories"), ""]
        encoded = _encode(extension) if extension else b""
        self._texts = ServiceTexts(
            description=read_text(info.get("description")),
            guidance=read_text(info.get("x-guidance")),
            info=encoded if len(encoded) <= MAX_INFO else b"",
        )
        self._bounds = Bounds(MAX_OPERATIONS)

    def read_path(self, path: str, item: Any) -> Iterator[SourceRecord]:
        """Yield the records of one path."""
        place = f"$.paths['{path}']"
        if path.startswith("x-"):
            return
        if not isinstance(item, dict):
            yield SourceRecord(path, b"", InvalidRecord(place, "Expected `object`"))
            return
        if "$ref" in item:
            reason = "refers to another place by `$ref`, which is not followed for a path"
            yield SourceRecord(path, b"", InvalidRecord(place, reason))
        for method in PATH_ITEM_METHODS:
            if method in item:
                yield self._read(path, item, method, f"{place}.{method}")

    def _read(self, path: str, item: dict[str, Any], method: str, place: str) -> SourceRecord:
        """Return the record of an operation; that of a refused one has its URL alone."""
        position, content, operation = f"{method.upper()} {path}", b"", item[method]
        if not isinstance(operation, dict):
            return SourceRecord(position, content, InvalidRecord(place, "Expected `object`"))
        try:
            servers = (operation.get("servers"), item.get("servers"), self._servers)
            url = _url_of(self._document, path, servers, place)
            description = _describe(operation, item)
            encode = partial(encode_resource, url, method.upper(), description=description)
            content = encode()
            self._document.check_host(place, url)
            if not is_paid(operation):
                reason = "is free: it has neither `x-payment-info` nor a response 402"
                raise LeftOut(FREE, place, reason)
            self._bounds.count(place)
            offers = read_offers(operation, place, self._document.stablecoins)
            resource = encode(
                described=DescribedResource(offers, place, self._texts),
                service_name=self._name,
                category=self._category,
                tags=[*read_names(operation, "tags"), *filter(None, self._tags)],
                parameters=self._parameters.read(operation, item),
            )
            content = self._bounds.fit(resource, place)
        except InvalidRecord as fault:
            return SourceRecord(position, content, fault)
        return SourceRecord(position, content)


def _url_of(document: Document, path: str, servers: tuple[Any, ...], place: str) -> str:
    """Return the URL of an operation on its first server; raises InvalidRecord.

    servers: those of the operation, of its path and of the document, of which the first ones count
    """
    first = next((each[0] for each in servers if isinstance(each, list) and each), None)
    server = first if isinstance(first, dict) else {}
    variables = mapping(server, "variables")
    url = _variable.sub(
        lambda match: line(mapping(variables, match[1]).get("default"), MAX_DEFAULT),
        line(server.get("url"), MAX_URL) or "/",
    )
    url = document.resolve(place, url).partition("#")[0].partition("?")[0]
    return f"{url.rstrip('/')}/{path.lstrip('/')}"


def _describe(operation: dict[str, Any], item: dict[str, Any]) -> str:
    """Return the summary and the description of an operation, else those of its path."""
    for values in (operation, item):
        summary, description = (read_text(values.get(key)) for key in ("summary", "description"))
        if summary and description and not description.startswith(summary.rstrip(".")):
            return f"{summary.rstrip('.')}. {description}"
        if description or summary:
            return description or summary
    return ""
