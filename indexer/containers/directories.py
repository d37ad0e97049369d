"""Directories of MPP, told from lists of catalogue records by their first items."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from indexer.containers.elements import split

MAX_ITEMS = 20
"""Items that are looked at, and endpoints of each."""


class _DirectoryService(Struct):
    service_url: Raw | UnsetType = field(name="serviceUrl", default=UNSET)
    endpoints: Raw | UnsetType = UNSET


class _DirectoryEndpoint(Struct):
    url: Raw | UnsetType = UNSET
    path: Raw | UnsetType = UNSET
    route: Raw | UnsetType = UNSET
    payment: Raw | UnsetType = UNSET


_service = msgspec.json.Decoder(_DirectoryService)
_endpoint = msgspec.json.Decoder(_DirectoryEndpoint)


def is_directory(members: Mapping[str, Raw]) -> bool:
    """Whether the first of `services` that has a known form is of a directory, and no record.

    Endpoints of a record have a `url`, endpoints of a directory a `path` or `route` below the
    `serviceUrl` of their service.
    """
    verdicts = map(_is_service, first_items(members["services"]))
    return next((each for each in verdicts if each is not None), False)


def _is_service(item: Raw) -> bool | None:
    """Whether an item is a service of a directory, None where it does not tell."""
    try:
        service = _service.decode(item)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if service.endpoints is not UNSET:
        verdicts = map(_is_endpoint, first_items(service.endpoints))
        verdict = next((each for each in verdicts if each is not None), None)
        if verdict is not None:
            return verdict
    return None if service.service_url is UNSET else True


def _is_endpoint(item: Raw) -> bool | None:
    try:
        endpoint = _endpoint.decode(item)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if endpoint.url is not UNSET:
        return False
    given = (endpoint.path, endpoint.route, endpoint.payment)
    return True if any(each is not UNSET for each in given) else None


def first_items(value: Raw) -> Iterator[Raw]:
    """Yield the first items of a list, none of another value or of one nested too deeply."""
    text = bytes(value)
    if text.startswith(b"["):
        with suppress(RecursionError):
            yield from islice(split(text, 1, len(text) - 1), MAX_ITEMS)
