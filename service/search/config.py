"""The parameters of analysis and ranking, one frozen structure that a snapshot's id depends on."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from service.schema.values import Proportion

Weight = Annotated[float, Meta(ge=0, le=1000)]
SmallCount = Annotated[int, Meta(ge=0, le=10_000)]
Positive = Annotated[int, Meta(ge=1, le=10_000)]


class SearchConfig(msgspec.Struct, frozen=True):
    """Everything that decides which documents match a query, and in which order.

    A snapshot stores the parameters that it was compiled with, and is searched with those.
    """

    field_weights: dict[str, float]
    encoder: str = ""
    """The encoder of the vectors, with a hash of it; empty for ranking by words alone."""
    analysis: int = 2
    """Version of the analysers, of the stop list and of how texts are encoded, which cannot be
    hashed: raise it when the same text yields other terms or another vector."""

    length_normalisation: Proportion = 0.75
    """b of BM25F, for every field."""
    saturation: Weight = 2.4
    """k1 of BM25F: twice the customary 1.2, as the weight of a name doubles its frequencies."""
    impact_scale: int = 1024
    """Impact units per unit of BM25F score: sums of integers do not depend on their order."""
    prior_bound: Proportion = 0.05
    """Largest share that popularity adds to a score."""

    dense_share: float = 1 / 24
    """A term in more than this share of the documents has a dense column instead of postings."""

    query_terms: Positive = 64
    """Distinct terms of a query that are searched; further ones are ignored."""
    expanded_words: SmallCount = 4
    """Words of a query that are completed or corrected."""
    candidates: Positive = 16
    """Completions and corrections of one word."""
    completion_weight: Proportion = 0.6
    one_edit_weight: Proportion = 0.5
    two_edits_weight: Proportion = 0.3
    rare_documents: SmallCount = 2
    """A word of at most this many services is rare."""

    similarity_weight: Weight = 8
    """Units of BM25F score that a cosine of 1 adds."""
    size_penalty: Weight = 0.25
    """Units of BM25F score by which a service ranks lower, times the logarithm of the number of its
    documents by `size_penalty_from`: it is ranked by the best of many."""
    size_penalty_from: Positive = 60
    """Documents up to which a service has no penalty."""
    reranked: SmallCount = 100
    """Best lexical matches to whose scores similarities are added."""
    filled_up_to: SmallCount = 24
    """The nearest documents: those that match are reranked, too, and fewer matches are filled up to
    this many with others."""
    filled_per_group: Positive = 3
    """Most endpoints of one service that are added where endpoints are searched."""
    least_similarity: Proportion = 0.25
    """Least cosine of documents that are added."""
    specific_share: Proportion = 0.3
    """A query of few words is specific if its rare words have more than this share of the idf of
    all."""
    specific_rarity: Proportion = 1 / 64
    """Largest share of the services that have a rare word: in a small catalogue none is rare."""
    specific_words: SmallCount = 3
    """Most words of a specific query."""
    specific_weight: Proportion = 0.1
    """Factor of `similarity_weight` for specific queries: they ask for the rare word itself."""


SEARCH_CONFIG = SearchConfig(
    field_weights={
        "title": 2.0,
        "description": 1.0,
        "category": 1.0,
        "parameters": 0.5,
        "tags": 0.5,
        "parameter_descriptions": 0.3,
        "output": 0.2,
        "profile": 0.5,
        "service_name": 2.0,
        "service_description": 0.6,
        "service_category": 0.5,
        "service_profile": 0.3,
        "host": 0.5,
    },
)
"""`title` is the path of an endpoint, or the name of a service that is a document of its own, which
alone has a `category`."""
