"""Arguments of the tools: typed, with the limits that the definitions state."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import fields

from service.api.query_string import MAX_QUERY
from service.errors import InvalidParameter

T = TypeVar("T", bound=Struct)

MAX_ROWS = 20
MAX_TEXT = 200

QueryArgument = Annotated[str, Meta(min_length=1, max_length=MAX_QUERY, pattern=r"\S")]
Term = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT)]
PriceArgument = Annotated[float, Meta(ge=0, le=1e9)]
LimitArgument = Annotated[int, Meta(ge=1, le=MAX_ROWS)]
CursorArgument = Annotated[str, Meta(max_length=MAX_TEXT, description="of the last page")]
Reference = Annotated[str, Meta(min_length=1, max_length=2048)]


class EndpointSearch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `search_endpoints`."""

    query: Annotated[QueryArgument, Meta(description="what it should do, in plain words")]
    max_price_usd: Annotated[PriceArgument, Meta(description="for one request")] | None = None
    network: Annotated[Term, Meta(description="to pay on: Base, eip155:8453")] | None = None
    scheme: Annotated[Term, Meta(description="exact or upto")] | None = None
    category: Annotated[Term, Meta(description="from `catalogue`")] | None = None
    method: Annotated[Term, Meta(description="HTTP method")] | None = None
    registration: Annotated[bool, Meta(description="false: no sign-in")] | None = None
    limit: Annotated[LimitArgument, Meta(description="rows")] = 5
    cursor: CursorArgument | None = None


class ServiceSearch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `search_services`."""

    query: (
        Annotated[QueryArgument, Meta(description="plain words; without it, the best known")] | None
    ) = None
    category: Annotated[Term, Meta(description="from `catalogue`")] | None = None
    limit: Annotated[LimitArgument, Meta(description="rows")] = 5
    cursor: CursorArgument | None = None


class Get(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `get`."""

    id: Annotated[Reference, Meta(description="service or endpoint id, or endpoint URL")]
    detail: Annotated[
        Literal["brief", "full"], Meta(description="full: the stored record, often long")
    ] = "brief"
    cursor: CursorArgument | None = None


class HowToCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `how_to_call`."""

    endpoint: Annotated[Reference, Meta(description="id, or URL (method optional)")]
    values: Annotated[dict[str, Any], Meta(description="parameter values, by name")] = {}
    network: Annotated[Term, Meta(description="to pay on")] | None = None


class FindAndCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of the prompt `find_and_call`."""

    task: str = ""
    budget_usd: str = "0.01"


class ReadCatalogue(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `catalogue`: none."""


def decode_arguments(raw: dict[str, Any], kind: type[T]) -> T:
    """Decode arguments; numbers may be texts. Raises InvalidParameter.

    Models fill in every argument: null is missing, and of optional arguments a blank text, too, and
    a `limit` of 0.
    """
    defaults = {each.name for each in fields(kind) if not each.required}
    try:
        known = {
            name: value
            for name, value in raw.items()
            if value is not None and not (name in defaults and _is_blank(name, value))
        }
        json.dumps(known, ensure_ascii=False, allow_nan=False).encode()
        return msgspec.convert(known, kind, strict=False)
    except UnicodeEncodeError as error:  # The SDK's stateless era decodes lone surrogates.
        message = "an argument has half of a surrogate pair, which is no character; remove it"
        raise InvalidParameter("arguments", message) from error
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$.")
        name = path.rstrip("`")
        raise InvalidParameter(name, f"{name}: {reason}" if name else reason) from error
    except (ValueError, RecursionError) as error:
        message = "an argument is not a finite number, or nested too deep; change it"
        raise InvalidParameter("arguments", message) from error


def _is_blank(name: str, value: Any) -> bool:
    return (isinstance(value, str) and not value.strip()) or (name == "limit" and value in (0, "0"))
