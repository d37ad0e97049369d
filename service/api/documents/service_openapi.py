"""The OpenAPI document of a service: its endpoints as operations, with their ways to pay.

`x-payment-info` has the dialect of x402scan for one price and the protocols that share it, and the
dialect of MPP for offers in base units. `x-ratecard` counts what the document does not say.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, Raw, UnsetType, field
from starlette.requests import Request
from starlette.responses import Response

from service.api.services import find_service
from service.http.context import context_of, snapshot_of
from service.http.responses import Cacheable
from service.schema.offers import PaymentOffer
from service.schema.records import Endpoint, ParameterDescriptor, Service

Json = dict[str, Any]

METHODS = frozenset(("GET", "PUT", "POST", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE"))
X402, MPP = "x402", "mpp"
PAYMENT_REQUIRED = {"402": {"description": "Payment required"}}
TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float, Decimal),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
NO_HTTP = "endpoints without a URL over HTTP"
NO_METHOD = "endpoints without a method of HTTP"
QUERY = "endpoints with a query in their URL"
TEMPLATE = "endpoints with an invalid template"
REPEATED = "endpoints of the same method and path"
PLACE = "parameters without a place"
DEFAULT = "defaults of another type"
PRICES = "other prices"

_placeholder = re.compile(r"\{([^{}/?#]+)\}|(?<=/):([A-Za-z_]\w*)")
_value = msgspec.json.Decoder(float_hook=Decimal)
_encode = msgspec.json.Encoder(decimal_format="number").encode


class DescribedService(Service, rename="camel", kw_only=True):
    """A service with the members that documents give it."""

    guidance: str | UnsetType = field(name="x-guidance", default=UNSET)
    info: Raw | UnsetType = field(name="x-service-info", default=UNSET)


_service = msgspec.json.Decoder(DescribedService)


class _Address(NamedTuple):
    """The server and the path of an endpoint, and the names of its placeholders."""

    server: str
    path: str
    names: list[str]


async def get_service_openapi(request: Request) -> Response:
    """Return the OpenAPI document of a service."""
    context, snapshot = context_of(request), snapshot_of(request)
    ordinal = find_service(snapshot, request.path_params["id"])
    context.load_shedder.check()
    await context.turns.wait()
    record = _service.decode(snapshot.services.view(ordinal))
    return Cacheable(describe_service(record), etag=snapshot.services.tag(ordinal).decode())


def describe_service(service: DescribedService) -> bytes:
    """Return the document of a service as JSON, in OpenAPI 3.1."""
    left_out: Counter[str] = Counter()
    paths: dict[str, Json] = {}
    spelled: dict[str, str] = {}  # path by its template without names
    server = ""
    for endpoint in service.endpoints:
        address = _locate(endpoint)
        if isinstance(address, str):
            left_out[address] += 1
            continue
        method = endpoint.method.lower()
        spelling = spelled.setdefault(_placeholder.sub("{}", address.path), address.path)
        if spelling != address.path or method in paths.get(spelling, {}):
            left_out[REPEATED] += 1
            continue
        server = server or address.server
        operation = _describe(endpoint, address, left_out)
        if address.server != server:
            operation["servers"] = [{"url": address.server}]
        paths.setdefault(address.path, {})[method] = operation
    counts = {"service": service.id, "endpoints": len(service.endpoints), "leftOut": left_out}
    document = {
        "openapi": "3.1.0",
        "info": _describe_info(service),
        "servers": [{"url": server or "/"}],
        "paths": paths,
        "x-service-info": _service_info(service),
        "x-ratecard": counts,
    }
    return _encode({name: value for name, value in document.items() if value is not UNSET})


def _describe_info(service: DescribedService) -> Json:
    info = {
        "title": service.service_name or service.name,
        "version": "1",
        "description": service.description,
        "x-guidance": service.guidance,
    }
    return {name: value for name, value in info.items() if value is not UNSET}


def _service_info(service: DescribedService) -> Raw | Json | UnsetType:
    if service.info is not UNSET:
        return service.info
    return {"categories": [service.category]} if service.category else UNSET


def _locate(endpoint: Endpoint) -> _Address | str:
    """Return where an endpoint is, or the reason why OpenAPI has no form for it."""
    try:
        split = urlsplit(endpoint.url)
    except ValueError:
        return NO_HTTP
    if split.scheme.lower() not in {"http", "https"} or not split.netloc:
        return NO_HTTP
    if endpoint.method not in METHODS:
        return NO_METHOD
    if split.query or split.fragment:
        return QUERY
    names = [match[1] or match[2] for match in _placeholder.finditer(split.path)]
    path = _placeholder.sub(lambda match: f"{{{match[1] or match[2]}}}", split.path) or "/"
    rest = _placeholder.sub("", split.path)
    if len(set(names)) < len(names) or not {"{", "}"}.isdisjoint(rest + split.netloc):
        return TEMPLATE
    return _Address(f"{split.scheme}://{split.netloc}", path, names)


def _describe(endpoint: Endpoint, address: _Address, left_out: Counter[str]) -> Json:
    """Return the operation of an endpoint."""
    operation: Json = {}
    if endpoint.description:
        operation["description"] = endpoint.description
    if endpoint.tags:
        operation["tags"] = [*dict.fromkeys(endpoint.tags)]
    given = endpoint.parameters or []
    parameters = [*_parameters(given, address.names, left_out)]
    if parameters:
        operation["parameters"] = parameters
    body = [each for each in given if each.group == "body"]
    if body:
        required = [each.name for each in body if each.required is True]
        schema = {
            "type": "object",
            "properties": {each.name: _schema(each, left_out) for each in body},
            "required": [*dict.fromkeys(required)],
        }
        content = {"application/json": {"schema": schema}}
        operation["requestBody"] = {"content": content, "required": bool(required)}
    payment = _describe_payment(endpoint, left_out)
    if payment:
        operation["x-payment-info"] = payment
    operation["responses"] = PAYMENT_REQUIRED
    return operation


def _parameters(
    given: Sequence[ParameterDescriptor], names: Sequence[str], left_out: Counter[str]
) -> Iterator[Json]:
    """Yield the parameters of path and query; each placeholder of the path has one."""
    described = {(each.group, each.name): each for each in reversed(given)}
    for (group, name), each in reversed(described.items()):
        if group == "path" and name not in names:
            left_out[PLACE] += 1
        elif group != "body":
            required = group == "path" or each.required is True
            schema = _schema(each, left_out)
            yield {"name": name, "in": group, "required": required, "schema": schema}
    for name in names:
        if ("path", name) not in described:
            yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _schema(parameter: ParameterDescriptor, left_out: Counter[str]) -> Json:
    """Return the JSON Schema of a parameter; a default that does not satisfy it is left out."""
    schema: Json = {"type": parameter.type}
    if parameter.description:
        schema["description"] = parameter.description
    if parameter.enum_values:
        schema["enum"] = parameter.enum_values
    if parameter.example is not UNSET:
        schema["example"] = parameter.example
    default = None if parameter.default is UNSET else _value.decode(parameter.default)
    if default is not None:
        is_flag = isinstance(default, bool)
        fits = isinstance(default, TYPES[parameter.type]) and is_flag == (
            parameter.type == "boolean"
        )
        allowed = [_value.decode(each) for each in parameter.enum_values or []]
        if fits and (not allowed or default in allowed):
            schema["default"] = parameter.default
        else:
            left_out[DEFAULT] += 1
    return schema


def _describe_payment(endpoint: Endpoint, left_out: Counter[str]) -> Json:
    """Return the ways to pay, in each dialect those that it can express; may be empty."""
    offers = endpoint.payment_offers or []
    pricing = endpoint.pricing
    protocols: dict[str, str | Json] = {}
    price: Json = {}
    if not offers or pricing.network:  # of the record itself, and not of an offer
        price = _price(
            pricing.amount if pricing.scheme != "upto" else "",
            pricing.min_amount or "",
            pricing.max_amount or "",
            pricing.currency,
        )
        if price or pricing.network:
            protocols[X402] = X402
    in_base_units: list[Json] = []
    for each in offers:
        amount = _base_units(each)
        if each.protocol == MPP and amount is not UNSET:
            in_base_units.append(_describe_offer(each, amount))
            continue
        stated = _price(each.amount, each.min_amount, each.max_amount, each.currency)
        known = {"method": each.method, "intent": each.intent, "currency": each.asset}
        details = {name: value for name, value in known.items() if value}
        named = {each.protocol: details} if details else each.protocol
        is_first = not protocols
        if each.unit or (not is_first and stated != price):
            left_out[PRICES] += 1
        elif is_first or protocols.get(each.protocol, named) == named:
            protocols[each.protocol], price = named, stated
        else:
            left_out[PRICES] += 1
    payment: Json = {"protocols": [*protocols.values()]} if protocols else {}
    if price:
        payment["price"] = price
    if in_base_units:
        payment["offers"] = in_base_units
    return payment


def _price(amount: str, least: str, most: str, currency: str) -> Json:
    """Return a price of the dialect of x402scan, empty where there is none."""
    if amount:
        return {"mode": "fixed", "currency": currency, "amount": amount}
    bounds = {name: value for name, value in (("min", least), ("max", most)) if value}
    return {"mode": "dynamic", "currency": currency} | bounds if bounds else {}


def _base_units(offer: PaymentOffer) -> str | UnsetType | None:
    """Return the amount of an offer in base units, None for a dynamic one, UNSET if unknown."""
    if offer.base_amount:
        return offer.base_amount
    if not offer.amount:
        return UNSET if offer.min_amount or offer.max_amount or not offer.asset else None
    if offer.decimals is None:
        return UNSET
    units = Decimal(offer.amount).scaleb(offer.decimals)
    return f"{units:f}" if units == units.to_integral_value() else UNSET


def _describe_offer(offer: PaymentOffer, amount: str | None) -> Json:
    members = {
        "intent": offer.intent,
        "method": offer.method,
        "currency": offer.asset,
        "unitType": offer.unit,
        "description": offer.description,
    }
    return {"amount": amount} | {name: value for name, value in members.items() if value}
