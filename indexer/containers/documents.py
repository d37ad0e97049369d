"""Documents that describe services in other formats, recognised by their members."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from indexer.containers.directories import first_items, is_directory
from indexer.options import Kind

Members = Mapping[str, Raw]
LAST_UPDATED = "lastUpdated"


class Format(Struct, frozen=True):
    """A format of documents.

    name: with its article, for messages
    keys: members of the object, all of which a document has
    kind: the kind of source that gives such documents, None where they are not read
    advice: for a format that is not read
    fits: whether an object with these members is no envelope, None where no envelope has them
    """

    name: str
    keys: frozenset[str]
    kind: Kind | None = None
    advice: str = "name a list of services or resources instead"
    fits: Callable[[Members], bool] | None = None


class _ManifestEntry(Struct):
    """The members that tell an entry of a manifest from one of a feed."""

    url: Raw | UnsetType = UNSET
    resource: Raw | UnsetType = UNSET
    endpoints: Raw | UnsetType = UNSET


_entry = msgspec.json.Decoder(_ManifestEntry)


def _lists_addresses(members: Members) -> bool:
    """Whether `resources` begins with a URL, or with an object that has one as `url`."""
    element = _first_of(members["resources"])
    if element.startswith(b'"'):
        return True
    entry = _entry_of(element)
    return entry.url is not UNSET and entry.resource is UNSET and entry.endpoints is UNSET


def _lists_described(members: Members) -> bool:
    """Whether `items` begins with an object `resource`, and nothing states a pagination."""
    if members.keys() != {"items", LAST_UPDATED}:
        return False
    resource = _entry_of(_first_of(members["items"])).resource
    return resource is not UNSET and bytes(resource).startswith(b"{")


def _first_of(value: Raw) -> bytes:
    """Return the first element of a list, empty where there is none."""
    return bytes(next(first_items(value), b""))


def _entry_of(element: bytes) -> _ManifestEntry:
    return _entry.decode(element) if element.startswith(b"{") else _ManifestEntry()


FORMATS = (
    Format("an OpenAPI document", frozenset(("openapi", "paths")), Kind.OPENAPI),
    Format(
        "an OpenAPI document without `paths`",
        frozenset(("openapi",)),
        advice="name one that has the operations of a service",
    ),
    Format("a Swagger 2.0 document", frozenset(("swagger",)), advice="convert it to OpenAPI 3"),
    Format("an AsyncAPI document", frozenset(("asyncapi",))),
    Format("an OpenRPC document", frozenset(("openrpc",))),
    Format("a linkset", frozenset(("linkset",)), advice="name the documents that it links to"),
    Format("an MPP directory", frozenset(("services",)), Kind.MPP, fits=is_directory),
    Format("a manifest", frozenset(("resources",)), Kind.MANIFEST, fits=_lists_addresses),
    Format("a manifest", frozenset(("items",)), Kind.MANIFEST, fits=_lists_described),
)
KEYS = tuple(
    dict.fromkeys(key for each in FORMATS if each.fits is None for key in sorted(each.keys))
)
"""Members that tell a format, beside those of envelopes and records."""
OTHER_KEYS = (LAST_UPDATED,)
"""Members that tell a format by what stands beside them alone."""


def recognise(members: Members, kind: Kind | None = None) -> Format | None:
    """Return the format of an object with these members, None for a list or a record.

    kind: the declared kind, which decides where the members leave it open
    """
    for each in FORMATS:
        is_declared = kind is not None and each.kind is kind
        has_keys = each.keys.issubset(members)
        if has_keys and (each.fits is None or is_declared or each.fits(members)):
            return each
    return None


def describe_kind(kind: Kind) -> str:
    """Return the name of the documents of a kind of sources, with its article."""
    return next((each.name for each in FORMATS if each.kind is kind), f"a list of {kind}")
