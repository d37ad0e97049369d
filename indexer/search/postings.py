"""Compiling the postings of the segments: each gets its BM25F impact."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from math import log10
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from indexer.search.parts import Part
from indexer.search.query_expansion import write_names, write_query_expansion
from indexer.segments.postings import FieldPostings, Numbers
from service.search.config import SEARCH_CONFIG, SearchConfig
from service.search.postings import (
    BLOCK_SIZE,
    CHAMPIONS,
    IMPACT_BITS,
    Header,
    block_count,
)
from service.search.top_k import ORDINAL_MASK, SUM_BITS, first_keys, pack
from service.storage.container import write_arrays
from service.storage.layouts import GROUPS, POSTINGS

CHUNK = 1 << 22
"""Postings that are merged at a time: sorting them takes some 200 MB."""
Floats = npt.NDArray[np.float64]
SATURATING_CALLS = 1_000_000
"""Calls in 30 days at which the popularity of a service saturates."""


def popularity(enriched: bool, calls: int) -> float:
    """Return the prior of a service, 0 to 1: half curation, half calls on a logarithmic scale."""
    use = log10(1 + max(calls, 0)) / log10(1 + SATURATING_CALLS)
    return 0.5 * enriched + 0.5 * min(1.0, use)


def compile_postings(
    parts: Sequence[Part],
    names: Sequence[str],
    prior: npt.NDArray[np.float64],
    services: Numbers,
    endpoints: int,
    folder: Path,
    config: SearchConfig = SEARCH_CONFIG,
) -> None:
    """Write the files of a `Searcher` and a `QueryParser`.

    names: of the services
    prior: float64[documents], 0 to 1
    services: int32[documents], the service of each
    endpoints: how many of the first documents are endpoints
    """
    folder.mkdir(parents=True, exist_ok=True)
    documents = len(prior)
    groups = _Groups(services, endpoints, len(names), config)
    terms = sorted({t for part in parts for field in part.fields.values() for t in field.terms})
    runs = list(_runs(parts, terms, documents, config))
    sizes = np.zeros(len(terms), np.int64)
    for run in runs:
        sizes[run.terms] += np.diff(run.bounds)
    writer = _PostingsWriter(len(terms), int(sizes.sum()), groups, config.dense_share)
    for chunk in _chunks(sizes):
        keys, frequencies = _sum_by_key(runs, chunk, documents)
        owners, ordinals = np.divmod(keys, max(documents, 1))
        document_frequencies = np.bincount(owners - chunk.start, minlength=len(chunk))
        impacts = _impacts(document_frequencies, ordinals, frequencies, documents, prior, config)
        writer.add(chunk, document_frequencies, ordinals, impacts)
    write_arrays(folder / "groups", GROUPS, {"penalties": groups.penalties})
    document_frequencies, group_frequencies = writer.write(folder / "postings")
    vocabulary = {word: term for part in parts for word, term in part.vocabulary.items()}
    write_query_expansion(
        folder, vocabulary, terms, document_frequencies, group_frequencies, config
    )
    write_names(folder, names)
    postings = int(document_frequencies.sum())
    header = Header(documents, endpoints, len(names), len(terms), postings, config)
    (folder / "header.json").write_bytes(msgspec.json.encode(header))


class _Run(NamedTuple):
    """The postings of one field in one part.

    `terms` (int64) are their term numbers, ascending, and `bounds` say where the postings of each
    begin. `norms` are the length norms of all documents.
    """

    terms: npt.NDArray[np.int64]
    bounds: npt.NDArray[np.int64]
    field: FieldPostings
    weight: float
    norms: npt.NDArray[np.float64]

    def slice(self, chunk: range, documents: int) -> tuple[npt.NDArray[np.int64], Floats]:
        """Return the keys and the frequencies of the postings of these terms."""
        start, stop = np.searchsorted(self.terms, (chunk.start, chunk.stop)).tolist()
        postings = slice(self.bounds[start], self.bounds[stop])
        owners = np.repeat(self.terms[start:stop], np.diff(self.bounds[start : stop + 1]))
        ordinals = self.field.documents[postings].astype(np.int64)
        counts = self.field.counts[postings].astype(np.float64)
        return owners * documents + ordinals, self.weight * counts / self.norms[ordinals]


def _runs(
    parts: Sequence[Part], terms: Sequence[bytes], documents: int, config: SearchConfig
) -> Iterator[_Run]:
    number = {term: position for position, term in enumerate(terms)}
    for name, weight in config.field_weights.items():
        fields = [part.fields[name] for part in parts if name in part.fields]
        norms = _length_norms(fields, documents, config.length_normalisation)
        for field in fields:
            numbers = np.fromiter((number[term] for term in field.terms), np.int64)
            bounds = np.concatenate(([0], np.cumsum(field.sizes)))
            yield _Run(numbers, bounds, field, weight, norms)


def _length_norms(
    fields: Iterable[FieldPostings], documents: int, b: float
) -> npt.NDArray[np.float64]:
    """Return 1 - b + b · length / average length of a field in each document.

    Lengths are sums of counts: exact, where Whoosh stores one byte.
    """
    lengths = np.zeros(documents)
    for field in fields:
        lengths += np.bincount(field.documents, weights=field.counts, minlength=documents)
    # Documents without the field would lower the average length of the others.
    average = lengths.sum() / max(np.count_nonzero(lengths), 1)
    norms: npt.NDArray[np.float64] = 1 - b + b * lengths / max(average, 1e-9)
    return norms


def _chunks(sizes: npt.NDArray[np.int64]) -> Iterator[range]:
    """Yield ranges of terms that have about CHUNK postings each, one term at least."""
    chunk_of_term = np.cumsum(sizes) // CHUNK
    bounds = np.flatnonzero(np.diff(chunk_of_term, prepend=-1, append=-1))
    for start, stop in pairwise(bounds.tolist()):
        yield range(start, stop)


def _sum_by_key(
    runs: Sequence[_Run], chunk: range, documents: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the key and the BM25F frequency of each posting of these terms.

    Keys are `term number * documents + ordinal`, ascending. The sort is stable, so that the
    frequencies of a key are always added in the same order.
    """
    keys, frequencies = zip(*(run.slice(chunk, documents) for run in runs), strict=True)
    merged = np.concatenate(keys)
    order = np.argsort(merged, kind="stable")
    merged = merged[order]
    starts = np.flatnonzero(np.diff(merged, prepend=-1))
    return merged[starts], np.add.reduceat(np.concatenate(frequencies)[order], starts)


