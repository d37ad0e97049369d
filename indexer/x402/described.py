"""Resources that documents of other formats describe: their price, and texts on their service.

The reader of a document writes these values as the first member of a resource, so that resources of
all formats are merged, judged and grouped alike.
"""

from __future__ import annotations

from decimal import Decimal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from indexer.sources.records import DESCRIBED, DESCRIBED_START
from indexer.x402.prices import Accepted, Notice
from service.schema.records import Pricing

Fields = dict[str, Raw]


class ServiceTexts(Struct, array_like=True):
    """The texts of a document on its service, empty where there are none.

    guidance: `info.x-guidance`, instructions for agents
    info: the object `x-service-info` as JSON
    """

    description: str = ""
    guidance: str = ""
    info: bytes = b""


class Described(Struct):
    """The values of a resource that a document describes.

    notices: remarks on its price
    payment: the member `x-payment-info`, as the document has it
    """

    pricing: Pricing
    notices: list[Notice] = []
    payment: Raw | UnsetType = UNSET
    service: ServiceTexts = field(default_factory=ServiceTexts)


class _Marked(Struct):
    described: Described = field(name=DESCRIBED)


_marked = msgspec.json.Decoder(_Marked)
_fields = msgspec.json.Decoder(Fields)


def read_described(text: bytes) -> Described | None:
    """Return the values that a reader of documents wrote, None for a resource of a list."""
    return _marked.decode(text).described if text.startswith(DESCRIBED_START) else None


def decode_fields(text: bytes) -> Fields:
    """Return the members of a resource; those of a list have no DESCRIBED."""
    fields = _fields.decode(text)
    if not text.startswith(DESCRIBED_START):
        fields.pop(DESCRIBED, None)
    return fields


def encode_fields(fields: Fields) -> bytes:
    """Return the JSON of a resource, with DESCRIBED first."""
    first = {DESCRIBED: fields[DESCRIBED]} if DESCRIBED in fields else {}
    return msgspec.json.encode(first | fields)


def price_described(accepted: Accepted, described: Described | None) -> Accepted:
    """Return the payments of a resource, with the price of its document where none is listed."""
    if described is None or accepted.entries:
        return accepted
    pricing = described.pricing
    amount = pricing.amount or pricing.max_amount or pricing.min_amount
    return msgspec.structs.replace(
        accepted,
        pricing=pricing,
        amount=Decimal(amount) if amount else None,
        notices=described.notices,
    )
