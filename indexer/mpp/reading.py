"""Directories of MPP to resources: one for each paid endpoint of each service."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw, Struct

from indexer.documents.document import FREE, Bounds, Document
from indexer.documents.resource import encode_resource, read_names, read_text
from indexer.errors import InvalidRecord, LeftOut
from indexer.intake.records import SourceRecord
from indexer.mpp.payment import is_paid, read_offers
from indexer.resources.resource import ServiceTexts
from indexer.resources.x402 import MAX_NAME, MAX_TAGS
from indexer.text import decode_or_invalid
from indexer.untrusted import decode_object, line, mapping
from indexer.x402.described import DescribedResource
from service.urls import MAX_URL

WITHOUT_ENDPOINTS = "services without endpoints"
DIRECTORY_METHODS = frozenset(("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"))
INTEGRATIONS = {"first-party": "1P", "third-party": "3P"}
DOCS = {"homepage": "homepage", "apiReference": "apiReference", "openapi": "openapi"} | {
    "llmsTxt": "llms"
}
"""Members of `docs`, and their names in `x-service-info`."""
MAX_OPERATIONS = 50_000  # paid ones of a directory


class _Directory(Struct):
    services: list[Raw]


_directory = msgspec.json.Decoder(_Directory)


def read_directory(document: Document) -> Iterator[SourceRecord]:
    """Yield a record for each endpoint of each service, or one for a service that has none."""
    try:
        services = decode_or_invalid(_directory, document.text).services
    except InvalidRecord as fault:
        yield SourceRecord("", b"", fault)
        return
    bounds = Bounds(MAX_OPERATIONS)
    for number, item in enumerate(services):
        position = f"services[{number}]"
        try:
            service = _decode(bytes(item), f"$.{position}")
            reader = _ServiceReader(service, f"$.{position}", document, bounds)
        except InvalidRecord as fault:
            yield SourceRecord(position, b"", fault)
            continue
        for index, endpoint in enumerate(reader.endpoints):
            yield reader.read(endpoint, f"{position}.endpoints[{index}]")


def _decode(service: bytes, place: str) -> dict[str, Any]:
    """Decode the service at a JSON path, so that a fault in one leaves the others."""
    try:
        return decode_object(service)
    except InvalidRecord as fault:
        raise InvalidRecord(f"{place}{fault.path[1:]}", fault.reason) from fault


class _ServiceReader:
    """Reads the endpoints of one service; raises InvalidRecord for a service that has none."""

    def __init__(
        self, service: dict[str, Any], place: str, document: Document, bounds: Bounds
    ) -> None:
        base = line(service.get("serviceUrl") or service.get("url"), MAX_URL)
        document.check_host(f"{place}.serviceUrl", base)
        endpoints = service.get("endpoints")
        if endpoints is None or endpoints == []:
            raise LeftOut(WITHOUT_ENDPOINTS, f"{place}.endpoints", "lists no endpoints")
        if not isinstance(endpoints, list):
            raise InvalidRecord(f"{place}.endpoints", "Expected `array`")
        self.endpoints = endpoints
        self._base = base.partition("#")[0].partition("?")[0].rstrip("/")
        self._bounds, self._stablecoins = bounds, document.stablecoins
        self._methods = service.get("methods")
        self._texts = _read_texts(service, self._base)
        self._shared = _describe(service)

    def read(self, endpoint: Any, position: str) -> SourceRecord:
        """Return the record of an endpoint; that of a refused one has no payment."""
        place, content = f"$.{position}", b""
        try:
            method, path = _route(endpoint, place)
            url = f"{self._base}/{path.lstrip('/')}"
            description = read_text(endpoint.get("description"))
            encode = partial(encode_resource, url, method, description=description, **self._shared)
            content = encode()
            payment, stated_at = endpoint.get("payment"), f"{place}.payment"
            if not is_paid(payment, stated_at):
                reason = "is free: its payment has no `amount`, and is not `dynamic`"
                raise LeftOut(FREE, stated_at, reason)
            self._bounds.count(stated_at)
            offers = read_offers(payment, self._methods, stated_at, self._stablecoins)
            described = DescribedResource(offers, stated_at, self._texts)
            content = self._bounds.fit(encode(described=described), place)
        except InvalidRecord as fault:
            return SourceRecord(position, content, fault)
        return SourceRecord(position, content)


def _route(endpoint: Any, place: str) -> tuple[str, str]:
    """Return method and path, which the older form has in one text: `POST /path`."""
    if not isinstance(endpoint, dict):
        raise InvalidRecord(place, "Expected `object`")
    method, path = (line(endpoint.get(key), MAX_URL) for key in ("method", "path"))
    if not path:
        method, _, path = line(endpoint.get("route"), MAX_URL).partition(" ")
    method, path = method.upper(), path.strip()
    if method not in DIRECTORY_METHODS or not path.startswith("/"):
        raise InvalidRecord(place, "has no method of HTTP with a path that begins with a slash")
    return method, path


def _describe(service: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `encode_resource` that all endpoints of a service share."""
    categories, provider = read_names(service, "categories"), mapping(service, "provider")
    return {
        "service_name": line(service.get("name"), MAX_NAME),
        "category": next(iter(categories), ""),
        "tags": [*read_names(service, "tags"), *categories[1:]][:MAX_TAGS],
        "icon_url": line(service.get("icon"), MAX_URL) or line(provider.get("icon"), MAX_URL),
        "updated": line(service.get("updatedAt"), MAX_NAME),
    }


def _read_texts(service: dict[str, Any], url: str) -> ServiceTexts:
    provider = mapping(service, "provider")
    return ServiceTexts(
        description=read_text(service.get("description")),
        info=_info(read_names(service, "categories"), mapping(service, "docs")),
        url=url,
        provider=line(provider.get("name"), MAX_NAME),
        provider_url=line(provider.get("url"), MAX_URL),
        integration=INTEGRATIONS.get(line(service.get("integration"), MAX_NAME), ""),
        status=line(service.get("status"), MAX_NAME),
    )


def _info(categories: list[str], docs: dict[str, Any]) -> bytes:
    """Return categories and documents as `x-service-info` of OpenAPI documents has them."""
    links = {name: line(docs.get(key), MAX_URL) for key, name in DOCS.items()}
    given = {name: link for name, link in links.items() if link}
    info = {name: value for name, value in (("categories", categories), ("docs", given)) if value}
    return msgspec.json.encode(info) if info else b""
