"""Resources that documents of other formats describe: their offers, and texts on their service.

The reader of a document writes these values as the first member of a resource, so that resources of
all formats are merged, judged and grouped alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal

import msgspec
from msgspec import Raw, Struct, field
from msgspec.structs import astuple, replace

from indexer.intake.findings import Notice
from indexer.intake.lists import DESCRIBED, DESCRIBED_START
from indexer.untrusted import raw_members
from indexer.x402.members.offers import find_contradiction, merge_offers, price_of
from indexer.x402.members.prices import UNKNOWN_ASSET, Accepted
from service.schema.offers import PaymentOffer

CONTRADICTION = "contradicting prices"
PRICE_NOT_LISTED = "price not listed"

Fields = dict[str, Raw]


class ServiceTexts(Struct, array_like=True):
    """The texts of a document on its service, empty where there are none.

    guidance: `info.x-guidance` or `instructions`, for agents
    info: the object `x-service-info` as JSON
    has_names: whether the service is named by the resources of the document alone
    url: of the service, which its endpoints are below
    integration: `1P` or `3P`
    """

    description: str = ""
    guidance: str = ""
    info: bytes = b""
    has_names: bool = True
    url: str = ""
    provider: str = ""
    provider_url: str = ""
    integration: str = ""
    status: str = ""


class DescribedResource(Struct, omit_defaults=True):
    """The values of a resource that a document describes.

    place: JSON path of the payment in the document, for notices; empty without one
    service: None for a document without texts on its service
    """

    offers: list[PaymentOffer] = []
    place: str = ""
    service: ServiceTexts | None = None


class _Marked(Struct):
    described: DescribedResource = field(name=DESCRIBED)


_marked = msgspec.json.Decoder(_Marked)
_described = msgspec.json.Decoder(DescribedResource)


def read_described(text: bytes) -> DescribedResource | None:
    """Return the values that a reader of documents wrote, None for a resource of a list."""
    return _marked.decode(text).described if text.startswith(DESCRIBED_START) else None


def decode_fields(text: bytes) -> Fields:
    """Return the members of a resource; those of a list have no DESCRIBED."""
    fields = raw_members(text)
    if not text.startswith(DESCRIBED_START):
        fields.pop(DESCRIBED, None)
    return fields


def encode_fields(fields: Fields) -> bytes:
    """Return the JSON of a resource, with DESCRIBED first."""
    first = {DESCRIBED: fields[DESCRIBED]} if DESCRIBED in fields else {}
    return msgspec.json.encode(first | fields)


def merge_described(values: Iterable[Raw]) -> Raw:
    """Return what several documents say, the first before the others."""
    documents = [_described.decode(each) for each in values]
    offers = merge_offers(each.offers for each in documents)
    services = [astuple(each.service) for each in documents if each.service is not None]
    texts = (next(filter(None, each), each[0]) for each in zip(*services, strict=True))
    service = ServiceTexts(*texts) if services else None
    place = next((each.place for each in documents if each.place), "")
    return Raw(msgspec.json.encode(DescribedResource(offers, place, service)))


def price_described(accepted: Accepted, described: DescribedResource | None) -> Accepted:
    """Return the payments of a resource, with the price of its documents where none is listed.

    Notices tell why a price is unknown, and which prices contradict each other.
    """
    if described is None:
        return accepted
    place = described.place
    contradiction = find_contradiction(accepted, described.offers)
    notices = [Notice(CONTRADICTION, place, contradiction)] if contradiction else []
    if accepted.entries:
        notices = accepted.notices + notices
        return replace(accepted, notices=notices, contradicts=bool(contradiction))
    pricing, best = price_of(described.offers)
    if place:
        notices += _notices(best, place)
    amount = pricing.amount or pricing.max_amount or pricing.min_amount
    return replace(
        accepted,
        pricing=pricing,
        amount=Decimal(amount) if amount else None,
        notices=notices,
        contradicts=bool(contradiction),
    )


def _notices(offer: PaymentOffer | None, place: str) -> Iterator[Notice]:
    """Yield why the payment at a JSON path of a document, or its best offer, has no price."""
    if offer is None:
        reason = "asks for a payment, and the document states no price"
        yield Notice(PRICE_NOT_LISTED, place, reason)
    elif offer.base_amount and offer.decimals is not None:
        reason = "is in base units, which differ among the methods of the payment"
        yield Notice(PRICE_NOT_LISTED, place, reason)
    elif offer.base_amount:
        name = offer.asset or "there is none"
        reason = f"is not a currency whose decimals are known: {name}"
        yield Notice(UNKNOWN_ASSET, place, reason)
