"""Refused records: the URLs and the payees that they name, as far as these can be read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from indexer.errors import InvalidRecord
from indexer.intake.findings import NOTHING, Subject, make_subject
from indexer.intake.forms import mask_surrogates
from indexer.intake.rules import fold_address
from indexer.resources.x402 import url_of, with_route
from indexer.text import check_depth
from indexer.untrusted import decode_object, mapping, objects
from service.urls import ParsedUrl, find_url

MAX_URLS = 1_000
"""URLs of one record: more than a discovered service has, and an endless list is cut."""


def read_subject(text: bytes) -> Subject:
    """Return the subject of a record of either kind, valid or not."""
    values = _decode(text)
    if isinstance(values.get("endpoints"), list):
        endpoints = objects(values, "endpoints")[:MAX_URLS]
        return make_subject(_parse(each.get("url") for each in endpoints), _payees(endpoints))
    return _subject_of_resource(values)


def _decode(text: bytes) -> dict[str, Any]:
    """Return the members of a record, also of one with lone surrogates or overlong numbers."""
    try:
        return decode_object(text)
    except InvalidRecord:
        pass
    try:
        check_depth(text)
        masked = mask_surrogates(text).decode()  # halves of pairs could not be encoded again
        values = json.loads(masked, parse_int=str)  # of any number of digits
    except (InvalidRecord, ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


def _subject_of_resource(values: dict[str, Any]) -> Subject:
    try:
        _, url = url_of(values)
    except InvalidRecord:
        return NOTHING
    merged = mapping(values, "resource") | values
    extension = mapping(mapping(merged, "extensions"), "bazaar")
    templated = url
    with suppress(ValueError):  # of a URL that is none
        templated = with_route(url, extension.get("routeTemplate"))
    return make_subject(_parse([url, templated]), _payees(objects(values, "accepts")[:MAX_URLS]))


def _parse(urls: Iterable[Any]) -> Iterator[ParsedUrl]:
    for url in urls:
        if isinstance(url, str) and (parsed := find_url(url)):
            yield parsed


def _payees(items: list[dict[str, Any]]) -> Iterator[str]:
    for each in items:
        payee = each.get("payTo")
        if isinstance(payee, str) and payee:
            yield fold_address(payee)
