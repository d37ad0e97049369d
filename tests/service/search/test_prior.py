"""Popularity: it decides between equal matches, and is bounded."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.search.config import SEARCH_CONFIG
from service.snapshot.snapshot import Snapshot
from tests.support.running import endpoint, examples, service
from tests.support.searching import (
    IDENTIFIERS,
    WORDS,
    BruteForceRanking,
    Document,
    compiled,
    identifier,
    positions,
    publish,
    rank_all,
)

pieces = st.sampled_from(WORDS[:8] + IDENTIFIERS[:2])
texts = st.lists(pieces, max_size=6).map(" ".join)
small_corpora = st.lists(st.tuples(texts, texts, texts), min_size=1, max_size=30)
priors = st.lists(st.sampled_from([0.0, 0.5, 0.9, 1.0]), min_size=30, max_size=30)
short_queries = st.lists(pieces, min_size=1, max_size=6)


@settings(max_examples=examples(40), deadline=None)
@given(small_corpora, priors, st.lists(short_queries, min_size=1, max_size=4))
def test_the_prior_is_bounded_and_adds_no_match(
    drawn: list[Document], prior: list[float], searches: list[list[str]]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        index = compiled(Path(name), drawn, prior[: len(drawn)])
        without_prior = BruteForceRanking(drawn)
        for words in searches:
            # `zzz` keeps the query from being the name of a service, which would rank first.
            query = " ".join([*words, "zzz"])
            relevance = without_prior.scores(words)
            order = rank_all(index, query)
            assert sorted(order) == np.flatnonzero(relevance).tolist()
            for before, after in itertools.combinations(order, 2):
                bound = relevance[before] * (1 + SEARCH_CONFIG.prior_bound) + rounding(words)
                assert relevance[after] <= bound


def rounding(words: Sequence[str]) -> int:
    """Return the largest rounding error: up to three impacts a word, each rounded twice."""
    return 3 * len(words)


def popular_and_unpopular(
    folder: Path, popular: Document, unpopular: Document, others: int = 9
) -> Snapshot:
    """Publish a popular enriched service, an unused one, and others on another subject."""
    quality = {"l30DaysTotalCalls": str(10**12), "l30DaysUniquePayers": "9"}
    records = [
        service(identifier(number), name=name, description=description, category=category, **fields)
        for number, (name, description, category), fields in [
            (0, popular, {"enriched": True, "endpoints": [endpoint() | {"quality": quality}]}),
            (1, unpopular, {}),
            *((2 + n, ("other", "thing", ""), {}) for n in range(others)),
        ]
    ]
    return publish(folder, records, "--no-semantic")


def test_the_prior_is_bounded_to_five_percent() -> None:
    assert SEARCH_CONFIG.prior_bound == 0.05


def test_the_more_popular_of_two_equal_matches_is_first(tmp_path: Path) -> None:
    snapshot = popular_and_unpopular(tmp_path, ("maps of seas", "", ""), ("maps of land", "", ""))
    assert positions(snapshot, "maps") == [0, 1]


@pytest.mark.parametrize(
    ("popular", "unpopular"),
    [
        (("weather", "", ""), ("weather seas", "", "")),
        (("news", "weather at times", ""), ("weather", "", "")),
        (("weather weather weather", "", ""), ("seas", "the weather", "")),
    ],
)
def test_popularity_does_not_outrank_a_better_match(
    tmp_path: Path, popular: Document, unpopular: Document
) -> None:
    snapshot = popular_and_unpopular(tmp_path, popular, unpopular)
    assert positions(snapshot, "weather seas please")[0] == 1


def test_popularity_does_not_add_matches(tmp_path: Path) -> None:
    snapshot = popular_and_unpopular(tmp_path, ("maps", "of land", "Data"), ("seas", "", ""))
    assert positions(snapshot, "seas") == [1]
