"""Manifests of hosts under `/.well-known/`: a resource for each entry that says how to pay.

Four shapes are in use: URLs under `resources`, objects with `url` there, objects with an object
`resource` under `items`, and objects with `path` under `endpoints`. A manifest may mix them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Raw

from indexer.errors import InvalidRecord, LeftOut
from indexer.intake.forms import split
from indexer.options import Kind
from indexer.resources.documents import BARE, Bounds, Described, Document, price_places, read_text
from indexer.resources.entries import Entry, read_entry
from indexer.resources.parameters import MAX_METHOD
from indexer.resources.resource import ServiceTexts
from indexer.resources.x402 import price_resource, read_resource, url_of
from indexer.text import decode_or_invalid
from indexer.untrusted import decode_object, mapping, raw_members, string_of, text
from service.schema.values import NULL

MAX_ENTRIES = 5_000  # of a manifest
REPLACED = frozenset(("url", "path", "method", "resource", "endpoints"))
"""Members of entries that resources do not have, or not as they came."""
ROUTE = "routeTemplate"
REASON = "is a bare URL, without a price or a way to pay"
BASES = ("baseUrl", "baseURL", "base_url", "origin", "server", "host", "url")
"""Members that state the URL below which the paths of a manifest are."""
SHARED = ("payTo", "network", "asset", "currency")
"""Facts that a manifest states for all of its entries."""
OF_PRICES = ("value", "min", "max", "unit", "token", "description")
"""Members that state a fact of a price, but not beside the URL of an entry."""

_encode = msgspec.json.Encoder(decimal_format="number").encode
_line = re.compile(r"\s*(?:([A-Za-z]{3,7})\s+)?(\S+)\s*")


_members = msgspec.json.Decoder(dict[str, Raw])


def read_manifest(document: Document) -> Iterator[Described]:
    """Yield the resource of each entry of a manifest, or why there is none."""
    try:
        members = decode_or_invalid(_members, document.text)
    except InvalidRecord as fault:
        yield Described.refuse("", fault)
        return
    shared = {name: string_of(members[name]) for name in SHARED if name in members}
    guidance = read_text(string_of(members.get("instructions", NULL)))
    bases = (string_of(members.get(name, NULL)) for name in BASES)
    base = next((each for each in bases if "://" in each), "")
    reader = _Entries(document, guidance, shared, base)
    for key in ("resources", "items", "endpoints"):
        value = members.get(key, NULL)
        entries = bytes(value)
        if entries.startswith(b"["):
            for number, entry in enumerate(split(entries)):
                yield reader.read(bytes(entry).strip(), f"{key}[{number}]")
        elif value != NULL:
            yield Described.refuse(key, InvalidRecord(f"$.{key}", "Expected `array`"))


class _Entries:
    """Reads the entries of one manifest.

    shared: facts of the payment of all entries
    base: the URL that the manifest states for its paths, or an empty string
    """

    def __init__(
        self, document: Document, guidance: str, shared: dict[str, str], base: str
    ) -> None:
        self._document, self._shared, self._base = document, shared, base
        self._texts = ServiceTexts(guidance=guidance, has_names=False) if guidance else None
        self._bounds = Bounds(MAX_ENTRIES, "entries, the most of one manifest")

    def read(self, entry: bytes, position: str) -> Described:
        """Return the resource of an entry, or why there is none."""
        url = ""
        try:
            values, fields = _decode(entry)
            path, method, given = _address(values)
            if self._base and "://" not in given:
                given = f"{self._base.rstrip('/')}/{given.lstrip('/')}"
            kind = "a manifest with `endpoints`" if path == "$.path" else "a manifest"
            url = self._document.resolve(path, given, kind)
            if "://" in url and not url.startswith("mcp:"):
                self._document.check_host(path, url)
            self._bounds.count(path)
            offer = self._read_price(values, path)
            content = _encode(_complete(values, fields, method, url))
            resource = read_resource(content, self._document.stablecoins)
            self._document.check_host(path, resource.server or url)
        except InvalidRecord as fault:
            return Described.refuse(position, fault, url)
        resource.texts = self._texts
        if offer is not None:
            resource.offers, resource.place = [offer], "$.price"
            price_resource(resource)
        return Described.accept(position, self._bounds.fit(resource, path))

    def _read_price(self, values: dict[str, Any], path: str) -> Entry | None:
        """Return the price of an entry in units of a currency, None where `accepts` has it.

        Raises LeftOut for an entry at a JSON path that has neither.
        """
        if values.get("accepts") not in (None, []):
            return None
        beside = {name: each for name, each in values.items() if name not in OF_PRICES}
        price = mapping(values, "price") or mapping(values, "payment")
        if isinstance(values.get("payment"), (str, int)):
            beside.setdefault("price", values["payment"])
        places = price_places(price, beside, self._shared)
        stated = [name for _, name, _ in places.stated("amount", "price", "least", "most")]
        if not stated:
            raise LeftOut(BARE, path, REASON)
        return read_entry(
            places,
            "$.price" if price else "$",
            self._document.stablecoins,
            stated_by=Kind.MANIFEST,
            in_units=True,
        )


def _decode(entry: bytes) -> tuple[dict[str, Any], dict[str, Raw]]:
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


def _complete(
    values: dict[str, Any], fields: dict[str, Raw], method: str, url: str
) -> dict[str, Raw]:
    """Return the members of a resource: those of an entry, at an absolute URL."""
    completed = {name: value for name, value in fields.items() if name not in REPLACED}
    stated: dict[str, Any] = {"url": url}
    if isinstance(values.get("resource"), dict):
        stated = raw_members(fields["resource"]) | stated
    route = mapping(values, "input").get(ROUTE)
    added = {"resource": stated, "method": method, ROUTE: values.get(ROUTE, route)}
    return completed | {name: Raw(_encode(value)) for name, value in added.items() if value}
