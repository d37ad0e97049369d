"""The schema of `/discovery`: resources of x402 feeds as they came, with facts of ours."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType, field

from service.schema.profiles import EndpointFacts
from service.schema.records import PaymentOffer, Pricing
from service.schema.responses import AcceptsEntry, Fit
from service.schema.values import GivenTime, ServiceId, Whole

PREFIXES = ("", "/v2/x402", "/platform/v2/x402")
"""Paths below which clients expect `/discovery`: of facilitators, and of the hosted Bazaar."""


class ListedEndpoint(Struct):
    """The endpoint of the service that stands for a listed resource."""

    url: str
    method: str


class ToolFacts(Struct, kw_only=True):
    """An MCP tool: its name, and the URL of the server that has it where the listing names one."""

    name: str
    transport: Literal["streamable-http", "sse"]
    server: str | UnsetType = UNSET


class Requirement(Struct, kw_only=True):
    """A registration or a sign-in before payment, by any of these methods.

    `some` is true where some of the ways to pay need none.
    """

    methods: list[str]
    some: bool | UnsetType = UNSET


class ResourceFacts(EndpointFacts, kw_only=True):
    """Facts of this catalogue about a listed resource.

    `price` is left out where none is known. `paymentOffers` are ways to pay that documents state,
    beside `accepts`. `inRecord` is false for an endpoint beyond the bounds of the record of its
    service, and left out otherwise. `exampleUrl` can be called in place of a template, `tool` is
    the MCP tool, `requires` is what has to be done before paying, and `bodyType` the media type of
    the body where it is not JSON; `wholeBody` says that the parameter of the body is the body
    itself. Each is left out where the listing does not say so. Where the feed has an object
    `resource`, its members became members of the listed resource; those whose names were taken are
    here.
    """

    service: ServiceId
    endpoint: ListedEndpoint
    in_record: bool | UnsetType = field(name="inRecord", default=UNSET)
    price: Pricing | UnsetType = UNSET
    payment_offers: list[PaymentOffer] | UnsetType = field(name="paymentOffers", default=UNSET)
    example_url: str | UnsetType = field(name="exampleUrl", default=UNSET)
    tool: ToolFacts | UnsetType = UNSET
    requires: list[Requirement] | UnsetType = UNSET
    body_type: str | UnsetType = field(name="bodyType", default=UNSET)
    whole_body: bool | UnsetType = field(name="wholeBody", default=UNSET)
    resource: dict[str, Any] | UnsetType = UNSET


class DiscoveryResource(Struct, kw_only=True):
    """A resource of an x402 discovery feed, with all the fields that it came with."""

    resource: str
    type: str
    x402_version: int = field(name="x402Version")
    accepts: list[AcceptsEntry]
    last_updated: GivenTime | UnsetType = field(name="lastUpdated", default=UNSET)
    extensions: dict[str, Any] | UnsetType = UNSET
    ratecard: ResourceFacts


class Pagination(Struct):
    """The applied limit and offset, and the number of all matches."""

    limit: Whole
    offset: Whole
    total: Whole


class ResourceList(Struct, kw_only=True):
    """A page of the resources that satisfy the filters.

    `unappliedFilters` names parameters that were ignored, and is left out where there are none.
    """

    x402_version: Literal[2] = field(name="x402Version")
    items: list[DiscoveryResource]
    pagination: Pagination
    unapplied_filters: list[str] | UnsetType = field(name="unappliedFilters", default=UNSET)


class MerchantResources(Struct, kw_only=True):
    """A page of the resources that can be paid for to an address."""

    x402_version: Literal[2] = field(name="x402Version")
    pay_to: str = field(name="payTo")
    resources: list[DiscoveryResource]
    pagination: Pagination


class CursorPagination(Struct):
    """The number of resources of this page, and the cursor of the next one, if there is one."""

    limit: Whole
    cursor: str | None


class SearchFacts(Struct):
    """How many of the resources of a total match no word, and are similar.

    A first page has the `fit` of its first resource: below 1 none matches well, and `warning` says
    what to do.
    """

    similar: Whole
    fit: Fit | UnsetType = UNSET
    warning: str | UnsetType = UNSET


class FoundResources(Struct, kw_only=True):
    """A page of the resources that match a query and satisfy the filters, best match first.

    `partialResults` says that there are more; `total` counts all matches, and the similar resources
    that fill up few, whose number is in `ratecard`.
    """

    x402_version: Literal[2] = field(name="x402Version")
    resources: list[DiscoveryResource]
    partial_results: bool = field(name="partialResults")
    pagination: CursorPagination
    total: Whole
    unapplied_filters: list[str] | UnsetType = field(name="unappliedFilters", default=UNSET)
    ratecard: SearchFacts | UnsetType = UNSET


class DiscoveryError(Struct, rename="camel", kw_only=True):
    """An error of `/discovery`, in the shapes that its clients read."""

    error: str
    error_type: str
    error_message: str
    parameter: str | UnsetType = UNSET
