"""Discovered resources: entries of x402 discovery feeds, read as one and as a listing.

Version 1 of the protocol has `maxAmountRequired`, names of networks and `outputSchema`; version 2
has `amount`, CAIP-2 identifiers and `extensions.bazaar`.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import UNSET, Struct, UnsetType

from indexer.assets.stablecoins import find_stablecoins
from indexer.errors import InvalidRecord, LeftOut
from indexer.intake.lists import SourceRecord
from indexer.intake.rules import Rules, check_address, check_price, fold_address
from indexer.untrusted import MICROSECOND, NEVER, decode_object, mapping, url_or_invalid
from indexer.x402.advice import advise
from indexer.x402.listing import MAX_ENTRIES, MAX_LISTING, SIZE, Listing, make_listing
from indexer.x402.members.calls import read_call
from indexer.x402.members.described import (
    DescribedResource,
    ServiceTexts,
    price_described,
    read_described,
)
from indexer.x402.members.metadata import Metadata, read_metadata
from indexer.x402.members.output import declared_outputs, read_output
from indexer.x402.members.parameters import DeclaredInput, read_input
from indexer.x402.members.prices import Accepted, read_accepts
from indexer.x402.members.tools import find_seller, server_of, tool_of_url
from indexer.x402.outline import Outline
from service.schema.discovery import ListedEndpoint
from service.schema.records import Endpoint, EndpointQuality
from service.schema.values import EPOCH, format_timestamp
from service.urls import MAX_URL, ParsedUrl, find_url

MAX_COUNT = 2**63 - 1

_encode = msgspec.msgpack.Encoder().encode
_route = re.compile(r"/[A-Za-z0-9_/:.~%-]+")
_digits = re.compile(r"[0-9]{1,19}")


class DiscoveredEndpoint(Endpoint, rename="camel", kw_only=True):
    """An endpoint with the fields of its resource beyond the public schema."""

    pay_to: str | UnsetType = UNSET
    tool: str | UnsetType = UNSET


class Usage(Struct, array_like=True):
    """Use in the last 30 days as stated by the feed; None or empty where it does not."""

    calls: int | None
    payers: int | None
    last_called: str


class Resource(Outline, gc=False):
    """A resource that is indexed.

    listing: the Listing as MessagePack, empty for a resource that is not listed
    endpoint: the JSON of a DiscoveredEndpoint
    networks: labels
    output: names of its output fields
    texts: of the document that describes it, None for a resource of a feed
    """

    listing: bytes
    endpoint: bytes
    networks: list[str]
    metadata: Metadata
    usage: Usage
    output: str
    texts: ServiceTexts | None


def read_resource(
    source: SourceRecord, rules: Rules, method: str = ""
) -> tuple[Resource, Listing | None]:
    """Read one resource, and its listing, None without an entry of `accepts`.

    method: of a resource that declares none

    Raises InvalidRecord, or LeftOut if a rule leaves the resource out.
    """
    if source.fault:
        raise source.fault
    if len(source.text) > MAX_LISTING:
        reason = f"has {len(source.text):,} bytes; at most {MAX_LISTING:,} are listed"
        raise LeftOut(SIZE, "$", reason)
    values = decode_object(source.text)
    path, given_url, described = url_of(values)
    tool = tool_of_url(given_url)
    server = server_of(values, described) if tool else given_url
    parsed = None if tool and not server else _check_url(path, server, rules)
    document = read_described(source.text)
    accepted = read_accepts(
        values.get("accepts"),
        source.text,
        find_stablecoins(rules.policy.stablecoins),
        rules.policy.max_price,
    )
    accepted = price_described(accepted, document)
    offers = document.offers if document else []
    paid = [each.pay_to for each in accepted.offers] + [each.pay_to for each in offers]
    payees = list(dict.fromkeys(fold_address(each) for each in paid if each))
    _check_accepted(accepted, payees, rules)
    extension = mapping(values.get("extensions"), "bazaar")
    url = given_url if tool else with_route(given_url, extension.get("routeTemplate"))
    schemas = [entry.get("outputSchema") for entry in [accepted.chosen, *accepted.entries]]
    declared = read_input(extension, schemas, url)
    declared.method = "" if tool else declared.method or method
    declared.tool = declared.tool or tool
    metadata = _metadata(values, described, accepted, declared, extension)
    if parsed is None:
        domain, given = find_seller(declared.tool, payees, metadata.service_name)
        rules.denials.check("$.resource", domain=domain, urls=[given])
        host, identity = "", given
    else:
        host, domain, given = parsed.host, parsed.domain, parsed.identity
        if url != given_url:
            parsed = _check_url(path, url, rules)
        identity = parsed.identity
    usage, last_called = _usage(values.get("quality"), rules)
    updated = rules.read_time(values.get("lastUpdated") or described.get("lastUpdated"))
    rules.check_age(updated)
    listing = None
    if accepted.entries:
        listing = make_listing(
            source.text,
            values,
            given_url,
            ListedEndpoint(url, declared.method),
            accepted,
            offers=offers,
            call=read_call(
                values,
                None if tool else parsed,
                declared.tool,
                server if declared.tool else "",
                len(accepted.entries),
            ),
            description=metadata.description,
            updated=None if updated == NEVER else EPOCH + updated * MICROSECOND,
        )
    resource = Resource(
        given=given,
        identity=identity,
        method=declared.method,
        tool=declared.tool,
        host=host,
        domain=domain,
        is_http=parsed is not None and parsed.scheme == "http",
        is_private=parsed is not None and parsed.is_private,
        updated=updated,
        latest=max(updated, last_called),
        payees=payees,
        price=float(accepted.amount or 0),
        notices=accepted.notices,
        is_listed=listing is not None,
        advice=advise(values, accepted.entries, given_url, declared, metadata.description),
        tool_url=_identity(given_url) if tool else "",
        service=_service_path(document, domain),
        listing=b"" if listing is None else _encode(listing),
        endpoint=_endpoint(url, declared, accepted, metadata, usage, document),
        networks=accepted.networks,
        metadata=metadata,
        usage=usage,
        output=read_output(*declared_outputs(extension, schemas)),
        texts=document.service if document else None,
    )
    return resource, listing


def _check_accepted(accepted: Accepted, payees: list[str], rules: Rules) -> None:
    """Raise LeftOut for too many entries of `accepts`, an address taken down, or the price."""
    if (count := len(accepted.entries)) > MAX_ENTRIES:
        reason = f"has {count:,} entries; at most {MAX_ENTRIES:,} are listed"
        raise LeftOut(SIZE, "$.accepts", reason)
    rules.denials.check("$.accepts", payees=payees)
    check_price(f"$.accepts[{accepted.index}]", accepted.amount, accepted.pricing.currency, rules)


def url_of(values: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """Return the JSON path of the URL, the URL, and the object around it, if there is one.

    Raises InvalidRecord without a URL.
    """
    resource = values.get("resource")
    path, described = "$.resource", {}
    if isinstance(resource, dict):
        path, described, resource = "$.resource.url", resource, resource.get("url")
    if resource is None:
        raise InvalidRecord(path, "there is no URL")
    if not isinstance(resource, str):
        raise InvalidRecord(path, "is not a URL: it is not a string")
    return path, resource, described


def _check_url(path: str, url: str, rules: Rules) -> ParsedUrl:
    parsed = url_or_invalid(url, path)
    check_address(path, parsed, rules)
    return parsed


def given_url(text: bytes) -> str:
    """Return the normalised URL of a resource that may break rules, or an empty string."""
    try:
        return _identity(url_of(decode_object(text))[1])
    except InvalidRecord:
        return ""


def _identity(url: str) -> str:
    parsed = find_url(url)
    return parsed.identity if parsed else ""


def with_route(url: str, route: Any) -> str:
    """Replace the path of a URL by its route template, such as `/v1/:id`, if the path matches."""
    if not isinstance(route, str) or not _route.fullmatch(route) or ".." in unquote(route):
        return url
    split = urlsplit(url)
    template, path = route.split("/"), split.path.split("/")
    matches = len(template) == len(path) and all(
        part == given or (part.startswith(":") and given)
        for part, given in zip(template, path, strict=True)
    )
    templated = split._replace(path=route).geturl()
    return templated if matches and len(templated) <= MAX_URL else url


def _metadata(
    values: dict[str, Any],
    described: dict[str, Any],
    accepted: Accepted,
    declared: DeclaredInput,
    extension: dict[str, Any],
) -> Metadata:
    return read_metadata(
        [
            {"description": declared.description},
            values,
            described,
            values.get("metadata"),
            accepted.chosen.get("extra"),
            *({"description": entry.get("description")} for entry in accepted.entries),
            {name: extension.get(name) for name in ("category", "tags")},
        ]
    )


def _usage(quality: Any, rules: Rules) -> tuple[Usage, int]:
    """Return the stated usage, and the time of the last call in microseconds, or NEVER."""
    stated = quality if isinstance(quality, dict) else {}
    text = stated.get("lastCalledAt")
    last_called = rules.read_time(text)
    is_known = isinstance(text, str) and last_called != NEVER
    usage = Usage(
        calls=_count(stated.get("l30DaysTotalCalls")),
        payers=_count(stated.get("l30DaysUniquePayers")),
        last_called=format_timestamp(EPOCH + last_called * MICROSECOND) if is_known else "",
    )
    return usage, last_called


def _count(value: Any) -> int | None:
    if isinstance(value, str) and _digits.fullmatch(value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= MAX_COUNT else None


def _endpoint(
    url: str,
    declared: DeclaredInput,
    accepted: Accepted,
    metadata: Metadata,
    usage: Usage,
    document: DescribedResource | None,
) -> bytes:
    return msgspec.json.encode(
        DiscoveredEndpoint(
            url=url,
            method=declared.method,
            pricing=accepted.pricing,
            description=metadata.description or UNSET,
            quality=_quality(usage),
            parameters=declared.parameters or UNSET,
            service_name=metadata.service_name or UNSET,
            tags=metadata.tags or UNSET,
            pay_to=accepted.pay_to or UNSET,
            tool=declared.tool or UNSET,
            payment_offers=document.offers if document and document.offers else UNSET,
            prices_contradict=accepted.contradicts or UNSET,
        )
    )


def _service_path(document: DescribedResource | None, domain: str) -> str:
    """Return the path of the service that a document names, empty for the host itself."""
    texts = document.service if document else None
    parsed = find_url(texts.url) if texts else None
    if parsed is None or parsed.domain != domain:
        return ""
    return parsed.rest.partition("?")[0].rstrip("/").lower()


def _quality(usage: Usage) -> EndpointQuality | UnsetType:
    """Return the counts, which are omitted without use in the last 30 days."""
    if not usage.calls and not usage.payers:
        return UNSET
    return EndpointQuality(
        l30_days_total_calls=UNSET if usage.calls is None else str(usage.calls),
        l30_days_unique_payers=UNSET if usage.payers is None else str(usage.payers),
    )
