"""Parts of an index: the postings of the documents of a segment that are in the listing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from indexer.segments.postings import FieldPostings, Numbers
from indexer.segments.segment import Segment
from indexer.segments.texts import Analysed
from indexer.segments.vectors import endpoint_numbers

ENDPOINT_NAMES = {
    "name": "service_name",
    "description": "service_description",
    "category": "category",
}
"""Fields of services, and what they are called as fields of their endpoints."""


class Part(NamedTuple):
    """The postings of some documents by field, and their vocabulary: the term of each word.

    Documents are ordinals.
    """

    fields: dict[str, FieldPostings]
    vocabulary: dict[str, str]


def part_of(analysed: Analysed, documents: Numbers, owners: Numbers | None = None) -> Part:
    """Return a part, given the ordinal of each document, or GONE.

    `owners` are those of the documents that words are kept by, if these are others.
    """
    fields = {name: field.renumber(documents) for name, field in analysed.fields.items()}
    words = analysed.words.renumber(documents if owners is None else owners)
    entries = (entry.decode().partition(" ") for entry in words.terms)
    return Part(fields, {word: term for word, _, term in entries})


def endpoint_parts(
    segment: Segment,
    ordinals: Numbers,
    first_endpoints: npt.NDArray[np.int64],
    first_others: npt.NDArray[np.int64],
) -> list[Part]:
    """Return the parts of endpoints: of their own texts, and of those of their services.

    `ordinals` are those of the services. `first_endpoints` and `first_others`, int64[services + 1],
    have the ordinals of the first document of each service in two ranges of documents.
    """
    documents = endpoint_numbers(segment.first_endpoints, ordinals, first_endpoints)
    services = part_of(segment.services, ordinals)
    return [
        part_of(segment.endpoints, documents, ordinals),
        _expand_to_endpoints(services, first_endpoints),
        _expand_to_endpoints(services, first_others),
    ]


def _expand_to_endpoints(part: Part, first_endpoints: npt.NDArray[np.int64]) -> Part:
    """Return the postings of services as those of their endpoints."""
    fields = {
        endpoint_field: _expand(part.fields[field], first_endpoints)
        for field, endpoint_field in ENDPOINT_NAMES.items()
    }
    return Part(fields, {})


def _expand(field: FieldPostings, first_endpoints: npt.NDArray[np.int64]) -> FieldPostings:
    endpoints = np.diff(first_endpoints)[field.documents]
    ends = np.cumsum(endpoints)
    offsets = first_endpoints[field.documents] - (ends - endpoints)
    documents = np.arange(ends[-1] if len(ends) else 0) + np.repeat(offsets, endpoints)
    bounds = np.concatenate(([0], ends))[np.concatenate(([0], np.cumsum(field.sizes)))]
    sizes = np.diff(bounds)
    present = np.flatnonzero(sizes)
    return FieldPostings(
        [field.terms[number] for number in present.tolist()],
        sizes[present],
        documents.astype(np.int32),
        np.repeat(field.counts, endpoints),
    )
