"""Listings of a URL, a host or a payee: why it is listed or not, and who else sells the same."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.requests import Request

from service.api.endpoints import EndpointSelection, find_endpoints, page_of_endpoints
from service.api.listing import splice
from service.api.query_string import DEFAULT_LIMIT, Limit, Offset, Operation
from service.conditions import about
from service.errors import InvalidParameter, ServiceNotFound
from service.filtering.offers import NONE
from service.http.context import snapshot_of
from service.http.responses import JSON, Cacheable
from service.schema.listings import ListingReport
from service.snapshot import Snapshot
from service.snapshot.alternatives import MAX_ALTERNATIVES
from service.snapshot.data import EndpointHits
from service.snapshot.listings import host_hash, payee_hash
from service.urls import MAX_HOST, MAX_URL, ParsedUrl, parse_url

ListingUrl = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_URL,
        description="The URL of an endpoint, in any spelling.",
    ),
]
Name = Annotated[str, Meta(min_length=1, max_length=MAX_HOST)]


class ExplainListings(Operation, frozen=True, kw_only=True):
    """Say why a URL is listed or not, or list what there is of a host or a payee."""

    url: ListingUrl | None = None
    host: Annotated[
        Name | None,
        about("A host without a port: its listed endpoints, and the number of others."),
    ] = None
    pay_to: Annotated[
        Name | None,
        about("An address that is paid to: its listed endpoints, and the number of others."),
    ] = None
    limit: Limit = DEFAULT_LIMIT
    offset: Offset = 0

    def __post_init__(self) -> None:
        given = [each for each in (self.url, self.host, self.pay_to) if each is not None]
        if len(given) != 1:
            raise InvalidParameter("url", "url is required, or one of host and payTo; give one")


class FindAlternatives(Operation, frozen=True, kw_only=True):
    """Find the endpoints of other sellers that do what an endpoint does, best fit first."""

    url: ListingUrl
    method: Annotated[str, about("The method, where endpoints of several have the URL.")] = ""


async def find_alternatives(request: Request, wanted: FindAlternatives) -> Cacheable:
    """List the endpoints of other sellers that do what an endpoint does, best fit first."""
    snapshot = snapshot_of(request)
    endpoints, report = snapshot.endpoints, explain_url(snapshot, wanted.url)
    found = endpoints.of_url(report.template or wanted.url)
    if method := wanted.method.strip().upper():
        found = [each for each in found if method in (endpoints.methods_of(each) or [method])]
    if not found:
        message = "no listed endpoint has this url, or none with this method; search for another"
        raise ServiceNotFound(message, see="/v1/listings")
    rows = await snapshot.find_alternatives(found[0])
    total, ordinals = len(rows), [each.ordinal for each in rows]
    hits = EndpointHits(total, ordinals, total, offers=[NONE] * total, data=snapshot)
    page = page_of_endpoints(snapshot, MAX_ALTERNATIVES, 0, hits)
    fits = [each.fit for each in rows][: page["limit"]]
    return Cacheable(splice(page | {"listed": total, "similar": 0, "fits": fits}))


async def explain_listings(request: Request, wanted: ExplainListings) -> Cacheable:
    """Say why a URL is listed or not, or list the endpoints of a host or a payee."""
    snapshot = snapshot_of(request)
    if wanted.url is not None:
        report = explain_url(snapshot, wanted.url)
        return respond(report, msgspec.json.encode(report))
    if wanted.host is not None:
        host = _parse_host(wanted.host)
        ordinals = snapshot.listings.of_host(host)
        page = ordinals[wanted.offset : wanted.offset + wanted.limit].tolist()
        total, offers = len(ordinals), [NONE] * len(page)
        hits = EndpointHits(total, page, total, offers=offers, data=snapshot)
        key = host_hash(host)
    else:
        payee = wanted.pay_to or ""
        selection = EndpointSelection(
            pay_to=(payee,), per_service=0, limit=wanted.limit, offset=wanted.offset
        )
        key, hits = payee_hash(payee), await find_endpoints(snapshot, selection)
    members = page_of_endpoints(snapshot, wanted.limit, wanted.offset, hits)
    return Cacheable(splice(members | {"others": snapshot.listings.count_others(key)}))


def explain_url(snapshot: Snapshot, url: str) -> ListingReport:
    """Return the fates of a URL, or of the listed template that it fills in.

    Raises InvalidParameter.
    """
    return snapshot.listings.explain_url(_parse("url", url))


def respond(
    report: ListingReport, body: bytes, media_type: str = JSON, **headers: str
) -> Cacheable:
    """Return a response; nobody stores those about unknown URLs and about calls of a template."""
    is_kept = report.is_named and not report.template
    control = "" if is_kept else "no-store"
    return Cacheable(body, media_type, headers, cache_control=control, is_kept=is_kept)


def _parse(parameter: str, url: str) -> ParsedUrl:
    try:
        return parse_url(url)
    except ValueError as error:
        raise InvalidParameter(parameter, f"{parameter} {error}") from error


def _parse_host(host: str) -> str:
    parsed = _parse("host", f"https://{host}/")
    if parsed.identity != f"https://{parsed.host}/" or parsed.has_credentials:
        raise InvalidParameter("host", "host is no host name alone, such as api.example.com")
    return parsed.host
