"""A segment: the postings and the vectors of some services, in one immutable file."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from indexer.columns.ragged import Ragged, bounds_of
from indexer.columns.records import ENDPOINT_FIELDS, SERVICE_FIELDS, Contents
from indexer.encoder.encoding import TextEncoder
from indexer.encoder.quantising import EncodedTexts, no_vectors
from indexer.record_store import KEY_SIZE, Keys, arrays_path
from indexer.segments.postings import (
    GONE,
    FieldPostings,
    First,
    Numbers,
    endpoint_numbers,
    gather_vectors,
    merge_postings,
)
from indexer.segments.texts import Analysed, TokenFields
from service.storage.container import open_arrays, writing_arrays

SERVICE_WORDS, ENDPOINT_WORDS = "service words", "endpoint words"
FIELDS = (
    *(f"service {name}" for name in SERVICE_FIELDS),
    SERVICE_WORDS,
    *(f"endpoint {name}" for name in ENDPOINT_FIELDS),
    ENDPOINT_WORDS,
)
POSTINGS = ("terms", "term sizes", "sizes", "documents", "counts")
"""The arrays of a field."""


class SegmentParameters(Struct, frozen=True):
    """The parameters that the content of a segment depends on, besides its texts.

    encoder: name of the encoder of the vectors, empty without vectors
    """

    encoder: str


class Segment(NamedTuple):
    """The contents of a segment; services and endpoints are numbered from 0.

    keys: the key of the texts of each service
    first_endpoints: int64[services + 1], the number of the first endpoint of each service
    fields: the postings by FIELDS; words belong to services, and to all endpoints of each
    service_vectors, endpoint_vectors: of no dimensions without an encoder
    """

    origin: SegmentParameters
    keys: Keys
    first_endpoints: First
    fields: dict[str, FieldPostings]
    service_vectors: EncodedTexts
    endpoint_vectors: EncodedTexts

    @property
    def services(self) -> Analysed:
        """The postings and the words of the services."""
        own = {name: self.fields[f"service {name}"] for name in SERVICE_FIELDS}
        return Analysed(own, self.fields[SERVICE_WORDS])

    @property
    def endpoints(self) -> Analysed:
        """The postings of the endpoints, and the words that each service has in endpoints."""
        own = {name: self.fields[f"endpoint {name}"] for name in ENDPOINT_FIELDS}
        return Analysed(own, self.fields[ENDPOINT_WORDS])


class SelectedServices(NamedTuple):
    """Services of a segment that are written to another one; `rows` (int64) are their numbers."""

    path: Path
    rows: npt.NDArray[np.int64]


class _Moved(NamedTuple):
    """A segment that is merged, and the new numbers of its services and endpoints, or GONE."""

    segment: Segment
    services: Numbers
    endpoints: Numbers


class SegmentWriter:
    """Writes a segment, from the texts of services.

    The texts are encoded by the `Encoder` of a folder, if one is given.
    """

    def __init__(self, path: Path, origin: SegmentParameters, encoder: Path | None) -> None:
        self._path, self._origin = path, origin
        self._keys = bytearray()
        self._first_endpoints = array("q", [0])
        self._services = TokenFields(SERVICE_FIELDS)
        self._endpoints = TokenFields(ENDPOINT_FIELDS)
        self._encoder = None if encoder is None else TextEncoder(encoder)

    def add(self, key: bytes, contents: Contents) -> None:
        """Index the next service."""
        endpoints = contents.endpoints
        self._services.add(contents.service)
        for each in endpoints:
            self._endpoints.add(each)
        if self._encoder is not None:
            for title, text, *_ in (contents.service, *endpoints):
                self._encoder.add(title, text)
        self._keys += key
        self._first_endpoints.append(self._first_endpoints[-1] + len(endpoints))

    def finish(self) -> None:
        """Write the segment."""
        keys = np.frombuffer(self._keys, np.uint8).reshape(-1, KEY_SIZE)
        first = np.asarray(self._first_endpoints, np.int64)
        is_service = np.zeros(len(keys) + first[-1], np.bool_)
        is_service[first[:-1] + np.arange(len(keys))] = True
        encoded = no_vectors(len(is_service))
        if self._encoder is not None:
            encoded = self._encoder.encoded()
        vectors = [
            EncodedTexts(encoded.rows[own], encoded.inverse_lengths[own])
            for own in (is_service, ~is_service)
        ]
        _write(self._path, self._origin, keys, first, vectors, self._postings(first))

    def _postings(self, first: First) -> Iterator[FieldPostings]:
        fields, words = self._services.analyse()
        yield from (*fields.values(), words)
        owners = np.repeat(np.arange(len(first) - 1, dtype=np.int32), np.diff(first))
        fields, words = self._endpoints.analyse(owners, len(first) - 1)
        yield from (*fields.values(), words)


def merge_segments(path: Path, selections: Sequence[SelectedServices]) -> None:
    """Write services of several segments of one origin as one segment, field by field."""
    segments = [read_segment(selection.path) for selection in selections]
    count = sum(len(rows) for _, rows in selections)
    keys, sizes, numbers, start = [], [], [], 0
    for segment, (_, rows) in zip(segments, selections, strict=True):
        own = np.full(len(segment.keys), GONE, np.int32)
        own[rows] = np.arange(start, start + len(rows))
        start += len(rows)
        keys.append(segment.keys[rows])
        sizes.append(np.diff(segment.first_endpoints)[rows])
        numbers.append(own)
    first = bounds_of(np.concatenate(sizes))
    moved = [
        _Moved(segment, own, endpoint_numbers(segment.first_endpoints, own, first))
        for segment, own in zip(segments, numbers, strict=True)
    ]
    dimensions = segments[0].service_vectors.rows.shape[1]
    vectors = [
        gather_vectors(parts, documents, dimensions)
        for parts, documents in (
            ([(each.segment.service_vectors, each.services) for each in moved], count),
            ([(each.segment.endpoint_vectors, each.endpoints) for each in moved], int(first[-1])),
        )
    ]
    _write(path, segments[0].origin, np.concatenate(keys), first, vectors, _merged(moved, first))


def _merged(moved: Sequence[_Moved], first: First) -> Iterator[FieldPostings]:
    """Yield the postings of merged segments in the order of FIELDS."""
    for name in FIELDS:
        of_services = name.startswith("service") or name == ENDPOINT_WORDS
        parts = [
            each.segment.fields[name].renumber(each.services if of_services else each.endpoints)
            for each in moved
        ]
        yield merge_postings(parts, len(first) - 1 if of_services else int(first[-1]))


def _write(
    path: Path,
    origin: SegmentParameters,
    keys: Keys,
    first_endpoints: First,
    vectors: Iterable[EncodedTexts],
    fields: Iterator[FieldPostings],
) -> None:
    """Write a segment; `fields` yields their postings, so that few are in memory at a time."""
    with writing_arrays(arrays_path(path)) as writer:
        writer.write("origin", np.frombuffer(msgspec.json.encode(origin), np.uint8))
        writer.write("keys", keys)
        writer.write("first_endpoints", first_endpoints)
        for kind, encoded in zip(("service", "endpoint"), vectors, strict=True):
            writer.write(f"{kind}_vectors", encoded.rows)
            writer.write(f"{kind}_inverse_lengths", encoded.inverse_lengths)
        for name in FIELDS:
            terms, sizes, documents, counts = next(fields)
            for array, content in zip(
                POSTINGS, (terms.items, terms.sizes, sizes, documents, counts), strict=True
            ):
                writer.write(f"{name} {array}", content)


def read_segment(path: Path) -> Segment:
    """Map a segment; raises SnapshotDamaged."""
    arrays = open_arrays(arrays_path(path))
    fields = {}
    for name in FIELDS:
        terms, term_sizes, *postings = (arrays[f"{name} {array}"] for array in POSTINGS)
        fields[name] = FieldPostings(Ragged(term_sizes, terms), *postings)
    return Segment(
        msgspec.json.decode(arrays["origin"].tobytes(), type=SegmentParameters),
        arrays["keys"],
        arrays["first_endpoints"],
        fields,
        EncodedTexts(arrays["service_vectors"], arrays["service_inverse_lengths"]),
        EncodedTexts(arrays["endpoint_vectors"], arrays["endpoint_inverse_lengths"]),
    )
