"""Discovered resources: entries of x402 discovery feeds, read and checked against the policy.

Version 1 of the protocol has `maxAmountRequired`, names of networks and `outputSchema`; version 2
has `amount`, CAIP-2 identifiers and `extensions.bazaar`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import UNSET, Struct, UnsetType

from indexer.errors import InvalidRecord, LeftOut
from indexer.options import Policy, Stablecoin
from indexer.sources.denials import Denials, TakenDown, fold_address
from indexer.sources.records import SourceRecord
from indexer.sources.subjects import Address, Subject
from indexer.x402.advice import advise
from indexer.x402.calls import read_call
from indexer.x402.dates import MICROSECOND, NEVER, SECOND, parse_moment, since_epoch
from indexer.x402.described import (
    CONTRADICTION,
    DescribedResource,
    ServiceTexts,
    price_described,
    read_described,
)
from indexer.x402.listing import MAX_ENTRIES, MAX_LISTING, Listing, make_listing
from indexer.x402.metadata import Metadata, read_metadata
from indexer.x402.output import declared_outputs, read_output
from indexer.x402.parameters import DeclaredInput, read_input
from indexer.x402.prices import Accepted, Notice, read_accepts
from indexer.x402.stablecoins import Stablecoins
from indexer.x402.tools import Seller, find_seller, server_of, tool_of_url
from indexer.x402.untrusted import decode_object, mapping
from service.schema.discovery import ListedEndpoint
from service.schema.listings import Advice
from service.schema.records import Endpoint, EndpointQuality
from service.schema.values import EPOCH, format_timestamp
from service.snapshot.listings import host_hash, payee_hash
from service.storage.hash_table import text_hash
from service.urls import MAX_URL, ParsedUrl, key_of, parse_url

MAX_COUNT = 2**63 - 1
SIZE = "listings that are too large"
OLD = "old listings"
CLOCK_SKEW = 3600 * SECOND

_encode = msgspec.msgpack.Encoder().encode
_route = re.compile(r"/[A-Za-z0-9_/:.~%-]+")
_digits = re.compile(r"[0-9]{1,19}")


class Rules:
    """The rules that decide whether a resource is listed; `now` is when the build began."""

    def __init__(
        self, policy: Policy, denials: Denials | None = None, now: datetime | None = None
    ) -> None:
        self.policy = policy
        self.denials = denials or Denials(())
        self.stablecoins = Stablecoins(policy.stablecoins)
        self._now = None if now is None else since_epoch(now)
        self._latest = NEVER if self._now is None else self._now + CLOCK_SKEW
        self._max_price = float(policy.max_price)
        self.met_the_future = False
        """Whether a date was later than now, so that a later build may differ."""

    @property
    def digest(self) -> str:
        """A hash of what the operator decided."""
        rules = repr((self.policy, self.denials.rules)).encode()
        return hashlib.sha256(rules).hexdigest()

    def read_time(self, value: Any) -> int:
        """Return a time in microseconds, NEVER for one that is no time or in the future."""
        moment = parse_moment(value)
        if self._now is not None and moment > self._latest:
            self.met_the_future = True
            return NEVER
        return moment

    def admit(self, outline: Outline) -> bool:
        """Whether these rules read a resource as the rules `without_judgement` have read it.

        False where it has to be read again, as a rule may leave it out or a date is in the future.
        Raises LeftOut for an old listing.
        """
        policy = self.policy
        is_admitted = (
            (policy.allow_http or not outline.is_http)
            and (policy.allow_private or not outline.is_private)
            and outline.price < self._max_price
            and (self._now is None or outline.latest <= self._latest)
            and (self.denials.is_empty or not self._is_denied(outline))
        )
        if is_admitted:
            self.check_age(outline.updated)
        return is_admitted

    def _is_denied(self, outline: Outline) -> bool:
        urls = (outline.given, outline.identity)
        names = {"host": outline.host, "domain": outline.domain}
        return self.denials.find(**names, payees=outline.payees, urls=urls) is not None

    def check_age(self, updated: int) -> None:
        """Raise LeftOut for a listing that was updated longer ago than the policy allows."""
        max_age = self.policy.max_age
        if max_age is None or self._now is None or updated == NEVER:
            return
        if self._now - updated > max_age * SECOND:
            moment = format_timestamp(EPOCH + updated * MICROSECOND)
            days = max_age // (24 * 3600)
            reason = f"was updated at {moment}, longer ago than the {days:,} days of `max_age`"
            raise LeftOut(OLD, "$.lastUpdated", reason)


@lru_cache(maxsize=16)
def without_judgement(stablecoins: tuple[Stablecoin, ...]) -> Rules:
    """Return rules that leave out only listings which no option admits."""
    return Rules(
        Policy(
            max_price=Decimal("Infinity"),
            allow_http=True,
            allow_private=True,
            stablecoins=stablecoins,
        )
    )


class DiscoveredEndpoint(Endpoint, rename="camel", kw_only=True):
    """An endpoint with the fields of its resource beyond the public schema."""

    pay_to: str | UnsetType = UNSET
    tool: str | UnsetType = UNSET


class Usage(Struct, array_like=True):
    """Use in the last 30 days as stated by the feed; None or empty where it does not."""

    calls: int | None
    payers: int | None
    last_called: str


class Outline(Struct, array_like=True, gc=False, tag="resource"):
    """The values of a resource that rules, merging and ordering look at.

    The bytes of a whole resource decode as its outline too, which takes a third of the time.

    given: its normalised URL
    identity, method, tool: what distinguishes it from other resources; `identity` is the
        normalised URL, with its route template if it has one; of a tool that is identified by
        its name it is the server, or the seller
    domain: what the resources of one service share
    updated: microseconds of Unix time, or NEVER
    latest: of all its dates, likewise
    payees: the addresses that its entries pay to, as they are compared
    price: in units of the currency, 0 where none is known
    is_listed: whether there is an entry of `accepts`
    advice: to its seller, as bits
    tool_url: the identifier of a tool, where the resource has one for its URL
    is_pointer: whether it is a bare pointer, of which another source has to say more
    service: path of the service that its document says it belongs to, in lower case; empty where
        that is the host
    """

    given: str
    identity: str
    method: str
    tool: str
    host: str
    domain: str
    is_http: bool
    is_private: bool
    updated: int
    latest: int
    payees: list[str]
    price: float
    notices: list[Notice]
    is_listed: bool
    advice: int
    tool_url: str
    is_pointer: bool
    service: str

    @property
    def key(self) -> str:
        """The key that no other resource has, and that orders the listings of a service."""
        return f"{self.identity}\n{self.method}\n{self.tool}"


class ListedResource(Outline, gc=False):
    """An outline with the Listing as MessagePack, empty for a resource that is not listed."""

    listing: bytes


class Resource(ListedResource, gc=False):
    """A resource that is indexed.

    endpoint: the JSON of a DiscoveredEndpoint
    networks: labels
    output: names of its output fields
    texts: of the document that describes it, None for a resource of a feed
    """

    endpoint: bytes
    networks: list[str]
    metadata: Metadata
    usage: Usage
    output: str
    texts: ServiceTexts | None


def read_resource(
    source: SourceRecord, rules: Rules, method: str = ""
) -> tuple[Resource, Listing | None]:
    """Read one resource, and how it is listed: not at all without an entry of `accepts`.

    `method` is that of a resource which declares none. Raises InvalidRecord, or LeftOut if a rule
    leaves the resource out.
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
    accepted = read_accepts(values.get("accepts"), source.text, rules.stablecoins)
    accepted = price_described(accepted, document)
    offers = document.offers if document else []
    paid = [each.pay_to for each in accepted.offers] + [each.pay_to for each in offers]
    payees = list(dict.fromkeys(fold_address(each) for each in paid if each))
    _check_accepted(accepted, payees, rules)
    extension = mapping(values.get("extensions"), "bazaar")
    url = given_url if tool else with_route(given_url, extension.get("routeTemplate"))
    declared = read_input(extension, _output_schema(accepted), url)
    declared.method = "" if tool else declared.method or method
    declared.tool = declared.tool or tool
    metadata = _metadata(values, described, accepted, declared, extension)
    if parsed is None:
        host, (domain, given) = "", _seller(declared.tool, payees, metadata, rules)
        identity = given
    else:
        host, domain, given = parsed.host, parsed.domain, parsed.identity
        if url != given_url:
            parsed = _check_url(path, url, rules)
        identity = parsed.identity
    usage, last_called = _usage(values.get("quality"), rules)
    updated = rules.read_time(values.get("lastUpdated") or described.get("lastUpdated"))
    rules.check_age(updated)
    is_pointer = document is not None and document.is_pointer
    listing = None
    if accepted.entries and not is_pointer:
        listing = make_listing(
            source.text,
            values,
            given_url,
            ListedEndpoint(url, declared.method),
            accepted,
            offers=offers,
            contradicts=_contradicts(accepted),
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
        is_pointer=is_pointer and not accepted.entries,
        service=_service_path(document, domain),
        listing=b"" if listing is None else _encode(listing),
        endpoint=_endpoint(url, declared, accepted, metadata, usage, document),
        networks=accepted.networks,
        metadata=metadata,
        usage=usage,
        output=read_output(*declared_outputs(extension, _output_schemas(accepted))),
        texts=document.service if document else None,
    )
    return resource, listing


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
    try:
        parsed = parse_url(url)
    except ValueError as error:
        raise InvalidRecord(path, str(error)) from error
    check_address(path, parsed, rules)
    return parsed


