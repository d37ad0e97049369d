"""Documents that describe services in other formats, recognised by their members."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from indexer.options import Kind


class Format(Struct, frozen=True):
    """A format of documents.

    name: with its article, for messages
    keys: members of the object, all of which a document has
    kind: the kind of source that gives such documents, None where they are not read
    advice: for a format that is not read
    """

    name: str
    keys: frozenset[str]
    kind: Kind | None = None
    advice: str = "name a list of services or resources instead"


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
)
KEYS = tuple(dict.fromkeys(key for each in FORMATS for key in sorted(each.keys)))
"""Members that tell a format, beside those of envelopes and records."""


def recognise(members: Collection[str]) -> Format | None:
    """Return the format of an object with these members, None for a list or a record."""
    return next((each for each in FORMATS if each.keys.issubset(members)), None)


def describe_kind(kind: Kind) -> str:
    """Return the name of the documents of a kind of sources, with its article."""
    return next((each.name for each in FORMATS if each.kind is kind), f"a list of {kind}")
