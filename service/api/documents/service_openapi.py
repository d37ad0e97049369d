"""The OpenAPI document of a service: its endpoints as operations, with their ways to pay.

`x-payment-info` has the dialect of x402scan for one price and the protocols that share it, and the
dialect of MPP for offers in base units. `x-ratecard` counts what the document does not say.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, Raw, UnsetType, field
from starlette.requests import Request

from service.api.services import find_service
from service.http.context import context_of, snapshot_of
from service.http.responses import Cacheable
from service.prices import is_upto
from service.schema.offers import PaymentOffer
from service.schema.records import Endpoint, ParameterDescriptor, Pricing, Service
from service.schema.values import JSON_TYPES, Json
from service.urls import key_of

OPENAPI_METHODS = frozenset(("GET", "PUT", "POST", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE"))
X402, MPP = "x402", "mpp"
X402_SCHEMES = frozenset(("", "exact", "upto", "dynamic"))
PAYMENT_REQUIRED = {"402": {"description": "Payment required"}}
NO_HTTP = "endpoints without a URL over HTTP"
NO_METHOD = "endpoints without a method of HTTP"
QUERY = "endpoints with a query or a fragment in their URL"
TEMPLATE = "endpoints with an invalid template"
REPEATED = "endpoints of the same method and path"
RENAMED = "endpoints whose path differs from another one in names alone"
BEYOND = "endpoints beyond the record"
PLACE = "parameters without a place"
SAME_NAME = "parameters of the same name"
DEFAULT = "defaults of another type"
PRICES = "other prices"

_placeholder = re.compile(r"\{([^{}/?#]+)\}|(?<=/):([A-Za-z_]\w*)")
_value = msgspec.json.Decoder()


class DescribedService(Service, rename="camel", kw_only=True):
    """A service with the members that documents give it."""

    guidance: Any = field(name="x-guidance", default=UNSET)
    info: Raw | UnsetType = field(name="x-service-info", default=UNSET)


_service = msgspec.json.Decoder(DescribedService)


async def get_service_openapi(request: Request) -> Cacheable:
    """Return the OpenAPI document of a service."""
    snapshot = snapshot_of(request)
    ordinal = find_service(snapshot, request.path_params["id"])
    context_of(request).load_shedder.check()
    record = _service.decode(snapshot.services.view(ordinal))
    return Cacheable(describe_service(record, snapshot.resources.beyond(ordinal)))


def describe_service(service: DescribedService, beyond: int = 0) -> bytes:
    """Return the document of a service as JSON, in OpenAPI 3.1.

    beyond: how many endpoints its record does not have
    """
    left_out = Counter({BEYOND: beyond})
    paths: dict[str, Json] = {}
    spelled: dict[str, str] = {}  # path by its template without names
    server = ""
    for endpoint in service.endpoints:
        located = _locate(endpoint)
        if isinstance(located, str):
            left_out[located] += 1
            continue
        own_server, path, names = located
        method = endpoint.method.lower()
        spelling = spelled.setdefault(_placeholder.sub("{}", path), path)
        if spelling != path or method in paths.get(spelling, {}):
            left_out[REPEATED if spelling == path else RENAMED] += 1
            continue
        server = server or own_server
        operation = _describe(endpoint, names, left_out)
        if own_server != server:
            operation["servers"] = [{"url": own_server}]
        paths.setdefault(path, {})[method] = operation
    info = {
        "title": service.service_name or service.name,
        "version": "1",
        "description": service.description,
    }
    if isinstance(service.guidance, str):
        info["x-guidance"] = service.guidance
    document: Json = {
        "openapi": "3.1.0",
        "info": info,
        "servers": [{"url": server or "/"}],
        "tags": [{"name": tag} for tag in dict.fromkeys(service.tags or [])],
        "paths": paths,
    }
    if service_info := _service_info(service):
        document["x-service-info"] = service_info
    document["x-ratecard"] = {
        "service": service.id,
        "endpoints": len(service.endpoints) + beyond,
        "leftOut": +left_out,
    }
    return msgspec.json.encode(document)


def _service_info(service: DescribedService) -> Raw | Json:
    """Return the description that the seller's document gives, or the category; may be empty."""
    if service.info is not UNSET and bytes(service.info).startswith(b"{"):
        return service.info
    return {"categories": [service.category]} if service.category else {}


