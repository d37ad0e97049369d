"""Spelling correction: the words of the vocabulary within one or two edits of a misspelt word.

The letters of a word are a set of 64 bits. An edit adds a letter, removes one or does both, which
changes at most one bit for each: few words have sets that differ so little, and these are compared.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance.OSA import distance as edit_distance

from service.arrays.container import Arrays
from service.arrays.string_table import StringTable
from service.search.postings import Integers
from service.search.top_k import top_k

SHORTEST_CORRECTION, LONGEST_CORRECTION = 3, 24
"""Letters of a word that can be a correction."""
SHORTEST_TWO_EDITS = 6
"""Letters of a word that can be a correction at two edits."""
ONE_EDIT_FROM, TWO_EDITS_FROM = 4, 8
"""Letters from which a query word is corrected at one edit, and at two."""
COMPARED = 512
"""Words whose distance is computed, the most frequent: whoever feeds a catalogue can choose many
words of the same letters."""


class SpellingIndex:
    """Finds the words of a vocabulary that are one or two edits from a misspelt one.

    An edit inserts, removes or changes a letter, or swaps neighbours; none edits a letter twice.

    arrays: those of `correctable`
    frequencies: of all words
    """

    def __init__(
        self, words: StringTable, frequencies: npt.NDArray[np.int64], arrays: Arrays
    ) -> None:
        self._words, self._frequencies = words, frequencies
        self._letters, self._numbers = arrays["letters"], arrays["correct"]
        self._bounds: list[int] = [*arrays["lengths"].tolist(), len(self._numbers)]

    def corrections(self, word: str) -> dict[int, int]:
        """Map the numbers of near words to their distance; two edits if one edit finds nothing."""
        near: dict[int, int] = {}
        for edits in range(1, max_edits(word) + 1):
            for number in self._candidates(word, edits).tolist():
                distance = edit_distance(word, self._words[number], score_cutoff=edits)
                if 0 < distance <= edits:
                    near[number] = distance
            if near:
                break
        return near

    def _candidates(self, word: str, edits: int) -> Integers:
        """Return the words whose lengths and letters allow so many edits."""
        letters, bounds = np.uint64(letters_of(word)), self._bounds
        shortest = max(len(word) - edits, SHORTEST_CORRECTION if edits == 1 else SHORTEST_TWO_EDITS)
        near = []
        for length in range(shortest, min(len(word) + edits, LONGEST_CORRECTION) + 1):
            # An edit that changes the length either adds or removes one letter.
            most_different = 2 * edits - abs(length - len(word))
            start, stop = bounds[length], bounds[length + 1]
            different = np.bitwise_count(self._letters[start:stop] ^ letters)
            near.append((different <= most_different).nonzero()[0] + start)
        numbers: Integers = self._numbers.take(np.concatenate(near)).astype(np.int64)
        if len(numbers) > COMPARED:
            numbers = top_k(numbers, self._frequencies.take(numbers), COMPARED)
        return numbers


def correctable(words: Sequence[str]) -> Arrays:
    """Return the arrays of a `SpellingIndex` of a vocabulary, by their names in its lexicon."""
    lengths = np.fromiter((len(word) if word.isalpha() else 0 for word in words), np.int64)
    is_correct = (lengths >= SHORTEST_CORRECTION) & (lengths <= LONGEST_CORRECTION)
    numbers = np.flatnonzero(is_correct)
    numbers = numbers[np.argsort(lengths[numbers], kind="stable")]
    letters = np.array([letters_of(words[each]) for each in numbers.tolist()], np.uint64)
    return {
        "letters": letters,
        "correct": numbers.astype(np.int32),
        "lengths": lengths[numbers]
        .searchsorted(np.arange(LONGEST_CORRECTION + 1))
        .astype(np.int32),
    }


def letters_of(word: str) -> int:
    """Return the letters of a word as bits, a letter that repeats with a second bit."""
    bits = 0
    for letter in word:
        bit = 1 << (ord(letter) & 31)
        bits |= bit << 32 if bits & bit else bit
    return bits


def max_edits(word: str) -> int:
    """Return how many edits of a query word are corrected: none for numbers and short words."""
    if not (ONE_EDIT_FROM <= len(word) <= LONGEST_CORRECTION and word.isalpha()):
        return 0
    return 2 if len(word) >= TWO_EDITS_FROM else 1
