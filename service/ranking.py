"""Ranking by Whoosh's own searcher."""

from __future__ import annotations

from pathlib import Path

from whoosh.index import open_dir
from whoosh.query import Or, Term

from service.analysis import FIELDS, query_terms

ENGINE = "whoosh-1"  # a change of what is found or of its order changes this
TERMS = 64


class Ranking:
    """Ranks the services of one Whoosh index."""

    def __init__(self, folder: Path) -> None:
        self._index = open_dir(str(folder), readonly=True)

    def search(self, query: str, limit: int, offset: int) -> tuple[int, list[int]]:
        """The count of all matches, and the ordinals of one page of them in rank order."""
        terms = query_terms(query)[:TERMS]
        if not terms:
            return 0, []
        any_term = Or([Term(field, term) for term in terms for field in FIELDS])
        with self._index.searcher() as searcher:
            hits = searcher.search(any_term, limit=None)
            ranked = sorted((-hit.score, hit["ordinal"]) for hit in hits)
        return len(ranked), [ordinal for _, ordinal in ranked[offset : offset + limit]]
