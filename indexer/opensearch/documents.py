"""The compiled arrays of a snapshot as documents of a cluster: from terms to documents again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from service.filtering.facets import OFFER_FACETS, SERVICE_FACETS
from service.opensearch.indexes import (
    DOCUMENT_FACETS,
    ORDINAL,
    SERVICE,
    SIBLINGS,
    TERMS,
    facet_field,
    token,
)
from service.search.postings import IMPACT_BITS, IMPACT_MASK, Header, Integers
from service.storage.memory_map import open_array

PASS = 1 << 21
"""Postings whose documents are made at a time: some 300 MB. Each pass reads all postings."""
POSTINGS_FILES = (
    "postings",
    "offsets",
    "dense_rows",
    "dense_impacts",
    "dense_maxima",
    "dense_bits",
    "dense_champions",
)
"""The files of a folder of postings that the cluster has in their place."""

_header = msgspec.json.Decoder(Header)


class Document(NamedTuple):
    """A document to load: its id, the value that chooses its shard, and its fields."""

    id: str
    routing: str
    fields: dict[str, Any]


class Rows(NamedTuple):
    """Numbers by document: those of document n are values[bounds[n]:bounds[n + 1]]."""

    bounds: Integers
    values: Integers

    def of(self, document: int) -> list[int]:
        """Return the numbers of a document."""
        numbers: list[int] = self.values[self.bounds[document] : self.bounds[document + 1]].tolist()
        return numbers


class Documents:
    """The documents of one index; `read` may be called by several threads.

    postings: the folder of their compiled postings
    facets: the folder of each facet whose values are counted
    """

    def __init__(self, postings: Path, facets: dict[str, Path]) -> None:
        header = _header.decode((postings / "header.json").read_bytes())
        self.count = header.documents
        self._per_pass = max(1, PASS * self.count // max(header.postings, PASS))
        self._postings = open_array(postings / "postings.npy")
        self._offsets = open_array(postings / "offsets.npy")
        rows = open_array(postings / "dense_rows.npy")
        dense = np.flatnonzero(rows >= 0)
        self._dense_terms = dense[np.argsort(rows[dense])]
        columns = open_array(postings / "dense_impacts.npy")
        self._dense = columns.reshape(len(columns), columns.shape[1] * columns.shape[2])
        self._facets = {
            facet_field(name): _invert(folder, name, self.count) for name, folder in facets.items()
        }

    @property
    def passes(self) -> list[range]:
        """The ranges of ordinals that are read at a time."""
        starts = range(0, self.count, self._per_pass)
        return [range(start, min(start + self._per_pass, self.count)) for start in starts]

    def read(self, ordinals: range) -> Iterator[Document]:
        """Yield the documents of a range of ordinals."""
        terms = self._terms(ordinals)
        for row, ordinal in enumerate(ordinals):
            fields: dict[str, Any] = {ORDINAL: ordinal, TERMS: terms[row]}
            for name, rows in self._facets.items():
                if values := rows.of(ordinal):
                    fields[name] = values
            yield Document(str(ordinal), self._add_owner(ordinal, fields), fields)

    def _add_owner(self, ordinal: int, fields: dict[str, Any]) -> str:
        """Add what is known of the owner of a document; returns its routing."""
        del fields
        return str(ordinal)

    def _terms(self, ordinals: range) -> list[str]:
        """Return the field of terms of each of these documents."""
        owners, terms, impacts = self._rare(ordinals)
        dense = self._dense[:, ordinals.start : ordinals.stop]
        rows, places = dense.nonzero()
        owners = np.concatenate((owners, places))
        terms = np.concatenate((terms, self._dense_terms[rows]))
        impacts = np.concatenate((impacts, dense[rows, places].astype(np.int64)))
        order = np.argsort(owners, kind="stable")
        tokens = list(map(token, terms[order].tolist(), impacts[order].tolist()))
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


class EndpointDocuments(Documents):
    """The documents of endpoints, and of listed resources that are no endpoint."""

    def __init__(self, built: Path) -> None:
        folder = built / "endpoints"
        facets = {
            name: built / "offers" if name in OFFER_FACETS else folder for name in DOCUMENT_FACETS
        }
        super().__init__(folder / "postings", facets)
        self._services = open_array(folder / "services.npy")
        first = open_array(folder / "first.npy")
        self._siblings = np.diff(first)
        self._endpoints = int(first[-1])

    def _add_owner(self, ordinal: int, fields: dict[str, Any]) -> str:
        service = int(self._services[ordinal])
        fields[SERVICE] = service
        if ordinal < self._endpoints:
            fields[SIBLINGS] = int(self._siblings[service])
        return str(service)


def service_documents(built: Path) -> Documents:
    """Return the documents of the services of a snapshot folder."""
    return Documents(built / "postings", dict.fromkeys(SERVICE_FACETS, built / "filters"))


def remove_postings(built: Path) -> None:
    """Remove from a snapshot folder the files that a cluster has in their place."""
    for folder in (built / "postings", built / "endpoints" / "postings"):
        for name in POSTINGS_FILES:
            (folder / f"{name}.npy").unlink()


def document_counts(folder: Path) -> Sequence[int]:
    """Return the numbers of documents of the two indexes of a snapshot folder."""
    parts = (folder / "postings", folder / "endpoints" / "postings")
    return [_header.decode((part / "header.json").read_bytes()).documents for part in parts]


def _invert(folder: Path, name: str, documents: int) -> Rows:
    """Return the numbers of a facet's values by document."""
    offsets = open_array(folder / f"{name}.offsets.npy")
    ordinals = open_array(folder / f"{name}.ordinals.npy")
    values = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.argsort(ordinals, kind="stable")
    bounds = np.searchsorted(ordinals[order], np.arange(documents + 1))
    return Rows(bounds, values[order])
