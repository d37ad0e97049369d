"""Answers to why a URL is listed or not."""

from __future__ import annotations

from enum import IntFlag, StrEnum

from msgspec import UNSET, Struct, UnsetType

from service.schema.responses import FoundEndpoint


class Fate(StrEnum):
    """The fate of a record, best first; a record without a finding is published.

    NOTED: a remark on a record that is published
    """

    PUBLISHED = "published"
    LEFT_OUT = "left out"
    REJECTED = "rejected"
    NOTED = "noted"


FATES = (*Fate,)
"""The fates by their numbers in a snapshot."""
DECLINED = "declined by the operator"


class Advice(IntFlag):
    """The faults of a listing that its seller can mend, as bits."""

    NO_INPUT = 1
    NO_EXAMPLE = 2
    DOUBLE_WRAPPED = 4
    EXTERNAL_REF = 8
    WRONG_VERSION = 16
    NO_TEXT = 32
    OTHER_TERMS = 64
    ANSWERS_UNPAID = 128
    LONG_DESCRIPTION = 256


NOT_NAMED = "not_named"
"""The code of the advice to get an unknown URL listed."""


class ListingAdvice(Struct):
    """An advice to the seller: a stable code, and a text."""

    code: str
    text: str


ADVICE = {
    Advice.NO_INPUT: (
        "no input is declared; describe parameters or body in `extensions.bazaar`, with `info` and "
        "its `schema`"
    ),
    Advice.NO_EXAMPLE: (
        "the URL is a template without values; list a URL that can be called, and the template "
        "as `extensions.bazaar.routeTemplate`, or give each placeholder an example"
    ),
    Advice.DOUBLE_WRAPPED: (
        "`bazaar` stands within another `bazaar` or `extensions`, where nobody reads it; move its "
        "members up to `extensions.bazaar`"
    ),
    Advice.EXTERNAL_REF: (
        "a schema refers to another document by `$ref`, which is not fetched; write it out, or "
        "refer to `#/$defs`"
    ),
    Advice.WRONG_VERSION: (
        "members of version 1 and 2 of x402 are mixed; version 1 has `maxAmountRequired` and "
        "`outputSchema`, version 2 `amount` and `extensions.bazaar`"
    ),
    Advice.NO_TEXT: (
        "the endpoint has no description of its own; searches find it by its path alone"
    ),
    Advice.OTHER_TERMS: (
        "the 402 of the endpoint asks for another amount or payee than its listing, as a prober "
        "saw; list what it asks for"
    ),
    Advice.ANSWERS_UNPAID: (
        "the endpoint answers 200 without a payment, as a prober saw, so that no facilitator "
        "catalogues it; answer 402 with the price until a payment is there"
    ),
    Advice.LONG_DESCRIPTION: (
        "a description has more than 500 characters, beyond which a facilitator may refuse to "
        "settle; shorten it in the 402, and keep the rest in the document of the API"
    ),
}
"""The texts of advice."""


class ListingFate(Struct, kw_only=True, omit_defaults=True):
    """The fate of a URL in one source.

    reason, path: why it is not listed, and the JSON path of the fault in the record of the source
    service, endpoint: the id of the service that lists it, and the number of the endpoint there
    """

    source: str
    fate: Fate
    reason: str | UnsetType = UNSET
    path: str | UnsetType = UNSET
    service: str | UnsetType = UNSET
    endpoint: int | UnsetType = UNSET


class ListingReport(Struct):
    """The fates of a URL in normal form: one for each source that names it; and all remarks.

    template: the listed template that the URL fills in, whose fates these are
    """

    url: str
    listed: bool
    fates: list[ListingFate]
    notes: list[ListingFate]
    advice: list[ListingAdvice]
    template: str | UnsetType = UNSET

    @property
    def is_named(self) -> bool:
        """Whether a source names the URL."""
        return all(each.code != NOT_NAMED for each in self.advice)


class ListingPage(Struct):
    """The listed endpoints of a host or a payee.

    others: how many URLs that sources name are not listed, by their best fate
    """

    endpoints: list[FoundEndpoint]
    total: int
    limit: int
    offset: int
    others: dict[Fate, int]
