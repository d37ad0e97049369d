"""The documents of the index, and the tokens of their fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from indexer.derive.columns import RecordColumns
from indexer.derive.ragged import Ragged, bounds_of
from service.search.postings import Integers
from service.search.semantic.vectors import Rows

FIELDS_OF_ENDPOINTS = {
    "name": "service_name",
    "description": "service_description",
    "category": "service_category",
    "host": "host",
    "profile": "service_profile",
}
"""Fields of services, and what they are called as fields of their endpoints and resources."""
FIELDS_OF_SERVICES = {
    "name": "title",
    "description": "description",
    "category": "category",
    "host": "host",
    "profile": "profile",
}
"""The same where a service is a document of its own."""
NO_DOCUMENT = -1
"""The document of a service that is none."""

Numbers = npt.NDArray[np.int32]


class Documents(NamedTuple):
    """The documents of a catalogue: its endpoints in listing order, then the others by service.

    These are the listed resources that are no endpoint of their service, and the services that have
    neither endpoints nor such resources.

    endpoints: int64[services + 1], the first document of each service among the endpoints
    others: int64[services + 1], the same among the others
    own: int32[services], the document of a service that is one, or NO_DOCUMENT
    services: int32[documents], the service of each document
    """

    endpoints: Integers
    others: Integers
    own: Numbers
    services: Numbers

    @property
    def shares(self) -> Integers:
        """How many documents have the fields of a service beside their own ones."""
        return np.where(self.own == NO_DOCUMENT, np.diff(self.endpoints) + np.diff(self.others), 0)


class OtherTexts(NamedTuple):
    """The texts of the listed resources that are documents.

    documents: int32[resources], the document of each
    tokens: by field, numbers of `strings`
    vectors: of no dimensions without an encoder
    """

    documents: Numbers
    tokens: dict[str, Ragged]
    strings: Ragged
    vectors: Rows


class FieldTokens(NamedTuple):
    """The tokens of a field: ranks of terms are `ranks[tokens.items]`.

    owners: int32[rows], the document of each row or, where `of_services`, the service
    """

    name: str
    tokens: Ragged
    ranks: Integers
    owners: Numbers
    of_services: bool = False


def place_documents(endpoints: Numbers, resources: Numbers) -> Documents:
    """Return the documents, given how many endpoints and other resources each service has."""
    is_own = (endpoints == 0) & (resources == 0)
    first = bounds_of(endpoints)
    others = first[-1] + bounds_of(resources + is_own)
    numbers = np.arange(len(endpoints), dtype=np.int32)
    own = np.where(is_own, others[:-1], NO_DOCUMENT).astype(np.int32)
    services = np.repeat(np.tile(numbers, 2), np.concatenate((endpoints, resources + is_own)))
    return Documents(first, others, own, services)


def fields_of(
    columns: RecordColumns,
    ranks: Integers,
    others: OtherTexts,
    other_ranks: Integers,
    documents: Documents,
) -> Iterator[FieldTokens]:
    """Yield the tokens of all fields, given the ranks of the terms of both tables of strings."""
    endpoints = np.arange(documents.endpoints[-1], dtype=np.int32)
    for name, tokens in columns.endpoint_tokens.items():
        yield FieldTokens(name, tokens, ranks, endpoints)
        yield FieldTokens(name, others.tokens[name], other_ranks, others.documents)
    own = np.flatnonzero(documents.own != NO_DOCUMENT)
    services = np.flatnonzero(documents.shares).astype(np.int32)
    for name, tokens in columns.service_tokens.items():
        yield FieldTokens(FIELDS_OF_SERVICES[name], tokens.take(own), ranks, documents.own[own])
        yield FieldTokens(FIELDS_OF_ENDPOINTS[name], tokens.take(services), ranks, services, True)
