"""The prior of documents by payers, curation and the verdicts of probers."""

from __future__ import annotations

import numpy as np
import pytest

from indexer.index.popularity import SATURATING_PAYERS, Payers, popularity_of

NONE = np.zeros(1, np.bool_)


@pytest.mark.parametrize(
    ("payers", "prior"),
    [
        (Payers(), 0.0),
        (Payers(0, SATURATING_PAYERS), 0.125),
        (Payers(SATURATING_PAYERS, SATURATING_PAYERS), 0.5),
        (Payers(99, 10 * SATURATING_PAYERS), 0.3125),
    ],
)
def test_payers_who_came_again_count_three_times_as_much_as_all(
    payers: Payers, prior: float
) -> None:
    popularity = popularity_of([payers])
    assert popularity.prior(NONE, NONE).tolist() == [pytest.approx(prior, abs=1e-4)]
    assert popularity.prior(~NONE, NONE).tolist() == [pytest.approx(0.5 + prior, abs=1e-4)]


def test_dead_and_deprecated_documents_are_lowered_and_undecided_ones_are_not() -> None:
    popularity = popularity_of([Payers(3, 7)] * 4, np.array([1, 0, -1, 1], np.int8))
    prior = popularity.prior(np.zeros(4), np.array([0, 0, 0, 1]))
    assert (prior[:1] - prior).tolist() == [0, 0, 1, 1]
    assert popularity.order.tolist() == [0, 1, 3, 2]
