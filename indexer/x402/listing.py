"""Resources as `/discovery` lists them: as they came, with the fields that clients require."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from itertools import takewhile
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import asdict

from indexer.intake.lists import DESCRIBED
from indexer.untrusted import mapping, raw_items, raw_members
from indexer.x402.members.calls import Call
from indexer.x402.members.prices import Accepted, are_of_version_1
from indexer.x402.members.tools import tool_of_url
from service.schema.discovery import ListedEndpoint, ResourceFacts
from service.schema.offers import PaymentOffer
from service.schema.probes import NO_PROBE_FACTS, ProbeFacts
from service.schema.profiles import Profile
from service.schema.records import Pricing
from service.schema.values import format_timestamp

MAX_LISTING = 256 * 1024  # bytes
SIZE = "listings that are too large"
MAX_ENTRIES = 200  # of `accepts`
MAX_DESCRIPTION = 1000  # characters, where a description is added to `metadata`
VERSIONS = (1, 2)  # of the protocol

_rfc_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")


class EntryKeys(Struct, frozen=True, array_like=True):
    """Facts of one entry of `accepts` that filters compare; strings are empty for other values.

    amount: in units of the currency, for the scheme `upto` at most; empty if the asset is unknown
        or the amount is not valid
    currency: of the asset, empty if it is unknown
    is_usd: whether the asset is a known stablecoin of the US dollar on a main network
    start, stop: of the entry, as bytes within the text of the listing
    """

    network: str
    scheme: str
    pay_to: str
    asset: str
    amount: str
    currency: str
    is_usd: bool
    start: int
    stop: int


class Listing(Struct, array_like=True):
    """A resource to list.

    text: its JSON, without the member `ratecard`
    endpoint, price: facts for `ratecard`
    displaced: members of an object `resource` that the resource itself has with other values
    call: how it is called
    url: the member `resource` of the text
    type, tags, extensions, entries: the values that filters compare
    offers: ways to pay beside `accepts`
    contradicts: whether prices of the resource contradict each other
    """

    text: bytes
    endpoint: ListedEndpoint
    price: Pricing | None
    displaced: dict[str, bytes]
    call: Call
    url: str
    type: str
    tags: list[str]
    extensions: list[str]
    entries: list[EntryKeys]
    offers: list[PaymentOffer]
    contradicts: bool

    @property
    def tool(self) -> str:
        """The name of the MCP tool that it is, or an empty string."""
        return self.call.tool.name if self.call.tool else ""

    def encode(
        self,
        service_id: str,
        probed: ProbeFacts = NO_PROBE_FACTS,
        *,
        in_record: bool = True,
        profile: Profile | None = None,
        service_profile: Profile | None = None,
    ) -> bytes:
        """Return the JSON of the resource of a service, whose record may not have it."""
        facts = ResourceFacts(
            **asdict(probed),
            service=service_id,
            endpoint=self.endpoint,
            in_record=UNSET if in_record else False,
            price=self.price or UNSET,
            payment_offers=self.offers or UNSET,
            prices_contradict=self.contradicts or UNSET,
            example_url=self.call.example_url or UNSET,
            tool=self.call.tool or UNSET,
            requires=self.call.requires or UNSET,
            resource={name: Raw(text) for name, text in self.displaced.items()} or UNSET,
            profile=profile or UNSET,
            service_profile=service_profile or UNSET,
        )
        return b'%b,"ratecard":%b}' % (self.text[:-1], msgspec.json.encode(facts))


def make_listing(
    text: bytes,
    values: dict[str, Any],
    url: str,
    endpoint: ListedEndpoint,
    accepted: Accepted,
    *,
    call: Call,
    offers: list[PaymentOffer],
    description: str,
    updated: datetime | None,
) -> Listing:
    """List a resource that has entries of `accepts`.

    text, values: its valid JSON, and the same decoded
    updated: the time that its `lastUpdated` means, None if that is missing or no time

    The members of an object `resource` move up to the resource; its URL takes its place.
    """
    fields = raw_members(msgspec.json.format(text, indent=-1))
    lifted = mapping(values, "resource")
    members = raw_members(fields["resource"]) if lifted else {}
    members.pop("ratecard", None)
    fields["resource"] = _raw(url)
    displaced = _lift(fields, members)
    values = lifted | values
    fields.pop("ratecard", None)
    fields.pop(DESCRIBED, None)
    type_ = text_of(values, "type")
    if not type_ or tool_of_url(url):
        type_ = "mcp" if call.tool else "http"
        fields["type"] = _raw(type_)
    version = values.get("x402Version")
    if type(version) is not int or version not in VERSIONS:  # true equals 1 in Python
        fields["x402Version"] = _raw(1 if are_of_version_1(accepted.entries) else 2)
    if updated is None:
        fields.pop("lastUpdated", None)
    elif not _rfc_3339.fullmatch(text_of(values, "lastUpdated")):
        fields["lastUpdated"] = _raw(format_timestamp(updated))
    for name in ("extensions", "metadata"):
        if name in fields and not isinstance(values[name], dict):
            del fields[name]  # clients with types refuse a page that has it
    metadata = mapping(values, "metadata")
    if description and not isinstance(metadata.get("description"), str):
        members = raw_members(fields["metadata"]) if metadata else {}
        members["description"] = _raw(description[:MAX_DESCRIPTION])
        fields["metadata"] = _raw(members)
    price = accepted.pricing
    tags = values.get("tags", mapping(mapping(values, "extensions"), "bazaar").get("tags"))
    return Listing(
        text=msgspec.json.encode(fields),
        endpoint=endpoint,
        price=price if price.amount or price.max_amount else None,
        displaced=displaced,
        call=call,
        url=url,
        type=type_,
        tags=[tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else [],
        extensions=[*mapping(values, "extensions")],
        entries=[*_entries(fields, accepted)],
        offers=offers,
        contradicts=accepted.contradicts,
    )


def text_of(values: dict[str, Any], key: str) -> str:
    """Return a member that is a string, or an empty one."""
    value = values.get(key)
    return value if isinstance(value, str) else ""


def _entries(fields: dict[str, Raw], accepted: Accepted) -> Iterator[EntryKeys]:
    """Yield the facts of the entries of formatted fields, which are encoded in their order."""
    stop = len(b'{"accepts":')
    for name in takewhile("accepts".__ne__, fields):
        stop += len(msgspec.json.encode(name)) + len(b":,") + _length(fields[name])
    texts = raw_items(fields["accepts"])
    for entry, offer, text in zip(accepted.entries, accepted.offers, texts, strict=True):
        start = stop + 1  # after the bracket or a comma
        stop = start + _length(text)
        yield EntryKeys(
            network=text_of(entry, "network"),
            scheme=text_of(entry, "scheme"),
            pay_to=text_of(entry, "payTo"),
            asset=offer.asset,
            amount=offer.amount,
            currency=offer.token.currency if offer.token else "",
            is_usd=offer.is_real and offer.token is not None and offer.token.is_usd,
            start=start,
            stop=stop,
        )


def _length(raw: Raw) -> int:
    return memoryview(raw).nbytes


def _raw(value: Any) -> Raw:
    return Raw(msgspec.json.encode(value))


def _lift(fields: dict[str, Raw], members: dict[str, Raw]) -> dict[str, bytes]:
    """Move the members of the object `resource`, except its URL, up to the fields.

    Returns the members whose names have other values there.
    """
    members.pop("url", None)
    return {
        name: bytes(raw) for name, raw in members.items() if fields.setdefault(name, raw) != raw
    }
