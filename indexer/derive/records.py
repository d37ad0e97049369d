"""The parts of a stored record that columns are made of, and its searched texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain, product, repeat
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec
from msgspec import Raw, Struct, defstruct

from indexer.resources.names import host_labels
from indexer.resources.parameters import path_parameters, read_output
from indexer.text import is_own_text
from indexer.untrusted import string_of
from service.conditions import (
    Column,
    EndpointConditions,
    ServiceConditions,
    folded,
    text_columns,
)
from service.prices import CEILINGS, is_of_unit
from service.schema.listings import Advice
from service.schema.profiles import Profile, searched_text
from service.schema.values import NULL

SERVICE_FIELDS = ("name", "description", "category", "host", "profile")
ENDPOINT_FIELDS = (
    "title",
    "description",
    "parameters",
    "tags",
    "parameter_descriptions",
    "output",
    "profile",
)
MAX_DESCRIBED = 64
"""Parameters of an endpoint whose descriptions are searched."""
MAX_PARAMETER_DESCRIPTION = 300  # characters that are searched
MAX_SHARED = 5_000
"""Characters of each text of a service with endpoints that are searched: the index repeats its
terms for each of them."""


class Annotations(Struct, frozen=True, array_like=True):
    """The facts of a service and its endpoints that are not in its record.

    outputs: names of the output fields of each endpoint, in the order of the record
    profile: of the service
    endpoint_profiles: of endpoints, by their number in the record
    implausible: numbers of the endpoints whose prices are not believed
    """

    outputs: list[str] = []
    profile: Profile | None = None
    endpoint_profiles: dict[int, Profile] = {}
    implausible: list[int] = []

    def encode(self) -> bytes:
        """Return JSON for `decode_annotations`, empty without annotations."""
        return b"" if self == NO_ANNOTATIONS else msgspec.json.encode(self)


NO_ANNOTATIONS = Annotations()
_annotations = msgspec.json.Decoder(Annotations)


def decode_annotations(text: bytes) -> Annotations:
    """Return the annotations of a service."""
    return _annotations.decode(text) if text else NO_ANNOTATIONS


class Contents(NamedTuple):
    """The texts of a service, by SERVICE_FIELDS, and of each endpoint, by ENDPOINT_FIELDS."""

    service: tuple[str, ...]
    endpoints: Sequence[tuple[str, ...]]


class IndexedPrice(Struct, rename="camel", gc=False):
    """The price of an endpoint; amounts are empty where there are none for a request."""

    amount: str
    currency: str
    network: str = ""
    scheme: str = ""
    min_amount: str = ""
    max_amount: str = ""
    unit_type: Any = ""

    def __post_init__(self) -> None:
        if is_of_unit(self.unit_type):
            self.amount = self.min_amount = self.max_amount = ""

    @property
    def compared(self) -> str:
        """The amount that filters of endpoints compare: the most that a request may cost.

        The ceiling of CEILINGS, else the fixed amount or the upper bound, else the lower
        bound; empty where none is given.
        """
        if not self.max_amount:
            return self.amount or self.min_amount
        is_ceiling = not self.amount or folded(self.scheme) in CEILINGS
        return self.max_amount if is_ceiling else self.amount

    def without_amounts(self) -> IndexedPrice:
        """Return the network and the scheme alone."""
        return IndexedPrice("", "", self.network, self.scheme)


MAX_PAYERS = 2**63 - 1
DEPRECATED = "deprecated"
"""The `status` of a service whose seller advises against it."""


class Quality(Struct, rename="camel", gc=False):
    """The part of the use of an endpoint that orders endpoints."""

    l30_days_unique_payers: str = "0"


class IndexedParameter(Struct, gc=False):
    """The part of a parameter that is searched, and the values that it can have."""

    name: str
    description: str = ""
    group: str = ""
    example: Raw = NULL
    default: Raw = NULL

    @property
    def has_value(self) -> bool:
        """Whether it is a part of the path with a value to call it by."""
        return self.group == "path" and not (_is_null(self.example) and _is_null(self.default))


class IndexedEndpoint(Struct, rename="camel", gc=False):
    """The part of an endpoint that is searched, filtered and ordered by.

    service, match, ratecard: members that responses add, in place of its own ones
    """

    url: str
    method: str
    pricing: IndexedPrice
    quality: Quality | None = None
    description: str = ""
    parameters: list[IndexedParameter] = []
    tags: list[str] = []
    provider_name: str = ""
    tool: Raw = NULL
    output_schema: Raw = NULL
    response_schema: Raw = NULL
    pay_to: Raw = NULL
    service: Raw = NULL
    match: Raw = NULL
    ratecard: Raw = NULL

    @property
    def advice(self) -> int:
        """The faults of an endpoint that its seller can mend, as bits of Advice."""
        advice = 0 if is_own_text(self.description, self.url) else Advice.NO_TEXT
        if names := {*path_parameters(self.url)}:
            valued = {each.name for each in self.parameters if each.has_value}
            advice |= Advice.NO_EXAMPLE if names - valued else 0
        return advice

    def contents(self, output: str = "", profile: Profile | None = None) -> tuple[str, ...]:
        """Return the texts of ENDPOINT_FIELDS; the title has the path of the URL, and the tool.

        `output` has the names of the output fields that the endpoint itself does not declare.
        """
        before, scheme, address = self.url.partition("://")
        path = (address if scheme else before).partition("/")[2].partition("?")[0]
        words = unquote(path).replace("/", " ")
        is_named = self.tool is NULL or before == "mcp"  # whose path is the tool
        return (
            words if is_named else f"{words} {string_of(self.tool)}",
            self.description,
            " ".join([parameter.name for parameter in self.parameters]),
            " ".join(self.tags),
            " ".join(
                parameter.description[:MAX_PARAMETER_DESCRIPTION]
                for parameter in self.parameters[:MAX_DESCRIBED]
            ),
            output or self._output,
            searched_text(profile),
        )

    @property
    def _output(self) -> str:
        """The names of the output fields that the endpoint itself declares."""
        declared = [raw for raw in (self.output_schema, self.response_schema) if raw is not NULL]
        return read_output(*map(_output_of, declared)) if declared else ""


class IndexedService(Struct, rename="camel", gc=False):
    """The part of a service that is searched, filtered and ordered by."""

    id: str
    name: str
    description: str
    endpoints: list[IndexedEndpoint]
    category: str = ""
    domain: str | None = None
    networks: list[str] = []
    integration_type: str = ""
    tags: list[str] = []
    provider: str = ""
    enriched: bool = False
    status: Raw = NULL

    @property
    def priced_networks(self) -> list[str]:
        """The networks of the prices of its endpoints."""
        return [each.pricing.network for each in self.endpoints if each.pricing.network]

    @property
    def schemes(self) -> list[str]:
        """The schemes of the prices of its endpoints."""
        return [each.pricing.scheme for each in self.endpoints if each.pricing.scheme]

    @property
    def values(self) -> dict[str, Sequence[str]]:
        """The values of the columns of a service."""
        return {name: _values(column, self) for name, column in _columns[0].items()}

    def values_of(self, endpoint: IndexedEndpoint) -> dict[str, Sequence[str]]:
        """Return the values of the columns of an endpoint, besides those of its offers."""
        return {name: _values(column, endpoint, self) for name, column in _columns[1].items()}

    def contents(self, annotations: Annotations = NO_ANNOTATIONS) -> Contents:
        """Return the searched texts; without a domain the first endpoint gives the host."""
        host = self.domain
        if not host and self.endpoints:
            scheme, _, address = self.endpoints[0].url.partition("://")
            host = "" if scheme == "mcp" else address.partition("/")[0]
        labels = " ".join(host_labels(host)) if host else ""
        profile, profile_of = searched_text(annotations.profile), annotations.endpoint_profiles.get
        shared = self.name, self.description, self.category, labels, profile
        outputs = chain(annotations.outputs, repeat(""))
        return Contents(
            tuple(each[:MAX_SHARED] for each in shared) if self.endpoints else shared,
            [
                endpoint.contents(output, profile_of(number))
                for number, (endpoint, output) in enumerate(
                    zip(self.endpoints, outputs, strict=False)
                )
            ],
        )


def _is_null(raw: Raw) -> bool:
    return bytes(raw) == b"null"


_any = msgspec.json.Decoder(float_hook=str)
_columns = (text_columns(ServiceConditions), text_columns(EndpointConditions))
_split = lru_cache(maxsize=4096)(lambda split, text: split(text))


def _values(column: Column, *owners: Struct) -> Sequence[str]:
    """Return the values of a column: of the first source that is not empty, of the first owner."""
    found: Any = []
    for owner, source in product(owners, column.source):
        found = getattr(owner, source, found)
        if found:
            break
    found = found if isinstance(found, list) else [found]
    texts = [each for each in found if isinstance(each, str)]
    if column.split is None:
        return texts
    return [*chain.from_iterable(_split(column.split, text) for text in texts)]


def _make_decoder() -> Callable[[bytes], IndexedService]:
    """Return the decoder of services, with the members that columns alone read."""
    known = {*dir(IndexedService), *dir(IndexedEndpoint)}
    sources = {source for each in _columns for column in each.values() for source in column.source}
    members: Any = [(name, Any, "") for name in sorted(sources - known)]
    options: Any = {"rename": "camel", "gc": False}
    endpoint: Any = defstruct("Endpoint", members, bases=(IndexedEndpoint,), **options)
    members.append(("endpoints", list[endpoint]))
    kind: Any = defstruct("Service", members, bases=(IndexedService,), kw_only=True, **options)
    return msgspec.json.Decoder[Any](kind).decode


decode_service = _make_decoder()


def _output_of(schema: Raw) -> Any:
    """Return the part of a schema that describes the output: it may describe the input, too."""
    try:
        declared = _any.decode(schema)
    except msgspec.MsgspecError:  # records hold any JSON, which is not checked where it is unknown
        return None
    return declared.get("output", declared) if isinstance(declared, dict) else declared


def summarise(members: dict[str, Raw], endpoints: int) -> bytes:
    """Return the service of these members with empty `endpoints` and an `endpointCount`."""
    return msgspec.json.encode(members | {"endpoints": Raw(b"[]"), "endpointCount": endpoints})
