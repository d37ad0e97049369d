"""Words of a query to terms of the index, forgiving ones that no service has."""

from __future__ import annotations

import math
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from service.analysis import Word, term_of
from service.buckets import open_buckets
from service.engine import Engine
from service.mapped import items_of, open_array
from service.strings import Strings, open_strings
from service.typos import Typos

FULL_WEIGHT_BITS = 8
FULL_WEIGHT = 1 << FULL_WEIGHT_BITS
"""Weights are integers of this many parts, so that weighted impacts stay integers."""
SHORTEST_PREFIX = 3
REMEMBERED_WORDS = 1 << 14


class WeightedTerm(NamedTuple):
    """A term's number, and its weight in parts of `FULL_WEIGHT`."""

    term: int
    weight: int


class Meaning(NamedTuple):
    """The terms that stand for one word of a query, none if there are none, and whether the word says anything
    that the others do not: an identifier kept whole besides its parts does not.
    """

    terms: list[WeightedTerm]
    required: bool


class Lexicon:
    """Looks up the words of a query, completes and corrects them."""

    def __init__(
        self,
        terms: Strings,
        words: Strings,
        word_terms: npt.NDArray[np.int32],
        typos: Typos,
        likely_meant: npt.NDArray[np.int32],
        document_frequencies: npt.NDArray[np.int64],
        documents: int,
        engine: Engine,
    ):
        self._terms = terms
        self._words = words
        self._word_terms = word_terms
        self._term_of_word = items_of(word_terms)
        self._typos = typos
        self._likely_meant = items_of(likely_meant)
        self._document_frequencies = document_frequencies
        self._frequency_of = items_of(document_frequencies)
        self._documents = documents
        self._engine = engine
        self._known = lru_cache(maxsize=REMEMBERED_WORDS)(self._look_up)

    def meanings_of(self, words: list[Word]) -> list[Meaning]:
        """What each word stands for.

        Which words are expanded does not depend on their order: the longest are, as they say most.
        """
        meanings: list[Meaning] = []
        doubtful: list[tuple[int, str, int]] = []
        seen: set[int | str] = set()
        for word in words:
            term, number, identity = self._known(word.text)
            if identity in seen:
                continue
            if len(seen) == self._engine.query_terms:
                break
            seen.add(identity)
            if not word.joined and (
                (term < 0 and _expandable(word.text))
                or (number >= 0 and self._likely_meant[number] >= 0)
            ):
                doubtful.append((-len(word.text), word.text, len(meanings)))
            meanings.append(
                Meaning([WeightedTerm(term, FULL_WEIGHT)] if term >= 0 else [], not word.joined)
            )
        if doubtful:
            doubtful.sort()
        for _, text, position in doubtful[: self._engine.expanded_words]:
            known = meanings[position].terms
            if known:
                neighbour = self._likely_meant[self._words.find(text)]
                known.append(
                    WeightedTerm(neighbour, round(self._engine.one_edit_weight * FULL_WEIGHT))
                )
            else:
                known += self._candidates(text)
        return meanings

    def _look_up(self, text: str) -> tuple[int, int, int | str]:
        """Numbers of a word's term and of the word itself, each -1 if there is none, and what tells terms apart."""
        number = self._words.find(text)
        if number >= 0:
            # The lexicon knows its own words' terms, which saves stemming.
            term = self._term_of_word[number]
            return term, number, term
        stemmed = term_of(text)
        term = self._terms.find(stemmed)
        return term, number, term if term >= 0 else stemmed

    def _candidates(self, text: str) -> list[WeightedTerm]:
        """The likeliest completions and corrections of a word that no service has.

        Whatever their own document frequencies, they count as one word as frequent as the most frequent of
        them, and the rarer a candidate, the less likely it was meant: a rare neighbour is no better evidence.
        """
        engine = self._engine
        weights: dict[int, float] = {}
        for number in self._completions(text):
            weights[int(self._word_terms[number])] = engine.completion_weight
        for number, edits in self._typos.near(text).items():
            term = int(self._word_terms[number])
            weight = engine.one_edit_weight if edits == 1 else engine.two_edits_weight
            weights[term] = max(weight, weights.get(term, 0.0))
        if not weights:
            return []
        frequency = self._frequency_of
        likeliest = sorted(weights, key=lambda term: (-weights[term], -frequency[term], term))[
            : engine.candidates
        ]
        most = max(frequency[term] for term in likeliest)
        common = self._inverse_document_frequency(most)
        meant = []
        for term in likeliest:
            likelihood = math.log1p(frequency[term]) / math.log1p(most)
            weight = (
                weights[term]
                * likelihood
                * common
                / self._inverse_document_frequency(frequency[term])
            )
            meant.append(WeightedTerm(term, max(1, round(FULL_WEIGHT * weight))))
        return meant

    def _completions(self, text: str) -> list[int]:
        """The words that begin with a text, the most frequent first, at most as many as there are candidates."""
        if len(text) < SHORTEST_PREFIX and text.isascii():
            return []
        words = self._words.with_prefix(text)
        if not words:
            return []
        frequencies = self._document_frequencies[self._word_terms[words.start : words.stop]]
        most = np.argsort(-frequencies, kind="stable")[: self._engine.candidates]
        return [words.start + position for position in most.tolist()]

    def _inverse_document_frequency(self, frequency: int) -> float:
        return math.log(1 + (self._documents - frequency + 0.5) / (frequency + 0.5))


def open_lexicon(
    folder: Path, document_frequencies: npt.NDArray[np.int64], documents: int, engine: Engine
) -> Lexicon:
    """Map the compiled lexicon."""
    words = open_strings(folder / "words")
    return Lexicon(
        terms=open_strings(folder / "terms"),
        words=words,
        word_terms=cast("npt.NDArray[np.int32]", open_array(folder / "word_terms.npy")),
        typos=Typos(words, open_buckets(folder / "deletions")),
        likely_meant=open_array(folder / "likely_meant.npy"),
        document_frequencies=document_frequencies,
        documents=documents,
        engine=engine,
    )


def name_hash(key: str) -> int:
    """64 bits that stand for a name: of a million names, two share them once in forty million catalogues."""
    return int.from_bytes(blake2b(key.encode(errors="replace"), digest_size=8).digest(), "little")


def _expandable(text: str) -> bool:
    return not text.isdecimal() and (len(text) >= SHORTEST_PREFIX or not text.isascii())
