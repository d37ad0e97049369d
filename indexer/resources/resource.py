"""Resources: calls that can be paid for, in one form whatever document describes them."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from indexer.intake.fates import Address, Subject
from indexer.intake.findings import Notice
from indexer.intake.rules import fold_address
from indexer.resources.entries import Entry, make_price
from indexer.untrusted import NEVER
from service.arrays.texts import text_hash
from service.networks import network_key, network_label
from service.schema.discovery import Requirement
from service.schema.listings import Advice
from service.schema.records import Endpoint, EndpointQuality, ParameterDescriptor, Pricing
from service.snapshot.listings import host_hash, payee_hash
from service.urls import find_url, key_of

_parameters = msgspec.json.Decoder(list[ParameterDescriptor])


class ServiceTexts(Struct, array_like=True, frozen=True):
    """The texts of a document on its service, empty where there are none.

    guidance: `info.x-guidance` or `instructions`, for agents
    info: the object `x-service-info` as JSON
    has_names: whether the service is named by the resources of the document alone
    url: of the service, which its endpoints are below
    integration: `1P` or `3P`
    """

    description: str = ""
    guidance: str = ""
    info: bytes = b""
    has_names: bool = True
    url: str = ""
    provider: str = ""
    provider_url: str = ""
    integration: str = ""
    status: str = ""


class DiscoveredEndpoint(Endpoint, rename="camel", kw_only=True):
    """An endpoint with the fields of its resource beyond the public schema."""

    pay_to: str | UnsetType = UNSET
    tool: str | UnsetType = UNSET


class Resource(Struct, array_like=True, gc=False, kw_only=True, tag="resource"):
    """A call that can be paid for; texts are empty and dates NEVER where nothing is stated.

    url: to call, with the route template in place of its path if there is one
    stated_url: as the document has it
    given, identity: the normalised URL as stated, and that of `url`; of a tool, that of its server
    domain: of the service; host: without the port
    tool: the name of the MCP tool, of the server `server`
    tool_url: the normalised identifier of a tool, where it stood for the URL
    updated, called: the last change and the last call, in microseconds of Unix time
    entries: those of `accepts`, in their order
    offers: those of documents
    chosen: the number of the entry that is the price, of `entries` or else of `offers`
    place: the JSON path of the payment in a document, for notices
    parameters: JSON of a list of ParameterDescriptor
    body_type: the media type of the body, where it is stated and another one than JSON
    is_whole_body: whether the body parameter is the body itself, and no member of it
    output: names of its output fields
    example_url: can be called in place of a template
    transport: of an MCP tool
    advice: the faults that the seller can mend, as bits of `Advice`
    texts: of the document on the service; None for a resource of a feed
    text: JSON of a feed's resource as `/discovery` lists it; empty for resources of documents
    displaced: members of an object `resource` that the resource itself has with other values
    listed_type, extensions, listed_tags: of the text, which filters compare
    """

    url: str
    stated_url: str
    given: str
    identity: str
    host: str
    domain: str
    method: str = ""
    tool: str = ""
    tool_url: str = ""
    server: str = ""
    transport: Literal["streamable-http", "sse"] = "streamable-http"
    updated: int = NEVER
    called: int = NEVER
    service_name: str = ""
    description: str = ""
    category: str = ""
    tags: list[str] = []
    icon_url: str = ""
    calls: int | None = None
    payers: int | None = None
    entries: list[Entry] = []
    offers: list[Entry] = []
    chosen: int = 0
    place: str = ""
    parameters: bytes = b"[]"
    body_type: str = ""
    is_whole_body: bool = False
    output: str = ""
    example_url: str = ""
    requires: list[Requirement] = []
    notices: list[Notice] = []
    advice: int = 0
    texts: ServiceTexts | None = None
    text: bytes = b""
    displaced: dict[str, bytes] = {}
    listed_type: str = ""
    extensions: list[str] = []
    listed_tags: list[str] = []

    @property
    def key(self) -> str:
        """The key that no other resource has, and that orders the listings of a service."""
        return f"{self.identity}\n{self.method}\n{self.tool}"

    @property
    def is_listed(self) -> bool:
        """Whether `/discovery` lists it: whether it came from a feed with a way to pay."""
        return self.text != b""

    @property
    def service(self) -> str:
        """The path of the service that a document names, in lower case; empty for the host."""
        parsed = find_url(self.texts.url) if self.texts else None
        if parsed is None or parsed.domain != self.domain:
            return ""
        return parsed.rest.partition("?")[0].rstrip("/").lower()

    @property
    def chosen_entry(self) -> Entry | None:
        """The entry that is the price, None where no way to pay is stated."""
        found = self.entries or self.offers
        return found[self.chosen] if found else None

    @property
    def pricing(self) -> Pricing:
        """The price of a request, with empty texts where no way to pay is stated."""
        entry = self.chosen_entry
        return make_price(entry) if entry else Pricing(amount="", currency="")

    @property
    def price(self) -> float:
        """The most that a request costs in units of the currency, 0 where that is not known."""
        entry = self.chosen_entry
        return float(entry.price or 0) if entry else 0.0

    @property
    def payees(self) -> list[str]:
        """The distinct addresses that are paid, as they are compared."""
        paid = (each.pay_to for each in (*self.entries, *self.offers))
        return list(dict.fromkeys(fold_address(each) for each in paid if each))

    @property
    def networks(self) -> list[str]:
        """The labels of the networks of all ways to pay."""
        names = (each.network for each in (*self.entries, *self.offers))
        labels: dict[str, str] = {}
        for name in filter(None, names):
            labels.setdefault(network_key(name), network_label(name))
        return list(labels.values())

    def to_endpoint(self) -> DiscoveredEndpoint:
        """Return the endpoint that the record of its service has."""
        entry = self.chosen_entry
        return DiscoveredEndpoint(
            url=self.url,
            method=self.method,
            pricing=self.pricing,
            description=self.description or UNSET,
            quality=self._quality(),
            parameters=_parameters.decode(self.parameters) or UNSET,
            body_type=self.body_type or UNSET,
            whole_body=self.is_whole_body or UNSET,
            service_name=self.service_name or UNSET,
            tags=self.tags or UNSET,
            pay_to=(entry.pay_to if entry else "") or UNSET,
            tool=self.tool or UNSET,
            payment_offers=[each.to_offer() for each in self.offers] or UNSET,
        )

    def _quality(self) -> EndpointQuality | UnsetType:
        """Return the counts, which are omitted without use in the last 30 days."""
        if not self.calls and not self.payers:
            return UNSET
        return EndpointQuality(
            l30_days_total_calls=UNSET if self.calls is None else str(self.calls),
            l30_days_unique_payers=UNSET if self.payers is None else str(self.payers),
        )

    def to_subject(self) -> Subject:
        """Return what it names: its URL and route template, or the server and URL of a tool."""
        host = host_hash(self.host)
        urls = dict.fromkeys(filter(None, (self.given, self.identity, self.tool_url)))
        addresses = [Address(text_hash(url), host) for url in dict.fromkeys(map(key_of, urls))]
        return Subject(tuple(addresses), tuple(map(payee_hash, self.payees)), Advice(self.advice))