def subject_of(outline: Outline) -> Subject:
    """Return what a resource names: its URL and route template, or the server and URL of a tool."""
    host = host_hash(outline.host)
    urls = filter(None, (outline.given, outline.identity, outline.tool_url))
    addresses = [Address(text_hash(url), host) for url in dict.fromkeys(map(key_of, urls))]
    payees = tuple(map(payee_hash, outline.payees))
    return Subject(tuple(addresses), payees, Advice(outline.advice))


def given_url(text: bytes) -> str:
    """Return the normalised URL of a resource that may break rules, or an empty string."""
    try:
        return _identity(url_of(decode_object(text))[1])
    except InvalidRecord:
        return ""


def _identity(url: str) -> str:
    try:
        return parse_url(url).identity
    except ValueError:
        return ""


def check_address(path: str, parsed: ParsedUrl, rules: Rules) -> None:
    """Raise LeftOut for a URL at a JSON path that the policy leaves out, or that is taken down."""
    policy = rules.policy
    if parsed.scheme not in {"http", "https"}:
        raise LeftOut("resources not over https", path, f"is a resource of {parsed.scheme}:")
    if parsed.is_private and not policy.allow_private:
        raise LeftOut("private addresses", path, f"{parsed.host} is not on the public internet")
    if parsed.has_credentials:
        raise LeftOut("URLs with credentials", path, "names a user before the host")
    if parsed.scheme == "http" and not policy.allow_http:
        raise LeftOut("http resources", path, "is not encrypted")
    if denial := rules.denials.find(host=parsed.host, domain=parsed.domain, urls=[parsed.identity]):
        raise TakenDown(path, denial)


