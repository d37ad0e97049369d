"""OpenAPI 3 documents to resources: one service, and a resource for each paid operation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec
from msgspec.structs import replace

from indexer.errors import InvalidRecord, LeftOut
from indexer.intake.fates import NO_ADVICE
from indexer.intake.findings import Notice
from indexer.options import Kind
from indexer.resources.documents import (
    FREE,
    SIGN_IN,
    Bounds,
    Described,
    Document,
    find_unread,
    make_resource,
    price_places,
    read_names,
    read_text,
)
from indexer.resources.entries import MAX_OFFERS, MPP, X402, Entry, read_entry
from indexer.resources.facts import Places
from indexer.resources.mpp import read_offers
from indexer.resources.parameters import read_input
from indexer.resources.resource import Resource, ServiceTexts
from indexer.resources.schemas import REF, Schema, Schemas, refers_outside
from indexer.resources.x402 import MAX_NAME, read_tags
from indexer.untrusted import decode_object, items, line, mapping, objects, text
from service.schema.listings import Advice
from service.urls import MAX_URL

EXTENSION = "x-payment-info"
PAYMENT_REQUIRED = "402"
SIGN_INS = frozenset(("siwx", "siwe", "siws", "signinwithx", "signinwithethereum"))
"""Names of a sign-in with a wallet, without case and signs."""
MODES = {"dynamic": "min_amount", "upto": "max_amount"}
"""Modes in which an amount is a bound."""
PATH_ITEM_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
TERMS = frozenset(("scheme", "network", "asset", "payTo"))
"""Members of the terms of x402, which may stand in a list of protocols without a name."""
MAX_OPERATIONS = 5_000  # paid ones of a document
MAX_INFO = 8 * 1024  # bytes
MAX_DEFAULT = 256  # characters of a variable
MAX_SERVERS = 20

_variable = re.compile(r"\{([^{}]*)\}")
_no_letter = re.compile(r"[^a-z]")
_encode = msgspec.json.Encoder(decimal_format="number").encode


def read_openapi(document: Document) -> Iterator[Described]:
    """Yield the resource of each operation of a document, or one fault for another version."""
    try:
        values = _decode(document.text)
    except InvalidRecord as fault:
        yield Described.refuse("", fault)
        return
    reader = _Operations(document, values)
    for path, item in values["paths"].items():
        if not path.startswith("x-"):
            yield from reader.read_path(path, item)


def _decode(content: bytes) -> Schema:
    values = decode_object(content)
    version = values.get("openapi")
    if not isinstance(version, str) or not version.startswith("3."):
        raise InvalidRecord("$.openapi", "is not a version of OpenAPI 3")
    if not isinstance(values.get("paths"), dict):
        raise InvalidRecord("$.paths", "Expected `object`")
    return values


class _Operations:
    """Reads the operations of one document."""

    def __init__(self, document: Document, values: Schema) -> None:
        info, extension = mapping(values, "info"), mapping(values, "x-service-info")
        self._document, self._values = document, values
        self._schemas = Schemas(values)
        self._servers: dict[int, tuple[str, str]] = {}
        categories = read_names(extension, "categories")
        encoded = _encode(extension) if extension else b""
        self._shared = {
            "texts": ServiceTexts(
                description=read_text(info.get("description")),
                guidance=read_text(info.get("x-guidance")),
                info=encoded if len(encoded) <= MAX_INFO else b"",
            ),
            "service_name": line(info.get("title"), MAX_NAME),
            "category": next(iter(categories), ""),
        }
        self._tags = categories[1:]
        self._bounds = Bounds(MAX_OPERATIONS)

    def read_path(self, path: str, item: Any) -> Iterator[Described]:
        """Yield the resources of one path."""
        place = f"$.paths['{path}']"
        if not isinstance(item, dict):
            yield Described.refuse(path, InvalidRecord(place, "Expected `object`"))
            return
        if REF in item:
            reason = "refers to another place by `$ref`, which is not followed for a path"
            yield Described.refuse(path, InvalidRecord(place, reason))
        for method in PATH_ITEM_METHODS:
            if method in item:
                yield self._read(path, item, method, f"{place}.{method}")

    def _read(self, path: str, item: Schema, method: str, place: str) -> Described:
        """Return the resource of an operation, or why there is none."""
        position, url, operation = f"{method.upper()} {path}", "", item[method]
        if not isinstance(operation, dict):
            return Described.refuse(position, InvalidRecord(place, "Expected `object`"))
        try:
            url = self._url_of(path, (operation, item, self._values), place)
            resource = self._describe(url, method.upper(), operation, item, place)
            return Described.accept(position, self._bounds.fit(resource, place))
        except InvalidRecord as fault:
            return Described.refuse(position, fault, url)

    def _describe(
        self, url: str, method: str, operation: Schema, item: Schema, place: str
    ) -> Resource:
        """Return the resource of a paid operation; raises InvalidRecord."""
        parsed = self._document.check_host(place, url)
        self._check_payment(operation, place)
        self._bounds.count(place)
        offers, notices = _read_payment(operation, place, self._document)
        input_, is_whole = self._schemas.declare(operation, item)
        declared = read_input([input_], url)
        declared.is_whole = is_whole
        return make_resource(
            url,
            parsed,
            method,
            offers,
            place,
            declared=declared,
            advice=Advice.EXTERNAL_REF if refers_outside(input_) else NO_ADVICE,
            description=_text_of(operation) or _text_of(item),
            tags=read_tags([*read_names(operation, "tags"), *self._tags]),
            notices=notices,
            **self._shared,
        )

    def _check_payment(self, operation: Schema, place: str) -> None:
        """Raise LeftOut for an operation that is free, or asks for a sign-in alone."""
        if operation.get(EXTENSION) not in (None, False):
            return
        if PAYMENT_REQUIRED not in mapping(operation, "responses"):
            reason = f"is free: it has neither `{EXTENSION}` nor a response 402"
            raise LeftOut(FREE, place, reason)
        security = operation.get("security", self._values.get("security"))
        ways = security if isinstance(security, list) else []
        if ways and all(isinstance(each, dict) and _is_sign_in(each) for each in ways):
            raise LeftOut(SIGN_IN, place, "asks for a sign-in, and states no price")

    def _url_of(self, path: str, places: tuple[Schema, ...], place: str) -> str:
        """Return the URL of an operation on the first of its servers that may be listed.

        places: the operation, its path and the document, of which the first with servers counts
        """
        values = next((each for each in places if items(each, "servers", 1)), self._values)
        if id(values) not in self._servers:
            try:
                self._servers[id(values)] = self._choose_server(values, place), ""
            except InvalidRecord as fault:
                self._servers[id(values)] = "", fault.reason
        server, reason = self._servers[id(values)]
        if reason:
            raise InvalidRecord(place, reason)
        return f"{server}/{path.lstrip('/')}"

    def _choose_server(self, values: Schema, place: str) -> str:
        """Return the URL of the first server of an object that may be listed; a few are read."""
        urls = []
        for server in items(values, "servers", MAX_SERVERS) or [{}]:
            variables = mapping(server, "variables")
            parts = _variable.split(line(mapping({"": server}, "").get("url"), MAX_URL) or "/")
            for number, name in enumerate(parts[1::2]):
                parts[2 * number + 1] = line(mapping(variables, name).get("default"), MAX_DEFAULT)
            url = self._document.resolve(place, "".join(parts)[: MAX_URL + 1])
            urls.append(url.partition("#")[0].partition("?")[0])
        return self._document.choose_server(place, urls).rstrip("/")


def _is_sign_in(way: Schema) -> bool:
    """Whether all schemes of one way of security are sign-ins with a wallet."""
    return bool(way) and all(_no_letter.sub("", name.lower()) in SIGN_INS for name in way)


def _text_of(values: Schema) -> str:
    """Return summary and description of an operation or a path as one text."""
    summary, description = (read_text(values.get(key)) for key in ("summary", "description"))
    if summary and description and not description.startswith(summary.rstrip(".")):
        return f"{summary.rstrip('.')}. {description}"
    return description or summary


def _read_payment(
    operation: Schema, path: str, document: Document
) -> tuple[list[Entry], list[Notice]]:
    """Return the ways to pay for an operation, and notices; raises InvalidRecord."""
    info = operation.get(EXTENSION)
    path = f"{path}['{EXTENSION}']"
    if info in (None, False, True):
        return [], []
    if not isinstance(info, dict):
        raise InvalidRecord(path, "Expected `object`")
    offers = [*dict.fromkeys(_read_price(info, path, document)), *_read_mpp(info, path, document)]
    if len(offers) > MAX_OFFERS:
        raise InvalidRecord(path, f"has more than {MAX_OFFERS} ways to pay")
    terms = [each for _, each in _protocols(info)]
    return offers, find_unread(path, info, info.get("price"), *terms)


def _read_price(info: Schema, path: str, document: Document) -> Iterator[Entry]:
    """Yield an entry for each protocol, at the shared price unless its terms have another one."""
    protocols = [*_protocols(info)]
    ignored = {"protocols", "accepts"} | ({"amount", "method"} if _is_mpp(info) else set())
    beside = {name: value for name, value in info.items() if name not in ignored}
    price = mapping(info, "price") or mapping(info, "amount")
    is_priced = any(Places(price, beside).stated("amount", "price", "least", "most"))
    if not protocols and not is_priced and "pricingMode" not in info:
        return
    for protocol, terms in protocols or [(X402, {})]:
        if protocol == MPP and terms.get("amount"):
            yield from read_offers(terms, {}, path, Kind.OPENAPI, document)
            continue
        own = mapping(terms, "price")
        is_base = "asset" in terms and not own and text(terms.get("amount")).isdecimal()
        is_shadowed = is_base and is_priced  # an entry of `accepts` beside the price
        stated = {name: terms[name] for name in terms if name != "amount" or not is_shadowed}
        entry = read_entry(
            price_places(own, stated, price, beside),
            f"{path}.price" if price else path,
            document.stablecoins,
            stated_by=Kind.OPENAPI,
            protocol=protocol if protocol != MPP else "",
            in_units=is_priced or not is_base,
        )
        mode = text((own or price).get("mode") or info.get("pricingMode")).casefold()
        if entry.amount and mode in MODES:
            entry = replace(entry, **{"amount": "", MODES[mode]: entry.amount})
        if protocol != X402:
            entry = _of_protocol(entry, protocol, Places(terms), is_alone=len(protocols) == 1)
        yield entry


def _of_protocol(entry: Entry, protocol: str, terms: Places, *, is_alone: bool) -> Entry:
    """Return the entry of another protocol than x402, to which terms beside the price belong."""
    method, intent, network, payee, currency, asset = (
        terms.line(fact, MAX_NAME)
        for fact in ("rail", "intent", "network", "payee", "currency", "asset")
    )
    if not is_alone:
        entry = replace(entry, network=network, pay_to=payee, asset=asset)
    asset = currency or entry.asset
    return replace(entry, protocol=protocol, method=method, intent=intent, asset=asset)


def _protocols(info: Schema) -> Iterator[tuple[str, Schema]]:
    """Yield the protocols and their terms: names, objects by name, or objects that have a name."""
    yield from ((X402, each) for each in objects(info, "accepts", MAX_OFFERS + 1))
    protocols = info.get("protocols")
    given = protocols if isinstance(protocols, list) else [protocols]
    for each in given[: MAX_OFFERS + 1]:
        members = each if isinstance(each, dict) else {each: {}} if isinstance(each, str) else {}
        names = (line(members.get(key), MAX_NAME) for key in ("name", "protocol", "type"))
        if name := next(filter(None, names), "") or X402 * (not TERMS.isdisjoint(members)):
            members = {name: members}
        for key in islice(members, MAX_OFFERS + 1):
            if protocol := line(key, MAX_NAME).casefold():
                yield protocol, mapping(members, key)


def _is_mpp(info: Schema) -> bool:
    """Whether members of MPP, of which the method is none of HTTP, stand beside the amount."""
    method = text(info.get("method")).lower()
    return "intent" in info or ("method" in info and method not in PATH_ITEM_METHODS)


def _read_mpp(info: Schema, path: str, document: Document) -> Iterator[Entry]:
    """Yield the entries of the dialect of MPP, or the only one, which may stand alone."""
    offers = info.get("offers")
    if offers is None:
        if _is_mpp(info):
            yield from read_offers(info, {}, path, Kind.OPENAPI, document)
        return
    if not isinstance(offers, list):
        raise InvalidRecord(f"{path}.offers", "Expected `array`")
    for number, offer in enumerate(offers[: MAX_OFFERS + 1]):
        place = f"{path}.offers[{number}]"
        if not isinstance(offer, dict):
            raise InvalidRecord(place, "Expected `object`")
        yield from read_offers(offer, {}, place, Kind.OPENAPI, document)
