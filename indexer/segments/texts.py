"""The analysis of the texts of services and endpoints to postings.

Texts are cut at white space into pieces, which are numbered as they come; a piece is analysed once,
when all texts were added.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, count
from typing import NamedTuple

import numpy as np

from indexer.columns.ragged import Ragged, rank_texts
from indexer.encoder.words import words_of_piece
from indexer.segments.postings import FieldPostings, Numbers, count_pairs
from service.search.analysis import term_of


class Analysed(NamedTuple):
    """The postings of fields, and of words: the documents that have each word as it is written.

    The terms of `words` are a word, a blank, and the term of the word.
    """

    fields: dict[str, FieldPostings]
    words: FieldPostings


class TokenFields:
    """The tokens of the texts of documents, by field."""

    def __init__(self, names: Sequence[str]) -> None:
        self._pieces = defaultdict[str, int](count().__next__)  # numbered as they come
        self._tokens = {name: (array("i"), array("i")) for name in names}

    def add(self, contents: Sequence[str]) -> None:
        """Add the next document, by a text for each field."""
        number = self._pieces.__getitem__
        for (tokens, counts), content in zip(self._tokens.values(), contents, strict=True):
            before = len(tokens)
            tokens.extend(map(number, content.split()))
            counts.append(len(tokens) - before)

    def analyse(self, owners: Numbers | None = None, owner_count: int = 0) -> Analysed:
        """Analyse the documents.

        Words are kept by `owner_count` owners of the documents, or by the documents themselves.
        """
        cut = _Words(self._pieces)
        fields, pairs = {}, []
        for name, (tokens, counts) in self._tokens.items():
            numbers = np.arange(len(counts), dtype=np.int32)
            documents = np.repeat(numbers, np.asarray(counts, np.int32))
            sizes, words = cut.pieces.take(np.asarray(tokens, np.int32))
            documents = np.repeat(documents, sizes)
            fields[name] = count_pairs(cut.terms, cut.term_ranks[words], documents, len(counts))
            pairs.append((words, documents if owners is None else owners[documents]))
        total = len(counts) if owners is None else owner_count
        words, documents = (np.concatenate(each) for each in zip(*pairs, strict=True))
        occurrences = count_pairs(cut.entries, cut.entry_ranks[words], documents, total)
        return Analysed(fields, occurrences._replace(counts=np.ones_like(occurrences.counts)))


class _Words:
    """The words of the pieces, each analysed once.

    pieces: int32, the numbers of the words of each piece
    terms, entries: the terms, and the words with their terms, in byte order
    term_ranks, entry_ranks: int64[words], the position of the term and of the entry of each word
    """

    def __init__(self, pieces: Iterable[str]) -> None:
        numbers: dict[str, int] = {}
        cut = [
            [numbers.setdefault(word.text, len(numbers)) for word in words_of_piece(piece)]
            for piece in pieces
        ]
        sizes = np.fromiter(map(len, cut), np.uint32, len(cut))
        self.pieces = Ragged(sizes, np.fromiter(chain.from_iterable(cut), np.int32))
        terms = [term_of(word).encode() for word in numbers]
        entries = [
            b"%b %b" % (word.encode(), term) for word, term in zip(numbers, terms, strict=True)
        ]
        self.terms, self.term_ranks = rank_texts(terms)
        self.entries, self.entry_ranks = rank_texts(entries)