def _locate(endpoint: Endpoint) -> tuple[str, str, list[str]] | str:
    """Return the server and the path of an endpoint, and the names of its placeholders.

    Returns the reason instead where OpenAPI has no form for the endpoint.
    """
    try:
        split = urlsplit(endpoint.url)
    except ValueError:
        return NO_HTTP
    if split.scheme.lower() not in {"http", "https"} or not split.netloc:
        return NO_HTTP
    if endpoint.method.upper() not in OPENAPI_METHODS:
        return NO_METHOD
    if split.query or split.fragment:
        return QUERY
    given = key_of(split.path)
    names = [match[1] or match[2] for match in _placeholder.finditer(given)]
    path = _placeholder.sub(lambda match: f"{{{match[1] or match[2]}}}", given) or "/"
    rest = _placeholder.sub("", given)
    if len(set(names)) < len(names) or not {"{", "}"}.isdisjoint(rest + split.netloc):
        return TEMPLATE
    return f"{split.scheme}://{split.netloc}", path, names


def _describe(endpoint: Endpoint, names: Sequence[str], left_out: Counter[str]) -> Json:
    """Return the operation of an endpoint."""
    declared = endpoint.parameters or []
    by_name = {(each.group, each.name): each for each in reversed(declared)}
    given = [*reversed(by_name.values())]
    left_out[SAME_NAME] += len(declared) - len(given)
    operation = {
        "description": endpoint.description,
        "tags": [*dict.fromkeys(endpoint.tags or ())],
        "parameters": [*_parameters(given, names, left_out)],
        "requestBody": _describe_body(given, left_out),
        "x-payment-info": _describe_payment(endpoint, left_out),
        "responses": PAYMENT_REQUIRED,
    }
    return _known(operation)


def _known(members: Mapping[str, Any]) -> Json:
    """Return the members that have a value."""
    return {name: value for name, value in members.items() if value}


def _parameters(
    given: Sequence[ParameterDescriptor], names: Sequence[str], left_out: Counter[str]
) -> Iterator[Json]:
    """Yield the parameters of path and query; each placeholder of the path has one."""
    described = set()
    for each in given:
        if each.group == "path" and each.name not in names:
            left_out[PLACE] += 1
        elif each.group != "body":
            described.add((each.group, each.name))
            schema = _schema(each, left_out)
            words = {key: schema.pop(key) for key in ("description", "example") if key in schema}
            required = each.group == "path" or each.required is True
            place = {"name": each.name, "in": each.group, "required": required}
            yield place | words | {"schema": schema}
    for name in names:
        if ("path", name) not in described:
            yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _describe_body(given: Sequence[ParameterDescriptor], left_out: Counter[str]) -> Json:
    body = [each for each in given if each.group == "body"]
    if not body:
        return {}
    required = [each.name for each in body if each.required is True]
    schema = {
        "type": "object",
        "properties": {each.name: _schema(each, left_out) for each in body},
        "required": required,
    }
    return {"content": {"application/json": {"schema": schema}}, "required": bool(required)}


def _schema(parameter: ParameterDescriptor, left_out: Counter[str]) -> Json:
    """Return the JSON Schema of a parameter; a default that does not satisfy it is left out."""
    default = parameter.default
    if default is not UNSET and bytes(default) == b"null":
        default = UNSET
    elif default is not UNSET and not _is_allowed(default, parameter):
        left_out[DEFAULT] += 1
        default = UNSET
    return _known(
        {
            "type": parameter.type,
            "description": parameter.description,
            "enum": parameter.enum_values,
            "example": parameter.example,
            "default": default,
        }
    )


