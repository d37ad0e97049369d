"""A card: what the page shows of a service at first sight, in words."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec
from msgspec import Struct

from service.networks import network_label

# Overrides, embeddings and isolates reorder what stands around them; no name needs them.
_REORDERING = dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)])

# An address to link to: a catalogue may say `javascript:` where a website should be, or write a
# host so that it is read as another one.
_WEBSITE = re.compile(r"https?://([a-z0-9.-]+)(?::[0-9]+)?(?:[/?#].*)?", re.IGNORECASE)


class Card(NamedTuple):
    """The texts of a card; an empty one is not shown. `web/assets/card.js` makes the same."""

    id: str
    name: str
    provider: str
    category: str
    networks: str
    curated: str
    price: str
    currency: str
    description: str
    calls: str
    endpoints: str


class Facts(NamedTuple):
    """What the page of a service shows beside its card; what is empty is not shown."""

    payers: str
    last_called: str
    website: str
    host: str
    tags: list[str]


BLANK = Card(*[""] * len(Card._fields))


def card_of(summary: bytes | memoryview) -> Card:
    """The card of a service as it is stored without its endpoints."""
    service = _summary.decode(summary)
    price = service.price_summary
    calls = service.quality.total_calls if service.quality else None
    networks = dict.fromkeys(network_label(name) for name in service.networks)
    return Card(
        id=service.id,
        name=plain(service.name),
        provider=plain(service.provider or service.domain),
        category=plain(service.category),
        networks=plain(", ".join(networks)),
        curated="Curated" if service.enriched else "",
        price=_range(price) if price else "no fixed price",
        currency=plain(price.currency) if price else "",
        description=plain(service.description),
        calls="" if calls is None else f"{calls:,} {_plural(calls, 'call')}",
        endpoints=f"{service.endpoint_count:,} {_plural(service.endpoint_count, 'endpoint')}",
    )


def facts_of(summary: bytes | memoryview) -> Facts:
    """The facts of a service as it is stored without its endpoints."""
    service = _summary.decode(summary)
    quality = service.quality or _Quality()
    website = _WEBSITE.fullmatch(service.provider_url)
    return Facts(
        payers="" if quality.unique_payers is None else f"{quality.unique_payers:,}",
        last_called=quality.last_called_at,
        website=website[0] if website else "",
        host=website[1].lower() if website else "",
        tags=[plain(tag) for tag in service.tags],
    )


def plain(text: str) -> str:
    """A text of the catalogue without the characters that reorder others."""
    return text.translate(_REORDERING)


class _Price(Struct, rename="camel"):
    min_amount: str
    max_amount: str
    currency: str


class _Quality(Struct, rename="camel"):
    total_calls: int | None = None
    unique_payers: int | None = None
    last_called_at: str = ""


class _Summary(Struct, rename="camel"):
    id: str
    name: str
    description: str
    endpoint_count: int
    domain: str = ""
    provider: str = ""
    provider_url: str = ""
    category: str = ""
    tags: list[str] = []
    networks: list[str] = []
    enriched: bool = False
    quality: _Quality | None = None
    price_summary: _Price | None = None


_summary = msgspec.json.Decoder(_Summary)


def _range(price: _Price) -> str:
    least, most = price.min_amount, price.max_amount
    return least if least == most else f"{least} – {most}"


def _plural(count: int, noun: str) -> str:
    return noun if count == 1 else f"{noun}s"
