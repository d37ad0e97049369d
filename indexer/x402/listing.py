"""Resources as `/discovery` lists them: as they came, with what clients cannot do without."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct

from indexer.x402.prices import Accepted, Offer
from indexer.x402.untrusted import decode
from service.records import GivenTime, ListedEndpoint, Pricing, ResourceFacts, format_timestamp

MAX_LISTING = 256 * 1024  # bytes
MAX_ENTRIES = 200  # of `accepts`

_fields = msgspec.json.Decoder(dict[str, Raw])
_time = msgspec.json.Decoder(GivenTime)


class Listing(Struct):
    """A resource to list: its JSON without `ratecard`, our facts, and what it is filtered by.

    `displaced` are members of an object `resource` that the resource itself has with other values.
    """

    text: Raw
    endpoint: ListedEndpoint
    price: Pricing | None
    displaced: dict[str, Raw]
    type: str
    extensions: list[str]
    offers: list[Offer]

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
    is_tool: bool,
    description: str,
    updated: datetime | None,
) -> Listing:
    """List a resource that has entries of `accepts`.

    text: its valid JSON
    is_tool: whether it declares a tool of an MCP server
    updated: the time that its `lastUpdated` means, None if that is missing or no time

    The members of an object `resource` become members of the resource itself, and its URL takes
    its place.
    """
    fields = _fields.decode(msgspec.json.format(text, indent=-1))
    fields.pop("ratecard", None)
    displaced = _lift(fields, url)
    if not text_of(fields, "type"):
        fields["type"] = _raw("mcp" if is_tool else "http")
    if not _is_integer(fields.get("x402Version")):
        fields["x402Version"] = _raw(_version(accepted.entries))
    _set_time(fields, updated)
    metadata = _object(fields.get("metadata"))
    if description and metadata is not None and "description" not in metadata:
        fields["metadata"] = _raw(metadata | {"description": _raw(description)})
    extensions = _object(fields.get("extensions")) or {}
    if not extensions:  # null, or of another type than clients decode
        fields.pop("extensions", None)
    price = accepted.pricing
    return Listing(
        text=_raw(fields),
        endpoint=endpoint,
        price=price if price.amount or price.max_amount else None,
        displaced=displaced,
        type=text_of(fields, "type"),
        extensions=[*extensions],
        offers=accepted.offers,
    )


def text_of(fields: dict[str, Raw], key: str) -> str:
    """Return a member that is a string, or an empty one."""
    value = decode(fields.get(key))
    return value if isinstance(value, str) else ""


def _raw(value: Any) -> Raw:
    return Raw(msgspec.json.encode(value))


def _object(raw: Raw | None) -> dict[str, Raw] | None:
    """Return the members of an object, none of null or a missing one, None of other values."""
    if raw is None or bytes(raw) == b"null":
        return {}
    try:
        return _fields.decode(raw)
    except msgspec.MsgspecError:
        return None


def _lift(fields: dict[str, Raw], url: str) -> dict[str, Raw]:
    """Replace `resource` by the URL; returns members whose names have other values already."""
    members = _object(fields["resource"]) or {}
    members.pop("url", None)
    fields["resource"] = _raw(url)
    return {name: raw for name, raw in members.items() if fields.setdefault(name, raw) != raw}


def _is_integer(raw: Raw | None) -> bool:
    value = decode(raw)
    return isinstance(value, int) and not isinstance(value, bool)


def _version(entries: list[dict[str, Raw]]) -> int:
    """Return the version of the protocol that entries of `accepts` have the shape of."""
    is_first = all("maxAmountRequired" in entry and "amount" not in entry for entry in entries)
    return 1 if is_first else 2


def _set_time(fields: dict[str, Raw], updated: datetime | None) -> None:
    """Write `lastUpdated` as RFC 3339, and leave it out where it is unknown."""
    given = fields.get("lastUpdated")
    with suppress(msgspec.MsgspecError):
        if given is not None:
            _time.decode(given)
            return
    if updated is None:
        fields.pop("lastUpdated", None)
    else:
        fields["lastUpdated"] = _raw(format_timestamp(updated))
