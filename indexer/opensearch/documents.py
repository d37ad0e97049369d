"""The compiled postings of a snapshot as documents of a cluster: from terms to documents again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from service.opensearch.index import DELIMITER, GROUP, ORDINAL, SERVICE, TERMS
from service.search.postings import IMPACT_BITS, IMPACT_MASK, Integers, read_header
from service.storage.container import arrays_path, open_arrays
from service.storage.layouts import ENDPOINTS, GROUPS, POSTINGS

PASS = 1 << 21
"""Postings whose documents are made at a time: some 300 MB. Each pass reads all postings."""


class ClusterDocuments:
    """The documents of a snapshot folder; `read` may be called by several threads."""

    def __init__(self, built: Path) -> None:
        folder = built / "postings"
        header = read_header(folder)
        self.count = header.documents
        self._per_pass = max(1, PASS * self.count // max(header.postings, PASS))
        arrays = open_arrays(folder / "postings", POSTINGS)
        self._postings, self._offsets = arrays["postings"], arrays["offsets"]
        dense = np.flatnonzero(arrays["rows"] >= 0)
        self._dense_terms = dense[np.argsort(arrays["rows"][dense])]
        columns = arrays["impacts"]
        self._dense = columns.reshape(len(columns), columns.shape[1] * columns.shape[2])
        self._services = open_arrays(built / "endpoints" / "endpoints", ENDPOINTS)["services"]
        penalties = open_arrays(folder / "groups", GROUPS)["penalties"].astype(np.int64)
        self._bonuses = penalties.max(initial=0) - penalties + 1

    @property
    def passes(self) -> list[range]:
        """The ranges of ordinals that are read at a time."""
        starts = range(0, self.count, self._per_pass)
        return [range(start, min(start + self._per_pass, self.count)) for start in starts]

    def read(self, ordinals: range) -> Iterator[dict[str, Any]]:
        """Yield the documents of a range of ordinals."""
        services = self._services[ordinals.start : ordinals.stop]
        bonuses = self._bonuses[services]
        for ordinal, service, bonus, terms in zip(
            ordinals, services.tolist(), bonuses.tolist(), self._terms(ordinals), strict=True
        ):
            yield {ORDINAL: ordinal, SERVICE: service, TERMS: f"{_token(GROUP, bonus)} {terms}"}

    def _terms(self, ordinals: range) -> list[str]:
        """Return the tokens of each document of a range."""
        owners, terms, impacts = self._rare(ordinals)
        dense = self._dense[:, ordinals.start : ordinals.stop]
        rows, places = dense.nonzero()
        owners = np.concatenate((owners, places))
        terms = np.concatenate((terms, self._dense_terms[rows]))
        impacts = np.concatenate((impacts, dense[rows, places].astype(np.int64)))
        order = np.argsort(owners, kind="stable")
        tokens = list(map(_token, terms[order].tolist(), impacts[order].tolist()))
        bounds = np.searchsorted(owners[order], np.arange(len(ordinals) + 1)).tolist()
        return [" ".join(tokens[bounds[n] : bounds[n + 1]]) for n in range(len(ordinals))]

    def _rare(self, ordinals: range) -> tuple[Integers, Integers, Integers]:
        """Return the documents in the range, the terms and the impacts of their rare postings."""
        lowest, highest = ordinals.start << IMPACT_BITS, ordinals.stop << IMPACT_BITS
        places = [np.empty(0, np.int64)]
        for start in range(0, len(self._postings), PASS):
            part = self._postings[start : start + PASS]
            places.append(np.flatnonzero((part >= lowest) & (part < highest)) + start)
        own = np.concatenate(places)
        postings = self._postings[own]
        terms = np.searchsorted(self._offsets, own, side="right") - 1
        return (postings >> IMPACT_BITS) - ordinals.start, terms, postings & IMPACT_MASK


def remove_postings(built: Path) -> list[str]:
    """Remove from a snapshot folder the files that a cluster has in their place; returns them."""
    path = arrays_path(built / "postings" / "postings")
    path.unlink()
    return [path.relative_to(built).as_posix()]


def _token(term: int | str, impact: int) -> str:
    return f"{term}{DELIMITER}{impact}"
