"""The vectors of a segment, and where its endpoints are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from indexer.encoder.encoding import open_text_encoder
from indexer.encoder.quantising import EncodedTexts, concatenate
from indexer.record_store import load_array
from indexer.segments.postings import GONE, Numbers

First = npt.NDArray[np.int64]
"""int64[services + 1], the number of the first endpoint of each service."""


class Vectors(NamedTuple):
    """The vectors of services and of their endpoints."""

    services: EncodedTexts
    endpoints: EncodedTexts


class ServiceEncoder:
    """Encodes services and their endpoints, with the `Encoder` of a folder."""

    def __init__(self, folder: Path) -> None:
        self._services = open_text_encoder(folder)
        self._endpoints = open_text_encoder(folder)

    def add(self, name: str, description: str, endpoints: Iterable[Sequence[str]]) -> None:
        """Add the next service, with the paths and the descriptions of its endpoints."""
        self._services.add(name, description)
        for path, text, *_ in endpoints:
            self._endpoints.add(path, text)

    def vectors(self) -> Vectors:
        """Return the vectors of all services."""
        return Vectors(self._services.encoded(), self._endpoints.encoded())


def gather_live_vectors(segments: Sequence[tuple[Path, Numbers]], encoder: Path) -> Vectors:
    """Return the vectors of segments in listing order, given the ordinals of their services.

    `encoder` is the folder of their encoder, whose dimensions the vectors of no segments have, too.
    Raises ValueError for segments without vectors.
    """
    if not segments:
        return ServiceEncoder(encoder).vectors()
    own = [read_first_endpoints(folder) for folder, _ in segments]
    counts = np.zeros(sum(int(np.count_nonzero(each != GONE)) for _, each in segments), np.int64)
    for first, (_, ordinals) in zip(own, segments, strict=True):
        counts[ordinals[ordinals != GONE]] = np.diff(first)[ordinals != GONE]
    listing = np.concatenate(([0], np.cumsum(counts)))
    gathered = gather_vectors(
        [
            (load_vectors(folder, len(each)), each, endpoint_numbers(first, each, listing))
            for first, (folder, each) in zip(own, segments, strict=True)
        ]
    )
    if gathered is None:
        raise ValueError("a segment has no vectors")
    return gathered


def gather_vectors(parts: Sequence[tuple[Vectors | None, Numbers, Numbers]]) -> Vectors | None:
    """Return vectors by the new numbers of services and endpoints, None if some have none."""
    services, endpoints = [], []
    for vectors, service_numbers, numbers in parts:
        if vectors is None:
            return None
        services.append((vectors.services, service_numbers))
        endpoints.append((vectors.endpoints, numbers))
    return Vectors(_gather(services), _gather(endpoints))


def endpoint_numbers(own: First, numbers: Numbers, first_endpoints: First) -> Numbers:
    """Return the numbers that endpoints get where their services get `numbers`, or GONE.

    `own` are the first endpoints of the services, `first_endpoints` those by the new numbers.
    """
    sizes = np.diff(own)
    is_gone = numbers == GONE
    starts = np.where(is_gone, 0, first_endpoints[numbers])
    moved = np.arange(own[-1]) + np.repeat(starts - own[:-1], sizes)
    return np.where(np.repeat(is_gone, sizes), GONE, moved).astype(np.int32)


def read_first_endpoints(folder: Path) -> First:
    """Read the first endpoints of a segment."""
    first_endpoints: First = load_array(folder / "first_endpoints.npy")
    return first_endpoints


def save_vectors(folder: Path, vectors: Vectors) -> None:
    """Write the vectors of a segment."""
    rows, inverse_lengths = concatenate(vectors)
    np.save(folder / "vectors.npy", rows)
    np.save(folder / "inverse_lengths.npy", inverse_lengths)


def load_vectors(folder: Path, services: int) -> Vectors | None:
    """Read the vectors of a segment of so many services, if it has some."""
    if not (folder / "vectors.npy").exists():
        return None
    rows = load_array(folder / "vectors.npy")
    lengths = load_array(folder / "inverse_lengths.npy")
    return Vectors(
        EncodedTexts(rows[:services], lengths[:services]),
        EncodedTexts(rows[services:], lengths[services:]),
    )


def _gather(parts: Sequence[tuple[EncodedTexts, Numbers]]) -> EncodedTexts:
    """Return the vectors in the order of their new numbers, which have no gaps."""
    count = sum(int(np.count_nonzero(numbers != GONE)) for _, numbers in parts)
    first, _ = parts[0]
    rows = np.empty((count, first.rows.shape[1]), first.rows.dtype)
    inverse_lengths = np.empty(count, np.float32)
    for vectors, numbers in parts:
        there = np.flatnonzero(numbers != GONE)
        rows[numbers[there]] = vectors.rows[there]
        inverse_lengths[numbers[there]] = vectors.inverse_lengths[there]
    return EncodedTexts(rows, inverse_lengths)
