"""The parameters of analysis and ranking, one frozen structure that a snapshot's id depends on."""

from __future__ import annotations

import msgspec


class SearchConfig(msgspec.Struct, frozen=True):
    """Everything that decides which documents match a query, and in which order.

    A snapshot stores the parameters that it was compiled with, and is searched with those.
    """

    field_weights: dict[str, float]
    analysis: int = 1
    """Version of the analysers and of the stop list, which cannot be hashed: raise it when the
    same text yields other terms."""

    length_normalisation: float = 0.75
    """b of BM25F, for every field."""
    saturation: float = 2.4
    """k1 of BM25F: twice the customary 1.2, as the weight of a name doubles its frequencies."""
    impact_scale: int = 1024
    """Impact units per unit of BM25F score: sums of integers do not depend on their order."""
    prior_bound: float = 0.05
    """Largest share that popularity adds to a score."""

    dense_share: float = 1 / 40
    """A term in more than this share of the documents has a dense column instead of postings."""

    query_terms: int = 64
    """Distinct terms of a query that are searched; further ones are ignored."""
    expanded_words: int = 4
    """Words of a query that are completed or corrected."""
    candidates: int = 16
    """Completions and corrections of one word."""
    completion_weight: float = 0.6
    one_edit_weight: float = 0.5
    two_edits_weight: float = 0.3
    rare_documents: int = 2
    """A word in at most this many documents is corrected, too, as a typo in the catalogue..."""
    rare_ratio: int = 20
    """...if a word at one edit is in at least this many times as many documents."""


ENDPOINT_SEARCH_CONFIG = SearchConfig(
    field_weights={
        "path": 2.0,
        "description": 1.0,
        "parameters": 0.5,
        "tags": 0.5,
        "service_name": 1.5,
        "service_description": 0.5,
        "category": 0.5,
    },
    dense_share=1 / 24,
)
SEARCH_CONFIG = SearchConfig(field_weights={"name": 2.0, "description": 1.0, "category": 1.0})
