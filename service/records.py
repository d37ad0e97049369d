"""The public schema of catalogue records, payments and responses.

The types validate sources and describe the API. Stored records are served verbatim: fields that are
not listed here are kept, and no value is rewritten.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

# `$(?!\n)` is the end of the text in Python and in ECMA 262 alike.
AMOUNT_PATTERN = r"^(?:[0-9]+(?:\.[0-9]+)?)?$(?!\n)"
COUNT_PATTERN = r"^[0-9]{1,19}$(?!\n)"
ID_PATTERN = r"^(?!(?:search|\.\.?)$)[A-Za-z0-9._~-]{1,256}$(?!\n)"

PATTERN_MEANINGS = {
    AMOUNT_PATTERN: "a non-negative decimal such as `0.01`, or an empty string",
    COUNT_PATTERN: "a whole number of at most 19 digits",
    ID_PATTERN: "1 to 256 letters, digits or `-._~`, other than `search`, `.` and `..`",
}

Amount = Annotated[
    str,
    Meta(
        pattern=AMOUNT_PATTERN,
        max_length=100,
        description="A decimal in units of the currency; empty when no fixed amount is given.",
        examples=["0.01", ""],
    ),
]
Count = Annotated[str, Meta(pattern=COUNT_PATTERN, description="An int64 as a decimal string.")]
ServiceId = Annotated[str, Meta(pattern=ID_PATTERN, description="Opaque; fit for a URL path.")]
GivenTime = Annotated[datetime, Meta(tz=True)]
Timestamp = Annotated[
    str,
    Meta(
        description="UTC, to the millisecond.",
        examples=["2026-05-07T10:16:51.000Z"],
        extra_json_schema={"format": "date-time"},
    ),
]
NonEmpty = Annotated[str, Meta(min_length=1)]
Whole = Annotated[int, Meta(ge=0)]


def format_timestamp(moment: datetime) -> Timestamp:
    """Format a moment as in every response: UTC, to the millisecond."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Pricing(Struct, rename="camel", kw_only=True):
    """The price of a request."""

    amount: Amount
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
    max_amount: Amount | UnsetType = UNSET
    min_amount: Amount | UnsetType = UNSET


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


class EndpointQuality(Struct, rename="camel", kw_only=True):
    """Use of one endpoint in the last 30 days."""

    l30_days_total_calls: Count | UnsetType = UNSET
    l30_days_unique_payers: Count | UnsetType = UNSET


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


class PriceSummary(Struct, rename="camel", kw_only=True):
    """The range of a service's prices, in units of one currency."""

    min_amount: Amount
    max_amount: Amount
    avg_cost_per_transaction: Amount
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


class Service(CatalogueRecord, rename="camel", kw_only=True):
    """A web service that is paid for by the request."""

    id: ServiceId
    endpoint_count: (
        Annotated[Whole, Meta(description="Only with `endpoints=none`.")] | UnsetType
    ) = UNSET


class FacetCount(Struct):
    """The number of matches that have a value."""

    value: str
    count: Whole


class WordScore(Struct, frozen=True):
    """The BM25F score of a term of a result, and the word of the query that stands for it."""

    word: str
    term: str
    score: float


class Explanation(Struct, frozen=True, rename="camel"):
    """Why a result is where it is: `score` is the sum of its parts.

    `similarity` is the cosine of the query and the result, null for a query without meaning for the
    encoder. `similarityScore` is what it adds to the score: nothing below the best lexical matches.
    A service is ranked by its best endpoint, `endpoint`, or by texts of its own where that is null;
    `sizePenalty` is subtracted from the score of a service of many endpoints. A service whose name
    is the query is first, whatever its score.
    """

    score: float
    words: list[WordScore]
    similarity: float | None
    similarity_score: float
    size_penalty: float
    is_exact_name: bool
    endpoint: str | UnsetType | None = UNSET


class ServiceList(Struct):
    """A page of services; `total` counts every match.

    On request there are `facets`, and `explanations` of the results in their order.
    """

    services: list[Service]
    total: Whole
    limit: Whole
    offset: Whole
    facets: dict[str, list[FacetCount]] | UnsetType = UNSET
    explanations: list[Explanation] | UnsetType = UNSET


class ServiceFacts(Struct, kw_only=True):
    """The service that an endpoint belongs to."""

    id: ServiceId
    name: str
    category: str
    enriched: bool


class AcceptsEntry(Struct, rename="camel", kw_only=True):
    """A way to pay for a resource, as its feed has it: version 1 and version 2 differ."""

    scheme: Any = UNSET
    network: Any = UNSET
    asset: Any = UNSET
    pay_to: Any = UNSET
    amount: Any = UNSET
    max_amount_required: Any = UNSET


