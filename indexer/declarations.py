"""Declarations of options: annotated fields, from which flags, keys of files and texts derive.

The type of a field carries the rule, the title of its type the words for an error, and the
description of the field those for help and documents.
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, Meta, Struct
from msgspec.structs import fields

DURATIONS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 24 * 3600}
SIZES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}

Count = Annotated[int, Meta(ge=1, title="a whole number from 1")]
Number = Annotated[int, Meta(ge=0, title="a whole number from 0")]
Duration = Meta(ge=0, title="a duration such as 90s, 15m, 1h or 7d", extra={"units": DURATIONS})
Seconds = Annotated[int, Duration]
Size = Annotated[int, Meta(ge=1, title="a size such as 512M or 2G", extra={"units": SIZES})]
Share = Annotated[Fraction, Meta(title="a percentage such as 1%")]
Amount = Annotated[Decimal, Meta(title="an amount such as 100")]
Texts = Annotated[dict[str, str], Meta(title="a table of texts")]

_quantity = re.compile(r"([0-9]{1,12})([A-Za-z]{0,3})")


class Flag(Struct, frozen=True):
    """The option of the command line that sets a field: its placeholder, and its name.

    Without a name, the option has the name of the field.
    """

    metavar: str = ""
    name: str = ""


class Declaration(Struct, frozen=True):
    """An option, as a field declares it.

    key: the name of the field, and of the key in a file
    type: as annotated, without None
    kind: the type without annotations and parameters
    items: the parameters of the type
    expected: the form of a value, for errors
    flag: the option of the command line, empty for a key of files alone
    """

    key: str
    type: Any
    kind: Any
    items: tuple[Any, ...]
    default: Any
    expected: str
    description: str
    flag: str
    metavar: str
    units: dict[str, int]

    @property
    def written_default(self) -> str:
        """The default as a person writes it, empty where there is none."""
        if not self.default or self.default is NODEFAULT or self.kind is bool:
            return ""
        if self.kind is Fraction:
            return f"{float(self.default) * 100:g}%"
        for unit, size in reversed(self.units.items()):
            if not self.default % size:
                return f"{int(self.default) // size}{unit}"
        return str(self.default)

    def convert(self, value: object, *, strict: bool = True) -> Any:
        """Convert a value of a file or, unless `strict`, of the command line.

        Raises ValueError, which does not quote the value: it may be a secret.
        """
        try:
            if self.units and isinstance(value, str):
                value = _read_quantity(value, self.units)
            converted = msgspec.convert(value, self.type, strict=strict, dec_hook=_read_other)
            _check_amount(converted)
        except (ValueError, LookupError, ArithmeticError) as error:
            reason = self.expected or str(error).removeprefix("Expected ")
            raise ValueError(f"expected {reason}") from error
        return converted


@cache
def declarations(options: type[Struct]) -> dict[str, Declaration]:
    """Return the declarations of all fields of a type of options, by key."""
    hints = get_type_hints(options, include_extras=True)
    return {
        field.name: _declare(
            field.name,
            hints[field.name],
            field.default if field.default_factory is NODEFAULT else field.default_factory(),
        )
        for field in fields(options)
    }


def _declare(key: str, hint: Any, default: object) -> Declaration:
    flag, metas, kind = None, [], hint
    while get_origin(kind) in {Annotated, Union, UnionType}:
        if get_origin(kind) is Annotated:
            metas += [each for each in kind.__metadata__ if isinstance(each, Meta)]
            flag = next((each for each in kind.__metadata__ if isinstance(each, Flag)), flag)
        else:
            hint = get_args(kind)[0]
        kind = get_args(kind)[0]
    return Declaration(
        key=key,
        type=hint,
        kind=get_origin(kind) or kind,
        items=get_args(kind),
        default=default,
        expected=next((meta.title for meta in metas if meta.title), ""),
        description=next((meta.description for meta in metas if meta.description), ""),
        flag="" if flag is None else flag.name or f"--{key.replace('_', '-')}",
        metavar="" if flag is None else flag.metavar,
        units=next((meta.extra["units"] for meta in metas if meta.extra), {}),
    )


def _check_amount(value: object) -> None:
    """Raise ValueError or ArithmeticError for a decimal number that is no amount."""
    if isinstance(value, Decimal) and not 0 <= value < Decimal("Infinity"):
        raise ValueError


def _read_quantity(text: str, units: dict[str, int]) -> int:
    match = _quantity.fullmatch(text)
    if match is None:
        raise ValueError
    if units is SIZES:
        return int(match[1]) * units[match[2].upper().removesuffix("B").removesuffix("I")]
    return int(match[1]) * units[match[2]]


def _read_other(kind: Any, value: object) -> object:
    """Return a value of a type that msgspec does not know, from its text."""
    if not isinstance(value, str):
        raise ValueError  # noqa: TRY004  # of which msgspec makes its own error
    if kind is Fraction:
        share = Fraction(value.removesuffix("%")) / 100
        if not value.endswith("%") or not 0 <= share <= 1:
            raise ValueError
        return share
    return Path(value)
