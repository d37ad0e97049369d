"""Services as the texts that the templates show."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from service.networks import network_label
from service.prices import service_price
from service.schema.records import Service, ServiceQuality
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


def card_of(summary: bytes | memoryview, limit: int | None = None) -> Card:
    """Return the card of a service, from its stored JSON without endpoints.

    limit: characters of each text
    """
    service = _service.decode(summary)
    quality = service.quality or ServiceQuality()
    calls, payers, called = quality.total_calls, quality.unique_payers, quality.last_called_at
    price = service_price(service.price_summary)
    networks = map(network_label, (service.networks or [])[:MAX_NAMES])
    website = _website.fullmatch(service.provider_url or "")
    card = Card(
        id=service.id,
        name=service.name,
        provider=service.provider or service.domain or "",
        category=service.category or "",
        networks=", ".join(dict.fromkeys(networks)),
        curated=service.enriched is True,
        price=price.amount,
        currency=price.currency,
        description=service.description,
        calls="" if calls is UNSET else quantity(calls, "call"),
        endpoints=quantity(service.endpoint_count or 0, "endpoint"),
        payers="" if payers is UNSET else f"{payers:,}",
        last_called=format_timestamp(called) if called else "",
        website=website[0] if website else "",
        host=website[1].lower() if website else "",
        status=service.notable_status,
        tags=(service.tags or [])[:MAX_NAMES],
    )
    return Card._make(text[:limit] if isinstance(text, str) else text for text in card)


def quantity(count: int, noun: str) -> str:
    """Return a count with its noun, such as `1 call` or `1,200 calls`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
