"""Writing the data file of the packaged encoder, its vectors in integers."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from indexer.encoder.packaged import StaticEncoder
from service.search.semantic.encoder import LARGEST, LARGEST_SCALE


def quantise_encoder(vocabulary: Sequence[str], vectors: npt.NDArray[np.float32]) -> StaticEncoder:
    """Return an encoder of these vectors of pieces, float32[pieces, dimensions], in integers.

    Pieces without a vector are left out.
    """
    largest = np.abs(vectors).max(axis=1)
    numbers = np.flatnonzero(largest)
    unit = largest.max() / (LARGEST * LARGEST_SCALE)
    scales = np.clip(np.ceil(largest[numbers] / (LARGEST * unit)), 1, LARGEST_SCALE)
    rows = np.rint(vectors[numbers] / (scales * unit)[:, np.newaxis])
    pieces = [vocabulary[number] for number in numbers.tolist()]
    return StaticEncoder("", pieces, rows.astype(np.int8), scales.astype(np.int16))


def save_encoder(path: Path, encoder: StaticEncoder) -> str:
    """Write the data file of an encoder; returns its SHA-256."""
    pieces = np.frombuffer("\n".join(encoder.pieces).encode(), np.uint8)
    with path.open("wb") as file:
        np.savez(file, pieces=pieces, rows=encoder.rows, scales=encoder.scales)
    return hashlib.sha256(path.read_bytes()).hexdigest()