def _check_accepted(accepted: Accepted, payees: list[str], rules: Rules) -> None:
    if (count := len(accepted.entries)) > MAX_ENTRIES:
        reason = f"has {count:,} entries; at most {MAX_ENTRIES:,} are listed"
        raise LeftOut(SIZE, "$.accepts", reason)
    check_payees("$.accepts", payees, rules)
    check_price(f"$.accepts[{accepted.index}]", accepted.amount, accepted.pricing.currency, rules)


def check_payees(path: str, payees: list[str], rules: Rules) -> None:
    """Raise LeftOut for addresses at a JSON path of which one is taken down."""
    if denial := rules.denials.find(payees=payees):
        raise TakenDown(path, denial)


def check_price(path: str, amount: Decimal | None, currency: str, rules: Rules) -> None:
    """Raise LeftOut for an amount at a JSON path that is implausible for one request."""
    highest = rules.policy.max_price
    if amount is not None and amount > highest:
        reason = f"{amount:f} {currency} is more than {highest:f}, the maximum price of a request"
        raise LeftOut("implausible prices", path, reason)


def _seller(tool: str, payees: list[str], metadata: Metadata, rules: Rules) -> Seller:
    """Return the seller of an MCP tool whose server is unknown; raises LeftOut."""
    seller = find_seller(tool, payees, metadata.service_name)
    if denial := rules.denials.find(domain=seller.domain, urls=[seller.identity]):
        raise TakenDown("$.resource", denial)
    return seller


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


def _output_schema(accepted: Accepted) -> Any:
    """Return the schema of the chosen entry, or of the first entry that declares an input."""
    schemas = _output_schemas(accepted)
    return next((schema for schema in schemas if mapping(schema, "input")), None)


def _output_schemas(accepted: Accepted) -> Iterator[Any]:
    """Yield the schemas of the entries, that of the chosen one first."""
    return (entry.get("outputSchema") for entry in [accepted.chosen, *accepted.entries])


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
    endpoint = DiscoveredEndpoint(
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
        prices_contradict=_contradicts(accepted) or UNSET,
    )
    return msgspec.json.encode(endpoint)


def _service_path(document: DescribedResource | None, domain: str) -> str:
    """Return the path of the service that a document names, empty for the host itself."""
    texts = document.service if document else None
    try:
        parsed = parse_url(texts.url) if texts and texts.url else None
    except ValueError:
        return ""
    if parsed is None or parsed.domain != domain:
        return ""
    return parsed.rest.partition("?")[0].rstrip("/").lower()


def _contradicts(accepted: Accepted) -> bool:
    """Whether two documents, or a document and a feed, state prices that cannot both hold."""
    return any(each.kind == CONTRADICTION for each in accepted.notices)


def _quality(usage: Usage) -> EndpointQuality | UnsetType:
    """Return the counts, which are omitted without use in the last 30 days."""
    if not usage.calls and not usage.payers:
        return UNSET
    return EndpointQuality(
        l30_days_total_calls=UNSET if usage.calls is None else str(usage.calls),
        l30_days_unique_payers=UNSET if usage.payers is None else str(usage.payers),
    )
