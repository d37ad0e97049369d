"""Postings in arrays: renumbered, merged and written to files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from indexer.record_store import load_array

GONE = -1
"""Number of a document that is no longer there."""

Numbers = npt.NDArray[np.int32]


class FieldPostings(NamedTuple):
    """The postings of one field.

    `terms` are in byte order and `sizes` (int64) are the counts of their postings. The postings are
    `documents` (int32) and `counts` (float32), the term frequencies.
    """

    terms: list[bytes]
    sizes: npt.NDArray[np.int64]
    documents: Numbers
    counts: npt.NDArray[np.float32]

    def renumber(self, numbers: Numbers) -> FieldPostings:
        """Return the postings of the documents that have a new number, which is not GONE."""
        documents = numbers[self.documents]
        present = documents != GONE
        if present.all():
            return self._replace(documents=documents)
        before = np.concatenate(([0], np.cumsum(present)))
        bounds = np.concatenate(([0], np.cumsum(self.sizes)))
        sizes = np.diff(before[bounds])
        kept = np.flatnonzero(sizes)
        return FieldPostings(
            [self.terms[number] for number in kept.tolist()],
            sizes[kept],
            documents[present],
            self.counts[present],
        )

    def by_document(self, documents: int) -> Iterator[dict[bytes, int]]:
        """Yield the terms of each document with their counts."""
        order = np.argsort(self.documents, kind="stable")
        owners = np.repeat(np.arange(len(self.terms)), self.sizes)[order].tolist()
        counts = self.counts[order].astype(np.int64).tolist()
        bounds = np.searchsorted(self.documents[order], np.arange(documents + 1)).tolist()
        for start, stop in pairwise(bounds):
            terms = [self.terms[number] for number in owners[start:stop]]
            yield dict(zip(terms, counts[start:stop], strict=True))


def merge_postings(parts: Sequence[FieldPostings], documents: int) -> FieldPostings:
    """Return the postings of one field of different documents, which are numbered together."""
    terms = sorted({term for part in parts for term in part.terms})
    rank = {term: number for number, term in enumerate(terms)}
    owners = [
        np.repeat(np.fromiter(map(rank.__getitem__, part.terms), np.int64), part.sizes)
        for part in parts
    ]
    keys = np.concatenate([np.empty(0, np.int64), *owners]) * max(documents, 1)
    keys += np.concatenate([np.empty(0, np.int32), *(part.documents for part in parts)])
    order = np.argsort(keys, kind="stable")
    ranks, numbers = np.divmod(keys[order], max(documents, 1))
    counts = np.concatenate([np.empty(0, np.float32), *(part.counts for part in parts)])
    sizes = np.bincount(ranks, minlength=len(terms))
    return FieldPostings(terms, sizes, numbers.astype(np.int32), counts[order])


def count_pairs(
    terms: Sequence[bytes],
    ranks: npt.NDArray[np.int64],
    documents: Numbers,
    count: int,
) -> FieldPostings:
    """Return the postings of occurrences: the ranks of their terms, and their documents.

    `terms` are in byte order; `count` is the number of documents.
    """
    keys = ranks * max(count, 1)
    keys += documents
    keys.sort()
    is_first = np.ones(len(keys), np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
    starts = np.flatnonzero(is_first)
    frequencies = np.diff(starts, append=len(keys))
    keys = keys[starts]
    owners, numbers = np.divmod(keys, max(count, 1))
    sizes = np.bincount(owners, minlength=len(terms))
    present = np.flatnonzero(sizes)
    return FieldPostings(
        [terms[rank] for rank in present.tolist()],
        sizes[present],
        numbers.astype(np.int32),
        frequencies.astype(np.float32),
    )


class _Extent(Struct):
    """How many terms and postings a field has in the files."""

    terms: int
    postings: int


_extents = msgspec.json.Decoder(dict[str, _Extent])


def write_fields(folder: Path, fields: Mapping[str, FieldPostings]) -> None:
    """Write the postings of fields, end to end."""
    extents = {
        name: _Extent(len(field.terms), len(field.documents)) for name, field in fields.items()
    }
    (folder / "fields.json").write_bytes(msgspec.json.encode(extents))
    terms = (term for field in fields.values() for term in field.terms)
    (folder / "terms.txt").write_bytes(b"\n".join(terms))
    columns = zip(*(field[1:] for field in fields.values()), strict=True)
    for name, arrays in zip(("sizes", "documents", "counts"), columns, strict=True):
        column = np.concatenate(arrays)
        if name == "documents":
            np.save(folder / "documents.npy", column)
        else:
            largest = int(column.max(initial=0))
            np.save(folder / f"{name}.npy", column.astype(np.min_scalar_type(largest)))


def read_fields(folder: Path) -> dict[str, FieldPostings]:
    """Return the fields that `write_fields` wrote."""
    extents = _extents.decode((folder / "fields.json").read_bytes())
    text = (folder / "terms.txt").read_bytes()
    terms = text.split(b"\n") if text else []
    sizes = load_array(folder / "sizes.npy").astype(np.int64)
    documents = load_array(folder / "documents.npy")
    counts = load_array(folder / "counts.npy").astype(np.float32)
    fields, term, posting = {}, 0, 0
    for name, extent in extents.items():
        own = slice(term, term + extent.terms)
        postings = slice(posting, posting + extent.postings)
        fields[name] = FieldPostings(terms[own], sizes[own], documents[postings], counts[postings])
        term, posting = own.stop, postings.stop
    return fields
