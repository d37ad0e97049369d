"""Services as the texts that the templates show."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from service.networks import network_label
from service.prices import service_price
from service.schema.records import Service
from service.schema.values import format_timestamp

# Link to HTTP URLs only, and to none with user information: a record may hold a `javascript:` URL,
# or disguise the host.
_website = re.compile(r"https?://([a-z0-9.-]+)(?::[0-9]+)?(?:[/?#].*)?", re.IGNORECASE)


class Card(NamedTuple):
    """The texts of a service; templates leave out the empty ones."""

    id: str
    name: str
    provider: str
    category: str
    networks: str
    curated: bool
    price: str
    currency: str
    description: str
    calls: str
    endpoints: str
    payers: str
    last_called: str
    website: str
    host: str
    status: str
    tags: Sequence[str]


MAX_TEXT = 400
"""Characters of a text in a list, which shows two lines of a description."""
MAX_NAMES = 50
"""Networks and tags shown of a service."""

_service = msgspec.json.Decoder(Service)


def listed_card_of(summary: bytes | memoryview) -> Card:
    """Return the card of a service in a list, whose texts are cut."""
    texts = card_of(summary)
    return Card._make(text[:MAX_TEXT] if isinstance(text, str) else text for text in texts)


def card_of(summary: bytes | memoryview) -> Card:
    """Return the card of a service, from its stored JSON without endpoints."""
    service = _service.decode(summary)
    quality, price = service.quality, service_price(service.price_summary)
    calls = payers = last_called = ""
    if quality:
        calls = "" if quality.total_calls is UNSET else quantity(quality.total_calls, "call")
        payers = "" if quality.unique_payers is UNSET else f"{quality.unique_payers:,}"
        last_called = format_timestamp(quality.last_called_at) if quality.last_called_at else ""
    networks = map(network_label, (service.networks or [])[:MAX_NAMES])
    website = _website.fullmatch(service.provider_url or "")
    return Card(
        id=service.id,
        name=service.name,
        provider=service.provider or service.domain or "",
        category=service.category or "",
        networks=", ".join(dict.fromkeys(networks)),
        curated=service.enriched is True,
        price=price.amount,
        currency=price.currency,
        description=service.description,
        calls=calls,
        endpoints=quantity(service.endpoint_count or 0, "endpoint"),
        payers=payers,
        last_called=last_called,
        website=website[0] if website else "",
        host=website[1].lower() if website else "",
        status=service.notable_status,
        tags=(service.tags or [])[:MAX_NAMES],
    )


def quantity(count: int, noun: str) -> str:
    """Return a count with its noun, such as `1 call` or `1,200 calls`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
