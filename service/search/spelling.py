"""Words at a small edit distance, found through what is left of them when letters are deleted.

Two words are at most `n` edits apart only if deleting at most `n` letters of each can leave the
same (the symmetric deletion of SymSpell). The hashes of everything that is left of the lexicon's
words are computed when compiling; a query computes those of one word and looks them up. What two
deletions leave is apart from what fewer do, so that one edit is looked for among few.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations
from operator import mul

import numpy as np
import numpy.typing as npt

from service.storage.hash_table import MASK, Hashes, HashTable
from service.storage.string_table import StringTable

SHORTEST, LONGEST = 3, 24
"""Letters of a word that can be a correction; a word in a query is from one letter longer."""
SHORTEST_FOR_TWO = 6
ONE_EDIT_FROM, TWO_EDITS_FROM = 4, 8
"""Letters that a word of a query needs for one edit, and for two."""


class SpellingIndex:
    """Finds the words of a lexicon that are one or two edits from a misspelt one."""

    def __init__(
        self, words: StringTable, one_deletion: HashTable, two_deletions: HashTable
    ) -> None:
        self._words = words
        self._one_deletion = one_deletion
        self._two_deletions = two_deletions

    def near(self, word: str) -> dict[int, int]:
        """Number of a word → its edits from `word`; two edits only where one finds nothing."""
        edits = allowed_edits(word)
        if not edits:
            return {}
        found = self._one_deletion.of(one_deletion_hashes(word))
        near = self._within(word, found, 1)
        if near or edits == 1:
            return near
        hashes = deletion_hashes(letter_codes([word]), 2)[0].tolist()
        found += self._one_deletion.of(hashes[len(word) + 1 :])
        found += self._two_deletions.of(hashes)
        return self._within(word, found, 2)

    def _within(self, word: str, found: list[int], edits: int) -> dict[int, int]:
        near = {}
        for number in set(found):
            distance = edit_distance(word, self._words[number], edits)
            if 0 < distance <= edits:
                near[number] = distance
        return near


def allowed_edits(word: str) -> int:
    """How many edits a word of a query may be from what it means: none for numbers."""
    if not (ONE_EDIT_FROM <= len(word) <= LONGEST and word.isalpha()):
        return 0
    return 2 if len(word) >= TWO_EDITS_FROM else 1


def edit_distance(left: str, right: str, most: int) -> int:
    """Insertions, deletions, substitutions and swaps of neighbours, or `most` + 1 if more.

    Optimal string alignment, no letter edited twice, for `most` of 1 or 2.
    """
    if left == right:
        return 0
    if abs(len(left) - len(right)) > most:
        return most + 1
    left, right = _unlike(left, right)
    if _one_edit(left, right):
        return 1
    if most == 1:
        return 2
    # The first letters differ: one edit is made here, at most one follows.
    within = (
        _at_most_one(left[1:], right[1:])
        or _at_most_one(left[1:], right)
        or _at_most_one(left, right[1:])
        or (left[:2] == right[1::-1] and _at_most_one(left[2:], right[2:]))
    )
    return 2 if within else 3


def one_deletion_hashes(word: str) -> list[int]:
    """Hashes of a word and of what is left of it without one of its letters, few of them twice.

    The same as those of `deletion_hashes`, which costs more for the few of one word.
    """
    codes = list(map(ord, word))
    left = sum(map(mul, codes[1:], _POWERS))
    hashes = [left & MASK]
    # From what is left without a letter to what is left without the next, one letter changes.
    for code, following, power in zip(codes, codes[1:], _POWERS, strict=False):
        if code != following:
            left += (code - following) * power
            hashes.append(left & MASK)
    hashes.append((left + codes[-1] * _POWERS[len(codes) - 1]) & MASK)
    return hashes


def deletion_hashes(codes: npt.NDArray[np.uint64], deletions: int) -> Hashes:
    """Hashes of what is left of each word without up to `deletions` of its letters.

    `codes` is (words, letters); the answer is (words, ways to delete), fewer deletions first. The
    hash of what is left is the polynomial of its letters in an odd base, modulo 2^64: a product of
    the codes with a fixed matrix. As the base has bits in all places, the highest are well spread.
    """
    hashes: Hashes = codes @ _coefficients(codes.shape[1], deletions)
    return hashes


def letter_codes(words: list[str]) -> npt.NDArray[np.uint64]:
    """(words, letters) code points of words of one length."""
    codes = np.frombuffer("".join(words).encode("utf-32-le"), dtype=np.uint32)
    return codes.reshape(len(words), -1).astype(np.uint64)


def _unlike(left: str, right: str) -> tuple[str, str]:
    """Both words from the first letter that differs."""
    for same, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return left[same:], right[same:]
    shorter = min(len(left), len(right))
    return left[shorter:], right[shorter:]


def _at_most_one(left: str, right: str) -> bool:
    return left == right or _one_edit(*_unlike(left, right))


def _one_edit(left: str, right: str) -> bool:
    """Whether one edit at the first letters, which differ, makes two words the same."""
    if len(left) == len(right):
        return left[1:] == right[1:] or (left[2:] == right[2:] and left[:2] == right[1::-1])
    return left[1:] == right if len(left) > len(right) else left == right[1:]


@cache
def _coefficients(length: int, deletions: int) -> npt.NDArray[np.uint64]:
    """(letters, ways to delete) powers of the base, 0 for deleted letters."""
    ways = [
        deleted for count in range(deletions + 1) for deleted in combinations(range(length), count)
    ]
    coefficients = np.zeros((length, len(ways)), dtype=np.uint64)
    for way, deleted in enumerate(ways):
        left = [letter for letter in range(length) if letter not in deleted]
        coefficients[left, way] = _POWERS[: len(left)]
    return coefficients


_BASE = 0xD1342543DE82EF95
_POWERS = [pow(_BASE, exponent, MASK + 1) for exponent in range(1, LONGEST + 1)]
