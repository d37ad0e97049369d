"""The conditions that requests put on services and on endpoints, each declared once.

The name and the type of a field are those of a parameter. Its column is what a snapshot has to
compare it with. Parameters, facets and masks derive from these declarations.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, TypeAlias

from msgspec import Meta, Struct, inspect

from service.networks import network_key
from service.schema.values import NonEmpty

DECIMAL = r"^[0-9]{1,100}(?:\.[0-9]{1,100})?$(?!\n)"
MAX_COUNTED = 100
"""Values of a facet that are counted, the most frequent: naming all takes 150 ms for 200,000."""

Normaliser: TypeAlias = Callable[[str], str]
"""Maps the spellings of a value to one key."""
Values = tuple[str, ...]
PriceBound = Annotated[
    float, Meta(title="a decimal such as 0.05, from 0", extra_json_schema={"pattern": DECIMAL})
]
PayerCount = Annotated[int, Meta(ge=1, le=2**32 - 1)]  # more are not stored


def folded(value: str) -> str:
    """Return a text without its case and the blanks around it."""
    return value.strip().casefold()


def has_verdict(alive: Any, wanted: bool) -> Any:
    """Return which verdicts of probers are that documents are alive, or that they are dead."""
    return alive > 0 if wanted else alive < 0


class TextColumn(NamedTuple):
    """Texts that are compared by their keys.

    of_offer: whether endpoints have them by their offers, one of which must satisfy all conditions
    is_facet: whether the values are counted
    is_stored: whether a file of filters has them
    """

    key: Normaliser = folded
    of_offer: bool = False
    is_facet: bool = True
    is_stored: bool = True


TEXT = TextColumn()


class ValueColumn(NamedTuple):
    """An array of numbers or flags.

    holds: returns which of the values satisfy a condition
    """

    array: str
    dtype: str
    text: str
    holds: Callable[[Any, Any], Any] = operator.eq
    of_offer: bool = False
    is_stored: bool = True


class ConditionField(NamedTuple):
    """A field, the name of its parameter, and what it is compared with."""

    field: str
    name: str
    column: TextColumn | ValueColumn


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


def about(description: str, column: TextColumn | ValueColumn | None = None) -> Meta:
    """Return the metadata of a parameter."""
    return Meta(description=description, extra=None if column is None else {"column": column})


def any_of(name: str, example: str, column: TextColumn = TEXT, more: str = "") -> Meta:
    """Return the metadata of a condition that allows several values."""
    text = f"Only those with this {name}, such as `{example}`, or any of several.{more}"
    return about(text, column)


PRICES = ValueColumn("prices", "<f8", "the price, or the lowest, or NaN", operator.le)
PAYERS = ValueColumn("payers", "<u4", "how many payers each had in 30 days", operator.ge)
ALIVE = ValueColumn("alive", "|i1", "1 for one that is alive, -1 for a dead one, or 0", has_verdict)
ENRICHED = ValueColumn("enriched", "|b1", "whether the service is enriched")
REGISTRATION = ValueColumn(
    "registration", "|b1", "whether a listing requires a registration or sign-in"
)
USD_PRICES = ValueColumn("usd_prices", "<f8", "", operator.le, of_offer=True, is_stored=False)
NETWORK = TextColumn(network_key)
OFFER_NETWORK = NETWORK._replace(of_offer=True)
OFFER_FACET = TextColumn(of_offer=True)
SERVICE = TextColumn(str, is_stored=False)
OFFER_TEXT = TextColumn(of_offer=True, is_facet=False, is_stored=False)
OFFER = " Those of an entry of `accepts` must hold together."


class Conditions(Struct, frozen=True, kw_only=True, rename="camel"):
    """Conditions that a service or an endpoint must all satisfy; None and empty ones are none."""

    category: Annotated[Values, any_of("category", "Data")] = ()
    tag: Annotated[Values, any_of("tag", "weather")] = ()
    provider: Annotated[Values, any_of("provider", "Tidewatch")] = ()
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
            PRICES,
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
        """Whether any document might be left out."""
        return bool(self.given())

    @property
    def texts(self) -> dict[str, Values]:
        """The conditions on texts, by the names of parameters."""
        given = self.given()
        return {each.name: values for each, values in given if isinstance(each.column, TextColumn)}


class ServiceConditions(Conditions, frozen=True, kw_only=True):
    """Conditions of services."""

    network: Annotated[Values, any_of("network", "base", NETWORK)] = ()
    scheme: Annotated[Values, any_of("scheme", "exact")] = ()
    integration_type: Annotated[
        tuple[Literal["1P", "3P", ""], ...],
        about("Only services of this type, or of any of several.", TEXT),
    ] = ()


class EndpointConditions(Conditions, frozen=True, kw_only=True):
    """Conditions of endpoints; those of offers must hold together on one way to pay."""

    network: Annotated[Values, any_of("network", "base", OFFER_NETWORK, OFFER)] = ()
    scheme: Annotated[Values, any_of("scheme", "exact", OFFER_FACET, OFFER)] = ()
    asset: Annotated[Values, any_of("asset", "0x8335…", OFFER_TEXT, OFFER)] = ()
    pay_to: Annotated[Values, any_of("payTo", "0x1a2b…", OFFER_TEXT, OFFER)] = ()
    method: Annotated[Values, any_of("method", "GET")] = ()
    service: Annotated[Values, any_of("service", "tidewatch-example", SERVICE)] = ()
    max_usd_price: Annotated[
        PriceBound | None, about("The most that an offer may cost in US dollars.", USD_PRICES)
    ] = None
    registration: Annotated[
        bool | None,
        about(
            "Only endpoints whose listing requires a registration or a sign-in before payment, or "
            "with `false` only the others.",
            REGISTRATION,
        ),
    ] = None


def _keys_of(
    kind: type[Conditions], is_wanted: Callable[[TextColumn], bool]
) -> dict[str, Normaliser]:
    return {
        name: column.key
        for _, name, column in conditions_of(kind)
        if isinstance(column, TextColumn) and is_wanted(column)
    }


SERVICE_KEYS: Mapping[str, Normaliser] = _keys_of(ServiceConditions, lambda _: True)
"""Normalisers of the values that services have, by the names of parameters."""
ENDPOINT_KEYS: Mapping[str, Normaliser] = _keys_of(
    EndpointConditions,
    lambda column: column.is_stored and not column.of_offer,
)
"""Normalisers of the values that endpoints have, besides those of their offers."""
OFFER_KEYS: Mapping[str, Normaliser] = _keys_of(EndpointConditions, lambda column: column.of_offer)
"""Normalisers of the values that must hold together on one offer of an endpoint."""
SERVICE_FACETS = tuple(SERVICE_KEYS)
ENDPOINT_FACETS = tuple(_keys_of(EndpointConditions, lambda column: column.is_facet))

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

    @property
    def offers(self) -> dict[str, Values]:
        """The conditions on texts of offers, by the names of parameters."""
        return {name: values for name, values in self.texts.items() if name in OFFER_KEYS}


NO_FILTERS = Filters()


ResourceType = Annotated[
    NonEmpty | None, about("Only resources of this type, such as `http` or `mcp`.")
]
EntryScheme = Annotated[NonEmpty | None, about("Only with this scheme, on the same entry.")]
EntryPayee = Annotated[
    NonEmpty | None,
    about("Only paid to this address, in any case, on the same entry of `accepts`."),
]
Registration = Annotated[
    bool | None,
    about(
        "Only resources that require a registration or a sign-in before payment, or with `false` "
        "only the others."
    ),
]


class ResourceFilters(Struct, frozen=True, kw_only=True, rename="camel"):
    """Conditions that a listed resource must all satisfy; None and empty ones are none.

    Those of entries of `accepts` must hold together on one. `is_verbatim` compares networks and
    schemes as entries spell them.
    """

    type: ResourceType = None
    network: Annotated[
        NonEmpty | None,
        about("Only with this network on an entry of `accepts`, by any of its names."),
    ] = None
    scheme: EntryScheme = None
    asset: Annotated[
        NonEmpty | None, about("Only with this asset, in any case, on the same entry.")
    ] = None
    pay_to: EntryPayee = None
    max_usd_price: Annotated[
        PriceBound | None,
        about("The most that the same entry may cost in US dollars, paid in a known stablecoin."),
    ] = None
    extensions: Annotated[
        tuple[NonEmpty, ...], about("Only with this key in `extensions`, or with all of several.")
    ] = ()
    tags: Annotated[tuple[NonEmpty, ...], about("Only with this tag, or with any of several.")] = ()
    url_substring: Annotated[
        Annotated[str, Meta(min_length=3, max_length=2048)] | None,
        about("Only with this in their URL, in any case."),
    ] = None
    alive: Annotated[
        bool | None, about("Only with an endpoint that probers found alive, or dead.")
    ] = None
    registration: Registration = None
    is_verbatim: bool = False
    match: ClassVar[str] = "any"

    @property
    def offers(self) -> dict[str, Values]:
        """The conditions on offers that are compared by keys, by the names of parameters."""
        names = {"asset": self.asset, "payTo": self.pay_to}
        if not self.is_verbatim:
            names |= {"network": self.network, "scheme": self.scheme}
        return {name: (value,) for name, value in names.items() if value is not None}


NO_RESOURCE_FILTERS = ResourceFilters()
