"""Conditions as keyword arguments: the parameters of HTTP, in snake case."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from service.filtering.endpoint_filters import EndpointFilters
from service.filtering.facets import (
    ENDPOINT_FACETS,
    ENDPOINT_KEYS,
    OFFER_KEYS,
    SERVICE_FACETS,
    SERVICE_KEYS,
)
from service.filtering.filters import Filters

FilterValue: TypeAlias = Sequence[str] | float | bool | None
"""A list of texts, a number, a flag or a word; None is no condition."""
T = TypeVar("T", bound=Struct)

NAMES = {"counted": "facets", "services": "service", "match_all": "match"}
"""The names of conditions, by fields of filters that are called otherwise."""


def service_filters(conditions: Mapping[str, FilterValue]) -> Filters:
    """Return the filters of services; raises TypeError or ValueError."""
    return _read(Filters, {"facets": SERVICE_KEYS}, SERVICE_FACETS, conditions)


def endpoint_filters(conditions: Mapping[str, FilterValue]) -> EndpointFilters:
    """Return the filters of endpoints; raises TypeError or ValueError."""
    groups = {"offers": OFFER_KEYS, "facets": ENDPOINT_KEYS}
    return _read(EndpointFilters, groups, ENDPOINT_FACETS, conditions)


def check_page(limit: int, offset: int) -> None:
    """Raise ValueError unless a page has these bounds."""
    if limit < 1 or offset < 0:
        raise ValueError(f"limit is {limit} and offset {offset}; give at least 1 and 0")


def _read(
    kind: type[T],
    groups: Mapping[str, Collection[str]],
    facets: Collection[str],
    conditions: Mapping[str, FilterValue],
) -> T:
    """Return filters of a kind.

    groups: the names of the values that stand in a dictionary, by its field
    facets: the names of the facets that can be counted
    """
    grouped = {_snake(name): (group, name) for group, names in groups.items() for name in names}
    fields = {NAMES.get(each, each): each for each in kind.__struct_fields__ if each not in groups}
    if unknown := conditions.keys() - grouped.keys() - fields.keys():
        known = ", ".join(sorted({*grouped, *fields}))
        raise TypeError(f"{', '.join(sorted(unknown))} is no condition; there are {known}")
    members: dict[str, Any] = {}
    for name, value in conditions.items():
        if value is None:
            continue
        if name not in grouped:
            members[fields[name]] = _value(name, value, facets)
        elif texts := _texts(name, value):
            group, key = grouped[name]
            members.setdefault(group, {})[key] = texts
    try:
        return msgspec.convert(members, kind)
    except msgspec.ValidationError as error:
        raise ValueError(str(error).replace("$.", "")) from error


def _value(name: str, value: FilterValue, facets: Collection[str]) -> FilterValue:
    """Return the value of a field."""
    if name == "match":
        return _one_of(name, value, ("any", "all")) == "all"
    if name == "facets":
        return [_one_of(name, each, facets) for each in _texts(name, value)]
    return _texts(name, value) if name == "service" else value


def _one_of(name: str, value: FilterValue, choices: Collection[str]) -> str:
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} has {value!r}, which is none of {', '.join(choices)}")
    return value


def _texts(name: str, value: FilterValue) -> list[str]:
    if isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
        return [*value]
    hint = f"write {name}={[value]!r}" if isinstance(value, str) else "give strings in a list"
    raise TypeError(f"{name} takes a list of texts, and got {value!r}; {hint}")


def _snake(name: str) -> str:
    """Return the name of a parameter in snake case."""
    return "".join(f"_{each.lower()}" if each.isupper() else each for each in name)
