"""Popularity: the payers of services and endpoints, which order the listing and raise scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

SATURATING_PAYERS = 10_000
"""Payers in 30 days at which the prior of a document saturates."""
RETURNING_SHARE = 0.75
"""The share of payers who came again in the part of the prior that use has."""


class Payers(NamedTuple):
    """The payers of a service or an endpoint who came again, and all; the greater the better."""

    returning: int = 0
    all: int = 0


class Popularity(NamedTuple):
    """The payers of documents, and the verdicts of probers on them.

    returning, payers: int64[documents]
    alive: int8[documents], 1, -1 for a dead one, or 0
    """

    returning: npt.NDArray[np.int64]
    payers: npt.NDArray[np.int64]
    alive: npt.NDArray[np.int8]

    @property
    def order(self) -> npt.NDArray[np.uint32]:
        """The documents, best first: by payers who came again, then by payers; stable.

        Dead ones are behind their equals.
        """
        return np.lexsort((self.alive < 0, -self.payers, -self.returning)).astype(np.uint32)

    @property
    def stored_payers(self) -> npt.NDArray[np.uint32]:
        """uint32[documents], the payers that a filter compares."""
        return np.minimum(self.payers, np.iinfo(np.uint32).max).astype(np.uint32)

    def prior(
        self, enriched: npt.NDArray[Any], deprecated: npt.NDArray[Any]
    ) -> npt.NDArray[np.float64]:
        """Return float64[documents], from -1 to 1: half curation, half payers.

        Dead and deprecated documents have 1 less, so that they rank below their equals.

        Payers count on a logarithmic scale up to SATURATING_PAYERS, and those who came again three
        times as much as all: no number of wallets that pay once outdoes a few dozen that return.
        """
        scale = np.log1p(SATURATING_PAYERS)
        counts = (self.returning, self.payers)
        returning, payers = (np.minimum(np.log1p(each) / scale, 1.0) for each in counts)
        use = RETURNING_SHARE * returning + (1 - RETURNING_SHARE) * payers
        is_lowered = (self.alive < 0) | deprecated.astype(bool)
        prior: npt.NDArray[np.float64] = 0.5 * enriched + 0.5 * use - is_lowered
        return prior


def popularity_of(
    payers: Sequence[Payers], alive: npt.NDArray[np.int8] | None = None
) -> Popularity:
    """Return the popularity of documents in order; none is dead where `alive` is not given."""
    values = np.array(payers, np.int64).reshape(-1, 2)
    if alive is None:
        alive = np.zeros(len(values), np.int8)
    return Popularity(values[:, 0], values[:, 1], alive)
