"""The Whoosh index over the name, description and category of every service.

It is written in parts, each an index of a span of the listing; each part is read back as plain
arrays, which are compiled to postings. Only what all distributions of Whoosh offer publicly is
used.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from whoosh import index
from whoosh.fields import FieldType, Schema
from whoosh.formats import Existence

from indexer.encoder.quantising import EncodedTexts
from indexer.errors import IndexerError
from indexer.resources import MIB, WHOOSH_MEMORY
from indexer.words import CACHED_PIECES, LONGEST_CACHED, words_of_piece
from service.search.analysis import term_of

FIELDS = ("name", "description", "category")

WRITE_LOCK = "MAIN_WRITELOCK"
"""An empty file that a Whoosh writer leaves behind, of use to a second writer alone."""


class FieldPostings(NamedTuple):
    """The postings of one field of a part.

    `terms` are in byte order and `sizes` (int64) are the counts of their postings. The postings are
    `documents` (int32), numbered from 0 in each part, and `counts` (float32), the term frequencies.
    """

    terms: list[bytes]
    sizes: npt.NDArray[np.int64]
    documents: npt.NDArray[np.int32]
    counts: npt.NDArray[np.float32]


class Part(NamedTuple):
    """The index of the services from the ordinal `start` on.

    `fields` are its postings by field, `vocabulary` maps each folded word to its term; `vectors`
    are those of the texts, if these are encoded.
    """

    start: int
    fields: dict[str, FieldPostings]
    vocabulary: dict[str, str]
    vectors: EncodedTexts | None = None


class Terms(FieldType):  # type: ignore[misc]  # Whoosh is untyped
    """A field that stores the terms of a text, stop words included, and their counts as weights.

    The index is read back and never searched, so that it has no positions, and lengths only if
    `scorable`.
    """

    def __init__(self, *, scorable: bool = False) -> None:
        super().__init__(format=Existence(), analyzer=None, scorable=scorable)

    def index(self, value: str, **_: Any) -> Iterator[tuple[bytes, int, float, bytes]]:
        """Yield each term with its frequency, its weight, and the value of its posting (none)."""
        counts = Counter(chain.from_iterable(map(_terms_of_piece, value.split())))
        for term, count in counts.items():
            yield term, count, float(count), b""


def index_part(
    folder: Path,
    documents: Iterable[tuple[str, str, str]],
    start: int = 0,
    memory: int = WHOOSH_MEMORY,
) -> Part:
    """Index `(name, description, category)` in listing order, beginning with the ordinal `start`.

    Beyond `memory` bytes of postings, Whoosh spills to disk. Raises IndexerError if it lost a
    document.
    """
    folder.mkdir(parents=True, exist_ok=True)
    schema = Schema(**{field: Terms() for field in FIELDS})
    writer = index.create_in(str(folder), schema).writer(limitmb=memory // MIB)
    pieces: set[str] = set()
    count = 0
    try:
        for document in documents:
            for text in document:
                pieces.update(text.split())
            writer.add_document(**dict(zip(FIELDS, document, strict=True)))
            count += 1
    except BaseException:
        writer.cancel()
        raise
    writer.commit(optimize=True)
    (folder / WRITE_LOCK).unlink(missing_ok=True)
    words = {word.text for piece in pieces for word in words_of_piece(piece)}
    vocabulary = {word: term_of(word) for word in words}
    return Part(start, _read_back(folder, count), vocabulary)


def _read_back(folder: Path, count: int) -> dict[str, FieldPostings]:
    """Return the postings of each field; document numbers are in the order of writing."""
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
    return _cached_terms(piece) if len(piece) <= LONGEST_CACHED else _analyse(piece)


def _analyse(piece: str) -> tuple[bytes, ...]:
    return tuple(term_of(word.text).encode() for word in words_of_piece(piece))


_cached_terms = lru_cache(maxsize=CACHED_PIECES)(_analyse)
