"""Endpoints of catalogue records: their identity, price and payee."""

from __future__ import annotations

import re
from collections import defaultdict

import msgspec
from msgspec import Raw, Struct

from indexer.intake.rules import fold_address
from indexer.untrusted import string_of
from service.schema.records import METHODS, Pricing
from service.schema.values import NULL
from service.urls import find_url

EndpointPayees = dict[tuple[str, str, str | None], set[str]]
"""Normalised URLs with a method and a tool, each with the addresses that it names in `payTo`.

The tool is empty where none is named, and None for whichever.
"""


class NamedOffer(Struct, rename="camel"):
    """Whom a way to pay names to be paid."""

    pay_to: str = ""


class NamedEndpoint(Struct, rename="camel"):
    """The parts of an endpoint that identify it, with its price and whom it names to be paid.

    pricing: as it came, since most readers of endpoints do without it
    pay_to, tool: of any JSON type: catalogue records may hold anything there
    """

    url: str
    method: str
    pricing: Raw
    pay_to: Raw = NULL
    tool: Raw = NULL
    payment_offers: list[NamedOffer] = []

    def decode_pricing(self) -> Pricing:
        """Decode the price of a request."""
        return _pricing.decode(self.pricing)

    @property
    def payee(self) -> str:
        """The address in `payTo`, empty for another type."""
        return string_of(self.pay_to)

    @property
    def has_tool(self) -> bool:
        """Whether the endpoint is an MCP tool, of which its URL alone says no price."""
        return self.tool is not NULL and bool(string_of(self.tool))


class NamedEndpoints(Struct):
    """The part of a catalogue record that says which endpoints it has."""

    endpoints: list[NamedEndpoint]


_separator = re.compile(r"[,/|]")
_endpoints = msgspec.json.Decoder(NamedEndpoints)
_pricing = msgspec.json.Decoder(Pricing)


def decode_endpoints(text: bytes) -> list[NamedEndpoint]:
    """Return the endpoints of a valid catalogue record."""
    return _endpoints.decode(text).endpoints


def read_endpoints(text: bytes) -> EndpointPayees:
    """Return the endpoints of a catalogue record, and whom they name to be paid."""
    payees: EndpointPayees = defaultdict(set)
    for each in decode_endpoints(text):
        payee = fold_address(each.payee)
        for address in identify_endpoint(each.url, each.method):
            for tool in (string_of(each.tool), None):
                payees[*address, tool].update({payee} - {""})
    return payees


def identify_endpoint(url: str, methods: str) -> set[tuple[str, str]]:
    """Pair the normalised URL with each method; none if it is not a URL."""
    parsed = find_url(url)
    return {(parsed.identity, name) for name in split_methods(methods)} if parsed else set()


def split_methods(methods: str) -> set[str]:
    """Return each of several methods, as in `GET, POST`; an undeclared one is any."""
    names = {name.strip().upper() for name in _separator.split(methods)} - {""}
    return names or {*METHODS}
