"""Metadata of a discovered resource, and of the service that it belongs to.

Feeds repeat what sellers and buyers send them: values that break a rule are dropped one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from msgspec import Struct

from indexer.untrusted import line, text
from service.urls import find_url

MAX_NAME = 100  # characters
MAX_TAG = 50
MAX_TAGS = 20
MAX_ICON_URL = 2048

Value = TypeVar("Value", str, list[str])


class Metadata(Struct, array_like=True):
    """Values are empty where none is given."""

    service_name: str
    description: str
    category: str
    tags: list[str]
    icon_url: str


def read_metadata(places: Sequence[Any]) -> Metadata:
    """Take each field from the first of several decoded JSON values that has a valid one."""
    objects = [place for place in places if isinstance(place, dict)]
    return Metadata(
        service_name=_first(objects, "serviceName", _name) or "",
        description=_first(objects, "description", text) or "",
        category=_first(objects, "category", _name) or "",
        tags=_first(objects, "tags", _tags) or [],
        icon_url=_first(objects, "iconUrl", _icon_url) or "",
    )


def _first(objects: list[dict[str, Any]], key: str, read: Callable[[Any], Value]) -> Value | None:
    for each in objects:
        if key in each and (value := read(each[key])):
            return value
    return None


def _name(value: Any) -> str:
    return line(value, MAX_NAME)


def _tags(value: Any) -> list[str]:
    """Return the distinct tags of a list, regardless of case."""
    tags: dict[str, str] = {}
    for each in value if isinstance(value, list) else []:
        if tag := line(each, MAX_TAG):
            tags.setdefault(tag.casefold(), tag)
    return list(tags.values())


def _icon_url(value: Any) -> str:
    """Return a URL that a browser may safely load an image from."""
    url = line(value, MAX_ICON_URL)
    parsed = find_url(url)
    if parsed is None or parsed.is_private or parsed.has_credentials:
        return ""
    return url if parsed.scheme in {"http", "https"} else ""
