"""Runs: the postings of one field in one part of a catalogue, on disk while they are compiled.

Documents are numbered and terms are ranked before the postings are compiled by ranges of terms, so
that a process holds one part or one range at a time, however large the catalogue.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, count, pairwise
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from indexer.columns.ragged import bounds_of
from indexer.search.parts import Documents, Part
from indexer.segments.postings import GONE, FieldPostings
from service.search.config import SearchConfig
from service.search.postings import Integers
from service.storage.container import Array, Layout, writing_arrays

Doubles = npt.NDArray[np.float64]

POSTINGS = Layout(
    "The postings of a part, field by field.",
    documents=Array("<i4", "postings"),
    counts=Array("<u4", "postings"),
)
DOCUMENTS = Layout(
    "The documents of a catalogue, and the length norm of each of their fields.",
    services=Array("<i4", "documents"),
    prior=Array("<f8", "documents"),
    first_endpoints=Array("<i8", "services+1"),
    first_others=Array("<i8", "services+1"),
    shares=Array("<i8", "services"),
    norms=Array("<f8", "fields,documents"),
    service_norms=Array("<f8", "fields,services"),
)


class Run(NamedTuple):
    """The postings of some terms, of one field in one part.

    path: of the postings of the part
    field: its number in the order of the weights
    of_services: as in `Part`
    terms: int32, the ranks of the terms, ascending
    bounds: int64[terms + 1], where the postings of each term begin
    """

    path: Path
    field: int
    of_services: bool
    terms: npt.NDArray[np.int32]
    bounds: Integers

    def between(self, start: int, stop: int) -> Run:
        """Return the postings of terms `start` to `stop`, with ranks counted from `start`."""
        first, last = np.searchsorted(self.terms, (start, stop)).tolist()
        return self._replace(
            terms=self.terms[first:last] - np.int32(start), bounds=self.bounds[first : last + 1]
        )


class Runs(NamedTuple):
    """The runs of a catalogue by field, and its terms and words in byte order.

    documents: the path of DOCUMENTS
    words: each is a word, a blank and its term
    """

    runs: list[Run]
    terms: list[bytes]
    documents: Path
    words: list[bytes]


def write_runs(
    folder: Path, parts: Iterable[Part], documents: Documents, prior: Doubles, config: SearchConfig
) -> Runs:
    """Write the postings part by part; one part is in memory at a time."""
    folder.mkdir()
    numbers = defaultdict[bytes, int](count().__next__)  # in the order in which they come first
    words: set[bytes] = set()
    fields = {name: number for number, name in enumerate(config.field_weights)}
    lengths = _Lengths(documents, len(fields))
    runs = []
    for position, part in enumerate(parts):
        path = folder / f"part {position}"
        words.update(part.words)
        own = [(fields[name], each) for name, each in part.fields.items()]
        starts = accumulate((len(each.documents) for _, each in own), initial=0)
        for start, (field, each) in zip(starts, own, strict=False):
            lengths.add(field, each, of_services=part.of_services)
            own_terms = each.terms.texts()
            terms = np.fromiter(map(numbers.__getitem__, own_terms), np.int32, len(own_terms))
            bounds = start + bounds_of(each.sizes)
            runs.append(Run(path, field, part.of_services, terms, bounds))
        with writing_arrays(path, POSTINGS) as writer:
            writer.stream("documents", (each.documents for _, each in own))
            writer.stream("counts", (each.counts.astype(np.uint32) for _, each in own))
    in_order = sorted(numbers)
    ranks = np.empty(len(in_order), np.int32)
    ranks[[numbers[term] for term in in_order]] = np.arange(len(in_order))
    runs = [run._replace(terms=ranks[run.terms]) for run in runs]
    lengths.write(folder / "documents", prior, config.length_normalisation)
    return Runs(
        sorted(runs, key=attrgetter("field")), in_order, folder / "documents", sorted(words)
    )


def divide_terms(
    runs: Sequence[Run], terms: int, target: int, documents: Documents
) -> Iterator[range]:
    """Yield ranges of terms with about `target` postings each, and of one term at least.

    A posting of a service counts as often as a service has documents on average.
    """
    sizes = np.zeros(terms)
    share = len(documents.services) / max(len(documents.own), 1)
    for run in runs:
        sizes[run.terms] += np.diff(run.bounds) * (share if run.of_services else 1)
    starts = np.flatnonzero(np.diff(np.cumsum(sizes) // target, prepend=-1))
    for start, stop in pairwise([0, *starts[1:].tolist(), terms]):
        yield range(start, stop)


class _Lengths:
    """Lengths of fields, which are sums of the counts of terms, by document and by service."""

    def __init__(self, documents: Documents, fields: int) -> None:
        self._documents = documents
        # Fields that no document has take no memory: these zeros are never written.
        self._of_documents = np.zeros((fields, len(documents.services)), np.int64)
        self._of_services = np.zeros((fields, len(documents.own)), np.int64)
        counts = np.diff(documents.endpoints) + np.diff(documents.others)
        self._shares = np.where(documents.own == GONE, counts, 0)

    def add(self, field: int, postings: FieldPostings, *, of_services: bool) -> None:
        """Add the lengths of the documents, or of the services, of some postings."""
        lengths = self._of_services if of_services else self._of_documents
        np.add.at(lengths[field], postings.documents, postings.counts.astype(np.int64))

    def write(self, path: Path, prior: Doubles, b: float) -> None:
        """Write DOCUMENTS with the norms 1 - b + b · length / average length.

        The average leaves out documents without the field, which would lower it.
        """
        documents = self._documents
        averages = [*map(self._average, self._of_documents, self._of_services)]
        sides = (("norms", self._of_documents), ("service_norms", self._of_services))
        with writing_arrays(path, DOCUMENTS) as writer:
            writer.write("services", documents.services)
            writer.write("prior", prior)
            writer.write("first_endpoints", documents.endpoints)
            writer.write("first_others", documents.others)
            writer.write("shares", self._shares)
            for name, lengths in sides:
                norms = (
                    (1 - b + b * own / average)[np.newaxis]
                    for own, average in zip(lengths, averages, strict=True)
                )
                writer.stream(name, norms)

    def _average(self, of_documents: Integers, of_services: Integers) -> float:
        total = int(of_documents.sum()) + int(of_services @ self._shares)
        having = int(np.count_nonzero(of_documents)) + int(self._shares[of_services > 0].sum())
        return max(total / max(having, 1), 1e-9)
