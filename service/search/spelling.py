"""Spelling correction: the words of the vocabulary within one or two edits of a misspelt word.

Symmetric deletion (SymSpell): two words are at most `n` edits apart only if deleting at most `n`
letters of each can leave the same string. The hashes of all such remainders of the vocabulary are
computed at indexing time; a query computes those of one word and looks them up. Remainders after
two deletions have a table of their own, so that one edit is looked up among few.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np
import numpy.typing as npt

from service.search.top_k import top_k
from service.storage.hash_table import HASH_MASK, Hashes, HashTable
from service.storage.string_table import StringTable

SHORTEST_CORRECTION, LONGEST_CORRECTION = 3, 24
"""Letters of a word that can be a correction."""
SHORTEST_TWO_EDITS = 6
"""Letters of a word that can be a correction at two edits."""
ONE_EDIT_FROM, TWO_EDITS_FROM = 4, 8
"""Letters from which a query word is corrected at one edit, and at two."""
WALKED, COMPARED = 32, 128
"""Values of a bucket that are looked at, and words whose distance is computed: the most frequent.
One misspelt word in 1,000 has more than 60 candidates among 125,000 words, but whoever feeds a
catalogue can choose 40,000 that share remainders, or the bucket of a hash that is linear. A
distance takes up to 8 µs."""

BASE = 0xD1342543DE82EF95
POWERS = [pow(BASE, exponent, HASH_MASK + 1) for exponent in range(1, LONGEST_CORRECTION + 1)]


class SpellingIndex:
    """Finds the words of a vocabulary that are one or two edits from a misspelt one.

    `frequencies` are aligned with the words; more frequent ones come first in the buckets.
    """

    def __init__(
        self,
        words: StringTable,
        frequencies: npt.NDArray[np.int64],
        one_deletion: HashTable,
        two_deletions: HashTable,
    ) -> None:
        self._words = words
        self._frequencies = frequencies
        self._one_deletion = one_deletion
        self._two_deletions = two_deletions

    def corrections(self, word: str) -> dict[int, int]:
        """Map the numbers of near words to their distance; two edits if one edit finds nothing."""
        edits = max_edits(word)
        if not edits:
            return {}
        codes = letter_codes([word])
        hashes = deletion_hashes(codes, 1)[0].tolist()
        candidates = self._one_deletion.candidates(hashes, WALKED)
        near = self._within(word, candidates, 1)
        if near or edits == 1:
            return near
        hashes = deletion_hashes(codes, 2)[0].tolist()
        candidates += self._one_deletion.candidates(hashes[len(word) + 1 :], WALKED)
        candidates += self._two_deletions.candidates(hashes, WALKED)
        return self._within(word, candidates, 2)

    def _within(self, word: str, candidates: list[int], edits: int) -> dict[int, int]:
        near = {}
        numbers = sorted(set(candidates))
        if len(numbers) > COMPARED:
            ordinals = np.array(numbers)
            numbers = top_k(ordinals, self._frequencies.take(ordinals), COMPARED).tolist()
        for number in numbers:
            distance = edit_distance(word, self._words[number], edits)
            if 0 < distance <= edits:
                near[number] = distance
        return near


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


def deletion_hashes(codes: npt.NDArray[np.uint64], deletions: int) -> Hashes:
    """Return the hashes of the remainders of words after up to `deletions` deletions.

    `codes` is (words, letters); the result is (words, remainders), fewer deletions first. The hash
    of a remainder is the polynomial of its letters in an odd base, modulo 2^64, which makes all
    hashes one product of the codes with a fixed matrix. The base has bits in all places, so that
    the highest bits are well spread.
    """
    hashes: Hashes = codes @ _coefficients(codes.shape[1], deletions)
    return hashes


def letter_codes(words: list[str]) -> npt.NDArray[np.uint64]:
    """Return the code points of words of one length, as (words, letters)."""
    codes = np.frombuffer("".join(words).encode("utf-32-le"), dtype=np.uint32)
    return codes.reshape(len(words), -1).astype(np.uint64)


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


@cache
def _coefficients(length: int, deletions: int) -> npt.NDArray[np.uint64]:
    """Return (letters, remainders) powers of the base, 0 for deleted letters."""
    deleted_positions = [
        positions
        for count in range(deletions + 1)
        for positions in combinations(range(length), count)
    ]
    coefficients = np.zeros((length, len(deleted_positions)), dtype=np.uint64)
    for column, deleted in enumerate(deleted_positions):
        remaining = [letter for letter in range(length) if letter not in deleted]
        coefficients[remaining, column] = POWERS[: len(remaining)]
    return coefficients
