"""A plain-text query to what it asks for: terms, an exact name, a vector."""

from __future__ import annotations

import weakref
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from service.errors import REBUILD, SnapshotUnsupported
from service.search.analysis import name_key, query_words
from service.search.config import SEARCH_CONFIG
from service.search.postings import Header, Integers
from service.search.query_expansion import Expansion, QueryExpander
from service.search.semantic.encoder import Encoder
from service.search.semantic.vector_index import VectorIndex
from service.search.semantic.vector_query import VectorQuery, encode_query
from service.search.top_k import NO_ORDINALS
from service.storage.container import open_arrays
from service.storage.hash_table import text_hash
from service.storage.layouts import NAMES

CACHED_QUERIES = 16
"""Parsed queries: the pages of a search and its other filters share one."""


class ParsedQuery(NamedTuple):
    """A query, looked up in the lexicon of a snapshot.

    `expansions` are its distinct words, `names` the services whose name is the query, ascending.
    `vector` is None for a query that is ranked by its words alone.
    """

    expansions: list[Expansion]
    names: Integers
    vector: VectorQuery | None

    @property
    def is_satisfiable(self) -> bool:
        """Whether any document may have all required words."""
        required = [each for each in self.expansions if each.required]
        return bool(required) and all(each.terms for each in required)


class QueryParser:
    """The lexicon of a snapshot: what queries are parsed with, wherever the postings are.

    `term` returns the text of a term by its number.

    Raises SnapshotUnsupported for a lexicon that another version analysed.
    """

    def __init__(
        self,
        folder: Path,
        header: Header,
        encoder: Encoder | None = None,
        vectors: VectorIndex | None = None,
    ) -> None:
        self.header = header
        analysis = header.config.analysis
        if analysis != SEARCH_CONFIG.analysis:
            raise SnapshotUnsupported(
                f"{folder} has terms of analysis {analysis}, this version searches those of "
                f"analysis {SEARCH_CONFIG.analysis}; {REBUILD}"
            )
        self._expander = QueryExpander(folder, header)
        self.term = self._expander.terms.__getitem__
        names = open_arrays(folder / "names", NAMES)
        self._name_hashes, self._named = names["hashes"], names["services"]
        self._encoder, self._vectors = encoder, vectors
        # A cache of a bound method is a reference cycle, which would keep the files mapped.
        self.parse = lru_cache(CACHED_QUERIES)(partial(QueryParser._parse, weakref.proxy(self)))

    def terms(self, query: str) -> list[frozenset[str]]:
        """Return the terms that each required word of a query stands for, none if unknown."""
        return [
            frozenset(self.term(number) for number, _ in each.terms)
            for each in self.parse(query).expansions
            if each.required
        ]

    def _parse(self, query: str) -> ParsedQuery:
        words = query_words(query)
        expansions = self._expander.expand(words)
        names = NO_ORDINALS
        if words:
            name_hash = np.uint64(text_hash(name_key(query)))
            start = self._name_hashes.searchsorted(name_hash)
            stop = self._name_hashes.searchsorted(name_hash, side="right")
            names = self._named[start:stop].astype(np.int64)
        if self._encoder is None or self._vectors is None:
            return ParsedQuery(expansions, names, None)
        vector = encode_query(self._encoder, query, expansions)
        if vector is None:
            return ParsedQuery(expansions, names, None)
        config = self.header.config
        share = config.specific_weight if self._expander.is_specific(expansions) else 1
        weights = {
            True: config.similarity_weight * share * config.impact_scale,
            False: config.document_similarity_weight * share * config.impact_scale,
        }
        vector_query = VectorQuery(self._vectors, vector, config, weights)
        return ParsedQuery(expansions, names, vector_query)
