"""The OpenAPI document of a service: its endpoints as operations, with their ways to pay.

`x-payment-info` has the dialect of x402scan: the price of a request, and the terms of each way to
pay by the name of its protocol. A price among the terms replaces that of the request.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Raw
from starlette.requests import Request

from service.api.services import find_service
from service.bodies import media_type_of
from service.http.context import context_of, snapshot_of
from service.http.responses import Cacheable
from service.prices import CEILINGS, is_ceiling, is_fixed
from service.schema.records import (
    METHODS,
    Endpoint,
    ParameterDescriptor,
    PaymentOffer,
    Pricing,
    Service,
)
from service.schema.values import Json
from service.urls import key_of

X402_SCHEMES = frozenset(("", "exact", "dynamic", *CEILINGS))
STARTS = {"string": b'"', "array": b"[", "object": b"{", "boolean": b"tf", "number": b"-0123456789"}
"""The first bytes of JSON values by type."""

_url = re.compile(r"(https?://[^\s/?#{}\[\]]+)(/[^?#]*)?", re.IGNORECASE)
_placeholder = re.compile(r"\{([^{}/?#]+)\}|(?<=/):([A-Za-z_]\w*)")
_service = msgspec.json.Decoder(Service)


async def get_service_openapi(request: Request) -> Cacheable:
    """Return the OpenAPI document of a service."""
    snapshot = snapshot_of(request)
    ordinal = find_service(snapshot, request.path_params["id"])
    context_of(request).load_shedder.check()
    service = _service.decode(snapshot.services.view(ordinal))
    endpoints = snapshot.endpoints
    accepts = [endpoints.listing_of(each).accepts for each in endpoints.of_service(ordinal)]
    return Cacheable(describe_service(service, accepts, snapshot.resources.beyond(ordinal)))


def describe_service(service: Service, accepts: Iterable[Sequence[Raw]], beyond: int = 0) -> bytes:
    """Return the document of a service as JSON, in OpenAPI 3.1.

    accepts: the ways to pay for each endpoint that feeds list
    beyond: the number of endpoints that its record does not have
    """
    paths: dict[str, tuple[str, Json]] = {}  # by the template without names
    first_server = ""
    for endpoint, entries in zip(service.endpoints, accepts, strict=True):
        server, path, names = _locate(endpoint.url)
        method = endpoint.method.lower()
        spelling, operations = paths.setdefault(_placeholder.sub("{}", path), (path, {}))
        if not path or spelling != path or method in operations or method.upper() not in METHODS:
            continue
        first_server = first_server or server
        operation = {
            "description": endpoint.description,
            "tags": [*dict.fromkeys(endpoint.tags or ())],
            "servers": [{"url": server}] if server != first_server else [],
            **_describe_input(endpoint, names),
            "x-payment-info": _describe_payment(endpoint, entries),
            "responses": {"402": {"description": "Payment required"}},
        }
        operations[method] = _known(operation)
    count = len(service.endpoints) + beyond
    described = {path: operations for path, operations in paths.values() if operations}
    left_out = count - sum(map(len, described.values()))
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": service.service_name or service.name,
            "version": "1",
            "description": service.description,
        },
        "servers": [{"url": first_server or "/"}],
        "paths": described,
        "x-ratecard": {"service": service.id, "endpoints": count, "leftOut": left_out},
    }
    return msgspec.json.encode(document)


def _known(members: Mapping[str, object]) -> Json:
    """Return the members that have a value."""
    return {name: value for name, value in members.items() if value}


def _locate(url: str) -> tuple[str, str, list[str]]:
    """Return the server and the path of a URL, and the names of its placeholders.

    All are empty where OpenAPI has no form for the URL.
    """
    match = _url.fullmatch(url)
    path = key_of(match[2] or "/") if match else ""
    names = [braced or plain for braced, plain in _placeholder.findall(path)]
    path = _placeholder.sub(r"{\1\2}", path)
    is_template = path.count("{") == path.count("}") == len({*names}) == len(names)
    return (match[1], path, names) if match and is_template else ("", "", [])


def _describe_input(endpoint: Endpoint, names: Iterable[str]) -> Json:
    """Return the parameters of path and query, and the body; each placeholder has a parameter."""
    known = {(each.group, each.name): each for each in endpoint.parameters or ()}
    body = {each.name: each for each in known.values() if each.group == "body"}
    placed = [
        known.get(("path", name)) or ParameterDescriptor(group="path", name=name, type="string")
        for name in names
    ]
    placed += (each for each in known.values() if each.group == "query")
    parameters = [
        {
            "name": each.name,
            "in": each.group,
            "required": each.group == "path" or each.required is True,
            "description": each.description or "",
            "schema": _describe_schema(each),
        }
        for each in placed
    ]
    required = [name for name, each in body.items() if each.required is True]
    properties = {name: _describe_schema(each) for name, each in body.items()}
    schema = {"type": "object", "properties": properties, "required": required}
    if endpoint.whole_body is True and properties:
        (schema,) = properties.values()
    content = {media_type_of(endpoint.body_type): {"schema": schema}}
    request = {"content": content, "required": bool(required)} if body else {}
    return {"parameters": parameters, "requestBody": request}


def _describe_schema(parameter: ParameterDescriptor) -> Json:
    """Return the JSON Schema of a parameter; a default that does not satisfy it is left out."""
    default = parameter.default or Raw()
    values = parameter.enum_values or [default]
    is_valid = bytes(default)[:1] in STARTS[parameter.type] and default in values
    members = {
        "type": parameter.type,
        "description": parameter.description,
        "enum": parameter.enum_values,
        "example": parameter.example,
        "default": default if is_valid else None,
    }
    return _known(members)


def _describe_payment(endpoint: Endpoint, accepts: Iterable[Raw]) -> Json:
    """Return the price of a request, and the terms of each way to pay; may be empty."""
    pricing, offers = endpoint.pricing, endpoint.payment_offers or []
    scheme = pricing.scheme or ""
    price = _price_of(pricing, is_ceiling=is_ceiling(pricing), is_fixed=is_fixed(pricing))
    ways: list[Json] = [{"x402": entry} for entry in accepts]
    terms = _known({"scheme": scheme, "network": pricing.network})
    if not ways and (pricing.network or not offers) and (price or terms):
        is_x402 = pricing.network or scheme.casefold() in X402_SCHEMES
        ways.append({"x402" if is_x402 else scheme: terms})
    ways += ({each.protocol: _terms_of(each, price)} for each in offers)
    return _known({"price": price, "protocols": ways})


def _terms_of(offer: PaymentOffer, shared: Json) -> Json:
    """Return the terms of an offer, with its price unless that is the shared one."""
    price = _price_of(offer)
    terms = {
        "scheme": offer.scheme,
        "network": offer.network,
        "method": offer.method,
        "intent": offer.intent,
        "asset" if offer.protocol == "x402" else "currency": offer.asset,
        "payTo": offer.pay_to,
        "amount": offer.base_amount,
        "unitType": offer.unit,
        "price": price if price != shared else {},
    }
    return _known(terms)


def _price_of(
    stated: Pricing | PaymentOffer, *, is_ceiling: bool = False, is_fixed: bool = True
) -> Json:
    """Return a fixed price or its bounds, empty where there are neither.

    The amount of an unknown scheme has no mode.
    """
    if stated.amount and not is_ceiling:
        price = {"currency": stated.currency, "amount": stated.amount}
        return {"mode": "fixed"} | price if is_fixed else price
    bounds = _known({"min": stated.min_amount, "max": stated.max_amount or stated.amount})
    return {"mode": "dynamic", "currency": stated.currency} | bounds if bounds else {}
