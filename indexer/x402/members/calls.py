"""How a discovered resource is called beside its parameters: an example, a tool, and a sign-in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import UNSET, Struct

from indexer.untrusted import items, mapping, objects, text
from indexer.x402.members.parameters import is_template
from service.schema.discovery import Requirement, ToolFacts
from service.urls import ParsedUrl, find_url

MAX_REQUIREMENTS = 20
MAX_METHODS = 10

_method = re.compile(r"[a-z0-9][a-z0-9._:-]{0,63}")


class Call(Struct, array_like=True):
    """Facts for callers of a resource.

    example_url: a URL that can be called in place of a template, or empty
    tool: the MCP tool that it is, if it is one
    requires: what a caller has to do before a payment is accepted
    """

    example_url: str = ""
    tool: ToolFacts | None = None
    requires: list[Requirement] = []


def read_call(
    values: dict[str, Any], listed: ParsedUrl | None, tool: str, server: str, entries: int
) -> Call:
    """Read how a resource with so many entries of `accepts` is called.

    listed: its URL, None where that is no address
    """
    extension = mapping(values.get("extensions"), "bazaar")
    transport = mapping(mapping(extension, "info"), "input").get("transport")
    return Call(
        example_url=_example_url(extension.get("exampleUrl"), listed),
        tool=ToolFacts(
            name=tool,
            transport="sse" if transport == "sse" else "streamable-http",
            server=server or UNSET,
        )
        if tool
        else None,
        requires=[*_requirements(values, entries)][:MAX_REQUIREMENTS],
    )


def _example_url(value: Any, listed: ParsedUrl | None) -> str:
    """Return a URL of the origin of the listed one that has no placeholder, or an empty string."""
    url = text(value)
    example = find_url(url)
    if example is None or listed is None or example.has_credentials or is_template(example.rest):
        return ""
    is_same_origin = (example.scheme, example.domain) == (listed.scheme, listed.domain)
    return url if is_same_origin and example.rest != listed.rest else ""


def _requirements(values: dict[str, Any], entries: int) -> Iterator[Requirement]:
    """Yield what is required: for all ways to pay, or for some."""
    for place in (values, values.get("resource")):
        for method in _methods(items(place, "requires", MAX_METHODS)):
            yield Requirement(methods=[method])
    info = mapping(mapping(values.get("extensions"), "auth-hints"), "info")
    for hint in objects(info, "authRequirements", MAX_REQUIREMENTS):
        types = objects(hint, "methods", MAX_METHODS)
        if methods := _methods(each.get("type") for each in types):
            is_partial = not _covers(hint.get("acceptIndexes"), entries)
            yield Requirement(methods=methods, some=True if is_partial else UNSET)


def _methods(names: Iterable[Any]) -> list[str]:
    """Return the distinct names that are names of methods."""
    valid = (each for each in names if isinstance(each, str) and _method.fullmatch(each))
    return list(dict.fromkeys(valid))


def _covers(indexes: Any, entries: int) -> bool:
    """Whether indexes name every one of so many entries; a missing list does."""
    if not isinstance(indexes, list):
        return True
    return {each for each in indexes if type(each) is int}.issuperset(range(entries))
