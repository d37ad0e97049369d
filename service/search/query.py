"""A plain-text query to what it asks for: terms, an exact name, a vector."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from service.arrays.container import Arrays, items_of
from service.arrays.texts import text_hash
from service.errors import REBUILD, SnapshotUnsupported
from service.search.analysis import name_key, query_words
from service.search.config import SEARCH_CONFIG
from service.search.lexicon import Expansion, Lexicon
from service.search.postings import Header, Integers
from service.search.semantic.encoder import IDENTIFIER, Encoder, QueryVector
from service.search.top_k import NO_ORDINALS


class ParsedQuery(NamedTuple):
    """A query, looked up in the lexicon of a snapshot.

    expansions: its distinct words
    names: the services whose name is the query, ascending
    vector: None for a query that is ranked by its words alone
    similarity_weight: the impact of a cosine of 1
    """

    expansions: list[Expansion]
    names: Integers
    vector: QueryVector | None = None
    similarity_weight: float = 0.0

    @property
    def is_satisfiable(self) -> bool:
        """Whether any document may have all required words."""
        required = [each for each in self.expansions if each.required]
        return bool(required) and all(each.terms for each in required)


class QueryParser:
    """Parses queries with the lexicon, the names and the encoder of a snapshot.

    `term` returns the text of a term by its number.

    Raises SnapshotUnsupported for a lexicon that another version analysed.
    """

    def __init__(self, index: Arrays, header: Header, encoder: Encoder | None = None) -> None:
        self.header = header
        analysis = header.config.analysis
        if analysis != SEARCH_CONFIG.analysis:
            raise SnapshotUnsupported(
                f"the snapshot has terms of analysis {analysis}, this version searches those of "
                f"analysis {SEARCH_CONFIG.analysis}; {REBUILD}"
            )
        self._lexicon = Lexicon(index, header)
        self.term = self._lexicon.terms.__getitem__
        self.count_postings = self._lexicon.count_postings
        self._name_hashes, self._named = items_of(index["names.hashes"]), index["names.services"]
        self._encoder = encoder

    def parse(self, query: str) -> ParsedQuery:
        """Return what a query asks for."""
        words = query_words(query)
        expansions = self._lexicon.expand(words)
        names = self._services_named(query) if words else NO_ORDINALS
        if self._encoder is None:
            return ParsedQuery(expansions, names)
        vector, config = encode_query(self._encoder, query, expansions), self.header.config
        weight = config.similarity_weight * config.impact_scale
        if vector is not None and self._lexicon.is_specific(expansions):
            weight *= config.specific_weight
        return ParsedQuery(expansions, names, vector, weight)

    def _services_named(self, query: str) -> Integers:
        """Return the services whose name is the query."""
        hashes, name_hash = self._name_hashes, text_hash(name_key(query))
        start = bisect_left(hashes, name_hash)
        if start == len(hashes) or hashes[start] != name_hash:
            return NO_ORDINALS
        return self._named[start : bisect_right(hashes, name_hash, start)].astype(np.int64)


def encode_query(
    encoder: Encoder, query: str, expansions: Sequence[Expansion]
) -> QueryVector | None:
    """Return the vector of a query, or None where its words have no meaning.

    A word that no document has counts if it is one piece, or else as what it was completed or
    corrected to: the pieces of an unfinished word mean something else.
    """
    texts = None
    if IDENTIFIER.search(query):
        meant = " ".join(chunk for chunk in query.split() if not IDENTIFIER.search(chunk))
        texts = {word.text for word in query_words(meant)}
    pieces: list[int] = []
    for each in expansions:
        if not each.required or (texts is not None and each.word not in texts):
            continue
        own = encoder.pieces(each.word)
        if not each.is_known and len(own) != 1:
            own = encoder.pieces(each.alternative)
        pieces += own
    return encoder.encode(pieces)
