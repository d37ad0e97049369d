"""Small catalogues to search, and a brute-force ranking to compare with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import product
from math import log
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from indexer.__main__ import main
from indexer.derive.columns import ENDPOINT, RAGGED, SERVICE, STRINGS, RecordColumns, ragged_arrays
from indexer.derive.extraction import NumberedStrings, TextWriter, Tokens
from indexer.derive.ragged import Ragged, ragged_texts
from indexer.derive.records import ENDPOINT_FIELDS, SERVICE_FIELDS
from indexer.index.documents import Documents, OtherTexts, place_documents
from indexer.index.postings import compile_postings
from indexer.record_store import KEY_SIZE
from service.arrays.container import open_arrays
from service.conditions import EndpointFilters
from service.search.config import SEARCH_CONFIG
from service.search.groups import Groups, Ranked
from service.search.postings import Integers, Mask, read_header
from service.search.query import QueryParser
from service.search.ranking import EXACT_NAMES, Ranking
from service.search.ranking import Index as SearchIndex
from service.snapshot.data import EndpointHits
from service.snapshot.snapshot import Snapshot, open_snapshot
from tests.support.running import (
    Json,
    build_snapshot_alone,
    endpoint,
    service,
    write_lines,
)

Document = tuple[str, str, str]
"""Name, description and category."""

# Words of three letters are not corrected. No word is a prefix of another, is stemmed or is a stop
# word, so that their ranking is plain BM25F. The first half is frequent, the rest rare.
WORDS = ["".join(letters) for letters in product("bcdf", "lmnpr", "tvwx")][:72]
BLANK_OF_SERVICE = [""] * (len(SERVICE_FIELDS) - 3)
BLANK_OF_ENDPOINT = [""] * (len(ENDPOINT_FIELDS) - 2)
"""Texts of the fields beside the first ones."""
MATCHES: tuple[Literal["any", "all"], ...] = ("any", "all")
IDENTIFIERS = [left + right.title() for left, right in zip(WORDS[:6], WORDS[6:12], strict=True)]


def publish(folder: Path, records: Sequence[Json], *options: str) -> Snapshot:
    """Build a catalogue of these records by the command line, and open it."""
    source = write_lines(folder / "services.jsonl", records)
    arguments = ["build", source, "--out", str(folder / "artifacts"), "--no-downloads"]
    assert main([*arguments, *options]) == 0
    return open_snapshot(folder / "artifacts")


def catalogue(folder: Path, documents: Sequence[Document], *, semantic: bool = False) -> Snapshot:
    """Publish a catalogue of documents in this listing order; ids are their positions.

    It is searched by words alone unless `semantic`.
    """
    records = [
        service(
            identifier(position),
            name=name,
            description=description,
            category=category,
            endpoints=[endpoint()],
        )
        for position, (name, description, category) in enumerate(documents)
    ]
    return open_snapshot(build_snapshot_alone(folder, records, semantic=semantic))


ALL = 1_000_000
"""A limit above the size of any catalogue of the tests."""


def identifier(position: int) -> str:
    """Return an id that sorts like the position."""
    return f"{position:06}"


def rank_endpoints(
    snapshot: Snapshot, query: str | None, limit: int, offset: int, filters: EndpointFilters
) -> EndpointHits:
    """Return one page of endpoints, searched in this thread."""
    return snapshot.search_endpoints(query or "", limit, offset, filters)


def positions(snapshot: Snapshot, query: str, limit: int = 200) -> list[int]:
    """Return the positions of the matches of a query in a `catalogue`, best first."""
    return [int(service_id) for service_id in snapshot.search(query, limit).ids]


class Service(NamedTuple):
    """A service whose endpoints and other listed resources have a path and a description each."""

    name: str
    description: str = ""
    category: str = ""
    endpoints: Sequence[tuple[str, str]] = ()
    resources: Sequence[tuple[str, str]] = ()


class Index(NamedTuple):
    """The compiled postings of services; `services` has that of each document."""

    parser: QueryParser
    searched: SearchIndex
    services: npt.NDArray[np.int32]

    @property
    def groups(self) -> Groups | None:
        """The documents of each service, None where each service has one."""
        return self.searched.groups

    def ranking(
        self,
        query: str,
        mask: Mask | None = None,
        *,
        by_group: bool = True,
        match_all: bool = False,
    ) -> Ranking:
        """Return the ranking of services, as a search for them does, or else of documents."""
        return Ranking(
            self.searched,
            self.parser.parse(query),
            mask,
            by_group=by_group,
            match_all=match_all,
            is_filled=not match_all and mask is None,
        )


def compiled(
    folder: Path, given: Sequence[Service | Document], prior: Sequence[float] | None = None
) -> Index:
    """Index and compile services, each with the prior of its documents."""
    services = [Service(*each) for each in given]
    counts = [[len(each.endpoints), len(each.resources)] for each in services]
    endpoints, resources = np.array(counts, np.int32).reshape(-1, 2).T
    documents = place_documents(endpoints, resources)
    priors = np.array([0.0] * len(services) if prior is None else prior, np.float64)
    prior_of_documents = priors[documents.services]
    index, others = folder / "index.arrays", _other_texts(services, documents)
    compile_postings(text_columns(services), others, documents, prior_of_documents, index)
    return open_index(index, documents.endpoints, documents.services)


def open_index(path: Path, first: npt.NDArray[np.int64], services: npt.NDArray[np.int32]) -> Index:
    """Open an index, given the first endpoint of each service and the service of each document."""
    index = open_arrays(path)
    header = read_header(index)
    groups = None
    if not np.array_equal(services, np.arange(header.groups)):
        penalties = index["penalties"]
        groups = Groups(first, services, penalties)
    return Index(QueryParser(index, header), SearchIndex(index, header, groups, None), services)


def index_of(snapshot: Snapshot) -> Index:
    """Return the index of a snapshot."""
    services, engine = snapshot.endpoints.groups.of_document, snapshot.embedded
    return Index(engine.parser, engine.index, services)


def text_columns(services: Sequence[Service | Document]) -> RecordColumns:
    """Return the columns of services that have texts alone; their keys are their numbers."""
    strings = NumberedStrings()
    tokens = Tokens(strings)
    own = TextWriter(SERVICE_FIELDS, tokens, None)
    endpoints = TextWriter(ENDPOINT_FIELDS, tokens, None)
    given = [Service(*each) for each in services]
    for each in given:
        own.add((each.name, each.description, each.category, *BLANK_OF_SERVICE))
        for texts in each.endpoints:
            endpoints.add((*texts, *BLANK_OF_ENDPOINT))
    counts = np.zeros(len(given), SERVICE)
    counts["endpoints"] = [len(each.endpoints) for each in given]
    total = int(counts["endpoints"].sum())
    keys = b"".join(number.to_bytes(2 * KEY_SIZE, "big") for number in range(len(given)))
    runs = {
        name: Ragged(
            np.zeros(len(given) if name.startswith("service") else total, np.uint32),
            np.empty(0, dtype),
        )
        for name, dtype in RAGGED.items()
    }
    runs["service.name"] = ragged_texts([each.name.encode() for each in given])
    for kind, written in (("service", own), ("endpoint", endpoints)):
        runs |= {f"{kind}.tokens.{name}": rows for name, rows in written.tokens().items()}
    arrays = {
        "keys": np.frombuffer(keys, np.uint8).reshape(-1, 2 * KEY_SIZE),
        "services": counts.view(SERVICE.str),
        "endpoints": np.zeros(total, ENDPOINT.str),
        "service_vectors": own.vectors(),
        "endpoint_vectors": endpoints.vectors(),
    }
    for name, rows in (*runs.items(), (STRINGS, strings.table())):
        arrays |= ragged_arrays(name, rows)
    return RecordColumns(arrays)


def _other_texts(services: Sequence[Service], documents: Documents) -> OtherTexts:
    strings = NumberedStrings()
    texts, ordinals = TextWriter(ENDPOINT_FIELDS, Tokens(strings), None), []
    for first, each in zip(documents.others.tolist(), services, strict=False):
        for ordinal, given in enumerate(each.resources, first):
            texts.add((*given, *BLANK_OF_ENDPOINT))
            ordinals.append(ordinal)
    numbers = np.array(ordinals, np.int32)
    return OtherTexts(numbers, texts.tokens(), strings.table(), texts.vectors())


def rank(
    index: Index,
    query: str,
    limit: int,
    offset: int = 0,
    mask: Mask | None = None,
    match_all: bool = False,
    by_group: bool = True,
) -> Ranked:
    """Rank one page of a query, of services by their best documents unless not `by_group`."""
    ranking = index.ranking(query, mask, by_group=by_group, match_all=match_all)
    return ranking.page(limit, offset)


def rank_all(
    index: Index,
    query: str,
    mask: Mask | None = None,
    match_all: bool = False,
    by_group: bool = True,
) -> list[int]:
    """Return the documents of all matches of a query, best first."""
    top = rank(index, query, ALL, 0, mask, match_all, by_group)
    assert top.total == len(top.documents)
    documents: list[int] = top.documents.tolist()
    return documents


class BruteForceRanking:
    """BM25F over the texts, from scores of every document, for queries of `WORDS`."""

    def __init__(
        self, given: Sequence[Service | Document], prior: Sequence[float] | None = None
    ) -> None:
        services = [Service(*each) for each in given]
        self._keys = np.array(["".join(each.name.split()).lower() for each in services], object)
        endpoints: list[tuple[int, dict[str, str]]] = []
        others: list[tuple[int, dict[str, str]]] = []
        for number, each in enumerate(services):
            own = {"service_name": each.name, "service_description": each.description}
            own["service_category"] = each.category
            for listed, found in ((endpoints, each.endpoints), (others, each.resources)):
                for path, description in found:
                    listed.append((number, own | {"title": path, "description": description}))
            if not each.endpoints and not each.resources:
                own = {"title": each.name, "description": each.description}
                others.append((number, own | {"category": each.category}))
        documents = endpoints + others
        self.services = [number for number, _ in documents]
        self._owners = np.array(self.services, np.int64)
        sizes, config = np.bincount(self._owners, minlength=len(services)), SEARCH_CONFIG
        excess = np.log(np.maximum(sizes / config.size_penalty_from, 1))
        penalties = np.rint(config.size_penalty * config.impact_scale * excess).astype(np.int64)
        self._penalties = penalties[self._owners]
        self._prior = np.zeros(len(services)) if prior is None else np.array(prior)
        self._found: dict[str, dict[str, list[int]]] = {}
        self._lengths: dict[str, list[int]] = {}
        for name in config.field_weights:
            self._found[name], self._lengths[name] = defaultdict(list), [0] * len(documents)
        for ordinal, (_, texts) in enumerate(documents):
            for name, text in texts.items():
                terms = _terms(text.split())
                self._lengths[name][ordinal] = len(terms)
                for term in terms:
                    self._found[name][term].append(ordinal)
        self._impacts: dict[str, Integers] = {}

    def impacts(self, term: str) -> Integers:
        """Return the impact of a term on each document, 0 for those without it."""
        if term not in self._impacts:
            self._impacts[term] = self._compute(term)
        return self._impacts[term]

    def scores(
        self, words: Sequence[str], mask: Mask | None = None, match_all: bool = False
    ) -> Integers:
        """Return the score of each document in impact units, 0 for those that do not match.

        `mask` has a flag for each document.
        """
        scores = np.zeros(len(self.services), np.int64)
        for term in {*_terms(words)}:
            scores += self.impacts(term)
        for part in [part for word in words for part in _parts(word)] if match_all else ():
            scores[self.impacts(part) == 0] = 0
        return scores if mask is None else scores * mask

    def documents(
        self, words: Sequence[str], mask: Mask | None = None, match_all: bool = False
    ) -> list[int]:
        """Return all documents that match, by score, then in listing order."""
        scores = self.scores(words, mask, match_all)
        matches = np.flatnonzero(scores)
        order: list[int] = matches[np.argsort(-scores[matches], kind="stable")].tolist()
        return order

    def ranking(
        self, words: Sequence[str], mask: Mask | None = None, match_all: bool = False
    ) -> list[int]:
        """Return the best document of each service that matches, best first.

        The first services by their scores whose name is the query come first, three at most.
        `mask` has a flag for each service.
        """
        of_documents = None if mask is None else mask[self._owners]
        scores = self.scores(words, of_documents, match_all)
        matches = np.flatnonzero(scores)
        order = matches[np.argsort((self._penalties - scores)[matches], kind="stable")]
        _, first = np.unique(self._owners[order], return_index=True)
        best = order[np.sort(first)]
        named = np.flatnonzero(self._keys[self._owners[best]] == "".join(words).lower())
        known, others = np.split(named, [named.searchsorted(SEARCH_CONFIG.reranked)])
        others = others[np.argsort(self._owners[best[others]])]
        exact = np.concatenate((known, others))[:EXACT_NAMES]
        return [*best[exact].tolist(), *np.delete(best, exact).tolist()]

    def _compute(self, term: str) -> Integers:
        count, config = len(self.services), SEARCH_CONFIG
        frequencies = np.zeros(count)
        b = config.length_normalisation
        for field, owners in self._found.items():
            if term in owners:
                lengths = self._lengths[field]
                average = sum(lengths) / max(1, len(lengths) - lengths.count(0))
                counts = np.bincount(owners[term], minlength=count)
                norms = 1 - b + b * np.array(lengths) / average
                frequencies += config.field_weights[field] * counts / norms
        matches = np.count_nonzero(frequencies)
        idf = log(1 + (count - matches + 0.5) / (matches + 0.5))
        relevance = idf * frequencies / (config.saturation + frequencies)
        boosts = 1 + config.prior_bound * self._prior[self._owners]
        impacts = np.maximum(1, np.rint(relevance * boosts * config.impact_scale))
        return np.where(frequencies > 0, impacts, 0).astype(np.int64)


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


@cache
def _parts(word: str) -> list[str]:
    cut = next((n for n, letter in enumerate(word) if letter.isupper()), None)
    return [word] if cut is None else [word[:cut], word[cut:].lower()]