def _impacts(
    document_frequencies: npt.NDArray[np.int64],
    ordinals: npt.NDArray[np.int64],
    frequencies: npt.NDArray[np.float64],
    documents: int,
    prior: npt.NDArray[np.float64],
    config: SearchConfig,
) -> npt.NDArray[np.uint16]:
    """Return the BM25F impact of each posting (Robertson and Zaragoza 2009, section 3.6).

    idf · f / (k1 + f) with idf = ln(1 + (N - df + 0.5) / (df + 0.5)), times 1 + bound · prior of
    the service, rounded, and 1 at least: an impact of 0 would be no match.
    """
    idf = np.log(1 + (documents - document_frequencies + 0.5) / (document_frequencies + 0.5))
    scores = np.repeat(idf, document_frequencies) * frequencies / (config.saturation + frequencies)
    scores *= 1 + config.prior_bound * np.clip(prior, 0, 1)[ordinals]
    impacts = np.clip(np.rint(scores * config.impact_scale), 1, np.iinfo(np.uint16).max)
    return impacts.astype(np.uint16)


class _Groups:
    """The groups of documents: those of each service.

    `penalties`, uint16[groups], is what is subtracted from the sum of a document.
    """

    def __init__(self, services: Numbers, endpoints: int, count: int, config: SearchConfig) -> None:
        self.of_document, self.count = services, count
        self._endpoints = endpoints
        sizes = np.bincount(services, minlength=count)
        penalties = config.size_penalty * config.impact_scale * np.log(np.maximum(sizes, 1))
        self.penalties = np.minimum(np.rint(penalties), np.iinfo(np.uint16).max).astype(np.uint16)

    def frequencies(
        self, document_frequencies: npt.NDArray[np.int64], ordinals: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Return how many groups have each term, whose documents are given one after another."""
        terms = np.repeat(np.arange(len(document_frequencies)), document_frequencies)
        keys = terms * max(self.count, 1) + self.of_document[ordinals]
        is_endpoint = ordinals < self._endpoints
        distinct = _distinct(keys[is_endpoint])
        others = _distinct(keys[~is_endpoint])
        if len(distinct) and len(others):
            others = others[~np.isin(others, distinct)]
        owners = np.concatenate((distinct, others)) // max(self.count, 1)
        return np.bincount(owners, minlength=len(document_frequencies))

    def champions(
        self, ordinals: npt.NDArray[np.int64], impacts: npt.NDArray[np.uint16]
    ) -> npt.NDArray[np.int64]:
        """Return the best document of each of the best groups, given the documents of a term."""
        groups = self.of_document[ordinals]
        keys = ordinals - ((impacts.astype(np.int64) - self.penalties[groups]) << SUM_BITS)
        if self.count < len(self.of_document):
            order = np.lexsort((keys, groups))
            keys = keys[order[np.flatnonzero(np.diff(groups[order], prepend=-1))]]
        return first_keys(keys, CHAMPIONS) & ORDINAL_MASK

    def bits(self, ordinals: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
        """Return the bits of the groups of documents."""
        mask = np.zeros(self.count, np.bool_)
        mask[self.of_document[ordinals]] = True
        return pack(mask)


class _PostingsWriter:
    """Writes the files of `PostingLists`: postings of rare terms, dense columns of the others."""

    def __init__(self, terms: int, most_postings: int, groups: _Groups, dense_share: float) -> None:
        self._groups = groups
        self._documents = len(groups.of_document)
        self._dense_share = dense_share
        self._postings = np.empty(most_postings, np.int64)
        self._offsets = np.zeros(terms + 1, np.int64)
        self._document_frequencies = np.zeros(terms, np.int32)
        self._group_frequencies = np.zeros(terms, np.int32)
        self._rows = np.full(terms, -1, np.int32)
        self._columns: list[npt.NDArray[np.uint16]] = []
        self._group_bits: list[npt.NDArray[np.uint64]] = []
        self._champions: list[npt.NDArray[np.int64]] = []

    def add(
        self,
        terms: range,
        document_frequencies: npt.NDArray[np.int64],
        ordinals: npt.NDArray[np.int64],
        impacts: npt.NDArray[np.uint16],
    ) -> None:
        """Add the postings of the next terms."""
        own_terms = slice(terms.start, terms.stop)
        self._document_frequencies[own_terms] = document_frequencies
        self._group_frequencies[own_terms] = self._groups.frequencies(
            document_frequencies, ordinals
        )
        is_dense = document_frequencies > self._documents * self._dense_share
        start = int(self._offsets[terms.start])
        bounds = start + np.cumsum(np.where(is_dense, 0, document_frequencies))
        self._offsets[terms.start + 1 : terms.stop + 1] = bounds
        rare = np.repeat(~is_dense, document_frequencies)
        postings = (ordinals[rare] << IMPACT_BITS) | impacts[rare]
        self._postings[start : start + len(postings)] = postings
        stops = np.cumsum(document_frequencies)
        for term in np.flatnonzero(is_dense).tolist():
            own = slice(int(stops[term] - document_frequencies[term]), int(stops[term]))
            self._rows[terms.start + term] = len(self._columns)
            column = np.zeros(block_count(self._documents) * BLOCK_SIZE, np.uint16)
            column[ordinals[own]] = impacts[own]
            self._columns.append(column)
            self._group_bits.append(self._groups.bits(ordinals[own]))
            self._champions.append(self._groups.champions(ordinals[own], impacts[own]))

    def write(self, path: Path) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Write the file; returns the frequencies of the terms by document and by group."""
        dense, blocks_per_term = len(self._columns), block_count(self._documents)
        columns = np.array(self._columns, np.uint16)
        blocks = columns.reshape(dense, blocks_per_term, BLOCK_SIZE)
        bits = np.packbits(blocks > 0, axis=2, bitorder="little").view(np.uint64)
        most = max(map(len, self._champions), default=0)
        champions = np.zeros((dense, most), np.int64)
        for row, own in zip(champions, self._champions, strict=True):
            row[: len(own)] = own  # as many as groups have the term
        group_bits = np.array(self._group_bits, np.uint64)
        arrays = {
            "offsets": self._offsets,
            "rows": self._rows,
            "postings": self._postings[: self._offsets[-1]],
            "impacts": blocks,
            "maxima": blocks.max(axis=2).astype(np.int32),
            "bits": bits.reshape(dense, blocks_per_term),
            "group_bits": group_bits.reshape(dense, block_count(self._groups.count)),
            "champions": champions,
        }
        write_arrays(path, POSTINGS, arrays)
        return self._document_frequencies, self._group_frequencies


def _distinct(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the distinct ones of ascending keys."""
    return keys[np.flatnonzero(np.diff(keys, prepend=-1))]
