"""Manifests of hosts to resources: a complete entry is one, a bare URL is left out.

Four shapes are in use: URLs under `resources`, objects with `url` there, objects with an object
`resource` under `items`, and objects with `path` under `endpoints`. A manifest may mix them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw, Struct, field

from indexer.documents.amounts import amount_or_invalid, read_amount
from indexer.documents.document import Bounds, Document
from indexer.documents.resource import Schema, declare_input, read_text
from indexer.errors import InvalidRecord, LeftOut
from indexer.intake.records import DESCRIBED, SourceRecord
from indexer.intake.splitting import split
from indexer.options import Kind
from indexer.resources.assets import is_test_network
from indexer.resources.entries import MAX_NAME, USD, X402
from indexer.resources.parameters import MAX_METHOD
from indexer.resources.resource import ServiceTexts
from indexer.resources.x402 import server_of, tool_of_url, url_of
from indexer.text import decode_or_invalid
from indexer.untrusted import decode_object, line, mapping, objects, raw_members, string_of, text
from indexer.x402.described import DescribedResource, Fields, encode_fields
from service.schema.offers import PaymentOffer
from service.schema.values import NULL

MAX_ENTRIES = 5_000  # of a manifest
BARE = "bare pointers"
REASON = "is a bare URL, without a price or a way to pay"
REPLACED = frozenset((DESCRIBED, "url", "path", "method", "resource", "endpoints"))
"""Members of entries that resources do not have, or not as they came."""

_encode = msgspec.json.Encoder(decimal_format="number").encode
_line = re.compile(r"\s*(?:([A-Za-z]{3,7})\s+)?(\S+)\s*")


class _ManifestMembers(Struct):
    """The members of a manifest that are read."""

    payee: Raw = field(name="payTo", default=NULL)
    network: Raw = NULL

    resources: Raw = NULL
    items: Raw = NULL
    endpoints: Raw = NULL
    instructions: Raw = NULL


_members = msgspec.json.Decoder(_ManifestMembers)


def read_manifest(document: Document) -> Iterator[SourceRecord]:
    """Yield a record for each entry of a manifest, or a fault for one that cannot be read."""
    try:
        members = decode_or_invalid(_members, document.text)
    except InvalidRecord as fault:
        yield SourceRecord("", b"", fault)
        return
    guidance = read_text(string_of(members.instructions))
    texts = ServiceTexts(guidance=guidance, has_names=False) if guidance else None
    bounds = Bounds(MAX_ENTRIES, "entries, the most of one manifest")
    shared = {"payTo": string_of(members.payee), "network": string_of(members.network)}
    read = partial(_read_entry, document, texts, bounds, shared)
    for key in ("resources", "items", "endpoints"):
        value: Raw = getattr(members, key)
        entries = bytes(value)
        if entries.startswith(b"["):
            for number, entry in enumerate(split(entries)):
                yield read(bytes(entry).strip(), f"{key}[{number}]")
        elif value != NULL:
            yield SourceRecord(key, b"", InvalidRecord(f"$.{key}", "Expected `array`"))


def _read_entry(
    document: Document,
    texts: ServiceTexts | None,
    bounds: Bounds,
    shared: dict[str, str],
    entry: bytes,
    position: str,
) -> SourceRecord:
    """Return the record of an entry; that of a refused one has its URL, where it has any."""
    content = b""
    try:
        values, fields = _decode(entry)
        path, method, given = _address(values)
        url = document.resolve(path, given)
        fields = _complete(values, fields, method, url)
        content = encode_fields(fields)
        server = server_of(decode_object(content)) if tool_of_url(url) else ""
        document.check_host(path, server or url)
        bounds.count(path)
        if values.get("accepts") in (None, []):
            described = _describe(values, path, shared, texts)
            content = encode_fields(fields | {DESCRIBED: Raw(_encode(described))})
    except InvalidRecord as fault:
        return SourceRecord(position, content, fault)
    return SourceRecord(position, content)


def _decode(entry: bytes) -> tuple[dict[str, Any], Fields]:
    """Return the members of an entry, decoded and as they came; a URL alone is one of them."""
    if entry.startswith(b'"'):
        return {"url": string_of(Raw(entry))}, {}
    if not entry.startswith(b"{"):
        raise InvalidRecord("$", "Expected `string` or `object`")
    return decode_object(entry), raw_members(entry)


def _address(values: dict[str, Any]) -> tuple[str, str, str]:
    """Return the JSON path of a URL, its method, which may stand before it, and the URL."""
    key = "path" if values.get("url") is None and "path" in values else "url"
    path, given = f"$.{key}", values.get(key)
    if given is None:
        path, given = url_of(values)
    match = _line.fullmatch(given) if isinstance(given, str) else None
    if match is None:
        raise InvalidRecord(path, "is not a URL, or a method and a URL")
    declared = text(values.get("method")) or text(mapping(values, "input").get("method"))
    return path, (declared or match[1] or "").strip().upper()[:MAX_METHOD], match[2]


def _describe(
    values: dict[str, Any], path: str, shared: dict[str, str], texts: ServiceTexts | None
) -> DescribedResource:
    """Return the price that an entry states in units of a currency; raises LeftOut without one.

    path: the JSON path of its URL
    shared: the payee and the network of all entries
    """
    key = next((each for each in ("price", "payment") if values.get(each) is not None), "")
    if not key:
        raise LeftOut(BARE, path, REASON)
    price = values[key] if isinstance(values[key], dict) else {"amount": values[key]}
    stated = shared | {name: each for name, each in (values | price).items() if text(each)}
    given = price.get("amount")
    amount, _, unit = given.strip().partition(" ") if isinstance(given, str) else (given, "", "")
    currency = text(price.get("currency")) or text(price.get("token")) or unit or USD
    offer = PaymentOffer(
        protocol=X402,
        stated_by=Kind.MANIFEST,
        amount=amount_or_invalid(read_amount, amount, f"$.{key}"),
        currency=line(currency, MAX_NAME),
        asset=line(stated.get("asset"), MAX_NAME),
        pay_to=line(stated.get("payTo"), MAX_NAME),
    )
    offers = [] if is_test_network(line(stated.get("network"), MAX_NAME)) else [offer]
    return DescribedResource(offers, f"$.{key}", texts)


def _complete(values: dict[str, Any], fields: Fields, method: str, url: str) -> Fields:
    """Return the members of a resource: those of an entry, at an absolute URL, with its input."""
    completed = {name: value for name, value in fields.items() if name not in REPLACED}
    encoded = Raw(_encode(url))
    if isinstance(values.get("resource"), dict):
        encoded = Raw(_encode(raw_members(fields["resource"]) | {"url": encoded}))
    completed["resource"] = encoded
    extensions = mapping(values, "extensions")
    extension = {} if mapping(extensions, "bazaar") else _declare(values, method)
    if extension:
        completed["extensions"] = Raw(_encode(extensions | {"bazaar": extension}))
    return completed


def _declare(values: dict[str, Any], method: str) -> Schema:
    """Return the extension that declares the input of an entry, empty where `accepts` does so."""
    given = mapping(values, "input")
    has_schema = any(
        mapping(each.get("outputSchema"), "input") for each in objects(values, "accepts")
    )
    if not given and (has_schema or not method):
        return {}
    groups = {name: value for name, value in given.items() if isinstance(value, dict)}
    declared = {name: value for name, value in given.items() if name not in groups}
    route = declared.pop("routeTemplate", None)
    extension = declare_input(declared | {"method": method}, groups)
    if route is not None:
        extension["routeTemplate"] = route
    if output := mapping(values, "output"):
        extension["info"]["output"] = output
    return extension
