"""Directories of MPP to resources: one for each paid endpoint of each service."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from indexer.errors import InvalidRecord, LeftOut
from indexer.options import Kind
from indexer.resources.documents import (
    FREE,
    Bounds,
    Described,
    Document,
    find_unread,
    make_resource,
    read_names,
    read_text,
)
from indexer.resources.entries import MAX_OFFERS, MPP, Entry, base_units, read_entry
from indexer.resources.facts import Places
from indexer.resources.parameters import read_input
from indexer.resources.resource import Resource, ServiceTexts
from indexer.resources.x402 import MAX_NAME, MAX_TAGS, read_icon_url, read_tags
from indexer.text import decode_or_invalid
from indexer.untrusted import decode_object, items, line, mapping, parse_moment
from service.urls import MAX_URL

WITHOUT_ENDPOINTS = "services without endpoints"
DIRECTORY_METHODS = frozenset(("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"))
INTEGRATIONS = {"first-party": "1P", "third-party": "3P"}
DOCS = {"homepage": "homepage", "apiReference": "apiReference", "openapi": "openapi"} | {
    "llmsTxt": "llms"
}
"""Members of `docs`, and their names in `x-service-info`."""
MAX_OPERATIONS = 50_000  # paid ones of a directory
EVM = "evm"
READ = frozenset(("methods", "methodDetails"))
"""Members of a payment that are read here, and state no fact themselves."""


class _Directory(Struct):
    services: list[Raw]


_directory = msgspec.json.Decoder(_Directory)


def read_directory(document: Document) -> Iterator[Described]:
    """Yield the resource of each endpoint of each service, or one fault for a service of none."""
    try:
        services = decode_or_invalid(_directory, document.text).services
    except InvalidRecord as fault:
        yield Described.refuse("", fault)
        return
    bounds = Bounds(MAX_OPERATIONS)
    for number, item in enumerate(services):
        position = f"services[{number}]"
        try:
            service = _Service(_decode(bytes(item), f"$.{position}"), f"$.{position}", document)
        except InvalidRecord as fault:
            yield Described.refuse(position, fault)
            continue
        for index, endpoint in enumerate(service.endpoints):
            yield service.read(endpoint, f"{position}.endpoints[{index}]", bounds)


def _decode(service: bytes, place: str) -> dict[str, Any]:
    """Decode the service at a JSON path, so that a fault in one leaves the others."""
    try:
        return decode_object(service)
    except InvalidRecord as fault:
        raise InvalidRecord(f"{place}{fault.path[1:]}", fault.reason) from fault


class _Service:
    """Reads the endpoints of one service; raises InvalidRecord for a service that has none."""

    def __init__(self, service: dict[str, Any], place: str, document: Document) -> None:
        base = line(service.get("serviceUrl") or service.get("url"), MAX_URL)
        document.check_host(f"{place}.serviceUrl", base)
        endpoints = service.get("endpoints")
        if endpoints is None or endpoints == []:
            raise LeftOut(WITHOUT_ENDPOINTS, f"{place}.endpoints", "lists no endpoints")
        if not isinstance(endpoints, list):
            raise InvalidRecord(f"{place}.endpoints", "Expected `array`")
        self.endpoints = endpoints
        self._base = base.partition("#")[0].partition("?")[0].rstrip("/")
        self._methods, self._document = service.get("methods"), document
        self._shared = _describe(service, self._base)

    def read(self, endpoint: Any, position: str, bounds: Bounds) -> Described:
        """Return the resource of an endpoint, or why there is none."""
        place, url = f"$.{position}", ""
        try:
            method, path = _route(endpoint, place)
            url = f"{self._base}/{path.lstrip('/')}"
            resource = self._read(endpoint, url, method, f"{place}.payment", bounds)
            return Described.accept(position, bounds.fit(resource, place))
        except InvalidRecord as fault:
            return Described.refuse(position, fault, url)

    def _read(
        self, endpoint: dict[str, Any], url: str, method: str, place: str, bounds: Bounds
    ) -> Resource:
        payment = endpoint.get("payment")
        if payment is not None and not isinstance(payment, dict):
            raise InvalidRecord(place, "Expected `object | null`")
        if not payment or (
            payment.get("amount") in (None, "") and payment.get("dynamic") is not True
        ):
            reason = "is free: its payment has no `amount`, and is not `dynamic`"
            raise LeftOut(FREE, place, reason)
        bounds.count(place)
        parsed = self._document.check_host(place, url)
        offers = read_offers(payment, self._methods, place, Kind.MPP, self._document)
        return make_resource(
            url,
            parsed,
            method,
            offers,
            place,
            declared=read_input((), url),
            description=read_text(endpoint.get("description")),
            notices=find_unread(
                place, {name: payment[name] for name in payment if name not in READ}
            ),
            **self._shared,
        )


def read_offers(
    payment: dict[str, Any], methods: Any, path: str, stated_by: Kind, document: Document
) -> list[Entry]:
    """Return an entry for each method of a payment at a JSON path; raises InvalidRecord.

    methods: of the service, for a payment without methods

    Base units mean nothing where the methods have different decimals: no entry has an amount then.
    The amount of a dynamic payment is a lower bound.
    """
    own = payment.get("methods")
    names = _names(payment.get("method")) or _names(own) or _names(methods) or [""]
    entries = []
    for name in names:
        places = _places(name, payment, mapping(own, name), mapping(methods, name))
        entry = read_entry(places, path, document.stablecoins, stated_by=stated_by, protocol=MPP)
        if not entry.base_amount and not entry.amount and not places.line("unit", MAX_NAME):
            entry = replace(entry, unit="")
        if payment.get("dynamic") is True:
            entry = replace(entry, amount="", min_amount=entry.amount)
        entries.append(entry)
    if len({each.decimals for each in entries}) > 1:
        digits = _digits(payment, path)
        no_price = {"amount": "", "min_amount": "", "base_amount": digits}
        entries = [replace(each, **no_price) for each in entries]
    return entries


def _digits(payment: dict[str, Any], path: str) -> str:
    """Return the amount of a payment at a JSON path in base units, or an empty string."""
    try:
        return base_units(payment["amount"]) if payment.get("amount") else ""
    except ValueError as error:
        raise InvalidRecord(f"{path}.amount", f"is not a price: {error}") from error


def _places(
    name: str, payment: dict[str, Any], own: dict[str, Any], shared: dict[str, Any]
) -> Places:
    """Return where the facts of a method stand: those of the payment before those of the service.

    An asset of the method is its currency where there is one alone.
    """
    chain = mapping(payment, "methodDetails").get("chainId")
    network = {"network": f"eip155:{chain}"} if name == EVM and chain else {}
    assets = [each for values in (own, shared) for each in items(values, "assets", MAX_OFFERS)]
    if len(assets) == 1 and isinstance(assets[0], str):
        assets = [{"currency": assets[0]}]
    elif len(assets) > 1:
        assets = [{"decimals": mapping({"": each}, "").get("decimals")} for each in assets]
    return Places({"method": name} | network, own, payment, shared, *assets)


def _names(value: Any) -> list[str]:
    """Return the names of methods: one, a list, or the keys of an object."""
    given = [value] if isinstance(value, str) else value if isinstance(value, (list, dict)) else []
    names = (line(each, MAX_NAME) for each in islice(given, MAX_OFFERS))
    return list(dict.fromkeys(filter(None, names)))


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


def _describe(service: dict[str, Any], url: str) -> dict[str, Any]:
    """Return the members that the resources of a service share."""
    categories, provider = read_names(service, "categories"), mapping(service, "provider")
    docs = mapping(service, "docs")
    links = {name: line(docs.get(key), MAX_URL) for key, name in DOCS.items()}
    given = {name: link for name, link in links.items() if link}
    info = {name: value for name, value in (("categories", categories), ("docs", given)) if value}
    texts = ServiceTexts(
        description=read_text(service.get("description")),
        info=msgspec.json.encode(info) if info else b"",
        url=url,
        provider=line(provider.get("name"), MAX_NAME),
        provider_url=line(provider.get("url"), MAX_URL),
        integration=INTEGRATIONS.get(line(service.get("integration"), MAX_NAME), ""),
        status=line(service.get("status"), MAX_NAME),
    )
    return {
        "texts": texts,
        "service_name": line(service.get("name"), MAX_NAME),
        "category": next(iter(categories), ""),
        "tags": read_tags([*read_names(service, "tags"), *categories[1:]])[:MAX_TAGS],
        "icon_url": read_icon_url(service.get("icon")) or read_icon_url(provider.get("icon")),
        "updated": parse_moment(service.get("updatedAt")),
    }
