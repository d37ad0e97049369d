"""Small catalogues to search, and a brute-force ranking to compare with."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from math import log
from pathlib import Path
from typing import Any

import numpy as np
from whoosh import index

from indexer.__main__ import main
from indexer.processes.resources import WHOOSH_MEMORY
from indexer.record_store import KEY_SIZE
from indexer.search.parts import Part, part_of
from indexer.search.postings import compile_postings
from indexer.segments.segment import WHOOSH, Origin, SegmentWriter, read_segment
from indexer.segments.texts import ServiceText
from indexer.segments.whoosh_index import FIELDS
from service.search.config import SEARCH_CONFIG
from service.search.postings import Mask
from service.search.query import QueryParser
from service.search.searcher import Searcher
from service.search.top_k import TopK
from service.snapshot.snapshot import Snapshot, open_snapshot
from tests.support.running import Json, endpoint, service, write_lines

ORIGIN = Origin("", "", endpoints=True)
Document = tuple[str, str, str]
"""Name, description and category."""

# Words of three letters are not corrected. No word is a prefix of another, is stemmed or is a stop
# word, so that their ranking is plain BM25F. The first half is frequent, the rest rare.
WORDS = ["".join(letters) for letters in product("bcdf", "lmnpr", "tvwx")][:72]
IDENTIFIERS = [left + right.title() for left, right in zip(WORDS[:6], WORDS[6:12], strict=True)]


def publish(folder: Path, records: Sequence[Json], *options: str) -> Snapshot:
    """Build a catalogue of these records by the command line, and open it."""
    source = write_lines(folder / "services.jsonl", records)
    assert main(["build", source, "--out", str(folder / "artifacts"), *options]) == 0
    return open_snapshot(folder / "artifacts")


def catalogue(folder: Path, documents: Sequence[Document], *, semantic: bool = False) -> Snapshot:
    """Publish a catalogue of documents in this listing order; ids are their positions.

    It is searched by words alone unless `semantic`.
    """
    options = () if semantic else ("--no-semantic",)
    return publish(
        folder,
        [
            service(
                identifier(position),
                name=name,
                description=description,
                category=category,
                endpoints=[endpoint()],
            )
            for position, (name, description, category) in enumerate(documents)
        ],
        *options,
    )


ALL = 1_000_000
"""A limit above the size of any catalogue of the tests."""


def identifier(position: int) -> str:
    """Return an id that sorts like the position."""
    return f"{position:06}"


def positions(snapshot: Snapshot, query: str, limit: int = 200) -> list[int]:
    """Return the positions of the matches of a query in a `catalogue`, best first."""
    return [int(service_id) for service_id in snapshot.search(query, limit).ids]


def compiled(
    folder: Path, documents: Sequence[Document], prior: Sequence[float] | None = None
) -> Searcher:
    """Index and compile documents, each with its prior, and open a searcher."""
    priors = np.array(prior if prior is not None else [0.0] * len(documents), dtype=np.float64)
    names = [name for name, _, _ in documents]
    part = index_documents(folder / "segment", documents)
    compile_postings([part], names, priors, folder / "postings")
    return Searcher(folder / "postings", QueryParser(folder / "postings"))


def index_documents(
    folder: Path, documents: Sequence[Document], ordinals: Sequence[int] | None = None
) -> Part:
    """Write a segment of documents, and return its postings; ordinals are positions by default."""
    writer = SegmentWriter(folder, ORIGIN, WHOOSH_MEMORY, None)
    for position, (name, description, category) in enumerate(documents):
        key = position.to_bytes(KEY_SIZE, "big")
        writer.add(key, ServiceText(name, description, [], category))
    writer.finish()
    numbers = range(len(documents)) if ordinals is None else ordinals
    return part_of(read_segment(folder).services, np.array(numbers, np.int32))


def rank(
    searcher: Searcher,
    query: str,
    limit: int,
    offset: int = 0,
    mask: Mask | None = None,
    match_all: bool = False,
) -> TopK:
    """Rank one page of a query."""
    return searcher.plan(query, mask, match_all=match_all).rank(limit, offset)


def rank_all(
    searcher: Searcher, query: str, mask: Mask | None = None, match_all: bool = False
) -> list[int]:
    """Return the ordinals of all matches of a query, best first."""
    top = rank(searcher, query, ALL, 0, mask, match_all)
    assert top.total == len(top.ordinals)
    ordinals: list[int] = top.ordinals.tolist()
    return ordinals


class BruteForceRanking:
    """BM25F from Whoosh's postings, one posting at a time, for queries of `WORDS`."""

    def __init__(self, folder: Path, documents: Sequence[Document], prior: Sequence[float]) -> None:
        self._keys = ["".join(name.split()).lower() for name, _, _ in documents]
        self._prior = prior
        self._counts: dict[str, dict[str, dict[int, int]]] = {
            field: defaultdict(dict) for field in FIELDS
        }
        self._lengths: dict[str, Counter[int]] = {field: Counter() for field in FIELDS}
        self._impacts: dict[str, Counter[int]] = {}
        with index.open_dir(str(folder / "segment" / WHOOSH)).reader() as reader:
            for field, term in reader.all_terms():
                matcher = reader.postings(field, term)
                while matcher.is_active():
                    count = int(matcher.weight())
                    self._counts[field][term.decode()][matcher.id()] = count
                    self._lengths[field][matcher.id()] += count
                    matcher.next()

    def impacts(self, term: str) -> Counter[int]:
        """Map the documents with a term to its impacts."""
        if term not in self._impacts:
            self._impacts[term] = self._compute(term)
        return self._impacts[term]

    def scores(self, words: Sequence[str]) -> Counter[int]:
        """Map the documents with any of the words to their scores, in impact units."""
        scores: Counter[int] = Counter()
        for term in set(_terms(words)):
            scores.update(self.impacts(term))
        return scores

    def ranking(
        self, words: Sequence[str], mask: Mask | None = None, match_all: bool = False
    ) -> list[int]:
        """Return all matches: exact names first, then by score, then in listing order."""
        scores = self.scores(words)
        matches = set(scores)
        if match_all:
            parts = [part for word in words for part in _parts(word)]
            matches.intersection_update(*(self.impacts(part) for part in parts))
        if mask is not None:
            matches = {ordinal for ordinal in matches if mask[ordinal]}
        key = "".join(words).lower()
        return sorted(matches, key=lambda n: (self._keys[n] != key, -scores[n], n))

    def _compute(self, term: str) -> Counter[int]:
        frequencies: dict[int, float] = defaultdict(float)
        for field in FIELDS:
            weight, b = SEARCH_CONFIG.field_weights[field], SEARCH_CONFIG.length_normalisation
            lengths = self._lengths[field]
            average = lengths.total() / max(len(lengths), 1)
            for ordinal, count in self._counts[field].get(term, {}).items():
                frequencies[ordinal] += weight * count / (1 - b + b * lengths[ordinal] / average)
        others = len(self._keys) - len(frequencies)
        idf = log(1 + (others + 0.5) / (len(frequencies) + 0.5))
        impacts: Counter[int] = Counter()
        for ordinal, frequency in frequencies.items():
            relevance = idf * frequency / (SEARCH_CONFIG.saturation + frequency)
            boost = 1 + SEARCH_CONFIG.prior_bound * self._prior[ordinal]
            impacts[ordinal] = max(1, round(relevance * boost * SEARCH_CONFIG.impact_scale))
        return impacts


