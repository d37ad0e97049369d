"""Directories of MPP to resources: one for each paid endpoint of each service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from indexer.documents.authority import Authority
from indexer.documents.bounds import Bounds
from indexer.documents.document import FREE, Document
from indexer.documents.resource import DescribedOperation, encode_resource
from indexer.errors import InvalidRecord, LeftOut
from indexer.mpp.payment import is_paid, read_offers
from indexer.sources.records import SourceRecord
from indexer.text import decode_or_invalid
from indexer.tokens.stablecoins import Stablecoins
from indexer.untrusted import decode_object, line, mapping, text
from indexer.x402.members.described import Described, ServiceTexts
from service.urls import MAX_URL

WITHOUT_ENDPOINTS = "services without endpoints"
METHODS = frozenset(("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"))
INTEGRATIONS = {"first-party": "1P", "third-party": "3P"}
DOCS = {"homepage": "homepage", "apiReference": "apiReference", "openapi": "openapi"} | {
    "llmsTxt": "llms"
}
"""Members of `docs`, and their names in `x-service-info`."""
MAX_OPERATIONS = 50_000  # paid ones of a directory
MAX_RESOURCES = 64 * 2**20  # bytes of the resources of a directory
MAX_NAME = 100  # characters
MAX_TEXT = 5_000
MAX_TAGS = 20


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
    authority, bounds = Authority(document.source), Bounds(MAX_OPERATIONS, MAX_RESOURCES)
    for number, item in enumerate(services):
        position = f"services[{number}]"
        try:
            service = _decode(bytes(item), f"$.{position}")
            reader = _ServiceReader(service, position, authority, bounds, document.stablecoins)
        except InvalidRecord as fault:
            yield SourceRecord(position, b"", fault)
        else:
            yield from reader.read()


def _decode(service: bytes, place: str) -> dict[str, Any]:
    """Decode the service at a JSON path, so that a fault in one leaves the others."""
    try:
        return decode_object(service)
    except InvalidRecord as fault:
        raise InvalidRecord(f"{place}{fault.path[1:]}", fault.reason) from fault


class _ServiceReader:
    """Reads the endpoints of one service; raises InvalidRecord for a service that has none."""

    def __init__(
        self,
        service: dict[str, Any],
        position: str,
        authority: Authority,
        bounds: Bounds,
        stablecoins: Stablecoins,
    ) -> None:
        place = f"$.{position}"
        base = line(service.get("serviceUrl") or service.get("url"), MAX_URL)
        authority.check(f"{place}.serviceUrl", base)
        endpoints = service.get("endpoints")
        if endpoints is None or endpoints == []:
            raise LeftOut(WITHOUT_ENDPOINTS, f"{place}.endpoints", "lists no endpoints")
        if not isinstance(endpoints, list):
            raise InvalidRecord(f"{place}.endpoints", "Expected `array`")
        self._position, self._endpoints = position, endpoints
        self._base = base.partition("#")[0].partition("?")[0].rstrip("/")
        self._bounds, self._stablecoins = bounds, stablecoins
        self._methods = service.get("methods")
        self._service = _describe(service, self._base)

    def read(self) -> Iterator[SourceRecord]:
        """Yield the record of each endpoint."""
        for number, endpoint in enumerate(self._endpoints):
            yield self._read(endpoint, f"{self._position}.endpoints[{number}]")

    def _read(self, endpoint: Any, position: str) -> SourceRecord:
        """Return the record of an endpoint; that of a refused one has its URL alone."""
        place, content = f"$.{position}", b""
        try:
            method, path = _route(endpoint, place)
            operation = DescribedOperation(
                url=f"{self._base}/{path.lstrip('/')}",
                method=method,
                description=_text(endpoint.get("description")),
            )
            content = encode_resource(operation)
            complete = self._complete(operation, endpoint.get("payment"), f"{place}.payment")
            content = self._bounds.fit(encode_resource(complete), place)
        except InvalidRecord as fault:
            return SourceRecord(position, content, fault)
        return SourceRecord(position, content)

    def _complete(
        self, operation: DescribedOperation, payment: Any, place: str
    ) -> DescribedOperation:
        """Return a paid endpoint with its values; raises LeftOut for a free one."""
        if not is_paid(payment, place):
            reason = "is free: its payment has no `amount`, and is not `dynamic`"
            raise LeftOut(FREE, place, reason)
        self._bounds.count(place)
        offers = read_offers(payment, self._methods, place, self._stablecoins)
        assert self._service.described is not None  # noqa: S101  # by `_describe`
        return replace(
            self._service,
            url=operation.url,
            method=operation.method,
            description=operation.description,
            described=replace(self._service.described, offers=offers, place=place),
        )


def _route(endpoint: Any, place: str) -> tuple[str, str]:
    """Return method and path, which the older form has in one text: `POST /path`."""
    if not isinstance(endpoint, dict):
        raise InvalidRecord(place, "Expected `object`")
    method, path = (line(endpoint.get(key), MAX_URL) for key in ("method", "path"))
    if not path:
        method, _, path = line(endpoint.get("route"), MAX_URL).partition(" ")
    method, path = method.upper(), path.strip()
    if method not in METHODS or not path.startswith("/"):
        raise InvalidRecord(place, "has no method of HTTP with a path that begins with a slash")
    return method, path


def _describe(service: dict[str, Any], base: str) -> DescribedOperation:
    """Return the values that all endpoints of a service share."""
    categories, provider = _names(service.get("categories")), mapping(service, "provider")
    icon = line(service.get("icon"), MAX_URL) or line(provider.get("icon"), MAX_URL)
    texts = ServiceTexts(
        description=_text(service.get("description")),
        info=_info(categories, mapping(service, "docs")),
        url=base,
        provider=line(provider.get("name"), MAX_NAME),
        provider_url=line(provider.get("url"), MAX_URL),
        integration=INTEGRATIONS.get(line(service.get("integration"), MAX_NAME), ""),
        status=line(service.get("status"), MAX_NAME),
    )
    return DescribedOperation(
        url=base,
        method="",
        service_name=line(service.get("name"), MAX_NAME),
        category=next(iter(categories), ""),
        tags=[*_names(service.get("tags")), *categories[1:]][:MAX_TAGS],
        icon_url=icon,
        updated=line(service.get("updatedAt"), MAX_NAME),
        described=Described(service=texts),
    )


def _info(categories: list[str], docs: dict[str, Any]) -> bytes:
    """Return categories and documents as `x-service-info` of OpenAPI documents has them."""
    links = {name: line(docs.get(key), MAX_URL) for key, name in DOCS.items()}
    given = {name: link for name, link in links.items() if link}
    info = {name: value for name, value in (("categories", categories), ("docs", given)) if value}
    return msgspec.json.encode(info) if info else b""


def _text(value: Any) -> str:
    return text(value).strip()[:MAX_TEXT]


def _names(value: Any) -> list[str]:
    given = value[:MAX_TAGS] if isinstance(value, list) else []
    return list(dict.fromkeys(filter(None, (line(each, MAX_NAME) for each in given))))
