"""Words at a small edit distance, found through what is left of them when letters are deleted.

Two words are at most `n` edits apart only if deleting at most `n` letters of each can leave the same (the
symmetric deletion of SymSpell). The hashes of everything that is left of the lexicon's words are computed when
compiling; a query computes those of one word and looks them up.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np
import numpy.typing as npt

from service.buckets import MASK, MULTIPLIER, Buckets, Hashes
from service.strings import Strings

SHORTEST, LONGEST = 3, 24
"""Letters of the words that can be the correction of another; a word in a query is from one letter longer."""
SHORTEST_FOR_TWO = 6
ONE_EDIT_FROM, TWO_EDITS_FROM = 4, 8
"""Letters that a word of a query needs for one edit, and for two."""


class Typos:
    """Finds the words of a lexicon that are one or two edits from a misspelt one."""

    def __init__(self, words: Strings, deletions: Buckets):
        self._words = words
        self._deletions = deletions

    def near(self, word: str) -> dict[int, int]:
        """Number of a word in the lexicon → its edits from `word`; two edits only where one finds nothing."""
        near: dict[int, int] = {}
        for edits in range(1, allowed_edits(word) + 1):
            hashes = deletion_hashes(letter_codes([word]), edits)[0].tolist()
            for number in set(self._deletions.of(hashes)):
                distance = edit_distance(word, self._words[number], edits)
                if 0 < distance <= edits:
                    near[number] = distance
            if near:
                break
        return near


def allowed_edits(word: str) -> int:
    """How many edits a word of a query may be from what it means: numbers and other scripts' short words none."""
    if not (ONE_EDIT_FROM <= len(word) <= LONGEST and word.isalpha()):
        return 0
    return 2 if len(word) >= TWO_EDITS_FROM else 1


def edit_distance(left: str, right: str, most: int) -> int:
    """Insertions, deletions, substitutions and swaps of neighbours between two words, or `most` + 1 if more.

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


def deletion_hashes(codes: npt.NDArray[np.uint64], deletions: int) -> Hashes:
    """Hashes of what is left of each word without up to `deletions` of its letters.

    `codes` is (words, letters); the answer is (words, ways to delete). The hash of what is left is the
    polynomial of its letters in an odd base, modulo 2^64: a product of the codes with a fixed matrix.
    """
    hashes = codes @ _coefficients(codes.shape[1], deletions)
    hashes ^= hashes >> np.uint64(32)
    return hashes * np.uint64(MULTIPLIER)


def letter_codes(words: list[str]) -> npt.NDArray[np.uint64]:
    """(words, letters) code points of words of one length."""
    codes = np.frombuffer("".join(words).encode("utf-32-le"), dtype=np.uint32)
    return codes.reshape(len(words), -1).astype(np.uint64)


def _unlike(left: str, right: str) -> tuple[str, str]:
    """Both words from the first letter that differs."""
    same = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        same += 1
    return left[same:], right[same:]


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
_POWERS = np.array(
    [pow(_BASE, exponent, MASK + 1) for exponent in range(1, LONGEST + 1)], dtype=np.uint64
)
