"""Spelling correction: the words of the vocabulary within one or two edits of a misspelt word.

The letters of a word are a set of 64 bits. An edit adds a letter, removes one or does both, which
changes at most one bit for each: few words have sets that differ so little, and these are compared.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from service.search.postings import Integers
from service.search.top_k import top_k
from service.storage.container import Arrays
from service.storage.string_table import StringTable

SHORTEST_CORRECTION, LONGEST_CORRECTION = 3, 24
"""Letters of a word that can be a correction."""
SHORTEST_TWO_EDITS = 6
"""Letters of a word that can be a correction at two edits."""
ONE_EDIT_FROM, TWO_EDITS_FROM = 4, 8
"""Letters from which a query word is corrected at one edit, and at two."""
COMPARED = 512
"""Words whose distance is computed, the most frequent: a distance takes up to 8 µs, and whoever
feeds a catalogue can choose many words of the same letters."""


class SpellingIndex:
    """Finds the words of a vocabulary that are one or two edits from a misspelt one.

    arrays: those of `lexicon_of`
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
                distance = edit_distance(word, self._words[number], edits)
                if 0 < distance <= edits:
                    near[number] = distance
            if near:
                break
        return near

    def _candidates(self, word: str, edits: int) -> Integers:
        """Return the words whose lengths and letters allow so many edits."""
        shortest = max(len(word) - edits, SHORTEST_CORRECTION if edits == 1 else SHORTEST_TWO_EDITS)
        longest = min(len(word) + edits, LONGEST_CORRECTION)
        letters, near = np.uint64(letters_of(word)), []
        for length in range(shortest, longest + 1):
            span = slice(self._bounds[length], self._bounds[length + 1])
            different = np.bitwise_count(self._letters[span] ^ letters)
            # An edit that changes the length either adds or removes one letter.
            most = 2 * edits - abs(length - len(word))
            near.append(self._numbers[span][different <= most])
        numbers: Integers = np.concatenate(near).astype(np.int64)
        if len(numbers) > COMPARED:
            numbers = top_k(numbers, self._frequencies.take(numbers), COMPARED)
        return numbers


def correctable(words: Sequence[str]) -> Arrays:
    """Return the arrays of a `SpellingIndex` of a vocabulary, by their names in its lexicon."""
    lengths = np.fromiter((len(word) if word.isalpha() else 0 for word in words), np.int64)
    is_correct = (lengths >= SHORTEST_CORRECTION) & (lengths <= LONGEST_CORRECTION)
    numbers = np.flatnonzero(is_correct)
    numbers = numbers[np.argsort(lengths[numbers], kind="stable")]
    return {
        "letters": np.array([letters_of(words[each]) for each in numbers.tolist()], np.uint64),
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


def edit_distance(left: str, right: str, limit: int) -> int:
    """Return the optimal string alignment distance of two words, or `limit` + 1 if it is more.

    The distance is the least number of insertions, deletions, substitutions and swaps of
    neighbours that edit no letter twice. `limit` is 1 or 2.
    """
    if left == right:
        return 0
    if abs(len(left) - len(right)) > limit:
        return limit + 1
    left, right = _without_common_prefix(left, right)
    if _is_one_edit(left, right):
        return 1
    if limit == 1:
        return 2
    # The first letters differ, so that the first edit is here and at most one follows.
    within = (
        _is_at_most_one_edit(left[1:], right[1:])
        or _is_at_most_one_edit(left[1:], right)
        or _is_at_most_one_edit(left, right[1:])
        or (left[:2] == right[1::-1] and _is_at_most_one_edit(left[2:], right[2:]))
    )
    return 2 if within else 3


def _without_common_prefix(left: str, right: str) -> tuple[str, str]:
    for length, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return left[length:], right[length:]
    shorter = min(len(left), len(right))
    return left[shorter:], right[shorter:]


def _is_at_most_one_edit(left: str, right: str) -> bool:
    return left == right or _is_one_edit(*_without_common_prefix(left, right))


def _is_one_edit(left: str, right: str) -> bool:
    """Return whether one edit at the first letters, which differ, makes two words equal."""
    if len(left) == len(right):
        return left[1:] == right[1:] or (left[2:] == right[2:] and left[:2] == right[1::-1])
    return left[1:] == right if len(left) > len(right) else left == right[1:]
