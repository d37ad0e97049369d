"""Conditions as keyword arguments: the parameters of HTTP, in snake case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias, TypeVar

import msgspec

from service.conditions import Conditions

FilterValue: TypeAlias = Sequence[str] | float | bool | None
"""A list of texts, a number, a flag or a word; None is no condition."""
T = TypeVar("T", bound=Conditions)


def read_conditions(kind: type[T], conditions: Mapping[str, FilterValue]) -> T:
    """Return the filters of a kind; raises TypeError or ValueError that names the condition."""
    if unknown := conditions.keys() - {*kind.__struct_fields__}:
        known = ", ".join(sorted(kind.__struct_fields__))
        raise TypeError(f"{', '.join(sorted(unknown))} is no condition; there are {known}")
    values = {name: value for name, value in conditions.items() if value is not None}
    default = kind()
    for name, value in values.items():
        takes_list = isinstance(getattr(default, name), tuple)
        if takes_list and not (
            isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
        ):
            hint = (
                f"write {name}={[value]!r}" if isinstance(value, str) else "give strings in a list"
            )
            raise TypeError(f"{name} takes a list of texts, and got {value!r}; {hint}")
    names = dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
    try:
        return msgspec.convert({names[name]: value for name, value in values.items()}, kind)
    except msgspec.ValidationError as error:
        message = str(error).replace("$.", "")
        for name, alias in names.items():
            message = message.replace(f"`{alias}`", f"`{name}`")
        raise ValueError(message) from error


def check_page(limit: int, offset: int) -> None:
    """Raise ValueError unless a page has these bounds."""
    if limit < 1 or offset < 0:
        raise ValueError(f"limit is {limit} and offset {offset}; give at least 1 and 0")