def edits(left: str, right: str) -> int:
    """Return the optimal string alignment distance, by its textbook definition."""
    rows = [
        [max(i, j) if not i or not j else 0 for j in range(len(right) + 1)]
        for i in range(len(left) + 1)
    ]
    for i, j in product(range(1, len(left) + 1), range(1, len(right) + 1)):
        change = int(left[i - 1] != right[j - 1])
        rows[i][j] = min(rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + change)
        if i > 1 and j > 1 and left[i - 2 : i] == right[j - 2 : j][::-1]:
            rows[i][j] = min(rows[i][j], rows[i - 2][j - 2] + 1)
    return rows[-1][-1]


def in_threads(count: int, tasks: Sequence[Callable[[], Any]]) -> list[Any]:
    """Run tasks in a thread pool, and return their results in order."""
    with ThreadPoolExecutor(count) as threads:
        return [future.result() for future in [threads.submit(task) for task in tasks]]


def _terms(words: Sequence[str]) -> list[str]:
    """Return the indexed terms of words: the parts of an identifier, and the whole."""
    return [term for word in words for term in {*_parts(word), word.lower()}]


def _parts(word: str) -> list[str]:
    cut = next((n for n, letter in enumerate(word) if letter.isupper()), None)
    return [word] if cut is None else [word[:cut], word[cut:].lower()]
