"""Operations: Structs whose fields are the parameters of a query string.

The JSON schema of a type says which texts are accepted. In addition, integers over a maximum mean
the maximum.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, reduce
from typing import Annotated, Any, ClassVar, TypeVar
from urllib.parse import parse_qs, urlencode

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from service.conditions import about, conditions_of, fold_name
from service.errors import InvalidParameter
from service.prices import format_decimal
from service.schema.values import Json, NonEmpty

MAX_LIMIT = 200
MAX_QUERY = 2000
MAX_SHOWN_NAME = 100  # characters
MAX_INTEGER = 2**63 - 1
MAX_VALUES = 100
"""Distinct values of a parameter that may repeat: each is looked up, and shown on a page."""
DEFAULT_LIMIT = 24
NOT_BLANK = r"[^\s\x1c-\x1f\x85]|\ufeff"  # Python and ECMA 262 disagree about white space
GRAMMAR = {"integer": r"\A[0-9]+\Z", "boolean": r"\A(true|false)\Z"}
"""Texts of types that msgspec reads from others as well, such as `1e3` and `null`."""
JOINED = ("facets",)
"""Parameters whose values are one text with commas."""
UPPER_CASE = ("integrationType",)
"""Parameters whose values are compared in upper case."""
LEADING = ("q", "query", "limit", "offset")
"""Parameters that come before others in documents."""

QUERY = "The words to search for, without operators. The first 64 distinct terms count."


def limit_up_to(maximum: int) -> Meta:
    """Return the metadata of the number of results on a page."""
    text = f"Maximum number of results; over {maximum:,} means {maximum:,}."
    return Meta(ge=1, le=maximum, description=text)


Limit = Annotated[int, limit_up_to(MAX_LIMIT)]
LongLimit = Annotated[int, limit_up_to(1000)]
Offset = Annotated[
    int, Meta(ge=0, description="Number of results to skip; past the end the page is empty.")
]
Cursor = Annotated[
    NonEmpty, about("The `cursor` of the last response, which continues the same list.")
]
Query = Annotated[
    str, Meta(min_length=1, max_length=MAX_QUERY, pattern=NOT_BLANK, description=QUERY)
]
OptionalQuery = Annotated[
    str,
    Meta(max_length=MAX_QUERY, description=f"{QUERY} Required unless there is a filter."),
]


class Operation(Struct, frozen=True, kw_only=True, rename="camel"):
    """The parameters of one operation. Base class."""

    FIXED: ClassVar[frozenset[str]] = frozenset()
    """Names of fields that are no parameters: they keep their defaults."""
    BLANK_IS_NONE: ClassVar[frozenset[str]] = frozenset({"q", "query"})
    """Names of parameters that blank text leaves out."""

    @property
    def is_expensive(self) -> bool:
        """Whether the operation is refused under load."""
        return True


Pairs = list[tuple[str, str]]
"""The parameters of a canonical query string, with their values."""
T = TypeVar("T", bound=Operation)


@cache
def parameters_of(kind: type[Operation]) -> Mapping[str, Json]:
    """Return the JSON schemas of the parameters of an operation by name; null is left out."""
    _, schemas = msgspec.json.schema_components([kind])
    properties = schemas[kind.__name__]["properties"]
    names = zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
    known = [name for field, name in names if field not in kind.FIXED]
    known.sort(key=lambda name: LEADING.index(name) if name in LEADING else len(LEADING))
    return {name: _without_null(properties[name]) for name in known}


@cache
def _spellings_of(kind: type[Operation]) -> Mapping[str, str]:
    """Return the names of the parameters of an operation by their folded names."""
    return {fold_name(name): name for name in parameters_of(kind)}


def parse(kind: type[T], query_string: bytes) -> T:
    """Return the parameters of an operation; raises InvalidParameter.

    Unknown ones are ignored, but not those that differ from a known one by case, `_` or `-` alone:
    a client whose `max_price` is ignored pays more than it may.
    """
    parameters = parameters_of(kind)
    values: dict[str, Any] = {}
    text = query_string.decode("utf-8", "replace")
    for name, texts in parse_qs(text, keep_blank_values=True).items():
        if schema := parameters.get(name):
            if name not in kind.BLANK_IS_NONE or len(texts) > 1 or texts[0].strip():
                values[name] = _value(name, schema, texts)
        elif known := _spellings_of(kind).get(fold_name(name)):
            message = f"{name[:MAX_SHOWN_NAME]} is no parameter here; write {known}"
            raise InvalidParameter(name[:MAX_SHOWN_NAME], message)
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        # The message ends with the path of a value, or with the name of a missing field.
        (name,) = re.findall(r"`(?:\$\.)?(\w+)(?:\[\d+\])?`$", str(error))
        if name in values:
            raise _invalid(name, parameters[name]) from error
        meaning, _, _ = parameters[name]["description"].partition(".")
        raise InvalidParameter(name, f"{name} is required. {meaning}.") from error


def words_required(search: Operation, name: str) -> InvalidParameter:
    """Return the error of a search that has neither words nor conditions."""
    kind = type(search)
    known = parameters_of(kind)
    names = ", ".join(each.name for each in conditions_of(kind) if each.name in known)
    reason = "is required, the words to search for, unless there is one of"
    return InvalidParameter(name, f"{name} {reason}: {names}")


def format_pairs(operation: Operation) -> Pairs:
    """Return the names and texts of the values that differ from the defaults, in order."""
    values = msgspec.to_builtins(operation)
    pairs: Pairs = []
    for name, schema in parameters_of(type(operation)).items():
        match values[name]:
            case value if value == schema.get("default"):
                pass
            case list() | tuple() as texts:
                pairs += [(name, text) for text in ([",".join(texts)] if name in JOINED else texts)]
            case value:
                pairs.append((name, format_value(value)))
    return pairs


def format_value(value: str | float | bool) -> str:
    """Return a value as a query string has it."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return format_decimal(value) if isinstance(value, float) else text


