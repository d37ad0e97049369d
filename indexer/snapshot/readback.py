"""Reading back: every posting of a Whoosh index, through its public reader, as plain arrays."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from whoosh import index

FIELDS = ("name", "description", "category")


class FieldPostings(NamedTuple):
    """The postings of one field.

    `terms` are in byte order and `sizes` (int64) says how many postings each has; of those,
    `documents` (int32) are the document numbers and `counts` (float32) how often the term is there.
    """

    terms: list[bytes]
    sizes: npt.NDArray[np.int64]
    documents: npt.NDArray[np.int32]
    counts: npt.NDArray[np.float32]


def read_back(folder: Path) -> dict[str, FieldPostings]:
    """The postings of each field of an index of one segment."""
    reader: Any = index.open_dir(str(folder), readonly=True).reader()
    try:
        return {field: _read_field(reader, field) for field in FIELDS}
    finally:
        reader.close()


def _read_field(reader: Any, field: str) -> FieldPostings:
    terms, sizes, documents, counts = [], array("q"), array("i"), array("f")
    if field in reader.indexed_field_names():
        for term, info in reader.iter_field(field):
            size, total = info.doc_frequency(), info.weight()
            terms.append(term)
            sizes.append(size)
            if size == 1:
                documents.append(info.min_id())
                counts.append(total)
                continue
            matcher = reader.postings(field, term)
            if total == size:
                documents.extend(matcher.all_ids())
                counts.extend(array("f", [1]) * size)
                continue
            while matcher.is_active():
                documents.append(matcher.id())
                counts.append(matcher.weight())
                matcher.next()
    return FieldPostings(
        terms,
        np.asarray(sizes, np.int64),
        np.asarray(documents, np.int32),
        np.asarray(counts, np.float32),
    )
