"""The parameters of the search engine, one frozen structure that goes into a snapshot's id."""

from __future__ import annotations

import msgspec


class FieldWeights(msgspec.Struct, frozen=True):
    """One number for each indexed field."""

    name: float
    description: float
    category: float


class SearchConfig(msgspec.Struct, frozen=True):
    """Everything that decides which services a query finds, and in which order.

    `analysis` grows by one whenever the analysers or the stop list change meaning: it stands for
    code that cannot itself be hashed. `layout` does the same for the compiled files.
    """

    analysis: int = 1
    layout: int = 2

    field_weights: FieldWeights = FieldWeights(name=2.0, description=1.0, category=1.0)
    length_normalisation: FieldWeights = FieldWeights(name=0.75, description=0.75, category=0.75)
    saturation: float = 2.4
    """k1 of BM25F: the customary 1.2 for frequencies that a name's weight doubles."""
    impact_scale: int = 1024
    """Integer impact units per unit of BM25F score: integers add up alike in any order."""
    prior_bound: float = 0.05
    """The most that curation and use can add to a score, as a fraction of it."""

    query_terms: int = 64
    """Distinct terms of a query that count; the rest is ignored."""
    expanded_words: int = 4
    """Words of a query that may be completed or corrected."""
    candidates: int = 16
    """Completions and corrections of one word."""
    completion_weight: float = 0.6
    one_edit_weight: float = 0.5
    two_edits_weight: float = 0.3
    rare_documents: int = 2
    """A word in at most so many documents may be a typo that is in the corpus itself..."""
    rare_ratio: int = 20
    """...if a neighbour at one edit is in at least so many times as many."""


SEARCH_CONFIG = SearchConfig()
