"""The vectors of a segment, and where its endpoints are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from indexer.encoder.quantising import EncodedTexts
from indexer.segments.postings import GONE, Numbers

First = npt.NDArray[np.int64]
"""int64[services + 1], the number of the first endpoint of each service."""


def endpoint_numbers(own: First, numbers: Numbers, first_endpoints: First) -> Numbers:
    """Return the numbers that endpoints get where their services get `numbers`, or GONE.

    `own` are the first endpoints of the services, `first_endpoints` those by the new numbers.
    """
    sizes = np.diff(own)
    is_gone = numbers == GONE
    starts = np.where(is_gone, 0, first_endpoints[numbers])
    moved = np.arange(own[-1]) + np.repeat(starts - own[:-1], sizes)
    return np.where(np.repeat(is_gone, sizes), GONE, moved).astype(np.int32)


def gather_vectors(
    parts: Sequence[tuple[EncodedTexts, Numbers]], count: int, dimensions: int
) -> EncodedTexts:
    """Return `count` vectors by their new numbers, zeros for a number without a vector."""
    rows, inverse_lengths = np.zeros((count, dimensions), np.int8), np.zeros(count, np.float32)
    for vectors, numbers in parts:
        present = np.flatnonzero(numbers != GONE)
        rows[numbers[present]] = vectors.rows[present]
        inverse_lengths[numbers[present]] = vectors.inverse_lengths[present]
    return EncodedTexts(rows, inverse_lengths)
