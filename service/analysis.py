"""The Whoosh schema: what is indexed, and how its text becomes terms."""

from __future__ import annotations

from whoosh.analysis import StemmingAnalyzer
from whoosh.fields import STORED, TEXT, Schema

FIELDS = ("name", "description", "category")

_analyser = StemmingAnalyzer(r"\w+")
SCHEMA = Schema(
    ordinal=STORED,
    **{field: TEXT(analyzer=_analyser, phrase=False) for field in FIELDS},
)


def query_terms(query: str) -> list[str]:
    """The distinct terms of a plain-text query, in the order of their first use."""
    return list(dict.fromkeys(token.text for token in _analyser(query)))