class FoundEndpoint(Endpoint, rename="camel", kw_only=True):
    """An endpoint as it is stored, and its service.

    `match` is the cheapest entry of `accepts` that satisfies the filters `network`, `scheme`,
    `asset` and `payTo`, as its feed has it; it is left out without these filters, and where no feed
    lists the endpoint. The amount of the scheme `upto` is a ceiling.
    """

    service: ServiceFacts
    match: AcceptsEntry | UnsetType = UNSET


class EndpointList(Struct):
    """A page of endpoints.

    `total` counts every match, `listed` those that remain with `perService` of each service.
    Facets, counted on request, are the 100 most frequent values among all matches; `explanations`
    are in the order of the endpoints.
    """

    endpoints: list[FoundEndpoint]
    total: Whole
    listed: Whole
    limit: Whole
    offset: Whole
    facets: dict[str, list[FacetCount]] | UnsetType = UNSET
    explanations: list[Explanation] | UnsetType = UNSET


class ServiceEnvelope(Struct):
    """One service."""

    service: Service


class Totals(Struct, kw_only=True):
    """Totals of payments; amounts are in millionths of a US dollar."""

    total_transactions: Whole
    total_amount: Whole
    unique_buyers: Whole
    unique_sellers: Whole


class Overview(Totals, kw_only=True):
    """The totals of one timeframe and the time of the newest payment of the snapshot."""

    latest_block_timestamp: Timestamp | None


class Bucket(Totals, kw_only=True):
    """The totals of one UTC day, or of one hour for a timeframe of one day."""

    bucket_start: Timestamp


class Transaction(Struct, kw_only=True):
    """One payment; 10^`decimals` base units of `amount` make one unit of the token."""

    id: str
    tx_hash: str
    block_timestamp: Timestamp
    sender: str
    recipient: str
    amount: Whole
    decimals: Whole
    chain: str
    address: str | UnsetType = UNSET
    transaction_from: str | UnsetType = UNSET
    provider: str | UnsetType = UNSET
    facilitator_id: str | UnsetType = UNSET
    log_index: int | UnsetType = UNSET
    token_address: str | UnsetType = UNSET


class OverviewJson(Struct):
    """The wrapper that existing clients expect."""

    json: Overview


class OverviewEnvelope(Struct):
    """The overview of a timeframe."""

    overview: OverviewJson


class StatsJson(Struct):
    """The wrapper that existing clients expect."""

    json: list[Bucket]


class StatsEnvelope(Struct):
    """The series of a timeframe, oldest bucket first, without gaps."""

    stats: StatsJson


class TransactionPage(Struct, rename="camel"):
    """One page of payments, newest first."""

    items: list[Transaction]
    page: Whole
    has_next_page: bool


class TransactionsJson(Struct):
    """The wrapper that existing clients expect."""

    json: TransactionPage


class TransactionsEnvelope(Struct):
    """The newest payments."""

    transactions: TransactionsJson


class ErrorBody(Struct, kw_only=True):
    """Why a request failed; `parameter` names the invalid one."""

    code: str
    message: str
    parameter: str | UnsetType = UNSET


class ErrorEnvelope(Struct):
    """The shape of every error."""

    error: ErrorBody


class Health(Struct):
    """The process is up."""

    status: Literal["ok"]


class Counts(Struct):
    """The size of a snapshot."""

    services: Whole
    endpoints: Whole
    resources: Whole
    payments: Whole


class FollowingState(Struct):
    """How far a replica is behind the origin that it follows, which has this snapshot."""

    origin: str
    snapshot: str
    serial: int
    seconds_behind: float
    published_at: Timestamp | None
    contacted_at: Timestamp | None
    error: ErrorBody | UnsetType = UNSET


class SourceState(Struct, rename="camel", kw_only=True):
    """A source of the last build: which copy was read, when, and why not the current one."""

    name: str
    state: Literal["current", "last", "skipped"]
    read_at: Timestamp | None
    failure: str = ""


class Readiness(Struct):
    """The snapshot being served; `refused` says why it is not the published one.

    `sources` are those of the last build that are not current; the key is left out without any.
    """

    status: Literal["ready"]
    snapshot: str
    counts: Counts
    built_at: Timestamp
    checked_at: Timestamp
    refused: ErrorBody | UnsetType = UNSET
    sources: list[SourceState] | UnsetType = UNSET
    following: FollowingState | UnsetType = UNSET
