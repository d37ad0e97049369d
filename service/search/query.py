"""A plain-text query to what it asks for: weighted terms, an exact name, a vector.

Words that no service has are completed and corrected.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from service.arrays.container import Arrays, items_of
from service.arrays.string_table import StringTable
from service.arrays.texts import text_hash
from service.errors import REBUILD, SnapshotUnsupported
from service.search.analysis import (
    LONGEST_WORD,
    Word,
    is_encodable,
    name_key,
    query_words,
    term_of,
)
from service.search.config import SEARCH_CONFIG
from service.search.postings import FULL_WEIGHT, Header, Integers, WeightedTerm
from service.search.semantic.encoder import IDENTIFIER, Encoder, QueryVector
from service.search.spelling import SpellingIndex
from service.search.stopwords import STOP_WORDS
from service.search.top_k import NO_ORDINALS, top_k

SHORTEST_PREFIX = 3
MOST_COMPLETIONS = 1 << 14
"""Words with a prefix that may complete it, the first in the order of the alphabet."""
CACHED_WORDS = 1 << 12
"""Words whose numbers are kept, which saves a tenth of a search; none is long."""
LIKELIER_STOP_WORD = 20
"""How many times as many services have a stop word that a query word is taken for."""


class Expansion(NamedTuple):
    """The terms that a query word stands for, none if no service has it.

    `required` is false for an identifier whose parts are words of the query, too, and for a
    misspelt stop word. `alternative` is the likeliest completion or correction of a word that no
    service has, if there is one; `is_known` tells whether a service has it.
    """

    word: str
    terms: list[WeightedTerm]
    required: bool
    is_known: bool
    alternative: str = ""


class ParsedQuery(NamedTuple):
    """A query, looked up in the lexicon of a snapshot.

    expansions: its distinct words
    names: the services whose name is the query, ascending
    vector: None for a query that is ranked by its words alone
    similarity_weight: the impact of a cosine of 1
    """

    expansions: list[Expansion]
    names: Integers
    vector: QueryVector | None = None
    similarity_weight: float = 0.0

    @property
    def reach(self) -> float:
        """The share that its matches reach of the scores that those of very many words reach."""
        return 1 - 0.6 / math.sqrt(len(self.expansions) or 1)

    @property
    def is_satisfiable(self) -> bool:
        """Whether any document may have all required words."""
        required = [each for each in self.expansions if each.required]
        return bool(required) and all(each.terms for each in required)


class QueryParser:
    """Parses queries with the lexicon, the names and the encoder of a snapshot.

    The idf of a term counts documents, but its rarity and its likelihood count services.

    document_frequencies, group_frequencies: how many documents and services have each term
    word_terms: the term of each word
    names.hashes, names.services: the sorted hashes of names, and the service of each

    Raises SnapshotUnsupported for a lexicon that another version analysed.
    """

    def __init__(self, index: Arrays, header: Header, encoder: Encoder | None = None) -> None:
        analysis = header.config.analysis
        if analysis != SEARCH_CONFIG.analysis:
            raise SnapshotUnsupported(
                f"the snapshot has terms of analysis {analysis}, this version searches those of "
                f"analysis {SEARCH_CONFIG.analysis}; {REBUILD}"
            )
        self.header, self._config, self._encoder = header, header.config, encoder
        self.terms, self._words = StringTable(index, "terms"), StringTable(index, "words")
        self._find = lru_cache(CACHED_WORDS)(self._words.find)
        self._document_frequency_of = items_of(index["document_frequencies"])
        self._service_frequency_of = items_of(index["group_frequencies"])
        self._term_of_word = items_of(index["word_terms"])
        self._stop_words = frozenset(map(self._words.find, STOP_WORDS)) - {-1}
        frequencies = index["group_frequencies"].take(index["word_terms"])
        self._word_frequencies = frequencies.astype(np.int64)
        self._word_frequencies[list(self._stop_words)] = 0  # they complete and correct no word
        self._spelling = SpellingIndex(self._words, self._word_frequencies, index)
        self._name_hashes, self._named = items_of(index["names.hashes"]), index["names.services"]

    def term(self, number: int) -> str:
        """Return the text of a term."""
        return self.terms[number]

    def parse(self, query: str) -> ParsedQuery:
        """Return what a query asks for."""
        words = query_words(query)
        expansions = self.expand(words)
        names = self._services_named(query) if words else NO_ORDINALS
        if self._encoder is None:
            return ParsedQuery(expansions, names)
        vector, config = encode_query(self._encoder, query, expansions), self._config
        weight = config.similarity_weight * config.impact_scale
        if vector is not None and self.is_specific(expansions):
            weight *= config.specific_weight
        return ParsedQuery(expansions, names, vector, weight)

    def expand(self, words: list[Word]) -> list[Expansion]:
        """Return the expansion of each distinct term; the order of the words changes none.

        Of words with one term the simplest is expanded. The longest words are completed and
        corrected first, as they are the most specific.
        """
        config, distinct = self._config, dict[int | str, Word]()
        for word in words:
            is_short = len(word.text) <= LONGEST_WORD
            number = self._find(word.text) if is_short else self._words.find(word.text)
            # The term of a known word is stored, which saves stemming.
            key = self._term_of_word[number] if number >= 0 else self._term(word.text)
            other = distinct.get(key)
            if other is None:
                if len(distinct) == config.query_terms:
                    break
                distinct[key] = word
            elif _complexity(word) < _complexity(other):
                distinct[key] = word
        expansions, unknown = list[Expansion](), list[tuple[int, str, int]]()
        for key, (text, redundant) in distinct.items():
            if isinstance(key, str):
                if not redundant and _is_expandable(text):
                    unknown.append((-len(text), text, len(expansions)))
                expansions.append(Expansion(text, [], not redundant, is_known=False))
            else:
                expansions.append(Expansion(text, [(key, FULL_WEIGHT)], not redundant, True))
        for _, text, position in sorted(unknown)[: config.expanded_words]:
            expansions[position] = self._candidates(text)
        if unknown and not any(each.required for each in expansions):
            # Like a query of stop words, one of misspelt stop words requires them.
            return [each._replace(required=True) for each in expansions]
        return expansions

    def count_postings(self, expansions: list[Expansion]) -> int:
        """Return the count of the postings of all terms."""
        return sum(
            self._document_frequency_of[term] for each in expansions for term, _ in each.terms
        )

    def is_specific(self, expansions: list[Expansion]) -> bool:
        """Return whether a query is a few words, and asks above all for rare ones of them.

        Words of other languages that no document has do not count: they mean nothing to an encoder.
        """
        config, frequency_of = self._config, self._service_frequency_of
        most = min(config.rare_documents, int(self.header.groups * config.specific_rarity))
        # Most queries have no rare word, which saves the rest.
        if not any(each.terms and frequency_of[each.terms[0][0]] <= most for each in expansions):
            return False
        required = [
            each for each in expansions if each.required and (each.terms or is_encodable(each.word))
        ]
        if len(required) > config.specific_words:
            return False
        terms = [each.terms[0][0] for each in required if each.terms]
        rare = sum(self._idf(term) for term in terms if frequency_of[term] <= most)
        return rare > config.specific_share * sum(map(self._idf, terms))

    def _term(self, text: str) -> int | str:
        """Return the number of the term of a word, or its stem where no document has it."""
        stem = term_of(text)
        term = self.terms.find(stem)
        return stem if term < 0 else term

    def _candidates(self, text: str) -> Expansion:
        """Return the likeliest completions and corrections of a word that no service has."""
        config, term_of_word = self._config, self._term_of_word
        weights: dict[int, float] = {}
        words: dict[int, int] = {}
        for number in self._completions(text):
            weights[term_of_word[number]] = config.completion_weight
            words.setdefault(term_of_word[number], number)
        required = True
        # Completions that fill the list leave no room for corrections, unless those weigh more.
        if len(weights) < config.candidates or config.completion_weight < max(
            config.one_edit_weight, config.two_edits_weight
        ):
            near = self._spelling.corrections(text)
            required = bool(weights) or not self._are_stop_words(near)
            for number, edits in near.items():
                if number not in self._stop_words:
                    term = term_of_word[number]
                    weight = config.one_edit_weight if edits == 1 else config.two_edits_weight
                    weights[term] = max(weight, weights.get(term, 0.0))
                    words.setdefault(term, number)
        if not weights:
            return Expansion(text, [], required, is_known=False)
        frequency_of = self._service_frequency_of
        likeliest = sorted(weights, key=lambda term: (-weights[term], -frequency_of[term], term))
        terms = likeliest[: config.candidates]
        # They weigh as one word, as frequent as the most frequent: a rare candidate is no better
        # evidence than a frequent one, and less likely to be meant.
        idfs = [self._idf(term) for term in terms]
        likelihoods = [math.log1p(frequency_of[term]) for term in terms]
        factor = FULL_WEIGHT * min(idfs) / max(likelihoods)
        weighted = [
            (term, max(1, round(factor * weights[term] * likelihood / idf)))
            for term, likelihood, idf in zip(terms, likelihoods, idfs, strict=True)
        ]
        alternative = self._words[words[likeliest[0]]]
        return Expansion(text, weighted, required, is_known=False, alternative=alternative)

    def _completions(self, text: str) -> list[int]:
        """Return the most frequent words with this prefix, at most `candidates`."""
        if len(text) < SHORTEST_PREFIX and text.isascii():
            return []
        words = self._words.with_prefix(text)[:MOST_COMPLETIONS]
        if not words:
            return []
        frequencies = self._word_frequencies[words.start : words.stop]
        likeliest = top_k(np.arange(len(words)), frequencies, self._config.candidates) + words.start
        return [number for number in likeliest.tolist() if number not in self._stop_words]

    def _are_stop_words(self, near: Iterable[int]) -> bool:
        """Return whether the likeliest of the words near an unknown one are by far stop words."""
        highest = {True: 0, False: 0}
        for number in near:
            frequency = self._service_frequency_of[self._term_of_word[number]]
            is_stop_word = number in self._stop_words
            highest[is_stop_word] = max(highest[is_stop_word], frequency)
        return highest[True] > LIKELIER_STOP_WORD * highest[False]

    def _idf(self, term: int) -> float:
        frequency = self._document_frequency_of[term]
        return math.log(1 + (self.header.documents - frequency + 0.5) / (frequency + 0.5))

    def _services_named(self, query: str) -> Integers:
        """Return the services whose name is the query."""
        hashes, name_hash = self._name_hashes, text_hash(name_key(query))
        start = bisect_left(hashes, name_hash)
        if start == len(hashes) or hashes[start] != name_hash:
            return NO_ORDINALS
        return self._named[start : bisect_right(hashes, name_hash, start)].astype(np.int64)


def encode_query(
    encoder: Encoder, query: str, expansions: Sequence[Expansion]
) -> QueryVector | None:
    """Return the vector of a query, or None where its words have no meaning.

    A word that no document has counts if it is one piece, or else as what it was completed or
    corrected to: the pieces of an unfinished word mean something else.
    """
    texts = None
    if IDENTIFIER.search(query):
        meant = " ".join(chunk for chunk in query.split() if not IDENTIFIER.search(chunk))
        texts = {word.text for word in query_words(meant)}
    pieces: list[int] = []
    for each in expansions:
        if not each.required or (texts is not None and each.word not in texts):
            continue
        own = encoder.pieces(each.word)
        if not each.is_known and len(own) != 1:
            own = encoder.pieces(each.alternative)
        pieces += own
    return encoder.encode(pieces)


def _complexity(word: Word) -> tuple[bool, int, str]:
    return word.redundant, len(word.text), word.text


def _is_expandable(text: str) -> bool:
    return not text.isdecimal() and (len(text) >= SHORTEST_PREFIX or not text.isascii())
