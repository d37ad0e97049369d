"""Writing the vectors of documents."""

from __future__ import annotations

from pathlib import Path

from indexer.encoder.quantising import EncodedTexts, add_vectors
from indexer.segments.postings import Numbers
from service.search.semantic.vectors import signs_of
from service.storage.container import Arrays, write_arrays

BATCH = 1024  # vectors


def add_services(
    vectors: EncodedTexts, services: EncodedTexts, service_of: Numbers
) -> EncodedTexts:
    """Add the vectors of services to those of their documents, scaled to length 1, in place."""
    rows, inverse_lengths = vectors
    for start in range(0, len(rows), BATCH):
        batch = slice(start, start + BATCH)
        owners = service_of[batch]
        rows[batch], inverse_lengths[batch] = add_vectors(
            EncodedTexts(rows[batch], inverse_lengths[batch]),
            EncodedTexts(services.rows[owners], services.inverse_lengths[owners]),
        )
    return vectors


def write_vectors(path: Path, vectors: EncodedTexts) -> None:
    """Write the file of a `VectorIndex`."""
    rows, inverse_lengths = vectors
    arrays: Arrays = {"rows": rows, "inverse_lengths": inverse_lengths}
    write_arrays(path, arrays | {"signs": signs_of(rows)})
