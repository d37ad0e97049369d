"""Writing the files of a `QueryExpander`, and the names of the services."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Sequence
from math import comb
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from indexer.columns.ragged import positions
from indexer.processes.pool import Pool, wait_for
from service.search.analysis import name_key
from service.search.config import SearchConfig
from service.search.spelling import (
    LONGEST_CORRECTION,
    SHORTEST_CORRECTION,
    SHORTEST_TWO_EDITS,
    deletion_hashes,
    edit_distance,
    letter_codes,
    max_edits,
)
from service.search.stopwords import STOP_WORDS
from service.storage.container import write_arrays
from service.storage.hash_table import text_hash, write_hash_table
from service.storage.layouts import LEXICON, NAMES
from service.storage.string_table import write_string_table

BATCH = 4096  # words whose deletions are hashed at a time
Deletions = tuple[npt.NDArray[np.uint64], npt.NDArray[np.int32]]
"""Hashes of the remainders of words without some letters, and the positions of these words."""


class Vocabulary(NamedTuple):
    """The words of a catalogue and the numbers of their terms, in byte order.

    candidates: the positions of the words that may correct others
    """

    words: list[str]
    terms: npt.NDArray[np.int32]
    candidates: list[int]


def begin_words(folder: Path, entries: Sequence[bytes], terms: Sequence[bytes]) -> Vocabulary:
    """Write the files that need no frequencies; returns the words for `write_query_expansion`.

    An entry is a word, a blank, and its term. Entries are in the order of their words, since no
    character of a word sorts before the blank.
    """
    number = {term: position for position, term in enumerate(terms)}
    words, term_numbers = [], array("i")
    for entry in entries:
        word, term = entry.split(b" ")
        words.append(word.decode())
        term_numbers.append(number[term])
    write_string_table(folder / "terms", terms)
    write_string_table(folder / "words", [word.encode() for word in words])
    candidates = [
        position
        for position, word in enumerate(words)
        if SHORTEST_CORRECTION <= len(word) <= LONGEST_CORRECTION and word.isalpha()
    ]
    return Vocabulary(words, np.asarray(term_numbers, np.int32), candidates)


def write_query_expansion(
    folder: Path,
    begun: Vocabulary,
    document_frequencies: npt.NDArray[np.integer],
    service_frequencies: npt.NDArray[np.integer],
    pool: Pool,
    config: SearchConfig,
) -> None:
    """Write the deletions and the corrections of the words.

    Frequencies are counts of documents and of services for each term.
    """
    words, word_terms, candidates = begun
    frequencies = service_frequencies[word_terms].astype(np.int64)
    two_deletions = pool.submit(
        _write_two_deletions, folder / "two_deletions", words, frequencies, candidates
    )
    deletions = _deletions(words, frequencies, candidates, 0, 1)
    write_hash_table(folder / "one_deletion", *deletions)
    corrections = find_corrections(words, word_terms, frequencies, deletions, config)
    columns = {
        "document_frequencies": document_frequencies.astype(np.int32),
        "group_frequencies": service_frequencies.astype(np.int32),
        "word_terms": word_terms,
        "corrections": corrections,
    }
    write_arrays(folder / "lexicon", LEXICON, columns)
    wait_for(two_deletions)


def _write_two_deletions(
    path: Path,
    words: Sequence[str],
    frequencies: npt.NDArray[np.int64],
    candidates: Sequence[int],
) -> None:
    longer = [position for position in candidates if len(words[position]) >= SHORTEST_TWO_EDITS]
    write_hash_table(path, *_deletions(words, frequencies, longer, 2, 2))


def find_corrections(
    words: Sequence[str],
    word_terms: npt.NDArray[np.int32],
    frequencies: npt.NDArray[np.int64],
    deletions: Deletions,
    config: SearchConfig,
) -> npt.NDArray[np.int32]:
    """Return for each word the term that it probably misspells, or -1.

    A word of at most `rare_documents` services is corrected to the most frequent word at one edit
    that has `rare_ratio` times as many, and is no stop word.

    frequencies: the counts of services of the words
    deletions: of up to one letter
    """
    corrections = np.full(len(words), -1, dtype=np.int32)
    rare_words = [
        position
        for position in np.flatnonzero(frequencies <= config.rare_documents).tolist()
        if max_edits(words[position])
    ]
    is_rare = np.zeros(len(words), np.bool_)
    is_rare[rare_words] = True
    is_frequent = frequencies >= config.rare_ratio
    is_frequent[[position for position, word in enumerate(words) if word in STOP_WORDS]] = False
    rare, frequent = _sharing(deletions, is_rare, is_frequent)
    near = frequencies[frequent] >= frequencies[rare] * config.rare_ratio
    near &= word_terms[frequent] != word_terms[rare]
    highest = np.zeros(len(words), dtype=np.int64)
    for word, other in zip(rare[near].tolist(), frequent[near].tolist(), strict=True):
        frequency = frequencies[other]
        if frequency >= highest[word] and edit_distance(words[word], words[other], 1) == 1:
            if frequency > highest[word] or word_terms[other] < corrections[word]:
                corrections[word] = word_terms[other]
            highest[word] = frequency
    return corrections


def write_names(folder: Path, names: Sequence[str]) -> None:
    """Write the sorted hashes of the services' name keys, and the service of each.

    Empty keys are left out.
    """
    keys = [name_key(name) for name in names]
    named = np.flatnonzero([bool(key) for key in keys])
    hashes = np.fromiter((text_hash(keys[number]) for number in named.tolist()), np.uint64)
    order = np.argsort(hashes, kind="stable")
    services = named[order].astype(np.int32)
    write_arrays(folder / "names", NAMES, {"hashes": hashes[order], "services": services})


def _sharing(
    deletions: Deletions, is_left: npt.NDArray[np.bool_], is_right: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Return the pairs of a left and a right word that share a remainder, once for each."""
    hashes, members = deletions
    left, right = np.flatnonzero(is_left[members]), np.flatnonzero(is_right[members])
    if not len(right):
        return members[:0], members[:0]
    right = right[np.argsort(hashes[right], kind="stable")]
    distinct, starts = np.unique(hashes[right], return_index=True)
    bounds = np.append(starts, len(right))
    groups = np.searchsorted(distinct, hashes[left], side="right") - 1
    shared = distinct[groups] == hashes[left]
    left, groups = left[shared], groups[shared]
    pairs = np.repeat(left, np.diff(bounds)[groups]), right[positions(bounds, groups)]
    return members[pairs[0]], members[pairs[1]]


def _deletions(
    words: Sequence[str],
    frequencies: npt.NDArray[np.int64],
    positions: Sequence[int],
    fewest: int,
    most: int,
) -> Deletions:
    """Return the hashes of remainders after `fewest` to `most` deletions, and their positions.

    Frequent words come first, by powers of two, because a query looks only at the first values of
    a bucket.
    """
    groups = defaultdict(list)
    for position, frequency in zip(positions, frequencies[positions].tolist(), strict=True):
        groups[-frequency.bit_length(), len(words[position])].append(position)
    counts = {
        length: sum(comb(length, count) for count in range(fewest, most + 1))
        for _, length in groups
    }
    total = sum(counts[length] * len(group) for (_, length), group in groups.items())
    hashes, members = np.empty(total, np.uint64), np.empty(total, np.int32)
    stop = 0
    for (_, length), group in sorted(groups.items()):
        for start in range(0, len(group), BATCH):
            batch = group[start : start + BATCH]
            codes = letter_codes([words[position] for position in batch])
            own = slice(stop, stop := stop + counts[length] * len(batch))
            hashes[own] = deletion_hashes(codes, most)[:, -counts[length] :].ravel()
            members[own] = np.repeat(np.array(batch, np.int32), counts[length])
    return hashes, members
