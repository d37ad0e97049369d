"""Services as the values that the templates show."""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache
from types import SimpleNamespace

import msgspec
from msgspec import UnsetType

from service.networks import network_label
from service.prices import service_price
from service.schema.records import Service, ServiceQuality
from service.schema.values import format_timestamp
from service.snapshot import Snapshot
from service.urls import MAX_URL

# Link to HTTP URLs only, and to none with user information: a record may hold a `javascript:` URL,
# or disguise the host.
_website = re.compile(r"https?://([a-z0-9.-]+)(?::[0-9]+)?(?:[/?#].*)?", re.IGNORECASE)

MAX_TEXT = 400
"""Characters of a text in a list, which shows two lines of a description."""
MAX_NAMES = 50
"""Networks and tags shown of a service."""

short_label = lru_cache(1024)(network_label)
"""Cached labels of networks, which a list names some 50 times."""
_service = msgspec.json.Decoder(Service)


def card_of(snapshot: Snapshot, ordinal: int, limit: int | None = None) -> SimpleNamespace:
    """Return the texts of a service, from its stored JSON without endpoints.

    limit: characters of each text; templates leave out the empty ones
    """
    service = _service.decode(snapshot.summaries.text(ordinal))
    quality = service.quality or ServiceQuality()
    payers = int(snapshot.filters.arrays["payers"][ordinal])
    price = service_price(service.price_summary)
    networks = [short_label(name[:MAX_TEXT]) for name in (service.networks or [])[:MAX_NAMES]]
    website = _website.fullmatch(service.provider_url or "")
    low, dash, _ = price.amount.partition("–")
    icon = service.icon_url or ""
    is_icon = icon[:6].lower() == "https:" and _website.fullmatch(icon) and len(icon) <= MAX_URL
    texts = {
        "id": service.id,
        "name": service.name,
        "provider": service.provider or service.domain or "",
        "category": service.category or "",
        "networks": ", ".join(dict.fromkeys(networks)),
        "letter": next(filter(str.isalnum, service.name), "·").upper(),
        "price": price.amount,
        "lowest": f"from {low}" if dash else price.amount,
        "currency": price.currency,
        "description": service.description,
        "use": f"{quantity(payers, 'payer')} in 30 days" if payers else "",
        "endpoints": quantity(service.endpoint_count or 0, "endpoint"),
        "website": website[0] if website else "",
        "host": website[1].lower() if website else "",
        "status": service.notable_status,
    }
    return SimpleNamespace(
        **{name: text[:limit] for name, text in texts.items()},
        curated=service.enriched is True,
        icon=icon if is_icon else "",
        last_called=_moment(quality.last_called_at),
        tags=(service.tags or [])[:MAX_NAMES],
    )


def _moment(given: datetime | UnsetType) -> str:
    """Return a moment in UTC, empty for one that UTC has not, of the first or last year."""
    try:
        return format_timestamp(given) if given else ""
    except OverflowError:
        return ""


def quantity(count: int, noun: str) -> str:
    """Return a count with its noun, such as `1 call` or `1,200 calls`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
