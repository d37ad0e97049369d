"""Documents of the index, and its parts: the postings of the documents of a segment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from indexer.columns.ragged import bounds_of
from indexer.segments.postings import GONE, FieldPostings, First, Numbers, endpoint_numbers
from indexer.segments.segment import Segment
from indexer.segments.texts import Analysed

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


class Part(NamedTuple):
    """The postings of some documents by field, and their words: each with a blank and its term.

    of_services: the postings are by ordinal of service, and hold for each of its documents, unless
        the service is a document of its own
    """

    fields: dict[str, FieldPostings]
    words: Sequence[bytes]
    of_services: bool = False


class Documents(NamedTuple):
    """The documents of a catalogue: its endpoints in listing order, then the others by service.

    These are the listed resources that are no endpoint of their service, and the services that have
    neither endpoints nor such resources.

    endpoints: int64[services + 1], the first document of each service among the endpoints
    others: int64[services + 1], the same among the others
    own: int32[services], the document of a service that is one, or GONE
    services: int32[documents], the service of each document
    """

    endpoints: First
    others: First
    own: Numbers
    services: Numbers


def place_documents(endpoints: Numbers, resources: Numbers) -> Documents:
    """Return the documents, given how many endpoints and other resources each service has."""
    is_own = (endpoints == 0) & (resources == 0)
    first = bounds_of(endpoints)
    others = first[-1] + bounds_of(resources + is_own)
    numbers = np.arange(len(endpoints), dtype=np.int32)
    own = np.where(is_own, others[:-1], GONE).astype(np.int32)
    services = np.repeat(np.tile(numbers, 2), np.concatenate((endpoints, resources + is_own)))
    return Documents(first, others, own, services)


def part_of(analysed: Analysed, documents: Numbers, owners: Numbers | None = None) -> Part:
    """Return a part, given the ordinal of each document, or GONE.

    `owners` are the documents by which words are kept, if these differ.
    """
    fields = {name: field.renumber(documents) for name, field in analysed.fields.items()}
    words = analysed.words.renumber(documents if owners is None else owners)
    return Part(fields, words.terms.texts())


def segment_parts(segment: Segment, ordinals: Numbers, documents: Documents) -> Iterator[Part]:
    """Yield the parts of a segment, given the ordinals of its services."""
    services = part_of(segment.services, ordinals)
    own = {
        FIELDS_OF_SERVICES[name]: field.renumber(documents.own)
        for name, field in services.fields.items()
    }
    yield Part(own, services.words)
    shared = {FIELDS_OF_ENDPOINTS[name]: field for name, field in services.fields.items()}
    yield Part(shared, (), of_services=True)
    if documents.endpoints[-1]:
        numbers = endpoint_numbers(segment.first_endpoints, ordinals, documents.endpoints)
        yield part_of(segment.endpoints, numbers, ordinals)
