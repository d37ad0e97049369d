"""A plain-text query to what it asks for: terms, an exact name, a meaning."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from service.errors import REBUILD, SnapshotUnsupported
from service.search.analysis import name_key, query_words
from service.search.config import SEARCH_CONFIG
from service.search.postings import Header, Integers
from service.search.query_expansion import Expansion, QueryExpander
from service.search.semantic.hybrid import Meaning, Semantics
from service.search.top_k import NO_ORDINALS
from service.storage.hash_table import HashTable, text_hash
from service.storage.memory_map import items_of, open_array


class ParsedQuery(NamedTuple):
    """A query, looked up in the lexicon of a snapshot.

    `expansions` are its distinct words, `exact` the documents whose name is the query. `meaning` is
    None for a query that is ranked by its words alone.
    """

    expansions: list[Expansion]
    exact: Integers
    meaning: Meaning | None

    @property
    def known(self) -> list[Expansion]:
        """The words that have terms."""
        return [each for each in self.expansions if each.terms]

    @property
    def is_satisfiable(self) -> bool:
        """Whether any document may have all required words."""
        required = [each for each in self.expansions if each.required]
        return bool(required) and all(each.terms for each in required)


class QueryParser:
    """The lexicon of a snapshot: what queries are parsed with, wherever the postings are.

    Raises SnapshotUnsupported for a lexicon that another version analysed.
    """

    def __init__(self, folder: Path, semantics: Semantics | None = None) -> None:
        self.header = msgspec.json.decode((folder / "header.json").read_bytes(), type=Header)
        analysis = self.header.config.analysis
        if analysis != SEARCH_CONFIG.analysis:
            raise SnapshotUnsupported(
                f"{folder} has terms of analysis {analysis}, this version searches those of "
                f"analysis {SEARCH_CONFIG.analysis}; {REBUILD}"
            )
        frequencies = open_array(folder / "document_frequencies.npy").astype(np.int64)
        self._expander = QueryExpander(
            folder, frequencies, frequencies, self.header.documents, self.header.config
        )
        self._names = HashTable(folder / "names")
        self._name_hashes = items_of(open_array(folder / "name_hashes.npy"))
        self._semantics = semantics

    def parse(self, query: str) -> ParsedQuery:
        """Look a query up."""
        words = query_words(query)
        expansions = self._expander.expand(words)
        exact = self._named(query) if words else NO_ORDINALS
        return ParsedQuery(expansions, exact, self._meaning(query, expansions))

    def terms(self, query: str) -> list[frozenset[str]]:
        """Return the terms that each required word of a query stands for, none if unknown."""
        return self._expander.terms(query_words(query))

    def term(self, number: int) -> str:
        """Return the text of a term."""
        return self._expander.term(number)

    def _meaning(self, query: str, expansions: list[Expansion]) -> Meaning | None:
        if self._semantics is None:
            return None
        vector = self._semantics.vector_of(query, expansions)
        if vector is None:
            return None
        config = self.header.config
        weight = config.similarity_weight * config.impact_scale
        if self._expander.is_specific(expansions):
            weight *= config.specific_weight
        return Meaning(self._semantics, vector, weight, config)

    def _named(self, query: str) -> Integers:
        name_hash = text_hash(name_key(query))
        candidates = self._names.candidates((name_hash,))
        exact = [ordinal for ordinal in candidates if self._name_hashes[ordinal] == name_hash]
        return np.array(exact, dtype=np.int64) if exact else NO_ORDINALS
