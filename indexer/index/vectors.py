"""The vectors of documents: each is its own plus that of its service."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from indexer.derive.columns import RecordColumns
from indexer.encoder.encoding import add_vectors, inverse_lengths
from indexer.index.documents import Documents, OtherTexts
from service.arrays.container import write_arrays
from service.search.semantic.vectors import Rows, signs_of

BATCH = 1024  # vectors


def document_vectors(columns: RecordColumns, others: OtherTexts, documents: Documents) -> Rows:
    """Return the vectors of all documents.

    Vectors are scaled to length 1 before they are added. A service that is a document has its own
    vector alone.
    """
    rows = np.zeros((len(documents.services), others.vectors.shape[1]), np.int8)
    rows[: documents.endpoints[-1]] = columns.endpoint_vectors
    rows[others.documents] = others.vectors
    for start in range(0, len(rows), BATCH):
        batch = slice(start, start + BATCH)
        services = columns.service_vectors[documents.services[batch]]
        rows[batch] = add_vectors(rows[batch], services)
    return rows


def write_vectors(path: Path, rows: Rows) -> None:
    """Write the file of a `VectorIndex`."""
    batches = [rows[start : start + BATCH] for start in range(0, max(len(rows), 1), BATCH)]
    arrays = {
        "rows": rows,
        "inverse_lengths": np.concatenate([*map(inverse_lengths, batches)]),
        "signs": np.concatenate([*map(signs_of, batches)], axis=1),
    }
    write_arrays(path, arrays)
