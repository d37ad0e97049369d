"""The Whoosh index of a segment: the name, description and category of its services.

It is read back as plain arrays. Only what all distributions of Whoosh offer publicly is used.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from whoosh import index
from whoosh.fields import FieldType, Schema
from whoosh.formats import Existence

from indexer.encoder.words import CACHED_PIECES, is_cached, words_of_piece
from indexer.errors import IndexerError
from indexer.processes.resources import MIB
from indexer.segments.postings import FieldPostings
from service.search.analysis import term_of

FIELDS = ("name", "description", "category")

WRITE_LOCK = "MAIN_WRITELOCK"
"""An empty file that a Whoosh writer leaves behind, of use to a second writer alone."""


class Terms(FieldType):  # type: ignore[misc]  # Whoosh is untyped
    """A field that stores the terms of a text, stop words included, and their counts as weights.

    The index is read back and never searched, so that it has no positions, and lengths only if
    `scorable`.
    """

    def __init__(self, *, scorable: bool = False) -> None:
        super().__init__(format=Existence(), analyzer=None, scorable=scorable)

    def index(
        self, value: str | Mapping[bytes, int], **_: Any
    ) -> Iterator[tuple[bytes, int, float, bytes]]:
        """Yield each term with its frequency, its weight, and the value of its posting (none).

        `value` is a text, or the counts of its terms.
        """
        for term, count in (count_terms(value) if isinstance(value, str) else value).items():
            yield term, count, float(count), b""


def count_terms(text: str) -> Counter[bytes]:
    """Return the terms of a text with their counts."""
    return Counter(chain.from_iterable(map(_terms_of_piece, text.split())))


class WhooshWriter:
    """Writes an index in a folder.

    Beyond `memory` bytes of postings, Whoosh spills to disk.
    """

    def __init__(self, folder: Path, memory: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        schema = Schema(**{field: Terms() for field in FIELDS})
        self._folder = folder
        self._writer = index.create_in(str(folder), schema).writer(limitmb=memory // MIB)
        self._count = 0

    def add(self, document: Mapping[str, str | Mapping[bytes, int]]) -> None:
        """Add the next document, by the text of each field, or the counts of its terms."""
        self._writer.add_document(**document)
        self._count += 1

    def commit(self) -> dict[str, FieldPostings]:
        """Write the index; returns the postings by field, the documents numbered as they came.

        Raises IndexerError if Whoosh lost a document.
        """
        try:
            self._writer.commit(optimize=True)
        except BaseException:
            with suppress(Exception):  # which closes the files as far as the commit left them open
                self._writer.cancel()
            raise
        (self._folder / WRITE_LOCK).unlink(missing_ok=True)
        return _read_back(self._folder, self._count)

    def cancel(self) -> None:
        """Give up an index that was not committed."""
        self._writer.cancel()


def _read_back(folder: Path, count: int) -> dict[str, FieldPostings]:
    reader: Any = index.open_dir(str(folder), readonly=True).reader()
    try:
        if reader.doc_count_all() != count:
            raise IndexerError(
                f"the index in {folder} has {reader.doc_count_all()} documents, not {count}; "
                "build again"
            )
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


def _terms_of_piece(piece: str) -> tuple[bytes, ...]:
    return _cached_terms(piece) if is_cached(piece) else _analyse(piece)


def _analyse(piece: str) -> tuple[bytes, ...]:
    return tuple(term_of(word.text).encode() for word in words_of_piece(piece))


_cached_terms = lru_cache(maxsize=CACHED_PIECES)(_analyse)