def _is_allowed(given: Raw, parameter: ParameterDescriptor) -> bool:
    """Whether a default of a parameter has its type, and is one of its values."""
    try:
        default = _value.decode(given)
        allowed = [_value.decode(each) for each in parameter.enum_values or []]
    except (msgspec.MsgspecError, RecursionError):
        return False
    is_typed = isinstance(default, JSON_TYPES[parameter.type])
    is_flag = isinstance(default, bool) == (parameter.type == "boolean")
    return is_typed and is_flag and (not allowed or default in allowed)


def _describe_payment(endpoint: Endpoint, left_out: Counter[str]) -> Json:
    """Return the ways to pay, in each dialect those that it can express; may be empty."""
    offers, pricing = endpoint.payment_offers or [], endpoint.pricing
    protocols: dict[str, str | Json] = {}
    price: Json = {}
    if not offers or pricing.network:  # of the record itself, and not of an offer
        price = _price_of(pricing)
        scheme = (pricing.scheme or "").casefold()
        protocol = X402 if pricing.network or scheme in X402_SCHEMES else scheme
        if price or (protocol and pricing.scheme):
            protocols[protocol] = protocol
        if pricing.unit_amount:
            left_out[PRICES] += 1
    in_base_units: list[Json] = []
    for each in offers:
        amount = _base_units(each)
        if each.protocol == MPP and amount is not UNSET:
            in_base_units.append(_describe_offer(each, amount))
            continue
        stated = _price(each.amount, each.min_amount, each.max_amount, each.currency)
        details = _known({"method": each.method, "intent": each.intent, "currency": each.asset})
        named = {each.protocol: details} if details else each.protocol
        is_first = not protocols
        if each.unit or (not is_first and stated != price):
            left_out[PRICES] += 1
        elif is_first or protocols.get(each.protocol, named) == named:
            protocols[each.protocol], price = named, stated
        else:
            left_out[PRICES] += 1
    return _known({"protocols": [*protocols.values()], "price": price, "offers": in_base_units})


def _price_of(pricing: Pricing) -> Json:
    """Return the price of a record, which is a ceiling in the scheme `upto`."""
    if is_upto(pricing):
        ceiling = pricing.max_amount or pricing.amount
        return _price("", pricing.min_amount or "", ceiling, pricing.currency)
    bounds = pricing.min_amount or "", pricing.max_amount or ""
    return _price(pricing.amount, *bounds, pricing.currency)


def _price(amount: str, least: str, most: str, currency: str) -> Json:
    """Return a price of the dialect of x402scan, empty where there is none."""
    if amount:
        return {"mode": "fixed", "currency": currency, "amount": amount}
    bounds = _known({"min": least, "max": most})
    return {"mode": "dynamic", "currency": currency} | bounds if bounds else {}


def _base_units(offer: PaymentOffer) -> str | UnsetType | None:
    """Return the amount of an offer in base units, None for a dynamic one, UNSET if unknown."""
    if offer.base_amount:
        return offer.base_amount
    if not offer.amount:
        return UNSET if offer.min_amount or offer.max_amount or not offer.asset else None
    if offer.decimals is None:
        return UNSET
    whole, _, fraction = offer.amount.partition(".")
    fraction = fraction.rstrip("0")
    if len(fraction) > offer.decimals:
        return UNSET
    return f"{whole}{fraction.ljust(offer.decimals, '0')}".lstrip("0") or "0"


def _describe_offer(offer: PaymentOffer, amount: str | None) -> Json:
    members = {
        "intent": offer.intent,
        "method": offer.method,
        "currency": offer.asset,
        "unitType": offer.unit,
        "description": offer.description,
    }
    return {"amount": amount} | _known(members)
