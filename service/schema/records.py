"""The public schema of catalogue records: services and their endpoints.

Stored records are served verbatim: fields that are not listed here are kept, and no value is
rewritten.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from service.schema.values import DecimalAmount, DecimalCount, GivenTime, NonEmpty, ServiceId, Whole

MAX_DECIMALS = 36
MAX_STATUS = 40  # characters that are shown
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD")
"""Methods of HTTP with which endpoints are called."""


class Pricing(Struct, rename="camel", kw_only=True):
    """The price of a request."""

    amount: DecimalAmount
    currency: str
    network: (
        Annotated[
            str,
            Meta(description="A label or a CAIP-2 identifier.", examples=["Base", "eip155:8453"]),
        ]
        | UnsetType
    ) = UNSET
    scheme: (
        Annotated[
            str,
            Meta(description="How the amount is agreed; an open set.", examples=["exact", "upto"]),
        ]
        | UnsetType
    ) = UNSET
    max_amount: DecimalAmount | UnsetType = UNSET
    min_amount: DecimalAmount | UnsetType = UNSET
    unit_type: (
        Annotated[
            Any,
            Meta(
                description="The unit of `unitAmount` where a request costs no fixed price.",
                examples=["token", "second"],
            ),
        ]
        | UnsetType
    ) = UNSET
    unit_amount: (
        Annotated[Any, Meta(description="The price of one unit, a decimal string.")] | UnsetType
    ) = UNSET


class ParameterDescriptor(Struct, rename="camel", kw_only=True):
    """One parameter of an endpoint."""

    group: Literal["body", "query", "path"]
    name: str
    type: Literal["string", "number", "boolean", "array", "object"]
    description: str | UnsetType = UNSET
    example: Annotated[Raw, Meta(description="Any JSON value.")] | UnsetType = UNSET
    enum_values: list[Raw] | UnsetType = UNSET
    default: Annotated[Raw, Meta(description="Any JSON value.")] | UnsetType = UNSET
    required: bool | UnsetType = UNSET


class PaymentOffer(Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """A way to pay for a request; members are left out where the document has none.

    `protocol` is `x402`, `mpp` or another one; `method` and `intent` are terms of MPP, `scheme` and
    `network` of x402. `amount` is a fixed one in units of `currency`, `minAmount` and `maxAmount`
    are bounds; each pays for one `unit`, where there is one, and else for a request. `baseAmount`
    is in base units of an `asset` whose `decimals` are not known, or differ among the methods of
    one payment. `payTo` is the address that is paid, where it is stated. `statedBy` is the kind of
    the document.
    """

    protocol: str
    stated_by: str
    method: str = ""
    intent: str = ""
    scheme: str = ""
    network: str = ""
    amount: DecimalAmount = ""
    min_amount: DecimalAmount = ""
    max_amount: DecimalAmount = ""
    currency: str = ""
    unit: str = ""
    asset: str = ""
    decimals: Annotated[int, Meta(ge=0, le=MAX_DECIMALS)] | None = None
    base_amount: str = ""
    pay_to: str = ""
    description: str = ""


class EndpointQuality(Struct, rename="camel", kw_only=True):
    """Use of one endpoint in the last 30 days."""

    l30_days_total_calls: DecimalCount | UnsetType = UNSET
    l30_days_unique_payers: DecimalCount | UnsetType = UNSET


def sum_calls(qualities: Iterable[EndpointQuality | UnsetType | None]) -> int:
    """Return the calls in the last 30 days of a service with endpoints of these qualities."""
    given = (each.l30_days_total_calls for each in qualities if isinstance(each, EndpointQuality))
    return sum(int(calls) for calls in given if calls is not UNSET)


class Endpoint(Struct, rename="camel", kw_only=True):
    """A URL to call and pay for; `:name` and `{name}` are placeholders."""

    url: NonEmpty
    method: Annotated[
        str,
        Meta(
            description="An HTTP method or empty; an open set.",
            examples=["GET", "POST", "PUT", "DELETE", "PATCH", ""],
        ),
    ]
    pricing: Pricing
    description: str | UnsetType = UNSET
    quality: EndpointQuality | UnsetType | None = UNSET
    provider_name: str | UnsetType = UNSET
    parameters: list[ParameterDescriptor] | UnsetType = UNSET
    service_name: str | UnsetType = UNSET
    tags: list[str] | UnsetType = UNSET
    payment_offers: (
        Annotated[list[PaymentOffer], Meta(description="Ways to pay that documents state.")]
        | UnsetType
    ) = UNSET
    body_type: (
        Annotated[
            Any,
            Meta(
                description="The media type of the body, where it is another one than JSON.",
                examples=["multipart/form-data", "text/plain"],
            ),
        ]
        | UnsetType
    ) = UNSET
    whole_body: (
        Annotated[Any, Meta(description="True where the parameter of the body is the body itself.")]
        | UnsetType
    ) = UNSET


class PriceSummary(Struct, rename="camel", kw_only=True):
    """The range of a service's prices, in units of one currency."""

    min_amount: DecimalAmount
    max_amount: DecimalAmount
    avg_cost_per_transaction: DecimalAmount
    avg_cost_basis: Literal["exact", "varies"]
    currency: str


class ServiceQuality(Struct, rename="camel", kw_only=True):
    """Use of a service as its source reports it."""

    score: float | UnsetType = UNSET
    total_calls: Whole | UnsetType = UNSET
    unique_payers: Whole | UnsetType = UNSET
    last_called_at: GivenTime | UnsetType = UNSET


class CatalogueRecord(Struct, rename="camel", kw_only=True):
    """A service as a source describes it; a missing id is derived from the domain."""

    name: NonEmpty
    description: str
    endpoints: list[Endpoint]
    id: ServiceId | UnsetType = UNSET
    domain: str | UnsetType = UNSET
    provider: str | UnsetType = UNSET
    provider_url: str | UnsetType = UNSET
    category: (
        Annotated[
            str,
            Meta(
                description="An open set.",
                examples=["Search", "Inference", "Data", "Media", "Infra", "Trading"],
            ),
        ]
        | UnsetType
    ) = UNSET
    networks: list[str] | UnsetType = UNSET
    enriched: bool | UnsetType = UNSET
    quality: ServiceQuality | UnsetType = UNSET
    integration_type: Literal["1P", "3P", ""] | UnsetType = UNSET
    is_new: bool | UnsetType = UNSET
    price_summary: PriceSummary | UnsetType | None = UNSET
    service_name: str | UnsetType = UNSET
    tags: list[str] | UnsetType = UNSET
    icon_url: str | UnsetType = UNSET
    status: (
        Annotated[
            Any,
            Meta(
                description="As its source states it; services that are `deprecated` rank lower.",
                examples=["active", "beta", "deprecated", "maintenance"],
            ),
        ]
        | UnsetType
    ) = UNSET


class Service(CatalogueRecord, rename="camel", kw_only=True):
    """A web service that is paid for by the request."""

    id: ServiceId
    endpoint_count: (
        Annotated[Whole, Meta(description="Only with `endpoints=none`.")] | UnsetType
    ) = UNSET

    @property
    def notable_status(self) -> str:
        """The status, cut, or an empty string where it is active or no text."""
        status = self.status.strip() if isinstance(self.status, str) else ""
        return "" if status.casefold() == "active" else status[:MAX_STATUS]
