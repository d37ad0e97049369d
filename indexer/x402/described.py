"""Resources that documents of other formats describe, as members of x402 resources.

The reader of a document writes these values as the first member of a resource, so that resources of
all formats are merged, judged and grouped alike.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Raw, Struct, field
from msgspec.structs import asdict, astuple

from indexer.intake.records import DESCRIBED, DESCRIBED_START, SourceRecord
from indexer.resources.assets import KNOWN_STABLECOINS, Stablecoins
from indexer.resources.entries import Entry, merge_offers
from indexer.resources.resource import Resource, ServiceTexts
from indexer.resources.x402 import price_resource, read_resource
from indexer.untrusted import raw_members
from service.schema.offers import PaymentOffer

Fields = dict[str, Raw]


class DescribedResource(Struct, omit_defaults=True):
    """The values of a resource that a document describes.

    place: JSON path of the payment in the document, for notices; empty without one
    service: None for a document without texts on its service
    is_pointer: whether the document has its URL alone, without a way to pay
    """

    offers: list[PaymentOffer] = []
    place: str = ""
    service: ServiceTexts | None = None
    is_pointer: bool = False


class _Marked(Struct):
    described: DescribedResource = field(name=DESCRIBED)


_marked = msgspec.json.Decoder(_Marked)
_described = msgspec.json.Decoder(DescribedResource)


def read_described(
    record: SourceRecord, tokens: Stablecoins = KNOWN_STABLECOINS, method: str = ""
) -> Resource:
    """Read a resource of a list, or of a document with what the document says of it.

    method: of a resource that declares none; raises InvalidRecord
    """
    if record.fault:
        raise record.fault
    resource = read_resource(record.text, tokens)
    if not resource.tool_url:
        resource.method = resource.method or method
    document = described_of(record.text)
    if document is None:
        return resource
    resource.offers = [Entry(**asdict(each)) for each in document.offers]
    resource.place, resource.texts = document.place, document.service
    resource.is_pointer = document.is_pointer and not resource.entries
    price_resource(resource)
    return resource


def described_of(text: bytes) -> DescribedResource | None:
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
    offers = merge_offers([Entry(**asdict(one)) for one in each.offers] for each in documents)
    services = [astuple(each.service) for each in documents if each.service is not None]
    texts = (next(filter(None, each), each[0]) for each in zip(*services, strict=True))
    service = ServiceTexts(*texts) if services else None
    place = next((each.place for each in documents if each.place), "")
    merged = DescribedResource([each.to_offer() for each in offers], place, service)
    return Raw(msgspec.json.encode(merged))
