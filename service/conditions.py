"""The columns of the tables of a snapshot, and the conditions of requests on them.

A filter is one field: its name and type are those of a parameter, its `Column` says what rows have
to compare, and where that comes from. Parameters, facets, files and masks follow from it.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct, inspect

from service.networks import network_key, network_label
from service.schema.values import NonEmpty

DECIMAL = r"^[0-9]{1,100}(?:\.[0-9]{1,100})?$(?!\n)"
MAX_COUNTED = 100
"""Values of a facet that are counted, the most frequent: naming all takes 150 ms for 200,000."""

Normaliser: TypeAlias = Callable[[str], str]
"""Maps the spellings of a value to one key."""
Strings = tuple[str, ...]
PriceBound = Annotated[
    float,
    Meta(ge=0, title="a decimal such as 0.05, from 0", extra_json_schema={"pattern": DECIMAL}),
]
MaybeText = NonEmpty | None
SomeTexts = tuple[NonEmpty, ...]
PayerCount = Annotated[int, Meta(ge=1, le=2**32 - 1)]  # more are not stored
FilterValue: TypeAlias = Sequence[str] | float | bool | None
"""A list of texts, a number, a flag or a word; None is no condition."""


def folded(value: str) -> str:
    """Return a text without its case and the blanks around it."""
    return value.strip().casefold()


def fold_name(name: str) -> str:
    """Return the name of a parameter without case, `_` and `-`."""
    return name.lower().replace("_", "").replace("-", "")


def has_verdict(verdicts: Any, wanted: bool) -> Any:
    """Return which verdicts of probers or observers are good, or which are bad."""
    return verdicts > 0 if wanted else verdicts < 0


def _methods(text: str) -> Strings:
    """Return the methods of an endpoint, which may be several, as in `GET, POST`."""
    names = map(str.strip, re.split(r"[,/|]", text.upper()))
    return tuple(name for name in names if name)


def _labels(network: str) -> Strings:
    return (network_label(network),)


class Column(NamedTuple):
    """A column of a table: texts with a key, or else numbers or flags.

    name: of its arrays, and of the facet
    source: the members of a record that have the texts: the first of the endpoint, or else of its
        service, that is not empty; attributes of offers and of listed resources
    key: maps the spellings of a text to the key that is compared
    holds: returns which numbers satisfy a condition; a build gives them by the name of the column
    split: returns the values of one text of a record
    of_offer: whether endpoints and resources have it by their offers, one of which must satisfy all
        such conditions
    is_facet: whether the values are counted
    takes_all: whether a row must have all values of a condition
    is_part: whether a condition is a part of the text
    """

    name: str
    source: Strings = ()
    key: Normaliser = folded
    holds: Callable[[Any, Any], Any] | None = None
    split: Callable[[str], Strings] | None = None
    of_offer: bool = False
    is_facet: bool = True
    takes_all: bool = False
    is_part: bool = False


class ConditionField(NamedTuple):
    """A field, the name of its parameter, and the column that it is compared with."""

    field: str
    name: str
    column: Column


Given: TypeAlias = tuple[ConditionField, Any]
"""A condition with its value."""


@cache
def conditions_of(kind: type[Struct]) -> tuple[ConditionField, ...]:
    """Return the conditions among the fields of a type."""
    return tuple(
        ConditionField(field.name, field.encode_name, field.type.extra["column"])
        for field in inspect.type_info(kind).fields  # type: ignore[attr-defined]  # of a Struct
        if isinstance(field.type, inspect.Metadata) and field.type.extra
    )


@cache
def _values_of(kind: type[Struct]) -> Callable[[Struct], tuple[Any, ...]]:
    """Return a function of the values of the conditions, which `getattr` takes longer for."""
    return operator.attrgetter(*(each.field for each in conditions_of(kind)))


def about(description: str, column: Column | None = None) -> Meta:
    """Return the metadata of a parameter."""
    return Meta(description=description, extra=None if column is None else {"column": column})


def any_of(example: str, column: Column, more: str = "") -> Meta:
    """Return the metadata of a condition that allows several values."""
    text = f"Only those with this {column.name}, such as `{example}`, or any of several.{more}"
    return about(text, column)


def of_entry(name: str, column: Column) -> Meta:
    """Return the metadata of a condition on entries of `accepts`."""
    return about(f"Only with this {name}.{SAME}", column)


# Of services and endpoints.
CATEGORY = Column("category", ("category",))
TAG = Column("tag", ("tags",))
PROVIDER = Column("provider", ("provider_name", "provider"))
ENRICHED = Column("enriched", holds=operator.eq)
PRICE = Column("price", holds=operator.le)
PAYERS = Column("payers", holds=operator.ge)
ALIVE = Column("alive", holds=has_verdict)
# Of services.
NETWORK = Column("network", ("networks", "priced_networks"), network_key, split=_labels)
SCHEME = Column("scheme", ("schemes",))
INTEGRATION_TYPE = Column("integrationType", ("integration_type",))
# Of endpoints.
METHOD = Column("method", ("method",), split=_methods)
SERVICE = Column("service", key=str)
DELIVERED = Column("delivered", holds=has_verdict)
REGISTRATION = Column("registration", holds=operator.eq)  # and of listed resources
# Of offers.
OFFER_NETWORK = Column("network", ("network",), network_key, split=_labels, of_offer=True)
OFFER_SCHEME = Column("scheme", ("scheme",), of_offer=True)
ASSET = Column("asset", ("asset",), of_offer=True, is_facet=False)
PAYEE = Column("payTo", ("pay_to",), of_offer=True, is_facet=False)
STATED_NETWORK = Column("stated_network", ("network",), str, of_offer=True)
STATED_SCHEME = Column("stated_scheme", ("scheme",), str, of_offer=True)
CURRENCY = Column("currency", ("currency",), str, of_offer=True)
USD_PRICE = Column("usd_price", holds=operator.le, of_offer=True)
# Of listed resources.
TYPE = Column("type", ("listed_type",), str)
EXTENSIONS = Column("extensions", ("extensions",), str, takes_all=True)
TAGS = Column("tags", ("listed_tags",), str)
URL = Column("url", ("stated_url",), str.lower, is_part=True)
REGISTERED = (
    "Only those whose listing requires a registration or a sign-in before payment, or with `false` "
    "only the others."
)
SAME = " Those of an entry of `accepts` must hold together."


class Conditions(Struct, frozen=True, kw_only=True, rename="camel"):
    """Conditions that a row must all satisfy; None and empty ones are none."""

    def given(self) -> list[Given]:
        """Return the conditions that there are, with their values."""
        kind = type(self)
        values = _values_of(kind)(self)
        if not any(values) and 0 not in values:  # as False is
            return []
        pairs = zip(conditions_of(kind), values, strict=True)
        return [pair for pair in pairs if pair[1] or pair[1] == 0]

    @property
    def has_conditions(self) -> bool:
        """Whether any row might be left out."""
        return bool(self.given())


class SearchConditions(Conditions, frozen=True, kw_only=True):
    """Conditions of services and of endpoints, and how they match a query."""

    category: Annotated[Strings, any_of("Data", CATEGORY)] = ()
    tag: Annotated[Strings, any_of("weather", TAG)] = ()
    provider: Annotated[Strings, any_of("Tidewatch", PROVIDER)] = ()
    enriched: Annotated[
        bool | None, about("Only curated services and their endpoints, or only others.", ENRICHED)
    ] = None
    max_price: Annotated[
        PriceBound | None,
        about(
            "The most that one may cost, in units of its currency, such as `0.05`: the cheapest "
            "price of a service; the price of an endpoint, or its ceiling for the scheme `upto`. "
            "With a network, scheme, asset or payTo of endpoints, the price of the cheapest entry "
            "of `accepts` that has these.",
            PRICE,
        ),
    ] = None
    min_payers: Annotated[
        PayerCount | None, about("The least number of payers that count, in 30 days.", PAYERS)
    ] = None
    alive: Annotated[
        bool | None,
        about("Only those that probers found alive, or dead: services with all endpoints.", ALIVE),
    ] = None
    match: Annotated[
        Literal["any", "all"],
        about("Whether any word of the query suffices, or one endpoint must have every word."),
    ] = "any"
    explain: Annotated[
        bool, about("Whether to add the parts of the score of each result of a query.")
    ] = False


class ServiceConditions(SearchConditions, frozen=True, kw_only=True):
    """Conditions of services."""

    network: Annotated[Strings, any_of("base", NETWORK)] = ()
    scheme: Annotated[Strings, any_of("exact", SCHEME)] = ()
    integration_type: Annotated[
        tuple[Literal["1P", "3P", ""], ...], any_of("1P", INTEGRATION_TYPE)
    ] = ()


class EndpointConditions(SearchConditions, frozen=True, kw_only=True):
    """Conditions of endpoints; those of offers must hold together on one way to pay."""

    network: Annotated[Strings, any_of("base", OFFER_NETWORK, SAME)] = ()
    scheme: Annotated[Strings, any_of("exact", OFFER_SCHEME, SAME)] = ()
    asset: Annotated[Strings, any_of("0x8335…", ASSET, SAME)] = ()
    pay_to: Annotated[Strings, any_of("0x1a2b…", PAYEE, SAME)] = ()
    method: Annotated[Strings, any_of("GET", METHOD)] = ()
    service: Annotated[Strings, any_of("tidewatch-example", SERVICE)] = ()
    max_usd_price: Annotated[
        PriceBound | None, about("The most that an offer may cost in US dollars.", USD_PRICE)
    ] = None
    registration: Annotated[bool | None, about(REGISTERED, REGISTRATION)] = None
    delivered: Annotated[
        bool | None,
        about("Only those that delivered to an observer who paid, or never did.", DELIVERED),
    ] = None


def text_columns(*kinds: type[Conditions], of_offer: bool = False) -> dict[str, Column]:
    """Return the columns of texts that rows or their offers have of a source, by name."""
    return {
        column.name: column
        for kind in kinds
        for _, _, column in conditions_of(kind)
        if column.source and not column.is_part and column.of_offer == of_offer
    }


SERVICE_KEYS = {name: column.key for name, column in text_columns(ServiceConditions).items()}
ENDPOINT_KEYS = {name: column.key for name, column in text_columns(EndpointConditions).items()}
"""Normalisers of the texts that records have, besides those of offers, by the names of columns."""
SERVICE_FACETS = tuple(SERVICE_KEYS)
ENDPOINT_FACETS = tuple(
    column.name
    for _, _, column in conditions_of(EndpointConditions)
    if column.holds is None and column.is_facet
)

if TYPE_CHECKING:
    ServiceFacet: TypeAlias = str
    EndpointFacet: TypeAlias = str
else:
    ServiceFacet = Literal[SERVICE_FACETS]
    EndpointFacet = Literal[ENDPOINT_FACETS]

Sort = Literal["relevance", "popularity", "price", "name"]
EndpointSort = Literal["relevance", "price", "popularity"]
COUNTED = about(f"Facets to count over all matches: the {MAX_COUNTED} most frequent of each.")


class Filters(ServiceConditions, frozen=True, kw_only=True):
    """Conditions of services, their order, and what to add to the page.

    best_endpoints: whether to add the endpoint of each service that matches best
    """

    sort: Annotated[Sort, about("The order; relevance of the listing is best known first.")] = (
        "relevance"
    )
    facets: Annotated[tuple[ServiceFacet, ...], COUNTED] = ()
    best_endpoints: bool = False


class EndpointFilters(EndpointConditions, frozen=True, kw_only=True):
    """Conditions of endpoints, their order, and what to add to the page."""

    sort: Annotated[EndpointSort, about("The order; endpoints without a price come last.")] = (
        "relevance"
    )
    per_service: Annotated[
        Annotated[int, Meta(ge=0)],
        about("The most endpoints of one service that are listed; 0 lists all."),
    ] = 3
    facets: Annotated[tuple[EndpointFacet, ...], COUNTED] = ()


class ResourceConditions(Conditions, frozen=True, kw_only=True):
    """Conditions of listed resources; those of entries of `accepts` must hold together on one."""

    type: Annotated[MaybeText, about("Only with this type, such as `http` or `mcp`.", TYPE)] = None
    pay_to: Annotated[MaybeText, of_entry("payee, in any case", PAYEE)] = None
    registration: Annotated[bool | None, about(REGISTERED, REGISTRATION)] = None


class StatedFilters(ResourceConditions, frozen=True, kw_only=True):
    """Conditions of listed resources that compare networks and schemes as entries spell them."""

    network: Annotated[MaybeText, of_entry("network, as it is spelt", STATED_NETWORK)] = None
    scheme: Annotated[MaybeText, of_entry("scheme, as it is spelt", STATED_SCHEME)] = None
    extensions: Annotated[MaybeText, about("Only with this key in `extensions`.", EXTENSIONS)] = (
        None
    )


class ResourceFilters(ResourceConditions, frozen=True, kw_only=True):
    """Conditions of listed resources that match a query."""

    network: Annotated[MaybeText, of_entry("network, by any of its names", OFFER_NETWORK)] = None
    scheme: Annotated[MaybeText, of_entry("scheme", OFFER_SCHEME)] = None
    asset: Annotated[MaybeText, of_entry("asset, in any case", ASSET)] = None
    max_usd_price: Annotated[
        PriceBound | None,
        about("The most to pay in US dollars, in a known stablecoin." + SAME, USD_PRICE),
    ] = None
    extensions: Annotated[
        SomeTexts, about("Only with all these keys in `extensions`.", EXTENSIONS)
    ] = ()
    tags: Annotated[SomeTexts, about("Only with this tag, or with any of several.", TAGS)] = ()
    url_substring: Annotated[
        Annotated[str, Meta(min_length=3, max_length=2048)] | None,
        about("Only with this in their URL, in any case.", URL),
    ] = None
    alive: Annotated[
        bool | None, about("Only with an endpoint that probers found alive, or dead.", ALIVE)
    ] = None
    match: ClassVar[str] = "any"


NO_FILTERS = Filters()
_RESOURCES = (StatedFilters, ResourceFilters)
OFFER_COLUMNS = text_columns(EndpointConditions, *_RESOURCES, of_offer=True)
"""The columns of texts of offers, by name."""
RESOURCE_COLUMNS = text_columns(*_RESOURCES)
"""The columns of texts of listed resources, by name."""
T = TypeVar("T", bound=Struct)


def read_conditions(kind: type[T], conditions: Mapping[str, FilterValue]) -> T:
    """Return a Struct of keyword arguments, such as filters: parameters of HTTP in snake case.

    Raises TypeError for an unknown condition, and ValueError that names a faulty one.
    """
    names = dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
    if unknown := conditions.keys() - names.keys():
        known = ", ".join(sorted(names))
        raise TypeError(f"{', '.join(sorted(unknown))} is no condition; there are {known}")
    values = {names[name]: value for name, value in conditions.items() if value is not None}
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        message = str(error).replace("$.", "")
        for name, alias in names.items():
            message = message.replace(f"`{alias}`", f"`{name}`")
            if message == f"Expected `array`, got `str` - at `{name}`":
                message += f"; give a list, such as [{conditions[name]!r}]"
        raise ValueError(message) from error
