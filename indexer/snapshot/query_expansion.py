"""The words that a misspelt or unfinished word of a query can mean, and the services' names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import comb
from pathlib import Path

import numpy as np
import numpy.typing as npt

from service.search.analysis import name_key
from service.search.config import SearchConfig
from service.search.query_expansion import name_hash
from service.search.spelling import (
    LONGEST,
    SHORTEST,
    SHORTEST_FOR_TWO,
    allowed_edits,
    deletion_hashes,
    edit_distance,
    letter_codes,
)
from service.storage.hash_table import write_hash_table
from service.storage.string_table import write_string_table

WORDS_AT_ONCE = 4096


def write_lexicon(
    out_dir: Path,
    vocabulary: Mapping[str, str],
    terms: Sequence[bytes],
    document_frequencies: npt.NDArray[np.int64],
    engine: SearchConfig,
) -> None:
    """Write the words of a vocabulary (word → term), their terms' numbers, and their deletions.

    What one deletion leaves is apart from what two leave: most words are one edit away, and looking
    for those is faster among fewer.
    """
    entries = sorted((word.encode(), term.encode()) for word, term in vocabulary.items())
    number = {term: position for position, term in enumerate(terms)}
    word_terms = np.array([number[term] for _, term in entries], dtype=np.int32)
    words = [word.decode() for word, _ in entries]
    write_string_table(out_dir / "words", [word for word, _ in entries])
    np.save(out_dir / "word_terms.npy", word_terms)
    correctable = [position for position, word in enumerate(words) if _is_correctable(word)]
    write_hash_table(out_dir / "one_deletion", *_deletions(words, correctable, 0, 1))
    longer = [position for position in correctable if len(words[position]) >= SHORTEST_FOR_TWO]
    write_hash_table(out_dir / "two_deletions", *_deletions(words, longer, 2, 2))
    frequencies = document_frequencies[word_terms]
    np.save(out_dir / "likely_meant.npy", likely_meant(words, word_terms, frequencies, engine))


def likely_meant(
    words: Sequence[str],
    word_terms: npt.NDArray[np.int32],
    frequencies: npt.NDArray[np.int64],
    engine: SearchConfig,
) -> npt.NDArray[np.int32]:
    """For each word the term that it probably misspells, or -1.

    That is so of a word in very few documents with a neighbour at one edit in many times as many:
    the most frequent such neighbour.
    """
    meant = np.full(len(words), -1, dtype=np.int32)
    rare = [
        position
        for position in np.flatnonzero(frequencies <= engine.rare_documents).tolist()
        if allowed_edits(words[position])
    ]
    frequent = np.flatnonzero(frequencies >= engine.rare_ratio).tolist()
    hashes, members = _deletions(
        words, [position for position in frequent if _is_correctable(words[position])], 0, 1
    )
    order = np.argsort(hashes, kind="stable")
    hashes, members = hashes[order], members[order]
    rare_hashes, rare_members = _deletions(words, rare, 0, 1)
    first, last = (np.searchsorted(hashes, rare_hashes, side=side) for side in ("left", "right"))
    best = np.zeros(len(words), dtype=np.int64)
    for position in np.flatnonzero(last > first):
        word = rare_members[position]
        for other in members[first[position] : last[position]]:
            frequency = frequencies[other]
            if (
                frequency < max(frequencies[word] * engine.rare_ratio, best[word])
                or word_terms[other] == word_terms[word]
            ):
                continue
            if edit_distance(words[word], words[other], 1) == 1:
                if frequency > best[word] or word_terms[other] < meant[word]:
                    meant[word] = word_terms[other]
                best[word] = frequency
    return meant


def write_names(out_dir: Path, names: Sequence[str]) -> None:
    """Write the ordinals of the services by their names' letters and digits."""
    keys = [(name_key(name), ordinal) for ordinal, name in enumerate(names)]
    named = [(name_hash(key), ordinal) for key, ordinal in keys if key]
    hashes = np.array([hashed for hashed, _ in named], dtype=np.uint64)
    write_hash_table(
        out_dir / "names", hashes, np.array([ordinal for _, ordinal in named], dtype=np.int32)
    )
    np.save(
        out_dir / "name_hashes.npy", np.array([name_hash(key) for key, _ in keys], dtype=np.uint64)
    )


def _is_correctable(word: str) -> bool:
    return SHORTEST <= len(word) <= LONGEST and word.isalpha()


def _deletions(
    words: Sequence[str], positions: Sequence[int], least: int, most: int
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int32]]:
    """Hashes of what `least` to `most` deletions leave of some words, and the words' positions."""
    by_length = defaultdict(list)
    for position in positions:
        by_length[len(words[position])].append(position)
    hashes, members = [np.empty(0, dtype=np.uint64)], [np.empty(0, dtype=np.int32)]
    for length, alike in sorted(by_length.items()):
        skipped = sum(comb(length, count) for count in range(least))
        for start in range(0, len(alike), WORDS_AT_ONCE):
            some = alike[start : start + WORDS_AT_ONCE]
            codes = letter_codes([words[position] for position in some])
            left = deletion_hashes(codes, most)[:, skipped:]
            hashes.append(left.ravel())
            members.append(np.repeat(np.array(some, dtype=np.int32), left.shape[1]))
    return np.concatenate(hashes), np.concatenate(members)
