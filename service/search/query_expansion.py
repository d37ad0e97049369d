"""Words of a query to terms of the index, forgiving ones that no service has."""

from __future__ import annotations

import math
import weakref
from functools import lru_cache, partial
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from service.search.analysis import Word, term_of
from service.search.config import SearchConfig
from service.search.spelling import SpellingIndex
from service.storage.hash_table import open_hash_table
from service.storage.memory_map import items_of, open_array
from service.storage.string_table import StringTable, open_string_table

FULL_WEIGHT_BITS = 8
FULL_WEIGHT = 1 << FULL_WEIGHT_BITS
"""Weights are integers of this many parts, so that weighted impacts stay integers."""
SHORTEST_PREFIX = 3
REMEMBERED_WORDS, REMEMBERED_EXPANSIONS = 1 << 14, 1 << 12


WeightedTerm: TypeAlias = tuple[int, int]
"""A term's number, and its weight in parts of `FULL_WEIGHT`: plain, as queries make many."""


class Expansion(NamedTuple):
    """What one word of a query stands for; remembered between queries, so not to be changed.

    That is its terms, none if there are none, and whether the word says anything that the others do
    not: an identifier kept whole besides its parts does not.
    """

    terms: list[WeightedTerm]
    required: bool


class QueryExpander:
    """Looks up the words of a query, completes and corrects them."""

    def __init__(
        self,
        terms: StringTable,
        words: StringTable,
        word_terms: npt.NDArray[np.int32],
        typos: SpellingIndex,
        likely_meant: npt.NDArray[np.int32],
        document_frequencies: npt.NDArray[np.int64],
        documents: int,
        engine: SearchConfig,
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
        # Caches of bound methods would be cycles, which keep a snapshot mapped after its last use.
        this = weakref.proxy(self)
        self._sense_of = lru_cache(maxsize=REMEMBERED_WORDS)(partial(QueryExpander._look_up, this))
        self._candidates_of = lru_cache(maxsize=REMEMBERED_EXPANSIONS)(
            partial(QueryExpander._candidates, this)
        )

    def meanings_of(self, words: list[Word]) -> list[Expansion]:
        """What each word stands for; neither that nor what is expanded depends on their order.

        Of words that are one term the plainest counts, and the longest terms are expanded first,
        as they say most.
        """
        chosen: dict[int | str, Word] = {}
        for word in words:
            _, identity, _ = self._sense_of(word)
            earlier = chosen.get(identity)
            if earlier is None:
                if len(chosen) == self._engine.query_terms:
                    break
                chosen[identity] = word
            elif _plainness(word) < _plainness(earlier):
                chosen[identity] = word
        meanings: list[Expansion] = []
        doubtful: list[tuple[int, str, int]] = []
        for word in chosen.values():
            meaning, _, is_doubtful = self._sense_of(word)
            if is_doubtful:
                doubtful.append((-len(word.text), word.text, len(meanings)))
            meanings.append(meaning)
        if doubtful:
            doubtful.sort()
            for _, text, position in doubtful[: self._engine.expanded_words]:
                known = meanings[position].terms
                terms = [*known, self._neighbour(text)] if known else self._candidates_of(text)
                meanings[position] = Expansion(terms, True)
        return meanings

    def _look_up(self, word: Word) -> tuple[Expansion, int | str, bool]:
        """What a word stands for as written, what tells terms apart, and whether to expand it."""
        text, joined = word
        number = self._words.find(text)
        if number >= 0:
            # The lexicon knows its own words' terms, which saves stemming.
            term = self._term_of_word[number]
            doubtful = self._likely_meant[number] >= 0
        else:
            stemmed = term_of(text)
            term = self._terms.find(stemmed)
            if term < 0:
                return Expansion([], not joined), stemmed, not joined and _expandable(text)
            doubtful = False
        return Expansion([(term, FULL_WEIGHT)], not joined), term, doubtful and not joined

    def _neighbour(self, text: str) -> WeightedTerm:
        """The term that a word in very few documents probably misspells."""
        meant = self._likely_meant[self._words.find(text)]
        return meant, round(self._engine.one_edit_weight * FULL_WEIGHT)

    def _candidates(self, text: str) -> list[WeightedTerm]:
        """The likeliest completions and corrections of a word that no service has.

        Whatever their own document frequencies, they count as one word as frequent as the most
        frequent of them, and the rarer a candidate, the less likely it was meant: a rare neighbour
        is no better evidence.
        """
        engine, term_of_word = self._engine, self._term_of_word
        weights: dict[int, float] = {}
        for number in self._completions(text):
            weights[term_of_word[number]] = engine.completion_weight
        # Completions that fill the list leave no room for corrections, unless those weigh more.
        if len(weights) < engine.candidates or engine.completion_weight < max(
            engine.one_edit_weight, engine.two_edits_weight
        ):
            for number, edits in self._typos.near(text).items():
                term = term_of_word[number]
                weight = engine.one_edit_weight if edits == 1 else engine.two_edits_weight
                weights[term] = max(weight, weights.get(term, 0.0))
        if not weights:
            return []
        frequency = {term: self._frequency_of[term] for term in weights}
        likeliest = sorted(weights, key=lambda term: (-weights[term], -frequency[term], term))[
            : engine.candidates
        ]
        most = max(frequency[term] for term in likeliest)
        common, likelihood_of_most = self._inverse_document_frequency(most), math.log1p(most)
        meant = []
        for term in likeliest:
            rarity = self._inverse_document_frequency(frequency[term])
            likelihood = math.log1p(frequency[term]) / likelihood_of_most
            weight = weights[term] * likelihood * common / rarity
            meant.append((term, max(1, round(FULL_WEIGHT * weight))))
        return meant

    def _completions(self, text: str) -> list[int]:
        """The words that begin with a text, as many as there can be candidates, frequent first."""
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
    folder: Path, document_frequencies: npt.NDArray[np.int64], documents: int, engine: SearchConfig
) -> QueryExpander:
    """Map the compiled lexicon."""
    words = open_string_table(folder / "words")
    return QueryExpander(
        terms=open_string_table(folder / "terms"),
        words=words,
        word_terms=cast("npt.NDArray[np.int32]", open_array(folder / "word_terms.npy")),
        typos=SpellingIndex(
            words,
            open_hash_table(folder / "one_deletion"),
            open_hash_table(folder / "two_deletions"),
        ),
        likely_meant=open_array(folder / "likely_meant.npy"),
        document_frequencies=document_frequencies,
        documents=documents,
        engine=engine,
    )


def _plainness(word: Word) -> tuple[bool, int, str]:
    return word.joined, len(word.text), word.text


def name_hash(key: str) -> int:
    """64 bits that stand for a name.

    Of a million names, two share them once in forty million catalogues.
    """
    return int.from_bytes(blake2b(key.encode(errors="replace"), digest_size=8).digest(), "little")


def _expandable(text: str) -> bool:
    return not text.isdecimal() and (len(text) >= SHORTEST_PREFIX or not text.isascii())