def format_query(operation: Operation, **changes: Any) -> str:
    """Return the canonical query string of an operation, with other values of some fields."""
    return urlencode(format_pairs(replace(operation, **changes)))


def _value(name: str, schema: Json, texts: list[str]) -> Any:
    """Return the texts of a parameter as msgspec converts them; raises InvalidParameter."""
    is_list = schema.get("type") == "array"
    if len(texts) > 1 and (not is_list or name in JOINED):
        raise InvalidParameter(name, f"{name} was given {len(texts)} times; give it once")
    if name in JOINED:
        texts = texts[0].split(",") if texts[0] else []
    if is_list:
        values = [*dict.fromkeys(map(str.upper, texts) if name in UPPER_CASE else texts)]
        if len(values) > MAX_VALUES:
            reason = f"has {len(values):,} values; at most {MAX_VALUES} are compared"
            raise InvalidParameter(name, f"{name} {reason}")
        return values
    (text,), kind = texts, schema.get("type", "")
    grammar = GRAMMAR.get(kind) or (kind == "number" and schema["pattern"])
    if grammar and not re.search(grammar, text):
        raise _invalid(name, schema)
    if kind == "integer":
        digits = text.lstrip("0")[:20] or "0"  # more than MAX_INTEGER has
        return min(int(digits), schema.get("maximum", MAX_INTEGER))
    return float(text) if kind == "number" else text


def _invalid(name: str, schema: Json) -> InvalidParameter:
    """Return an error that says which texts a parameter accepts."""
    match schema.get("items", schema):
        case {"enum": values}:
            accepted = f"one of: {', '.join(value or 'empty' for value in values)}"
        case {"title": accepted}:
            pass
        case {"type": "integer", "minimum": least}:
            accepted = f"an integer of at least {least}"
        case {"type": "boolean"}:
            accepted = "one of: true, false"
        case {"maxLength": longest} as text:
            accepted = f"of {text.get('minLength', 0)} to {longest:,} characters"
        case _:
            accepted = "a text that is not empty"
    return InvalidParameter(name, f"{name} must be {accepted}")


def _without_null(schema: Json) -> Json:
    """Return the schema of a value that is given: to leave a parameter out is to say null."""
    options = [each for each in schema.pop("anyOf", []) if each != {"type": "null"}]
    return reduce(dict.__or__, [*options, schema])
