"""Resources as the readers of documents write them: the form of x402 feeds, without `accepts`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from indexer.intake.records import DESCRIBED
from indexer.resources.x402 import MAX_NAME, MAX_TAGS
from indexer.untrusted import items, line, text
from indexer.x402.described import DescribedResource

Schema = dict[str, Any]
MAX_TEXT = 5_000  # characters
GROUPS = {"path": "pathParams", "query": "queryParams", "body": "body"}
"""The members of a declared input, by the groups of parameters."""

_encode = msgspec.json.Encoder(decimal_format="number").encode


def encode_resource(
    url: str,
    method: str,
    *,
    service_name: str = "",
    category: str = "",
    icon_url: str = "",
    description: str = "",
    updated: str = "",
    tags: Sequence[str] = (),
    parameters: Mapping[str, Schema] = MappingProxyType({}),
    described: DescribedResource | None = None,
) -> bytes:
    """Return the JSON of the resource of an operation, without what its document does not state.

    url: absolute; `{name}` is a placeholder
    parameters: a JSON Schema of an object by the name of the group: path, query or body
    described: None for an operation that is not listed
    """
    schemas = {GROUPS[group]: schema for group, schema in parameters.items()}
    fields = {
        DESCRIBED: described,
        "resource": url,
        "type": "http",
        "description": description,
        "serviceName": service_name,
        "category": category,
        "iconUrl": icon_url,
        "lastUpdated": updated,
        "tags": tags,
        "extensions": {"bazaar": declare_input({"method": method}, schemas)},
    }
    return _encode({name: value for name, value in fields.items() if value})


def read_text(value: Any) -> str:
    """Return a text of a document, without blanks at its ends and cut at MAX_TEXT."""
    return text(value).strip()[:MAX_TEXT]


def read_names(values: dict[str, Any], key: str) -> list[str]:
    """Return the distinct names in the list under a key, of MAX_TAGS at most."""
    names = (line(each, MAX_NAME) for each in items(values, key, MAX_TAGS))
    return list(dict.fromkeys(filter(None, names)))


def declare_input(declared: Schema, schemas: Schema) -> Schema:
    """Return an extension that declares an input, with JSON Schemas by their members."""
    properties = {"input": {"type": "object", "properties": schemas}}
    return {
        "info": {"input": {"type": "http"} | declared},
        "schema": {"type": "object", "properties": properties},
    }
