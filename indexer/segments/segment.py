"""A segment: an immutable Whoosh index of some services, and the arrays compiled from it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from indexer.record_store import KEY_SIZE, Keys, load_array
from indexer.segments.postings import (
    GONE,
    FieldPostings,
    merge_postings,
    read_fields,
    write_fields,
)
from indexer.segments.texts import (
    ENDPOINT_FIELDS,
    SERVICE_FIELDS,
    Analysed,
    ServiceText,
    TokenFields,
)
from indexer.segments.vectors import (
    ServiceEncoder,
    Vectors,
    endpoint_numbers,
    gather_vectors,
    load_vectors,
    read_first_endpoints,
    save_vectors,
)
from indexer.segments.whoosh_index import FIELDS, WhooshWriter

ADDRESS_DIGITS = 20
SEGMENT = "segment.json"
WHOOSH = "whoosh"
TEXTS = "texts"
"""The texts of all fields of the Whoosh index together, for their words."""


class Origin(Struct, frozen=True):
    """The versions and parameters that the content of a segment depends on, besides its texts.

    program: hash of the modules and of the versions of their dependencies
    encoder: name of the encoder of the vectors, empty without vectors
    endpoints: whether endpoints are indexed
    """

    program: str
    encoder: str
    endpoints: bool


class Header(Struct):
    """The description of a segment; `address` is a hash of its origin and its keys."""

    address: str
    origin: Origin


class Segment(NamedTuple):
    """The contents of a segment; services and endpoints are numbered from 0.

    keys: hashes of the id and the searched texts of each service
    first_endpoints: int64[services + 1], the number of the first endpoint of each service
    services, endpoints: their postings, and the words that each service has, and has in endpoints
    vectors: None without an encoder
    """

    keys: Keys
    first_endpoints: npt.NDArray[np.int64]
    services: Analysed
    endpoints: Analysed
    vectors: Vectors | None


class Selection(NamedTuple):
    """Services of a segment that are written to another one; `rows` (int64) are their numbers."""

    folder: Path
    rows: npt.NDArray[np.int64]


class SegmentWriter:
    """Writes a segment in a folder, from the texts of services.

    `memory` is the number of bytes of postings that Whoosh may hold; the texts are encoded by the
    `Encoder` of a folder, if one is given.
    """

    def __init__(self, folder: Path, origin: Origin, memory: int, encoder: Path | None) -> None:
        self._folder, self._origin = folder, origin
        folder.mkdir(parents=True)
        self._whoosh = WhooshWriter(folder / WHOOSH, memory)
        self._keys = bytearray()
        self._counts: list[int] = []
        self._texts = TokenFields((TEXTS, *SERVICE_FIELDS))
        self._endpoint_texts = TokenFields(ENDPOINT_FIELDS)
        self._encoder = None if encoder is None else ServiceEncoder(encoder)

    def add(self, key: bytes, text: ServiceText) -> None:
        """Index the next service."""
        contents = (text.name, text.description, text.category)
        self._whoosh.add(dict(zip(FIELDS, contents, strict=True)))
        self._texts.add((" ".join(contents), text.host))
        endpoints = [each.contents for each in text.endpoints] if self._origin.endpoints else []
        for searched in endpoints:
            self._endpoint_texts.add(searched)
        if self._encoder is not None:
            self._encoder.add(text.name, text.description, endpoints)
        self._keys += key
        self._counts.append(len(endpoints))

    def finish(self) -> None:
        """Write the segment."""
        keys = np.frombuffer(self._keys, np.uint8).reshape(-1, KEY_SIZE)
        first = np.concatenate(([0], np.cumsum(self._counts, dtype=np.int64)))
        owners = np.repeat(np.arange(len(keys), dtype=np.int32), self._counts)
        texts = self._texts.analyse()
        own = {name: texts.fields[name] for name in SERVICE_FIELDS}
        segment = Segment(
            keys,
            first,
            Analysed(self._whoosh.commit() | own, texts.words),
            self._endpoint_texts.analyse(owners, len(keys)),
            None if self._encoder is None else self._encoder.vectors(),
        )
        write_segment(self._folder, segment, self._origin)

    def cancel(self) -> None:
        """Give the segment up."""
        self._whoosh.cancel()


def merge_segments(
    folder: Path, selections: Sequence[Selection], origin: Origin, memory: int
) -> None:
    """Write services of several segments as one segment."""
    folder.mkdir(parents=True)
    writer = WhooshWriter(folder / WHOOSH, memory)
    count = sum(len(selection.rows) for selection in selections)
    parts, start = [], 0
    try:
        for selection in selections:
            segment = read_segment(selection.folder)
            numbers = np.full(len(segment.keys), GONE, np.int32)
            numbers[selection.rows] = np.arange(start, start + len(selection.rows))
            start += len(selection.rows)
            parts.append((segment, selection.rows, numbers))
            counts = {
                name: _terms_of(segment.services.fields[name], selection.rows, len(segment.keys))
                for name in FIELDS
            }
            for number in range(len(selection.rows)):
                writer.add({name: terms[number] for name, terms in counts.items()})
    except BaseException:
        writer.cancel()
        raise
    fields = writer.commit()
    sizes = [np.diff(segment.first_endpoints)[rows] for segment, rows, _ in parts]
    first = np.concatenate(([0], np.cumsum(np.concatenate(sizes), dtype=np.int64)))
    moved = [
        (segment, numbers, endpoint_numbers(segment.first_endpoints, numbers, first))
        for segment, _, numbers in parts
    ]
    fields |= {
        name: merge_postings(
            [segment.services.fields[name].renumber(numbers) for segment, numbers, _ in moved],
            count,
        )
        for name in SERVICE_FIELDS
    }
    words = [segment.services.words.renumber(numbers) for segment, numbers, _ in moved]
    endpoint_words = [segment.endpoints.words.renumber(numbers) for segment, numbers, _ in moved]
    endpoint_fields = {
        name: merge_postings(
            [segment.endpoints.fields[name].renumber(numbers) for segment, _, numbers in moved],
            int(first[-1]),
        )
        for name in ENDPOINT_FIELDS
    }
    merged = Segment(
        np.concatenate([segment.keys[rows] for segment, rows, _ in parts]),
        first,
        Analysed(fields, merge_postings(words, count)),
        Analysed(endpoint_fields, merge_postings(endpoint_words, count)),
        gather_vectors([(segment.vectors, own, numbers) for segment, own, numbers in moved]),
    )
    write_segment(folder, merged, origin)


def write_segment(folder: Path, segment: Segment, origin: Origin) -> None:
    """Write the files of a segment, its header last."""
    np.save(folder / "keys.npy", segment.keys)
    np.save(folder / "first_endpoints.npy", segment.first_endpoints)
    fields = {f"service {name}": field for name, field in segment.services.fields.items()}
    fields |= {f"endpoint {name}": field for name, field in segment.endpoints.fields.items()}
    fields |= {"words": segment.services.words, "endpoint words": segment.endpoints.words}
    write_fields(folder, fields)
    if segment.vectors is not None:
        save_vectors(folder, segment.vectors)
    header = Header(address_of(segment.keys, origin), origin)
    (folder / SEGMENT).write_bytes(msgspec.json.encode(header))


def address_of(keys: Keys, origin: Origin) -> str:
    """Return the address of a segment: a hash of what went into it."""
    digest = hashlib.sha256(msgspec.json.encode(origin))
    digest.update(keys.tobytes())
    return digest.hexdigest()[:ADDRESS_DIGITS]


_header = msgspec.json.Decoder(Header)


def read_header(folder: Path) -> Header:
    """Read the header of a segment; raises OSError or msgspec.MsgspecError."""
    return _header.decode((folder / SEGMENT).read_bytes())


def read_keys(folder: Path) -> Keys:
    """Read the keys of the services of a segment; raises OSError or ValueError."""
    keys: Keys = load_array(folder / "keys.npy")
    return keys


def read_segment(folder: Path) -> Segment:
    """Read a segment whose files were verified."""
    fields = read_fields(folder)
    first_endpoints = read_first_endpoints(folder)
    return Segment(
        read_keys(folder),
        first_endpoints,
        _analysed(fields, "service ", "words"),
        _analysed(fields, "endpoint ", "endpoint words"),
        load_vectors(folder, len(first_endpoints) - 1),
    )


def _analysed(fields: Mapping[str, FieldPostings], prefix: str, words: str) -> Analysed:
    own = {
        name.removeprefix(prefix): field
        for name, field in fields.items()
        if name.startswith(prefix) and name != words
    }
    return Analysed(own, fields[words])


def _terms_of(
    field: FieldPostings, rows: npt.NDArray[np.int64], count: int
) -> list[dict[bytes, int]]:
    """Return the terms of some of the `count` services, with their counts."""
    numbers = np.full(count, GONE, np.int32)
    numbers[rows] = np.arange(len(rows))
    return list(field.renumber(numbers).by_document(len(rows)))
