"""Resources as `/discovery` lists them: as they came, with the fields that clients require."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from itertools import takewhile
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct

from indexer.x402.prices import Accepted
from indexer.x402.untrusted import decode
from service.records import ListedEndpoint, Pricing, ResourceFacts, format_timestamp

MAX_LISTING = 256 * 1024  # bytes
MAX_ENTRIES = 200  # of `accepts`
MAX_DESCRIPTION = 1000  # characters, where a description is added to `metadata`
VERSIONS = (1, 2)  # of the protocol

_fields = msgspec.json.Decoder(dict[str, Raw])
_list = msgspec.json.Decoder(list[Raw])
_rfc_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")


class EntryKeys(Struct, frozen=True):
    """Facts of one entry of `accepts` that filters compare; strings are empty for other values.

    amount: in units of the currency, for the scheme `upto` at most; empty if the asset is unknown
        or the amount is not valid
    is_usd: whether the asset is a known stablecoin of the US dollar
    start, stop: of the entry, as bytes within the text of the listing
    """

    network: str
    scheme: str
    pay_to: str
    asset: str
    amount: str
    is_usd: bool
    start: int
    stop: int


class Listing(Struct):
    """A resource to list.

    text: its JSON, without the member `ratecard`
    endpoint, price, displaced: facts for `ratecard`; `displaced` are members of an object
        `resource` whose names the resource itself has, with other values
    tool: the MCP tool that it declares, or empty
    url: the member `resource` of the text
    type, tags, extensions, entries: the values that filters compare
    """

    text: Raw
    endpoint: ListedEndpoint
    price: Pricing | None
    displaced: dict[str, Raw]
    tool: str
    url: str
    type: str
    tags: list[str]
    extensions: list[str]
    entries: list[EntryKeys]

    def encode(self, service_id: str) -> bytes:
        """Return the JSON of the resource of a service."""
        facts = ResourceFacts(
            service=service_id,
            endpoint=self.endpoint,
            price=self.price or UNSET,
            resource=self.displaced or UNSET,
        )
        return b'%b,"ratecard":%b}' % (bytes(self.text)[:-1], msgspec.json.encode(facts))


def make_listing(
    text: bytes,
    url: str,
    endpoint: ListedEndpoint,
    accepted: Accepted,
    *,
    tool: str,
    description: str,
    updated: datetime | None,
) -> Listing:
    """List a resource that has entries of `accepts`.

    text: its valid JSON
    tool: the MCP tool that it declares, or empty
    updated: the time that its `lastUpdated` means, None if that is missing or no time

    The members of an object `resource` become members of the resource itself, and its URL takes
    its place.
    """
    fields = _fields.decode(msgspec.json.format(text, indent=-1))
    displaced = _lift(fields, url)
    fields.pop("ratecard", None)
    if not text_of(fields, "type"):
        fields["type"] = _raw("mcp" if tool else "http")
    if decode(fields.get("x402Version")) not in VERSIONS:
        fields["x402Version"] = _raw(_version(accepted.entries))
    _set_time(fields, updated)
    _keep_object(fields, "extensions")
    _keep_object(fields, "metadata")
    metadata = _object(fields.get("metadata"))
    if description and not isinstance(decode(metadata.get("description")), str):
        shortened = _raw(description[:MAX_DESCRIPTION])
        fields["metadata"] = _raw(metadata | {"description": shortened})
    price = accepted.pricing
    tags = decode(fields.get("tags"))
    return Listing(
        text=_raw(fields),
        endpoint=endpoint,
        price=price if price.amount or price.max_amount else None,
        displaced=displaced,
        tool=tool,
        url=url,
        type=text_of(fields, "type"),
        tags=[tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else [],
        extensions=[*_object(fields.get("extensions"))],
        entries=[*_entries(fields, accepted)],
    )


def _entries(fields: dict[str, Raw], accepted: Accepted) -> Iterator[EntryKeys]:
    """Yield the facts of the entries of formatted fields, which are to be encoded in this order."""
    before = takewhile(lambda field: field[0] != "accepts", fields.items())
    lengths = (len(msgspec.json.encode(name)) + len(bytes(raw)) + 2 for name, raw in before)
    stop = 1 + sum(lengths) + len(b'"accepts":')
    texts = _list.decode(fields["accepts"])
    for entry, offer, text in zip(accepted.entries, accepted.offers, texts, strict=True):
        start = stop + 1  # after the bracket or a comma
        stop = start + len(bytes(text))
        network, scheme, pay_to = (text_of(entry, key) for key in ("network", "scheme", "payTo"))
        is_usd = offer.token is not None and offer.token.is_usd
        yield EntryKeys(
            network, scheme, pay_to, offer.asset, offer.amount, is_usd, start=start, stop=stop
        )


def text_of(fields: dict[str, Raw], key: str) -> str:
    """Return a member that is a string, or an empty one."""
    value = decode(fields.get(key))
    return value if isinstance(value, str) else ""


def _raw(value: Any) -> Raw:
    return Raw(msgspec.json.encode(value))


def _object(raw: Raw | None) -> dict[str, Raw]:
    """Return the members of an object; other values have none."""
    if raw is None or not bytes(raw).startswith(b"{"):
        return {}
    return _fields.decode(raw)


def _keep_object(fields: dict[str, Raw], name: str) -> None:
    """Leave out a member that is no object: clients with types refuse a page that has it."""
    if name in fields and not bytes(fields[name]).startswith(b"{"):
        del fields[name]


def _lift(fields: dict[str, Raw], url: str) -> dict[str, Raw]:
    """Replace `resource` by the URL, and move the members of an object up to the fields.

    Returns the members that cannot be moved: there are fields of their names with other values.
    """
    members = _object(fields["resource"])
    members.pop("url", None)
    fields["resource"] = _raw(url)
    return {name: raw for name, raw in members.items() if fields.setdefault(name, raw) != raw}


def _version(entries: list[dict[str, Raw]]) -> int:
    """Return the version of the protocol whose shape the entries of `accepts` have."""
    is_version_1 = all("maxAmountRequired" in entry and "amount" not in entry for entry in entries)
    return 1 if is_version_1 else 2


def _set_time(fields: dict[str, Raw], updated: datetime | None) -> None:
    """Write `lastUpdated` as RFC 3339, and leave it out where it is unknown."""
    if updated is None:
        fields.pop("lastUpdated", None)
    elif not _rfc_3339.fullmatch(text_of(fields, "lastUpdated")):
        fields["lastUpdated"] = _raw(format_timestamp(updated))
