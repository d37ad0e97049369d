"""Advice: the faults of a resource that its seller can mend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET

from indexer.text import is_own_text
from indexer.untrusted import mapping
from indexer.x402.members.parameters import DeclaredInput, path_parameters
from indexer.x402.members.prices import are_of_version_1
from service.schema.listings import Advice


def advise(
    values: dict[str, Any],
    entries: Sequence[dict[str, Any]],
    url: str,
    declared: DeclaredInput,
    description: str,
) -> Advice:
    """Return the faults of a decoded resource.

    entries: those of `accepts`
    url: as it is given, without a route template
    """
    extensions = mapping(values, "extensions")
    extension = mapping(extensions, "bazaar")
    schemas = [entry.get("outputSchema") for entry in entries]
    has_input = bool(mapping(mapping(extension, "info"), "input"))
    is_wrapped = "bazaar" in extension or "bazaar" in mapping(extensions, "extensions")
    faults = {
        Advice.NO_INPUT: not has_input and not any(mapping(each, "input") for each in schemas),
        Advice.NO_EXAMPLE: _lacks_example(url, declared),
        Advice.DOUBLE_WRAPPED: is_wrapped,
        Advice.EXTERNAL_REF: _refers_outside([extension, *schemas]),
        Advice.WRONG_VERSION: _mixes_versions(values, entries),
        Advice.NO_TEXT: not is_own_text(description, url),
    }
    return Advice(sum(advice for advice, is_met in faults.items() if is_met))


def _lacks_example(url: str, declared: DeclaredInput) -> bool:
    """Whether a URL has placeholders, and no example of one of them."""
    names = {*path_parameters(url)}
    described = {
        each.name
        for each in declared.parameters
        if each.group == "path" and not (each.example is UNSET and each.default is UNSET)
    }
    return bool(names - described)


def _refers_outside(value: Any) -> bool:
    """Whether a schema somewhere in a value refers to another document."""
    if isinstance(value, list):
        return any(map(_refers_outside, value))
    if not isinstance(value, dict):
        return False
    reference = value.get("$ref")
    is_outside = isinstance(reference, str) and not reference.startswith("#")
    return is_outside or any(map(_refers_outside, value.values()))


def _mixes_versions(values: dict[str, Any], entries: Sequence[dict[str, Any]]) -> bool:
    """Whether the version or the schema of a resource is not that of its entries.

    Schemas of both versions may stand beside each other.
    """
    if not entries:
        return False
    has_schema = any("outputSchema" in each for each in entries)
    has_extension = "bazaar" in mapping(values, "extensions")
    stated = values.get("x402Version")
    if are_of_version_1(entries):
        return stated == 2 or (has_extension and not has_schema)
    is_second = all("amount" in each and "maxAmountRequired" not in each for each in entries)
    return is_second and (stated == 1 or (has_schema and not has_extension))
