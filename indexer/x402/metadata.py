"""Metadata: what a discovered resource says of itself and of the service that it belongs to.

Feeds echo what sellers and buyers send them, so what breaks a rule is dropped and the rest kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from msgspec import Struct

from indexer.urls import parse_url
from indexer.x402.untrusted import line, text

LONGEST_NAME = 100
LONGEST_TAG = 50
LONGEST_ICON = 2048

Found = TypeVar("Found", str, list[str])


class Metadata(Struct):
    """Texts are empty where nothing is said."""

    service_name: str
    description: str
    category: str
    tags: list[str]
    icon_url: str


def read_metadata(places: Sequence[Any]) -> Metadata:
    """Each field from the first of these decoded JSON values that says it."""
    return Metadata(
        service_name=_first(places, "serviceName", _name) or "",
        description=_first(places, "description", text) or "",
        category=_first(places, "category", _name) or "",
        tags=_first(places, "tags", _tags) or [],
        icon_url=_first(places, "iconUrl", _icon_url) or "",
    )


def _first(places: Sequence[Any], key: str, read: Callable[[Any], Found]) -> Found | None:
    given = (place[key] for place in places if isinstance(place, dict) and key in place)
    return next((found for value in given if (found := read(value))), None)


def _name(value: Any) -> str:
    return line(value, LONGEST_NAME)


def _tags(value: Any) -> list[str]:
    tags: dict[str, str] = {}
    for each in value if isinstance(value, list) else []:
        if tag := line(each, LONGEST_TAG):
            tags.setdefault(tag.casefold(), tag)
    return list(tags.values())


def _icon_url(value: Any) -> str:
    """A URL that a page may safely load a picture from."""
    url = line(value, LONGEST_ICON)
    if not url:
        return ""
    try:
        address = parse_url(url)
    except ValueError:
        return ""
    is_fit = address.scheme in {"http", "https"} and not address.is_private
    return url if is_fit and not address.has_credentials else ""
