"""Operations: Structs whose fields are the parameters of a query string.

The type of a field and its `Meta` define the values that are accepted. Keys of `Meta.extra`:

maximum: larger integers are clamped to this one
meaning: describes the pattern in errors
hint: describes a required parameter in errors
is_blank_missing: whether a blank text is the same as none
is_joined: whether a list is one text with commas
convert: a function that normalises an item of a list before it is compared with its `enum`
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, ClassVar, TypeVar, get_args, get_type_hints
from urllib.parse import parse_qs, urlencode

from msgspec import NODEFAULT, Meta, Struct, inspect
from msgspec.structs import replace

from service.errors import InvalidParameter
from service.filtering.facets import MAX_COUNTED
from service.http.cache import fold_name
from service.schema.values import NonEmpty

MAX_LIMIT = 200
MAX_FAST = 100
"""Results of a page that is answered in less than a millisecond."""
MAX_QUERY = 2000
MAX_SHOWN_NAME = 100  # characters
MAX_INTEGER = 2**63 - 1
MAX_DIGITS = len(str(MAX_INTEGER))
MAX_VALUES = 100
"""Distinct values of a parameter that may repeat: each is looked up, and shown on a page."""
DEFAULT_LIMIT = 24
NOT_BLANK = r"[^\s\x1c-\x1f\x85]|\ufeff"  # Python and ECMA 262 disagree about white space
DECIMAL = r"^[0-9]{1,100}(?:\.[0-9]{1,100})?$(?!\n)"

QUERY = "Plain text without operators. The first 64 distinct terms count."


def up_to(maximum: int) -> Meta:
    """Return the metadata of the number of results on a page."""
    text = f"Maximum number of results; over {maximum:,} means {maximum:,}."
    return Meta(ge=1, description=text, extra={"maximum": maximum})


def about(description: str) -> Meta:
    """Return the metadata of a parameter without limits of its own."""
    return Meta(description=description)


def any_of(items: str, name: str, example: str, more: str = "") -> Meta:
    """Return the metadata of a filter that allows several values."""
    return about(f"Only {items} with this {name}, such as `{example}`, or any of several.{more}")


def one_of(names: Iterable[str]) -> Meta:
    """Return the metadata of an item of a list that is one of these."""
    return Meta(extra_json_schema={"enum": [*names]})


Limit = Annotated[int, up_to(MAX_LIMIT)]
LongLimit = Annotated[int, up_to(1000)]
Offset = Annotated[
    int, Meta(ge=0, description="Number of results to skip; past the end the page is empty.")
]
Cursor = Annotated[
    NonEmpty, about("The `cursor` of the last response, which continues the same list.")
]
Values = tuple[str, ...]
NonEmptyValues = tuple[NonEmpty, ...]
PriceBound = Annotated[
    str, Meta(pattern=DECIMAL, extra={"meaning": "a decimal such as 0.05, from 0"})
]
PayerCount = Annotated[int, Meta(ge=1)]
PAYERS = "The least number of payers that count, in 30 days."
Query = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_QUERY,
        pattern=NOT_BLANK,
        description=QUERY,
        extra={"hint": "the words to search for", "is_blank_missing": True},
    ),
]
Explain = Annotated[bool, about("Whether to add the parts of the score of each result of a query.")]
FACETS = Meta(
    description=f"Facets to count over all matches: the {MAX_COUNTED} most frequent of each.",
    extra={"is_joined": True},
)


class Operation(Struct, frozen=True, kw_only=True, rename="camel"):
    """The parameters of one operation. Base class."""

    FIXED: ClassVar[frozenset[str]] = frozenset()
    """Names of fields that are no parameters: they keep their defaults."""
    NAMES_UNKNOWN: ClassVar[bool] = False
    """Whether responses name the parameters that are not known."""

    @property
    def is_expensive(self) -> bool:
        """Whether the operation is refused under load."""
        return True

    @property
    def is_slow(self) -> bool:
        """Whether the response takes milliseconds: requests for such ones take turns."""
        return getattr(self, "limit", 0) > MAX_FAST


Pairs = list[tuple[str, str]]
"""The parameters of a canonical query string, with their values."""
T = TypeVar("T", bound=Operation)


class Parameter(Struct, frozen=True):
    """A parameter: its name, and the field of an operation that has its value.

    item: the type of the value, or of each value of a list
    choices: the texts of all values, where they are few
    convert: normalises a text of a list
    """

    name: str
    field: str
    type: inspect.Type
    extra: dict[str, Any]
    default: Any
    item: inspect.Type
    choices: Sequence[str] = ()
    convert: Callable[[str], str] = str

    def parse(self, texts: Sequence[str]) -> Any:
        """Return the value of a parameter that was given; raises InvalidParameter."""
        is_list = isinstance(self.type, inspect.VarTupleType)
        is_joined = "is_joined" in self.extra
        if len(texts) > 1 and (is_joined or not is_list):
            raise self.invalid(f"was given {len(texts)} times; give it once")
        if not is_list:
            is_missing = "is_blank_missing" in self.extra and not texts[0].strip()
            return self.default if is_missing else self._value(texts[0])
        if is_joined:
            texts = texts[0].split(",") if texts[0] else []
        values = dict.fromkeys(map(self.convert, texts))
        if len(values) > MAX_VALUES:
            raise self.invalid(f"has {len(values):,} values; at most {MAX_VALUES} are compared")
        return tuple(map(self._value, values))

    def format(self, value: Any) -> list[str]:
        """Return the texts of a value, none of the default."""
        if value == self.default:
            return []
        if isinstance(value, tuple):
            return [",".join(value)] if self.extra.get("is_joined") else list(value)
        return [str(value).lower() if isinstance(value, bool) else str(value)]

    def invalid(self, reason: str) -> InvalidParameter:
        """Return an error that begins with the name."""
        return InvalidParameter(self.name, f"{self.name} {reason}")

    def _value(self, text: str) -> Any:
        if self.choices and text not in self.choices:
            choices = ", ".join(choice or "empty" for choice in self.choices)
            raise self.invalid(f"must be one of: {choices}")
        match self.item:
            case inspect.IntType(ge=minimum):
                return self._integer(text, minimum or 0)
            case inspect.BoolType():
                return text == "true"
            case inspect.StrType() as limits:
                shortest, longest = limits.min_length or 0, limits.max_length or len(text)
                if shortest and not text:
                    raise self.invalid("is empty; give a value, or leave it out")
                if shortest > 1 and not shortest <= len(text) <= longest:
                    raise self.invalid(f"must have {shortest} to {longest} characters")
                if len(text) > longest:
                    raise self.invalid(
                        f"has {len(text)} characters; at most {longest} are searched"
                    )
                if limits.pattern and not re.search(limits.pattern, text):
                    raise self.invalid(f"must be {self.extra['meaning']}")
        return text

    def _integer(self, text: str, minimum: int) -> int:
        """Return a plain decimal integer in ASCII digits, clamped to the maximum."""
        if text.isascii() and text.isdigit():
            digits = text.lstrip("0") or "0"
            value = int(digits) if len(digits) <= MAX_DIGITS else MAX_INTEGER
            if value >= minimum:
                maximum: int = self.extra.get("maximum", MAX_INTEGER)
                return min(value, maximum)
        raise self.invalid(f"must be an integer of at least {minimum}")


@cache
def parameters_of(kind: type[Operation]) -> Mapping[str, Parameter]:
    """Return the parameters of an operation by name."""
    types = get_type_hints(kind)
    fields = inspect.type_info(kind).fields  # type: ignore[attr-defined]
    return {
        field.encode_name: _parameter_of(field, types[field.name])
        for field in fields
        if field.name not in kind.FIXED
    }


@cache
def _spellings_of(kind: type[Operation]) -> Mapping[str, str]:
    """Return the names of the parameters of an operation by their folded names."""
    return {fold_name(name): name for name in parameters_of(kind)}


def _parameter_of(field: inspect.Field, hint: Any) -> Parameter:
    """Return the parameter of a field; `hint` has the values of a literal in their order."""
    kind, extra, _ = _unwrap(field.type)
    if isinstance(kind, inspect.LiteralType):
        kind = inspect.LiteralType(get_args(hint))
    item, own, schema = _unwrap(kind.item_type if isinstance(kind, inspect.VarTupleType) else kind)
    match item:
        case inspect.BoolType():
            choices = ["true", "false"]
        case inspect.LiteralType(values=values):
            choices = [*map(str, values)]
        case inspect.IntType() | inspect.StrType():
            choices = schema.get("enum", [])
        case _:
            raise TypeError(f"{field.name} has a type that no query string has: {item}")
    name, default = field.encode_name, field.default
    return Parameter(name, field.name, kind, extra, default, item, choices, own.get("convert", str))


def parse(kind: type[T], query_string: bytes) -> T:
    """Return the parameters of an operation; raises InvalidParameter.

    Unknown ones are ignored, but not those that differ from a known one by case, `_` or `-` alone:
    a client whose `max_price` is ignored pays more than it may.
    """
    parameters = parameters_of(kind)
    values: dict[str, Any] = {}
    for name, texts in read(query_string).items():
        if parameter := parameters.get(name):
            values[parameter.field] = parameter.parse(texts)
        elif known := _spellings_of(kind).get(fold_name(name)):
            message = f"{name[:MAX_SHOWN_NAME]} is no parameter here; write {known}"
            raise InvalidParameter(name[:MAX_SHOWN_NAME], message)
    for parameter in parameters.values():
        if parameter.default is NODEFAULT and values.get(parameter.field, NODEFAULT) is NODEFAULT:
            raise parameter.invalid(f"is required: {parameter.extra['hint']}")
    return kind(**values)


def read(query_string: bytes) -> dict[str, list[str]]:
    """Return the texts of a query string by name."""
    return parse_qs(query_string.decode("utf-8", "replace"), keep_blank_values=True)


def format_pairs(operation: Operation) -> Pairs:
    """Return the names and texts of the values that differ from the defaults, in order."""
    return [
        (name, text)
        for name, parameter in parameters_of(type(operation)).items()
        for text in parameter.format(getattr(operation, parameter.field))
    ]


def format_query(operation: Operation, **changes: Any) -> str:
    """Return the canonical query string of an operation, with other values of some fields."""
    return urlencode(format_pairs(replace(operation, **changes)))


def selected(names: Iterable[str], values: Iterable[Values]) -> dict[str, list[str]]:
    """Return the values of the filters that have any, by name."""
    return {name: [*each] for name, each in zip(names, values, strict=True) if each}


def _unwrap(kind: inspect.Type) -> tuple[inspect.Type, dict[str, Any], dict[str, Any]]:
    """Return a type without `Meta` and None, with the merged `extra` and JSON schema."""
    extra: dict[str, Any] = {}
    schema: dict[str, Any] = {}
    while isinstance(kind, inspect.Metadata | inspect.UnionType):
        if isinstance(kind, inspect.Metadata):
            extra, schema = extra | (kind.extra or {}), schema | (kind.extra_json_schema or {})
            kind = kind.type
        else:
            (kind,) = (each for each in kind.types if not isinstance(each, inspect.NoneType))
    return kind, extra, schema
