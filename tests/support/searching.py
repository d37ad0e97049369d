"""Small catalogues to search, and a ranking of them that is slow and obvious."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from math import log
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from whoosh import index

from indexer.__main__ import main
from indexer.snapshot.postings import compile_postings
from indexer.snapshot.whoosh_index import index_part
from service.search.config import SEARCH_CONFIG
from service.search.searcher import Searcher, open_searcher
from service.snapshot.snapshot import Snapshot, open_snapshot
from tests.support.running import Json, endpoint, service, write_lines

Document = tuple[str, str, str]
"""Name, description and category."""
Keep: TypeAlias = "npt.NDArray[np.bool_] | None"

FIELDS = ("name", "description", "category")

# Three letters are too few for corrections and none begins another, none has an ending or is a
# stop word: what they find depends on BM25F alone. The first half is frequent, the rest rare.
WORDS = ["".join(letters) for letters in product("bcdf", "lmnpr", "tvwx")][:72]
IDENTIFIERS = [left + right.title() for left, right in zip(WORDS[:6], WORDS[6:12], strict=True)]


def publish(folder: Path, records: Sequence[Json]) -> Snapshot:
    """Build a catalogue of these records as a user does, and open it."""
    source = write_lines(folder / "services.jsonl", records)
    assert main(["build", source, "--out", str(folder / "artifacts")]) == 0
    return open_snapshot(folder / "artifacts")


def catalogue(folder: Path, documents: Sequence[Document]) -> Snapshot:
    """A published catalogue that lists these documents in this order, by their positions."""
    return publish(
        folder,
        [
            service(
                identifier(number),
                name=name,
                description=description,
                category=category,
                endpoints=[endpoint()],
            )
            for number, (name, description, category) in enumerate(documents)
        ],
    )


def identifier(number: int) -> str:
    """An id by which equals are listed in the order of their numbers."""
    return f"{number:06}"


def found(snapshot: Snapshot, query: str, limit: int = 200) -> list[int]:
    """The positions in `catalogue` of what a query finds, best first."""
    return [int(service_id) for service_id in snapshot.search(query, limit).ids]


def compiled(
    folder: Path, documents: Sequence[Document], prior: Sequence[float] | None = None
) -> Searcher:
    """Documents indexed, compiled and opened, each with its prior."""
    known = np.array(prior if prior is not None else [0.0] * len(documents), dtype=np.float64)
    names = [name for name, _, _ in documents]
    part = index_part(folder / "whoosh", documents)
    compile_postings([part], names, known, folder / "postings")
    return open_searcher(folder / "postings")


def every(postings: Searcher, query: str, **options: Any) -> list[int]:
    """The ordinals of all that a query finds, best first."""
    hits = postings.search(query, postings.summary.documents, **options)
    assert hits.total == len(hits.ordinals)
    ordinals: list[int] = hits.ordinals.tolist()
    return ordinals


class Obvious:
    """BM25F straight from Whoosh's postings, one posting at a time, for queries of `WORDS`."""

    def __init__(self, folder: Path, documents: Sequence[Document], prior: Sequence[float]) -> None:
        self._keys = ["".join(name.split()).lower() for name, _, _ in documents]
        self._prior = prior
        self._counts: dict[str, dict[str, dict[int, int]]] = {
            field: defaultdict(dict) for field in FIELDS
        }
        self._lengths: dict[str, Counter[int]] = {field: Counter() for field in FIELDS}
        self._impacts: dict[str, Counter[int]] = {}
        with index.open_dir(str(folder / "whoosh")).reader() as reader:
            for field, term in reader.all_terms():
                matcher = reader.postings(field, term)
                while matcher.is_active():
                    count = int(matcher.weight())
                    self._counts[field][term.decode()][matcher.id()] = count
                    self._lengths[field][matcher.id()] += count
                    matcher.next()

    def impacts(self, term: str) -> Counter[int]:
        """Documents with a term → what it adds to their scores."""
        if term not in self._impacts:
            self._impacts[term] = self._compute(term)
        return self._impacts[term]

    def scores(self, words: Sequence[str]) -> Counter[int]:
        """Documents with any of the words → score, in units of impact."""
        scores: Counter[int] = Counter()
        for term in set(_terms(words)):
            scores.update(self.impacts(term))
        return scores

    def ranking(
        self, words: Sequence[str], keep: Keep = None, match_all: bool = False
    ) -> list[int]:
        """All matches: exact names first, then by score, then in listing order."""
        scores = self.scores(words)
        matches = set(scores)
        if match_all:
            parts = [part for word in words for part in _parts(word)]
            matches.intersection_update(*(self.impacts(part) for part in parts))
        if keep is not None:
            matches = {ordinal for ordinal in matches if keep[ordinal]}
        key = "".join(words).lower()
        return sorted(matches, key=lambda n: (self._keys[n] != key, -scores[n], n))

    def _compute(self, term: str) -> Counter[int]:
        frequencies: dict[int, float] = defaultdict(float)
        for field in FIELDS:
            weight = getattr(SEARCH_CONFIG.field_weights, field)
            b = getattr(SEARCH_CONFIG.length_normalisation, field)
            lengths = self._lengths[field]
            average = lengths.total() / max(len(lengths), 1)
            for ordinal, count in self._counts[field].get(term, {}).items():
                frequencies[ordinal] += weight * count / (1 - b + b * lengths[ordinal] / average)
        others = len(self._keys) - len(frequencies)
        idf = log(1 + (others + 0.5) / (len(frequencies) + 0.5))
        impacts: Counter[int] = Counter()
        for ordinal, frequency in frequencies.items():
            relevance = idf * frequency / (SEARCH_CONFIG.saturation + frequency)
            known = 1 + SEARCH_CONFIG.prior_bound * self._prior[ordinal]
            impacts[ordinal] = max(1, round(relevance * known * SEARCH_CONFIG.impact_scale))
        return impacts


def edits(left: str, right: str) -> int:
    """The optimal string alignment distance, by its textbook definition."""
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
    """What the tasks answer when several threads work on them at once."""
    with ThreadPoolExecutor(count) as threads:
        return [future.result() for future in [threads.submit(task) for task in tasks]]


def _terms(words: Sequence[str]) -> list[str]:
    """What Whoosh's terms are of words: an identifier's parts, and the whole."""
    return [term for word in words for term in {*_parts(word), word.lower()}]


def _parts(word: str) -> list[str]:
    cut = next((n for n, letter in enumerate(word) if letter.isupper()), None)
    return [word] if cut is None else [word[:cut], word[cut:].lower()]
