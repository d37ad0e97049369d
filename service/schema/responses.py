"""The public schema of services and endpoints: lists, and the OpenAPI document of a service."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, field

from service.schema.profiles import EndpointFacts
from service.schema.records import Endpoint, Service
from service.schema.values import ServiceId, Whole


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


Fit = Annotated[float, Meta(ge=0)]
"""How well a first row fits its query, by the threshold of the catalogue."""


class ServiceList(Struct):
    """A page of services; `total` counts every match, and similar services that fill up few.

    On request there are `facets` of the matches and `explanations` of the results in their order,
    and with either `similar`, which is also the header `Ratecard-Similar`: how many of the total
    match no word. Beside `similar`, and as the header `Ratecard-Fit`, a first page by relevance has
    the `fit` of its first service: below 1 none matches well, and `warning` says what to do.
    """

    services: list[Service]
    total: Whole
    limit: Whole
    offset: Whole
    similar: Whole | UnsetType = UNSET
    fit: Fit | UnsetType = UNSET
    warning: str | UnsetType = UNSET
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
    lists the endpoint. The amount of the scheme `upto` is a ceiling. `ratecard`, left out without
    any, has what probers saw and the words of the operator.
    """

    service: ServiceFacts
    match: AcceptsEntry | UnsetType = UNSET
    ratecard: EndpointFacts | UnsetType = UNSET


class EndpointList(Struct):
    """A page of endpoints.

    `total` counts every match, and similar endpoints that fill up few; `listed` those that remain
    with `perService` of each service; `similar` those that match no word. A first page by relevance
    has the `fit` of its first endpoint: below 1 none matches well, and `warning` says what to do.
    Facets, counted on request, are the 100 most frequent values among all matches; `explanations`
    are in the order of the endpoints.
    """

    endpoints: list[FoundEndpoint]
    total: Whole
    listed: Whole
    similar: Whole
    limit: Whole
    offset: Whole
    fit: Fit | UnsetType = UNSET
    warning: str | UnsetType = UNSET
    facets: dict[str, list[FacetCount]] | UnsetType = UNSET
    explanations: list[Explanation] | UnsetType = UNSET


class ServiceEnvelope(Struct):
    """One service."""

    service: Service


class DocumentCounts(Struct, rename="camel"):
    """The endpoints of a service, and how many of them its document leaves out."""

    service: ServiceId
    endpoints: Whole
    left_out: Whole


class ServiceDocument(Struct, kw_only=True):
    """An OpenAPI 3.1 document of a service, with `x-payment-info` of its ways to pay.

    `x-ratecard` counts the endpoints that OpenAPI cannot express.
    """

    openapi: str
    info: dict[str, Any]
    servers: list[dict[str, Any]]
    paths: dict[str, dict[str, Any]]
    counts: DocumentCounts = field(name="x-ratecard")
